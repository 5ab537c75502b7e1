//! What is measured: a node of our own, or a server that was named.

use std::ffi::OsStr;
use std::fs::File;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};

use super::client;
use super::options::NodeOptions;
use super::sampler::cpu_us;
use crate::cli::Target;
use crate::clock::Clock;
use crate::error::{LabError, Outcome};
use crate::files;
use crate::scratch::Scratch;

const START_MAX: Duration = Duration::from_mins(1);
const STOP_MAX: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const STATUS_DEADLINE: Duration = Duration::from_secs(2);
/// A process is quiet if it uses less than this share of a core over such a window.
const QUIET_CORES: f64 = 0.05;
const QUIET_WINDOW: Duration = Duration::from_millis(500);
/// Where nothing was written since, there is nothing left to do, so a glance is enough.
const QUIET_GLANCE: Duration = Duration::from_millis(100);
const QUIET_MAX: Duration = Duration::from_secs(30);

/// A node that was started for the measurement, and that ends with it.
pub(super) struct OwnNode {
    child: Child,
    pub(super) target: Target,
    pub(super) line: String,
    /// What it says. It is in memory, so that it also says that its disk is full.
    log: File,
    /// Its data; removed after the process has ended.
    scratch: Scratch,
}

impl OwnNode {
    /// Starts this binary as a node with an empty store, and waits until it serves.
    pub(super) fn start(
        options: &NodeOptions,
        threads: Option<u64>,
        number: u32,
        stop: &AtomicBool,
    ) -> Outcome<Self> {
        let system = LabError::system;
        let parent = options.dir.clone().unwrap_or_else(std::env::temp_dir);
        let scratch = Scratch::new(&parent, number)
            .map_err(|source| LabError::Write { path: parent.clone(), source })?;
        let address = free_address().map_err(system("find a free port"))?;
        let words = serve_words(options, threads, &address);
        let binary = std::env::current_exe().map_err(system("find this program"))?;
        let made = memfd_create("log", MemfdFlags::CLOEXEC).map_err(Into::into);
        let log = File::from(made.map_err(system("make the node's log"))?);
        let said = log.try_clone().map_err(system("make the node's log"))?;
        let mut command = Command::new(binary);
        // Only what the report names counts: those of the person who measures are for another node.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
            command.env_remove(name);
        }
        command.args(&words).arg("--data").arg(scratch.path().join("data"));
        // It ends with this process, also if that is killed.
        command.arg("--ends-with").arg(std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        // Ctrl-C on a terminal is for the measurement: the node is asked to end when its figures are written.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(system("start a node"))?;
        let target = Target::parse(&format!("http://{address}")).map_err(LabError::Usage)?;
        let line = format!("ladoga {}", words.join(" ")).replace(&address, "127.0.0.1:PORT");
        let mut node = Self { child, target, line, log, scratch };
        node.wait_until_it_serves(stop)?;
        Ok(node)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether its directory is in memory, so that a sync costs nothing.
    pub(super) fn is_in_memory(&self) -> bool {
        const TMPFS_MAGIC: i64 = 0x0102_1994;
        rustix::fs::statfs(self.scratch.path())
            .is_ok_and(|found| i128::from(found.f_type) == i128::from(TMPFS_MAGIC))
    }

    fn wait_until_it_serves(&mut self, stop: &AtomicBool) -> Outcome<()> {
        let clock = Clock::start();
        loop {
            if let Some(status) = self.ended()? {
                return Err(self.failed(&format!("ended with {status} instead of serving")));
            }
            if client::get(&self.target, "/v0/status", STATUS_DEADLINE, stop)
                .is_ok_and(|answer| answer.status == 200)
            {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::GivenUp);
            }
            if u128::from(clock.now_ns()) > START_MAX.as_nanos() {
                return Err(self.failed("did not begin to serve"));
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
    }

    pub(super) fn ended(&mut self) -> Outcome<Option<ExitStatus>> {
        self.child.try_wait().map_err(LabError::system("wait for the node"))
    }

    pub(super) fn failed(&self, what: &str) -> LabError {
        // Opened anew, it is read from its beginning, and where the node writes stays.
        let path = format!("/proc/self/fd/{}", self.log.as_raw_fd());
        let log = files::read_text(path.as_ref()).unwrap_or_default();
        LabError::Node { what: what.to_owned(), log }
    }

    /// Ends it as a person would; one that does not end in time is killed when it is dropped.
    pub(super) fn end(mut self) -> Outcome<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).map_err(|error| LabError::system("end the node")(error.into()))?;
        let clock = Clock::start();
        while u128::from(clock.now_ns()) < STOP_MAX.as_nanos() {
            if self.ended()?.is_some() {
                return Ok(());
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        Err(self.failed("did not end when it was asked to"))
    }
}

impl Drop for OwnNode {
    fn drop(&mut self) {
        // A process that has ended by itself has to be waited for too, or it stays behind as a zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a node takes a variable of this name for one of its settings.
fn is_setting(name: &OsStr) -> bool {
    ["LADOGA_", "OTEL_"].iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}

fn serve_words(options: &NodeOptions, threads: Option<u64>, address: &str) -> Vec<String> {
    let mut words = vec!["serve".to_owned(), "--listen".to_owned(), address.to_owned()];
    let threads = threads.map(|threads| threads.to_string());
    for (flag, value) in [("--fsync", &options.fsync), ("--memory", &options.memory), ("--threads", &threads)]
    {
        if let Some(value) = value {
            words.extend([flag.to_owned(), value.clone()]);
        }
    }
    words
}

fn free_address() -> std::io::Result<String> {
    TcpListener::bind("127.0.0.1:0")?.local_addr().map(|address| address.to_string())
}

/// Waits until what a fill or a run has left to do in the background is done; false where it never ends.
pub(super) fn wait_until_quiet(pid: u32, has_written: bool, stop: &AtomicBool) -> bool {
    let clock = Clock::start();
    let window = if has_written { QUIET_WINDOW } else { QUIET_GLANCE };
    let mut before = cpu_us(pid);
    while u128::from(clock.now_ns()) < QUIET_MAX.as_nanos() && !stop.load(Ordering::Relaxed) {
        let begin = clock.now_ns();
        while clock.now_ns() - begin < window.as_nanos() as u64 {
            std::thread::park_timeout(LOOK_EVERY);
        }
        let (now, window_us) = (cpu_us(pid), (clock.now_ns() - begin) as f64 / 1000.0);
        match (before, now) {
            (Some(before), Some(now)) if now - before > QUIET_CORES * window_us => {}
            _ => return true, // Quiet, or gone, which the next request tells.
        }
        before = now;
    }
    false
}

/// The directory of the data, as a person named it, for the report.
pub(super) fn described_dir(dir: Option<&PathBuf>) -> String {
    dir.map_or_else(|| "the system's temporary directory".to_owned(), |dir| dir.display().to_string())
}
