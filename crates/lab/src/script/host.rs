use std::ffi::OsString;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use mlua::{Function, Lua, Table};

use super::results::{Results, summary};
use super::state::{Script, script_error};
use super::station::StationMaker;
use super::thread::{Command, Remote, Shared};
use crate::engine::Maker;
use crate::error::{LabError, Outcome};
use crate::stats;

/// The state of the whole run. Its calls, in their order: `load makers set_up check done`.
pub(crate) struct Host {
    script: Arc<Script>,
    lua: Lua,
    threads: Vec<Remote>,
}

impl Host {
    pub(crate) fn load(script: Script) -> Outcome<Self> {
        let lua = script.new_state()?;
        Ok(Self { script: Arc::new(script), lua, threads: Vec::new() })
    }

    /// Resolves the host and tries to connect, as wrk does, with the script's own `wrk.resolve` if it has one; false if no
    /// address can be reached.
    pub(crate) fn resolve(&self) -> Outcome<bool> {
        let target = self.script.target();
        let port = target.port_or_default().to_string();
        let resolve = || {
            let wrk = self.wrk()?;
            wrk.get::<Function>("resolve")?.call::<()>((target.host.as_str(), port))?;
            Ok(wrk.get::<Table>("addrs")?.raw_len() > 0)
        };
        resolve().map_err(script_error)
    }

    pub(crate) fn makers(&mut self, threads: usize) -> Vec<Box<dyn Maker>> {
        (0..threads).map(|_| Box::new(self.maker()) as Box<dyn Maker>).collect()
    }

    fn maker(&mut self) -> StationMaker {
        let (commands_in, commands): (_, Receiver<Command>) = channel();
        let shared = Arc::new(Shared::default());
        self.threads.push(Remote { shared: Arc::clone(&shared), commands: commands_in });
        StationMaker { script: Arc::clone(&self.script), shared, commands }
    }

    /// `setup` and `init` of one thread after the other; `setup` may look into the threads before it as well.
    pub(crate) fn set_up(&self, arguments: &[OsString]) -> Outcome<()> {
        for thread in &self.threads {
            let set_up = || self.wrk()?.get::<Function>("setup")?.call::<()>(thread.clone());
            set_up().map_err(script_error)?;
            let init = |answer| Command::Init(arguments.to_vec(), answer);
            thread.ask(init).map_err(LabError::Script)?;
        }
        for thread in &self.threads {
            let _ = thread.commands.send(Command::Begin); // A thread that is gone shows when the run begins.
        }
        Ok(())
    }

    /// Refuses a script that has no request for any thread, once all threads are ready: there is nothing to measure. One that
    /// has none for some of them, or none any more later, is fine.
    pub(crate) fn check(&self) -> Outcome<()> {
        let said: Option<Vec<String>> =
            self.threads.iter().map(|thread| thread.shared.no_request()).collect();
        match said.and_then(|said| said.into_iter().next()) {
            Some(said) => Err(LabError::Script(format!(
                "{said}, so there is nothing to send; expected a request, such as `return wrk.format(\"GET\", \"/\")`"
            ))),
            None => Ok(()),
        }
    }

    /// Calls `done`, if the script has one.
    pub(crate) fn done(&self, outcome: &stats::RunOutcome) -> Outcome<()> {
        let Ok(done) = self.lua.globals().get::<Function>("done") else { return Ok(()) };
        let call = || {
            let (latency, requests) = (Results::of_latency(outcome), Results::of_samples(&outcome.samples));
            done.call((summary(&self.lua, outcome)?, latency, requests))
        };
        call().map_err(script_error)
    }

    fn wrk(&self) -> mlua::Result<Table> {
        self.lua.globals().get("wrk")
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
