use std::fs::{self, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::jars::Installed;
use crate::network::NATIVE_PORT;
use crate::options::options;
use crate::yaml::PLACE_FILE;

/// How long a node may take to answer. It takes some ten seconds on a machine that has nothing else to do.
const START_TIME_MAX: Duration = Duration::from_mins(4);
const POLL: Duration = Duration::from_millis(50);

/// A node of Cassandra: its process, and a directory that stays however often it is started.
pub struct Node {
    installed: Installed,
    host: Ipv4Addr,
    directory: PathBuf,
    /// The command that it is run by, if it is not run as it is.
    wrapper: Vec<String>,
    process: Option<Child>,
}

impl Node {
    pub(crate) fn new(
        installed: &Installed,
        host: Ipv4Addr,
        directory: PathBuf,
        (yaml, wrapper): (&str, &[String]),
    ) -> io::Result<Node> {
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("cassandra.yaml"), yaml)?;
        Ok(Node { installed: installed.clone(), host, directory, wrapper: wrapper.to_vec(), process: None })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((self.host, NATIVE_PORT))
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// Starts it without waiting for anything.
    pub fn spawn(&mut self) -> io::Result<()> {
        assert!(self.process.is_none(), "the node runs already");
        let log = || OpenOptions::new().create(true).append(true).open(self.log_path());
        // It ends with this process, even if that is killed.
        let ending = ["setpriv", "--pdeathsig", "KILL", "--"].map(str::to_owned);
        let mut words = self.wrapper.iter().chain(&ending);
        let mut command = Command::new(words.next().expect("there are some"));
        command.args(words).arg(&self.installed.java);
        command.arg(prefixed("-javaagent:", &self.installed.jars.join("jamm-0.4.0.jar"))).args(options());
        command.arg(prefixed("-Dcassandra.config=file://", &self.directory.join("cassandra.yaml")));
        command.arg(prefixed("-Dcassandra-rackdc.properties=file://", &self.directory.join(PLACE_FILE)));
        command.arg(prefixed("-Dcassandra.storagedir=", &self.directory));
        command.arg("-cp").arg(self.installed.jars.join("*"));
        command.arg("org.apache.cassandra.service.CassandraDaemon");
        command.current_dir(&self.directory).stdin(Stdio::null()).stdout(log()?).stderr(log()?);
        self.process = Some(spawn_for_good(command)?);
        Ok(())
    }

    /// Waits until it takes connections.
    pub fn wait_until_it_answers(&mut self) {
        let give_up = Instant::now() + START_TIME_MAX;
        while TcpStream::connect(self.address()).is_err() {
            let process = self.process.as_mut().expect("a node that was started");
            let ended = process.try_wait().expect("a child to wait for");
            assert!(ended.is_none(), "Cassandra ended instead of answering:\n{}", self.end_of_log());
            assert!(Instant::now() < give_up, "Cassandra does not answer:\n{}", self.end_of_log());
            thread::sleep(POLL);
        }
    }

    fn end_of_log(&self) -> String {
        let log = self.log();
        let tail = log.len().saturating_sub(4096);
        log[log.ceil_char_boundary(tail)..].to_owned()
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("a node that runs");
        process.kill().expect("a process to kill");
        process.wait().expect("a child to wait for");
    }

    /// Stops it where it is, with all its connections open.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let pid = self.process.as_ref().expect("a node that runs").id();
        let status = Command::new("sh").args(["-c", &format!("kill -s {name} {pid}")]).status();
        assert!(status.is_ok_and(|status| status.success()), "SIG{name} could not be sent");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        if thread::panicking() {
            eprintln!("the log of Cassandra at {}:\n{}", self.host, self.end_of_log());
        }
    }
}

fn prefixed(prefix: &str, path: &Path) -> String {
    format!("{prefix}{}", path.display())
}

/// Starts a process from a thread that never ends: the system ends what was asked to end with its parent as soon as the thread ends
/// that started it.
fn spawn_for_good(mut command: Command) -> io::Result<Child> {
    let (started, when_started) = mpsc::channel();
    thread::Builder::new().name("cassandra-parent".to_owned()).spawn(move || {
        let _ = started.send(command.spawn());
        loop {
            thread::park();
        }
    })?;
    when_started.recv().map_err(io::Error::other)?
}
