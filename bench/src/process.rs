//! Child processes, and what the kernel knows about a process: CPU time, resident set, bytes read and written.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::stop::{OrFail, Outcome, Stop, failed};

/// A server that we started. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    /// The command line, with paths shortened.
    pub(crate) line: String,
}

impl Process {
    /// Starts the command with its output in the file `log`.
    pub(crate) fn spawn(command: &mut Command, line: String, log: PathBuf) -> Outcome<Self> {
        let out = File::create(&log).or_fail(|| format!("cannot create {}", log.display()))?;
        let err = out.try_clone().or_fail(|| "cannot duplicate a file".to_owned())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .or_fail(|| format!("cannot start `{line}`"))?;
        Ok(Self { child, log, line })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The CPU time of the process and of its children that have ended.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        cpu_of(self.pid())
    }

    /// Fails, with the end of its output, if the process has ended.
    pub(crate) fn check_alive(&mut self) -> Outcome {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => failed(format!("`{}` ended with {status}: {}", self.line, self.log_end())),
            Err(error) => failed(format!("cannot ask for the state of `{}`: {error}", self.line)),
        }
    }

    /// Waits until `ready` says so; fails if the process ends first or the time is over.
    pub(crate) fn wait_until(&mut self, limit: Duration, ready: impl Fn() -> bool) -> Outcome<Duration> {
        let started = Instant::now();
        while !ready() {
            self.check_alive()?;
            if started.elapsed() > limit {
                return failed(format!("`{}` was not ready within {limit:?}: {}", self.line, self.log_end()));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(started.elapsed())
    }

    /// Sends SIGTERM and waits; answers how long the process took. A bad exit is a failure.
    pub(crate) fn terminate(mut self, limit: Duration) -> Outcome<Duration> {
        let started = Instant::now();
        self.signal(Signal::TERM)?;
        while started.elapsed() < limit {
            let status = self.child.try_wait().or_fail(|| format!("cannot wait for `{}`", self.line))?;
            match status {
                Some(status) if status.success() => return Ok(started.elapsed()),
                Some(status) => {
                    return failed(format!("`{}` ended with {status}: {}", self.line, self.log_end()));
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        failed(format!("`{}` did not end within {limit:?} of SIGTERM: {}", self.line, self.log_end()))
    }

    /// `kill -9`, and waits.
    pub(crate) fn kill(mut self) -> Outcome {
        self.check_alive()?;
        self.child.kill().or_fail(|| format!("cannot kill `{}`", self.line))?;
        self.child.wait().or_fail(|| format!("cannot wait for `{}`", self.line)).map(drop)
    }

    /// Stops it without its knowledge, as a machine does that hangs.
    pub(crate) fn freeze(&self) -> Outcome {
        self.signal(Signal::STOP)
    }

    pub(crate) fn thaw(&self) -> Outcome {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Outcome {
        let pid = Pid::from_raw(self.pid().cast_signed()).or_fail(|| "a process has no number".to_owned())?;
        rustix::process::kill_process(pid, signal).or_fail(|| format!("cannot signal `{}`", self.line))
    }

    fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end; answers what it printed. The error has the end of what it printed on either stream.
pub(crate) fn output_of(command: &mut Command) -> Outcome<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().or_fail(|| format!("cannot start {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let all = format!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = all.lines().filter(|line| !line.trim().is_empty()).collect();
    let end = lines[lines.len().saturating_sub(4)..].join(" | ");
    failed(format!("{name} ended with {}: {end}", output.status))
}

/// The CPU time of a process and of its children that have ended: fields 14 to 17 of `/proc/PID/stat`.
pub(crate) fn cpu_of(pid: u32) -> Outcome<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).or_fail(|| format!("cannot read {path}"))?;
    let ticks = cpu_ticks(&text).or_fail(|| format!("{path} has another format: {text}"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// The name of the process, in parentheses, may hold anything; the fields are counted from behind it.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let times: Vec<u64> =
        after_name.split_whitespace().skip(11).take(4).map_while(|field| field.parse().ok()).collect();
    (times.len() == 4).then(|| times.iter().sum())
}

/// What a process holds in memory, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Resident {
    pub(crate) now: u64,
    /// The most it ever was.
    pub(crate) peak: u64,
}

pub(crate) fn resident_of(pid: u32) -> Outcome<Resident> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).or_fail(|| format!("cannot read {path}"))?;
    let kib = |field: &str| -> u64 { field_of(&text, field).unwrap_or(0) };
    Ok(Resident { now: kib("VmRSS:") * 1024, peak: kib("VmHWM:") * 1024 })
}

/// What a process caused the disk to do, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DiskBytes {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

pub(crate) fn disk_bytes_of(pid: u32) -> Outcome<DiskBytes> {
    let path = format!("/proc/{pid}/io");
    let text = fs::read_to_string(&path).or_fail(|| format!("cannot read {path}"))?;
    let bytes = |field: &str| -> u64 { field_of(&text, field).unwrap_or(0) };
    Ok(DiskBytes { read: bytes("read_bytes:"), written: bytes("write_bytes:") })
}

fn field_of(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Waits until the process uses at most one tick of the CPU in each quarter of a second, four times in a row, or for
/// `limit`.
pub(crate) fn wait_until_quiet(pid: u32, limit: Duration) -> Outcome {
    const WINDOW: Duration = Duration::from_millis(250);
    let started = Instant::now();
    let (mut quiet_windows, mut before) = (0, cpu_of(pid)?);
    while quiet_windows < 4 && started.elapsed() < limit {
        std::thread::sleep(WINDOW);
        let now = cpu_of(pid)?;
        let share = now.saturating_sub(before).as_secs_f64() / WINDOW.as_secs_f64();
        quiet_windows = if share <= 0.04 { quiet_windows + 1 } else { 0 };
        before = now;
    }
    Ok(())
}

/// Where a program is: on the path, or where servers are that only root has on its path.
pub(crate) fn find_program(name: &str) -> Outcome<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Stop::Skipped(format!("{name} is not installed")))
}

/// A command line for people: the program's name alone, and `DIR` for where this run keeps its data.
pub(crate) fn line_of(command: &Command, scratch: &Path) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(OsStr::new("?"));
    let scratch = scratch.to_string_lossy();
    let mut line = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy().replace(scratch.as_ref(), "DIR");
        line.push(' ');
        line.push_str(if argument.is_empty() { "''" } else { &argument });
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0 1";
        assert_eq!(cpu_ticks(stat), Some(127));
        assert_eq!(cpu_ticks("12 (a) S 1 2"), None);
    }

    #[test]
    fn our_own_process_can_be_read() {
        let pid = std::process::id();
        assert!(cpu_of(pid).is_ok());
        let resident = resident_of(pid).expect("of ourselves");
        assert!(resident.now > 0 && resident.peak >= resident.now / 2);
        assert!(disk_bytes_of(pid).is_ok());
    }

    #[test]
    fn a_command_line_names_no_folder_of_this_machine() {
        let mut command = Command::new("/somewhere/bin/server");
        command.args(["--data", "/scratch/one/data", "--save", ""]);
        assert_eq!(line_of(&command, Path::new("/scratch/one")), "server --data DIR/data --save ''");
    }
}
