use std::sync::{Arc, Mutex, PoisonError, Weak};

use scylla::client::session::Session;

/// The connections of all event loops, for the figures of a door.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Vec<Weak<Session>>>);

impl Sessions {
    pub(crate) fn add(&self, session: &Arc<Session>) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
    }

    /// The sum of something over all event loops.
    pub(crate) fn sum(&self, of: impl Fn(&Session) -> u64) -> u64 {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().filter_map(Weak::upgrade).map(|session| of(&session)).sum()
    }
}
