//! The profiler's own threads, which are no part of any profile, of whatever kind.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::memory::NotSampled;
use crate::sys::calls;

static THREADS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// While this lives, the thread that made it is left out of profiles.
#[derive(Debug)]
pub(crate) struct OwnThread {
    id: u32,
    /// Its allocations are left out as they happen: the list is looked at now and then only.
    _not_sampled: NotSampled,
}

impl OwnThread {
    pub(crate) fn register() -> Self {
        let own = OwnThread { id: calls::thread_id(), _not_sampled: NotSampled::begin() };
        threads().push(own.id);
        own
    }

    /// All of them, now.
    pub(crate) fn all() -> Vec<u32> {
        threads().clone()
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        let mut threads = threads();
        if let Some(at) = threads.iter().position(|known| *known == self.id) {
            threads.swap_remove(at);
        }
    }
}

fn threads() -> MutexGuard<'static, Vec<u32>> {
    // A list of numbers is whole at any time.
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}
