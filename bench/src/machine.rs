//! What the figures were taken on.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// From this share of the cores on, a machine is too busy to be measured on.
const BUSY_SHARE_MAX: f64 = 0.05;

/// What is kept with every figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) cpu: String,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    /// That of the data directories.
    pub(crate) file_system: String,
    /// The share of the cores that was at work before the run.
    pub(crate) busy: f64,
}

impl Machine {
    pub(crate) fn here(data: &Path) -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu: cpu_model(),
            memory_gib: memory_gib(),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            file_system: file_system(data),
            busy: busy_share(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let Self { cores, cpu, memory_gib, kernel, file_system, busy } = self;
        json!({
            "cores": cores, "cpu": cpu, "memory_gib": memory_gib, "kernel": kernel, "file_system": file_system,
            "busy": busy,
        })
    }

    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| Some(value[name].as_str()?.to_owned());
        Some(Self {
            cores: value["cores"].as_u64()? as usize,
            cpu: text("cpu")?,
            memory_gib: value["memory_gib"].as_f64()?,
            kernel: text("kernel")?,
            file_system: text("file_system")?,
            busy: value["busy"].as_f64()?,
        })
    }

    /// Why figures of such a machine are not to be quoted.
    pub(crate) fn warning(&self) -> Option<String> {
        let percent = self.busy * 100.0;
        let warning =
            || format!("{percent:.0} % of the cores were busy before the run: do not quote these figures");
        (self.busy > BUSY_SHARE_MAX).then(warning)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, cpu, memory_gib, kernel, file_system, .. } = self;
        write!(
            f,
            "{cores} cores ({cpu}), {memory_gib:.0} GiB of memory, Linux {kernel}, data on {file_system}"
        )
    }
}

/// Which share of all cores is at work, by a look of half a second. The load average would still count the build.
fn busy_share() -> f64 {
    let before = CpuTime::now();
    std::thread::sleep(Duration::from_millis(500));
    let share = CpuTime::busy_since(before.as_ref());
    if share.is_finite() { share } else { 0.0 }
}

/// Of all cores, in ticks.
#[derive(Debug, Clone)]
pub(crate) struct CpuTime {
    busy: u64,
    total: u64,
}

impl CpuTime {
    pub(crate) fn now() -> Option<Self> {
        let line = first_line("/proc/stat");
        // user, nice, system, idle, iowait, irq, softirq, steal
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).take(8).collect();
        let total = ticks.iter().sum();
        Some(Self { busy: total - ticks.get(3)? - ticks.get(4)?, total })
    }

    /// Which share of all cores was at work since then; NaN if that cannot be told.
    pub(crate) fn busy_since(before: Option<&Self>) -> f64 {
        match (before, Self::now()) {
            (Some(before), Some(now)) => (now.busy - before.busy) as f64 / (now.total - before.total) as f64,
            _ => f64::NAN,
        }
    }
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or("unknown").to_owned()
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown").to_owned()
}

fn memory_gib() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0.0);
    kib / f64::from(1 << 20)
}

/// The type of the file system whose mount point is the longest that `path` begins with.
fn file_system(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(mount_point, _)| path.starts_with(mount_point))
        .max_by_key(|(mount_point, _)| mount_point.len())
        .map_or_else(|| "an unknown file system".to_owned(), |(_, kind)| kind.to_owned())
}
