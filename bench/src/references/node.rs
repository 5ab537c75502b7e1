//! Our own node, as a process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::free_address;
use crate::client::is_serving;
use crate::process::{Process, line_of, wait_until_quiet};
use crate::scale::Scale;
use crate::stop::{OrFail, Outcome, Stop, failed};

const START_LIMIT: Duration = Duration::from_mins(5);
const STOP_LIMIT: Duration = Duration::from_mins(2);

/// How a node is started.
#[derive(Debug, Clone)]
pub(crate) struct Settings<'a> {
    pub(crate) binary: &'a Path,
    /// Its data and its log are in here.
    pub(crate) folder: &'a Path,
    pub(crate) fsync: &'static str,
    pub(crate) memory: String,
    pub(crate) threads: Option<usize>,
    /// Where it listens; `None`: on a port that is free.
    pub(crate) address: Option<SocketAddr>,
    /// Where it listens for clients of Redis, if it does.
    pub(crate) resp: Option<SocketAddr>,
    /// All nodes of its cluster, itself among them; empty: it is alone.
    pub(crate) cluster: &'a [SocketAddr],
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// From the start of the process to status 200.
    pub(crate) started_in: Duration,
}

impl Node {
    pub(crate) fn start(settings: &Settings<'_>) -> Outcome<Self> {
        let address = settings.address.map_or_else(free_address, Ok)?;
        let mut command = Command::new(settings.binary);
        command.args(["serve", "--listen", &address.to_string(), "--data"]);
        command.arg(settings.folder.join("data"));
        command.args(["--fsync", settings.fsync, "--memory", &settings.memory]);
        if let Some(threads) = settings.threads {
            command.args(["--threads", &threads.to_string()]);
        }
        if let Some(resp) = settings.resp {
            command.args(["--resp", &resp.to_string()]);
        }
        if !settings.cluster.is_empty() {
            let urls: Vec<String> = settings.cluster.iter().map(|node| format!("http://{node}")).collect();
            command.args(["--cluster", &urls.join(",")]);
        }
        let mut line = line_of(&command, settings.folder);
        for address in settings.cluster.iter().chain([&address]).chain(&settings.resp) {
            line = line.replace(&address.to_string(), "127.0.0.1:PORT");
        }
        let mut process = Process::spawn(&mut command, line, settings.folder.join("node.log"))?;
        let started_in = process.wait_until(START_LIMIT, || is_serving(address))?;
        Ok(Self { process, address, started_in })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until flushes and compactions are done.
    pub(crate) fn settle(&self, scale: &Scale) -> Outcome {
        wait_until_quiet(self.process.pid(), scale.settle())
    }

    /// Drains it; answers how long that took.
    pub(crate) fn stop(self) -> Outcome<Duration> {
        self.process.terminate(STOP_LIMIT)
    }

    pub(crate) fn kill(self) -> Outcome {
        self.process.kill()
    }
}

/// The binary that `LADOGA_BIN` names, or one that is built now: optimised as we are.
pub(crate) fn binary(root: &Path) -> Outcome<PathBuf> {
    if let Some(path) = std::env::var_os("LADOGA_BIN") {
        let path = PathBuf::from(path);
        if path.is_file() {
            return path.canonicalize().or_fail(|| format!("cannot resolve {}", path.display()));
        }
        return failed(format!("LADOGA_BIN is {}, expected a file", path.display()));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--package", "ladoga", "--message-format", "json-render-diagnostics"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .or_fail(|| "cannot start cargo".to_owned())?;
    if !output.status.success() {
        return failed("cargo could not build the node");
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| Stop::Failed("cargo named no executable of package ladoga".to_owned()))
}

/// The path in the last message that names the executable `ladoga`.
fn executable(messages: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "ladoga")
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_in_the_messages_of_cargo() {
        let messages = "{\"target\":{\"name\":\"serde\"},\"executable\":null}\n\
                        {\"target\":{\"name\":\"ladoga\"},\"executable\":\"/t/release/ladoga\"}\nnot json\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/release/ladoga")));
        assert_eq!(executable("{}"), None);
    }
}
