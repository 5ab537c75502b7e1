use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use mlua::{Function, Lua, LuaString, Table, Value};

use super::state::{Script, script_error};
use super::thread::{Command, Own, Shared};
use super::value::Transfer;
use crate::engine::{Fixed, Maker, Requests, Source, Station};
use crate::error::{LabError, Outcome};
use crate::http::{Batch, Captured};

/// Makes the state of one thread, on that thread.
pub(super) struct StationMaker {
    pub(super) script: Arc<Script>,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: Receiver<Command>,
}

impl Maker for StationMaker {
    fn make(self: Box<Self>) -> Outcome<Station> {
        // Before the commands are dropped, which the asker sees.
        let note = |error: &LabError| self.shared.note_failure(error.to_string());
        let lua = self.script.new_state().inspect_err(note)?;
        set_thread(&lua, &self.shared).map_err(script_error)?;
        // The `setup` of this thread and of those after it may look into this state and change it.
        loop {
            match self.commands.recv() {
                Ok(Command::Begin) => break,
                Ok(command) => obey(&lua, command),
                Err(_) => return Err(LabError::ThreadLost), // The run was given up.
            }
        }
        let address =
            self.shared.address().ok_or_else(|| LabError::Script("thread.addr is not set".to_owned()))?;
        let source = source(&lua, &self.shared)?;
        let commands = self.commands;
        // `done` looks into the states of threads that have ended.
        let afterwards = move || commands.iter().for_each(|command| obey(&lua, command));
        Ok(Station { address, tls: self.script.target().tls()?, source, afterwards: Box::new(afterwards) })
    }
}

fn set_thread(lua: &Lua, shared: &Arc<Shared>) -> mlua::Result<()> {
    lua.globals().get::<Table>("wrk")?.set("thread", Own(Arc::clone(shared)))
}

/// As in wrk the arguments are counted from 0, which is the address; they need not be UTF-8.
fn init(lua: &Lua, arguments: Vec<OsString>) -> mlua::Result<()> {
    let table = lua.create_table()?;
    for (index, argument) in arguments.into_iter().enumerate() {
        table.raw_set(index, lua.create_string(argument.as_bytes())?)?;
    }
    lua.globals().get::<Table>("wrk")?.get::<Function>("init")?.call(table)
}

fn obey(lua: &Lua, command: Command) {
    // If the asker is gone, it needs no answer.
    match command {
        Command::Get(name, answer) => {
            let value = lua.globals().get::<Value>(name).and_then(|value| Transfer::of(&value));
            let _ = answer.send(value.map_err(|error| error.to_string()));
        }
        Command::Set(name, value, answer) => {
            let set = value.into_lua(lua).and_then(|value| lua.globals().set(name, value));
            let _ = answer.send(set.map_err(|error| error.to_string()));
        }
        Command::Init(arguments, answer) => {
            let _ = answer.send(init(lua, arguments).map_err(|error| error.to_string()));
        }
        Command::Begin => {}
    }
}

/// What the script does itself decides how its requests are made: one without `request` sends the same bytes for ever,
/// and Lua is not called for them.
fn source(lua: &Lua, shared: &Arc<Shared>) -> Outcome<Source> {
    let defines = |name: &str| lua.globals().get::<Value>(name).is_ok_and(|value| value.is_function());
    let (has_request, has_delay, wants_answers) = (defines("request"), defines("delay"), defines("response"));
    let mut hooks = Hooks::new(lua, shared).map_err(script_error)?;
    let fixed = if has_request {
        hooks.verify()?;
        None
    } else {
        let bytes: LuaString =
            lua.load("return wrk.request()").set_name("=wrk").eval().map_err(script_error)?;
        Some(Fixed::new(&bytes.as_bytes())?)
    };
    Ok(Source { fixed, requests: Some(Box::new(hooks)), has_delay, wants_answers, is_scripted: true })
}

/// The functions of a script. Lua looks them up on every call, so a script may replace them.
struct Hooks {
    lua: Lua,
    request: Function,
    response: Function,
    delay: Function,
    shared: Arc<Shared>,
    /// The request that was made to see whether requests are whole; it is the first one that is sent.
    first: Option<(Vec<u8>, Batch)>,
}

impl Hooks {
    fn new(lua: &Lua, shared: &Arc<Shared>) -> mlua::Result<Self> {
        let function = |code: &str| lua.load(code).set_name("=wrk").eval::<Function>();
        Ok(Self {
            // As wrk: a script that takes its function away sends what the command line says.
            request: function("return function() return (request or wrk.request)() end")?,
            response: function("return function(status, headers, body) response(status, headers, body) end")?,
            delay: function("return function() return delay() end")?,
            lua: lua.clone(),
            shared: Arc::clone(shared),
            first: None,
        })
    }

    /// A script whose requests are not whole would wait for answers for ever.
    fn verify(&mut self) -> Outcome<()> {
        let mut bytes = Vec::new();
        if !self.request_into(&mut bytes)? {
            self.shared.note_no_request(self.placed("request", "returned nil at once"));
            return Ok(());
        }
        let batch = Batch::parse(&bytes)
            .map_err(|error| LabError::Script(self.placed("request", &format!("returned an {error}"))))?;
        self.first = Some((bytes, batch));
        Ok(())
    }

    /// False if the script has no more requests: its function returns nil.
    fn request_into(&self, out: &mut Vec<u8>) -> Outcome<bool> {
        match self.request.call::<Value>(()).map_err(|error| self.failed("request", error))? {
            Value::String(text) => {
                out.extend_from_slice(&text.as_bytes());
                Ok(true)
            }
            Value::Nil => Ok(false),
            other => Err(self.returned("request", "a string", &other)),
        }
    }

    fn returned(&self, function: &str, wanted: &str, found: &Value) -> LabError {
        let what = format!("must return {wanted}, not {}", found.type_name());
        LabError::Script(self.placed(function, &what))
    }

    /// A message about what a function returned, which Lua has no place for.
    fn placed(&self, function: &str, what: &str) -> String {
        format!("{}{function}() {what}", self.beginning_of(function).unwrap_or_default())
    }

    /// What Lua says of an error names file and line, unless it happened in `wrk.format` of a `return wrk.format(…)`: after a
    /// tail call nobody knows the caller.
    fn failed(&self, function: &str, error: mlua::Error) -> LabError {
        match (script_error(error), self.beginning_of(function)) {
            (LabError::Script(text), Some(place)) if !text.contains(file_of(&place)) => {
                LabError::Script(format!("{place}{function}(): {text}"))
            }
            (error, _) => error,
        }
    }

    /// `FILE:LINE: ` of the line in which a function of the script begins.
    fn beginning_of(&self, function: &str) -> Option<String> {
        let info = self.lua.globals().get::<Function>(function).ok()?.info();
        Some(format!("{}:{}: ", info.short_src?, info.line_defined?))
    }

    fn call_response(&self, status: u16, answer: &Captured) -> mlua::Result<()> {
        let headers = self.lua.create_table_with_capacity(0, answer.headers.len())?;
        for (name, value) in &answer.headers {
            headers.raw_set(self.lua.create_string(name)?, self.lua.create_string(value)?)?;
        }
        self.response.call((status, headers, self.lua.create_string(&answer.body)?))
    }
}

/// `FILE:` of a place.
fn file_of(place: &str) -> &str {
    let without_line = place.trim_end_matches(": ").trim_end_matches(|c: char| c.is_ascii_digit());
    if without_line.is_empty() { place } else { without_line }
}

impl Requests for Hooks {
    fn next(&mut self, _connection: usize, out: &mut Vec<u8>) -> Outcome<Option<Batch>> {
        let start = out.len();
        if let Some((bytes, batch)) = self.first.take() {
            out.extend_from_slice(&bytes);
            return Ok(Some(batch));
        }
        if !self.request_into(out)? {
            return Ok(None);
        }
        Ok(Some(Batch::of_script(&out[start..])))
    }

    fn delay_ms(&mut self) -> Outcome<u64> {
        let delay = self.delay.call::<Value>(()).map_err(|error| self.failed("delay", error))?;
        // Nothing is no delay, and text is read as a number, as in wrk.
        let ms = match &delay {
            Value::Nil => Some(0.0),
            value => self.lua.coerce_number(value.clone()).map_err(script_error)?,
        };
        ms.map(|ms| ms.max(0.0) as u64)
            .ok_or_else(|| self.returned("delay", "milliseconds, a number", &delay))
    }

    fn answered(&mut self, status: u16, answer: &Captured) -> Outcome<()> {
        self.call_response(status, answer).map_err(|error| self.failed("response", error))
    }

    fn should_stop(&self) -> bool {
        self.shared.is_stopped()
    }
}
