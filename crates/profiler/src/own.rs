//! The profiler's own threads, which are no part of any profile, of whatever kind.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sys::calls;

static THREADS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// While this lives, the thread that made it is left out of profiles.
#[derive(Debug)]
pub(crate) struct OwnThread(u32);

impl OwnThread {
    pub(crate) fn register() -> Self {
        let own = OwnThread(calls::thread_id());
        threads().push(own.0);
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
        if let Some(at) = threads.iter().position(|known| *known == self.0) {
            threads.swap_remove(at);
        }
    }
}

fn threads() -> MutexGuard<'static, Vec<u32>> {
    // A list of numbers is whole at any time.
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}
