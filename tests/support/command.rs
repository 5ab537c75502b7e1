use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use super::{Directory, wait_for};
use std::fs;

/// The binary that is tested.
const BINARY: &str = env!("CARGO_BIN_EXE_ladoga");

/// A command that runs the binary, without any settings from the environment of the person who runs the tests.
pub(crate) fn ladoga() -> Command {
    without_settings(Command::new(BINARY))
}

/// A command that `wrapper` runs: another program and its arguments, before those of the binary.
pub(crate) fn ladoga_in(wrapper: &[String]) -> Command {
    let Some((program, arguments)) = wrapper.split_first() else { return ladoga() };
    let mut command = Command::new(program);
    command.args(arguments).arg(BINARY);
    without_settings(command)
}

fn without_settings(mut command: Command) -> Command {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("LADOGA_") {
            command.env_remove(name);
        }
    }
    command
}

/// The names of the threads of a process.
pub(crate) fn thread_names(pid: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the threads of a process");
    // A thread that has ended has no name any more.
    let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).ok();
    threads.flatten().filter_map(name).map(|name| name.trim_end().to_owned()).collect()
}

/// A pipe whose reader is gone.
pub(crate) fn closed_pipe() -> PipeWriter {
    io::pipe().expect("a pipe").1
}

/// A file on a disk that is full.
pub(crate) fn full_disk() -> File {
    File::options().write(true).open("/dev/full").expect("a device that is always full")
}

/// One run of the binary that ends by itself.
pub(crate) struct Ladoga {
    command: Command,
    directory: Directory,
    input: Vec<u8>,
    /// Where its output and its errors go instead of files.
    elsewhere: [Option<Stdio>; 2],
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ladoga {
    pub(crate) fn new<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Ladoga {
        let mut command = ladoga();
        command.args(arguments);
        Ladoga { command, directory: Directory::new(), input: Vec::new(), elsewhere: [None, None] }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Ladoga {
        self.command.env(name, value);
        self
    }

    /// What it reads from its standard input.
    pub(crate) fn input(mut self, bytes: &[u8]) -> Ladoga {
        self.input = bytes.to_vec();
        self
    }

    /// Where its standard output goes, which its [`Outcome`] does not have then.
    pub(crate) fn stdout(mut self, stdout: impl Into<Stdio>) -> Ladoga {
        self.elsewhere[0] = Some(stdout.into());
        self
    }

    /// Where its standard error goes, which its [`Outcome`] does not have then.
    pub(crate) fn stderr(mut self, stderr: impl Into<Stdio>) -> Ladoga {
        self.elsewhere[1] = Some(stderr.into());
        self
    }

    /// The directory it runs in.
    pub(crate) fn current_dir(mut self, path: &Path) -> Ladoga {
        self.command.current_dir(path);
        self
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Outcome {
        self.start().wait()
    }

    /// Starts it.
    pub(crate) fn start(mut self) -> Running {
        let create =
            |name| File::create(self.directory.path().join(name)).expect("a file for what it prints");
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| Stdio::from(create(name)));
        let [other_stdout, other_stderr] = self.elsewhere;
        self.command.stdin(Stdio::piped());
        self.command.stdout(other_stdout.unwrap_or(stdout));
        self.command.stderr(other_stderr.unwrap_or(stderr));
        let mut child = Ended(self.command.spawn().expect("the binary starts"));
        let mut stdin = child.0.stdin.take().expect("a pipe was asked for");
        let input = self.input;
        // The program need not read its input.
        let feeder = thread::spawn(move || drop(stdin.write_all(&input)));
        Running { what: format!("the end of {:?}", self.command), child, feeder, directory: self.directory }
    }
}

/// A run in progress.
pub(crate) struct Running {
    what: String,
    child: Ended,
    feeder: JoinHandle<()>,
    directory: Directory,
}

impl Running {
    /// Sends a signal, by its name without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        let script = format!("kill -s {name} {}", self.child.0.id());
        let status = Command::new("sh").args(["-c", &script]).status().expect("a shell");
        assert!(status.success(), "SIG{name} could not be sent");
    }

    /// The names of its threads now.
    pub(crate) fn thread_names(&self) -> Vec<String> {
        thread_names(self.child.0.id())
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(self.directory.path().join("stdout")).expect("an output of text")
    }

    /// What it has said on standard error so far.
    pub(crate) fn told(&self) -> String {
        fs::read_to_string(self.directory.path().join("stderr")).expect("errors of text")
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Outcome {
        let status = wait_for(&self.what, || self.child.0.try_wait().expect("a child to wait for"));
        self.feeder.join().expect("the input was written");
        let output = |name| self.directory.path().join(name);
        Outcome {
            code: status.code(),
            stdout: fs::read(output("stdout")).expect("the output"),
            stderr: fs::read_to_string(output("stderr")).expect("errors of text"),
        }
    }
}

/// Ends a run that its test gave up.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Outcome {
    /// The output, as text.
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.stdout).expect("an output of text")
    }

    #[track_caller]
    pub(crate) fn expect_success(self) -> Outcome {
        assert_eq!(self.code, Some(0), "it failed: {self:?}");
        self
    }

    /// It failed with this code, and its standard error gives the reason, with all words of `named`.
    #[track_caller]
    pub(crate) fn expect_failure(self, code: i32, named: &[&str]) -> Outcome {
        assert_eq!(self.code, Some(code), "it ended otherwise: {self:?}");
        self.expect_reason(named)
    }

    /// It failed, and its standard error gives the reason, with all words of `named`.
    #[track_caller]
    pub(crate) fn expect_reason(self, named: &[&str]) -> Outcome {
        assert!(self.code.is_some_and(|code| code != 0), "it did not fail: {self:?}");
        assert!(!self.stderr.trim().is_empty(), "it failed without a reason: {self:?}");
        assert!(!self.stderr.contains("panicked"), "it panicked: {self:?}");
        for name in named {
            assert!(self.stderr.contains(name), "the reason does not name {name:?}: {self:?}");
        }
        self
    }
}
