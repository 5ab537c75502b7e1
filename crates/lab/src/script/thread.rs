use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Lua, UserData, UserDataFields, UserDataMethods, UserDataRef, Value};

use super::address::Address;
use super::value::Transfer;

/// What both sides of a thread share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    address: Mutex<Option<SocketAddr>>,
    stop: AtomicBool,
    /// Said if the thread has no request at all.
    no_request: Mutex<Option<String>>,
    /// Why the thread has no state.
    failure: Mutex<Option<String>>,
}

impl Shared {
    pub(super) fn address(&self) -> Option<SocketAddr> {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_address(&self, address: SocketAddr) {
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }

    pub(super) fn note_no_request(&self, said: String) {
        *self.no_request.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }

    pub(super) fn no_request(&self) -> Option<String> {
        self.no_request.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note_failure(&self, why: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What a thread is asked to do with its state.
pub(super) enum Command {
    Get(String, Sender<Result<Transfer, String>>),
    Set(String, Transfer, Sender<Result<(), String>>),
    Init(Vec<OsString>, Sender<Result<(), String>>),
    /// Every thread is set up, and none gets a command until the run has ended.
    Begin,
}

/// A thread as the state of the whole run sees it.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) shared: Arc<Shared>,
    pub(super) commands: Sender<Command>,
}

impl Remote {
    /// Sends a command and waits for its answer.
    pub(super) fn ask<T>(
        &self,
        command: impl FnOnce(Sender<Result<T, String>>) -> Command,
    ) -> Result<T, String> {
        // What the script did wrong there says more.
        let gone = || self.shared.failure().unwrap_or_else(|| "the thread is gone".to_owned());
        let (answer_in, answer) = std::sync::mpsc::channel();
        self.commands.send(command(answer_in)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

impl UserData for Remote {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        add_address(fields, |remote| &remote.shared);
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |lua, remote, name: String| {
            let value = remote.ask(|answer| Command::Get(name, answer)).map_err(mlua::Error::runtime)?;
            value.into_lua(lua)
        });
        methods.add_method("set", |_, remote, (name, value): (String, Value)| {
            let value = Transfer::of(&value)?;
            remote.ask(|answer| Command::Set(name, value, answer)).map_err(mlua::Error::runtime)
        });
        methods.add_method("stop", |_, remote, ()| {
            remote.shared.stop();
            Ok(())
        });
    }
}

/// A thread as its own state sees it, as `wrk.thread`.
pub(super) struct Own(pub(super) Arc<Shared>);

impl UserData for Own {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        add_address(fields, |own| &own.0);
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |lua, _, name: String| lua.globals().get::<Value>(name));
        methods.add_method("set", |lua, _, (name, value): (String, Value)| lua.globals().set(name, value));
        methods.add_method("stop", |_, own, ()| {
            own.0.stop();
            Ok(())
        });
    }
}

/// `thread.addr`, which can be read and set.
fn add_address<T: 'static, F: UserDataFields<T>>(fields: &mut F, shared: fn(&T) -> &Arc<Shared>) {
    fields.add_field_method_get("addr", move |_, thread| Ok(shared(thread).address().map(Address)));
    fields.add_field_method_set("addr", move |_: &Lua, thread, address: UserDataRef<Address>| {
        shared(thread).set_address(address.0);
        Ok(())
    });
}
