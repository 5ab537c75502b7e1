use std::rc::Rc;

use super::session::Session;
use ladoga_local::store::Store;

/// A request that is being served. What it holds of its connection's memory is free again when it is dropped.
pub(super) struct Asked<S: Store> {
    session: Rc<Session<S>>,
    pub(super) number: u32,
    bytes: usize,
}

impl<S: Store> Asked<S> {
    /// A request that may hold so many bytes, for which there is room.
    pub(super) fn new(session: &Rc<Session<S>>, number: u32, bytes: usize) -> Asked<S> {
        session.held_bytes.set(session.held_bytes.get() + bytes);
        Asked { session: Rc::clone(session), number, bytes }
    }
}

impl<S: Store> Drop for Asked<S> {
    fn drop(&mut self) {
        self.session.held_bytes.set(self.session.held_bytes.get() - self.bytes);
    }
}
