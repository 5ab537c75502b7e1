//! What the figures were taken on.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// One paragraph: cores, memory, kernel, file system, commit, and a warning if the machine is busy.
pub(crate) fn describe(data: &Path, root: &Path) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = format!(
        "{cores} cores ({}), {:.0} GiB of memory, Linux {}, data on {}, commit {}",
        cpu_model(),
        memory_gib(),
        first_line("/proc/sys/kernel/osrelease"),
        file_system(data),
        commit(root),
    );
    let busy = busy_share();
    if busy > 0.05 {
        let percent = busy * 100.0;
        let _ = write!(
            text,
            "; **{percent:.0} % of the cores were busy before the run: do not quote these figures**"
        );
    }
    text
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

fn commit(root: &Path) -> String {
    let output =
        Command::new("git").args(["describe", "--always", "--dirty", "--tags"]).current_dir(root).output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}
