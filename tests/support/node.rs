use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use super::command::{ladoga_in, thread_names};
use super::engine::on_own_engine;
use super::wall_clock::remove_shared_memory;
use super::{Connection, DEADLINE, Directory, Metrics, Port, assert_refusal, wait_for, wait_until};

/// How a node is to be started.
pub(crate) struct Launch {
    host: Ipv4Addr,
    port: Port,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
    wrapper: Vec<String>,
    data: Option<PathBuf>,
    on_all_addresses: bool,
}

impl Launch {
    /// On the engine of this test crate.
    pub(crate) fn new() -> Launch {
        on_own_engine(Launch::embedded())
    }

    /// With a store of its own.
    pub(crate) fn embedded() -> Launch {
        Launch {
            host: Ipv4Addr::LOCALHOST,
            port: Port::claim(),
            flags: Vec::new(),
            environment: Vec::new(),
            wrapper: Vec::new(),
            data: None,
            on_all_addresses: false,
        }
    }

    /// With time enough for clients that are slow because the machine is.
    pub(crate) fn patient() -> Launch {
        let deadline_ms = DEADLINE.as_millis().to_string();
        let timeouts = ["REQUEST", "ANSWER", "DRAIN"];
        timeouts.into_iter().fold(Launch::new(), |launch, name| {
            launch.env(&format!("LADOGA_{name}_TIMEOUT_MS"), &deadline_ms)
        })
    }

    /// The address at which it is going to be reached.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((self.host, self.port.address().port()))
    }

    /// On a host that is not the one of the test.
    pub(crate) fn on_host(mut self, host: Ipv4Addr) -> Launch {
        self.host = host;
        self
    }

    /// A flag, in place of what it was before.
    pub(crate) fn flag(mut self, name: &str, value: &str) -> Launch {
        if let Some(at) = self.flags.iter().position(|flag| flag == name) {
            self.flags.drain(at..at + 2);
        }
        self.flags.extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// Without a flag that was set.
    pub(crate) fn without(mut self, name: &str) -> Launch {
        let at = self.flags.iter().position(|flag| flag == name).expect("a flag that was set");
        self.flags.drain(at..at + 2);
        self
    }

    /// What a flag is set to.
    pub(crate) fn flag_value(&self, name: &str) -> String {
        let at = self.flags.iter().position(|flag| flag == name).expect("a flag that was set");
        self.flags[at + 1].clone()
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Launch {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A program and its arguments that run the binary.
    pub(crate) fn wrapper(mut self, wrapper: &[String]) -> Launch {
        self.wrapper = wrapper.to_vec();
        self
    }

    /// A data directory that the test itself looks after.
    pub(crate) fn data(mut self, path: &Path) -> Launch {
        self.data = Some(path.to_path_buf());
        self
    }

    /// Listening on every address of this machine.
    pub(crate) fn on_all_addresses(mut self) -> Launch {
        self.on_all_addresses = true;
        self
    }

    /// Starts it and waits until it serves.
    pub(crate) fn start(self) -> Node {
        let mut node = self.spawn();
        node.wait_until_it_serves();
        node
    }

    /// Starts it.
    pub(crate) fn spawn(self) -> Node {
        let directory = Directory::new();
        let data = self.data.clone().unwrap_or_else(|| directory.path().join("data"));
        let mut node = Node { launch: self, process: None, data, directory };
        node.spawn();
        node
    }
}

/// A node, and a directory that lives as long as this does, however often the node is started.
pub(crate) struct Node {
    launch: Launch,
    process: Option<Child>,
    data: PathBuf,
    directory: Directory,
}

impl Node {
    /// A node with its default settings.
    pub(crate) fn start() -> Node {
        Launch::new().start()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.launch.address()
    }

    pub(crate) fn url(&self) -> String {
        self.launch.url()
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address())
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let response = self.connect().request("GET", "/metrics", None);
        assert_eq!(response.status, 200, "the metrics were refused: {}", response.text());
        Metrics::parse(response.text())
    }

    /// What it has printed since it was first started.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().expect("a node that runs").id()
    }

    /// Starts it without waiting for anything.
    pub(crate) fn spawn(&mut self) {
        assert!(self.process.is_none(), "the node runs already");
        let log = || OpenOptions::new().create(true).append(true).open(self.log_path());
        let log = || -> File { log().expect("a file for the log") };
        let mut command = ladoga_in(&self.launch.wrapper);
        let mut listen = self.address();
        if self.launch.on_all_addresses {
            listen.set_ip(Ipv4Addr::UNSPECIFIED.into());
        }
        command.args(["serve", "--listen", &listen.to_string(), "--data"]).arg(&self.data);
        if !listen.ip().is_loopback() {
            command.env("LADOGA_INSECURE", "true");
        }
        command.args(&self.launch.flags).envs(self.launch.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(log()).stderr(log());
        self.process = Some(command.spawn().expect("the binary starts"));
    }

    /// Starts it with other flags from now on.
    pub(crate) fn relaunch(&mut self, change: impl FnOnce(Launch) -> Launch) {
        let launch = std::mem::replace(&mut self.launch, Launch::embedded());
        self.launch = change(launch);
    }

    /// Starts it again and waits until it serves.
    pub(crate) fn start_again(&mut self) {
        self.spawn();
        self.wait_until_it_serves();
    }

    pub(crate) fn wait_until_it_serves(&mut self) {
        let address = self.address();
        wait_until("a node that serves", || {
            assert!(!self.has_ended(), "the node ended instead of serving:\n{}", self.log());
            let Ok(mut connection) = Connection::try_open(address) else { return false };
            let Ok(response) = connection.try_request("GET", "/v0/status", None) else { return false };
            if response.status != 200 {
                assert_refusal(&response, 503, "GET /v0/status of a node that opens");
            }
            response.status == 200
        });
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        let process = self.process.take().expect("a node that runs");
        kill(process).expect("a process to kill and to wait for");
    }

    /// Sends a signal, by its name without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        self.signals(&[name]);
    }

    /// Sends signals one right after the other, however busy the machine is.
    pub(crate) fn signals(&self, names: &[&str]) {
        let kill = names.iter().map(|name| format!("kill -s {name} {}", self.pid()));
        let script = kill.collect::<Vec<String>>().join(" && ");
        let status = Command::new("sh").args(["-c", &script]).status().expect("a shell");
        assert!(status.success(), "SIG{names:?} could not be sent");
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        let process = self.process.as_mut().expect("a node that was started");
        process.try_wait().expect("a child to wait for").is_some()
    }

    /// Waits until it has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("a node that was started");
        wait_for("the end of the node", || process.try_wait().expect("a child to wait for"))
    }

    /// Ends it with `SIGTERM`, which has to work.
    pub(crate) fn stop(&mut self) {
        self.signal("TERM");
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "the node did not stop cleanly:\n{}", self.log());
    }

    /// Stops it and starts it again.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Kills it and starts it again.
    pub(crate) fn crash(&mut self) {
        self.kill();
        self.start_again();
    }

    /// The memory that it has resident now, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.memory_bytes("VmRSS:")
    }

    /// The most memory that it has had resident, in bytes.
    pub(crate) fn peak_resident_bytes(&self) -> u64 {
        self.memory_bytes("VmHWM:")
    }

    /// Those of it that are of no file: neither code, which depends on the build, nor files that are mapped.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        self.memory_bytes("RssAnon:")
    }

    fn memory_bytes(&self, what: &str) -> u64 {
        let path = format!("/proc/{}/status", self.pid());
        let status = fs::read_to_string(path).expect("the status of a process that runs");
        let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("a figure");
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kilobytes");
        kilobytes << 10
    }

    /// The names of its threads now.
    pub(crate) fn thread_names(&self) -> Vec<String> {
        thread_names(self.pid())
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

/// Ends a process as a crash would; of its clock, nothing stays behind.
fn kill(mut process: Child) -> io::Result<()> {
    process.kill()?;
    // Before it is waited for: until then, the id is its own.
    remove_shared_memory(process.id());
    process.wait().map(drop)
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            let _ = kill(process);
        }
        if thread::panicking() {
            let log = self.log();
            let tail = log.len().saturating_sub(4096);
            eprintln!("the node's log:\n{}", &log[log.ceil_char_boundary(tail)..]);
        }
    }
}
