use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::auth::{Caller, Guard, Login, Unauthorized};

/// Who asks on a connection. What was shown once costs little to check again.
#[derive(Default)]
pub(crate) struct Guest {
    login: RefCell<Option<Login>>,
    /// Whether the request in turn is of whom the connection knows.
    is_asking: Cell<bool>,
    /// What was fetched last of a backup, if there is an audit log.
    fetched: RefCell<Option<Box<FetchedFile>>>,
}

/// A file of a backup, or of the log, that somebody fetches piece by piece.
#[derive(PartialEq, Eq)]
pub(crate) struct FetchedFile {
    /// The name of a token.
    pub(crate) who: Option<Rc<str>>,
    /// Of which backup; `None` if it is of the log.
    pub(crate) checkpoint: Option<u64>,
    pub(crate) name: Box<str>,
}

impl Guest {
    pub(super) fn log_in(
        &self,
        guard: &Arc<Guard>,
        authorization: &[u8],
        wall_ms: u64,
    ) -> Result<(), Unauthorized> {
        Login::renew(&mut self.login.borrow_mut(), guard, authorization, wall_ms)?;
        self.is_asking.set(true);
        Ok(())
    }

    pub(super) fn forget(&self) {
        self.is_asking.set(false);
    }

    pub(super) fn caller(&self) -> Option<Ref<'_, Caller>> {
        if !self.is_asking.get() {
            return None;
        }
        Ref::filter_map(self.login.borrow(), |login| login.as_ref().map(|login| &login.caller)).ok()
    }

    /// Whether a piece of this file was the last that was fetched of any.
    pub(crate) fn is_fetching(&self, file: &FetchedFile) -> bool {
        self.fetched.borrow().as_deref() == Some(file)
    }

    /// A piece of this file was fetched.
    pub(crate) fn note_fetched(&self, file: Box<FetchedFile>) {
        self.fetched.replace(Some(file));
    }

    /// Whether the request in turn may still go on, if it was of someone.
    pub(super) fn still(&self, wall_ms: u64) -> bool {
        if !self.is_asking.get() {
            return true;
        }
        self.login.borrow_mut().as_mut().is_some_and(|login| login.caller.still(wall_ms).is_ok())
    }
}
