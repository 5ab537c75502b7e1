use std::cell::{Cell, RefCell};

use bytes::Bytes;
use ladoga_service::{Error, Seen};

use super::overlay::Watched;

/// What a transaction on a cluster, whose commands are done one after the other, depends on, and whether it can still be undone.
pub(super) struct Watching {
    /// What keys were like, until the transaction writes them itself.
    keys: RefCell<Vec<Watched>>,
    /// Whether something was written, or may have been.
    has_written: Cell<bool>,
}

impl Watching {
    pub(super) const fn new(watched: Vec<Watched>) -> Watching {
        Watching { keys: RefCell::new(watched), has_written: Cell::new(false) }
    }

    /// What a key was like, if it is watched and was not written since.
    pub(super) fn of(&self, key: &[u8]) -> Option<Seen> {
        let keys = self.keys.borrow();
        keys.iter().find(|(known, _)| known == key).map(|(_, seen)| *seen)
    }

    /// A write of this key has ended. If it happened, the key is watched no more: from now on, it is ours.
    pub(super) fn note<T>(&self, key: &[u8], written: &Result<T, Error>) {
        match written {
            Ok(_) => {
                self.keys.borrow_mut().retain(|(known, _): &(Bytes, Seen)| known != key);
                self.has_written.set(true);
            }
            Err(error) if error.may_have_happened() => self.has_written.set(true),
            Err(_) => {}
        }
    }

    /// Whether no key is watched.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.borrow().is_empty()
    }

    pub(super) const fn has_written(&self) -> bool {
        self.has_written.get()
    }
}
