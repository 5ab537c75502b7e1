use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Progress, for people.
#[derive(Debug, Default)]
pub(crate) struct RepairProgress {
    /// Passes that were made to their end, with all peers.
    pub(crate) passes: AtomicU64,
    /// Pulls that did not work out.
    pub(crate) failures: AtomicU64,
    /// Of the pull under way, or the last one: partitions that differed, keys compared, cells taken over.
    pub(crate) partitions: AtomicU64,
    pub(crate) compared: AtomicU64,
    pub(crate) applied: AtomicU64,
    /// Cells taken over since the node was started.
    pub(crate) applied_total: AtomicU64,
    /// Repairs that somebody asked for, and those of them that are over.
    pub(crate) wanted: AtomicU64,
    pub(crate) repaired: AtomicU64,
    /// Why the last one was not complete.
    pub(crate) trouble: Mutex<Option<String>>,
    /// Peers that the pass under way has still to pull from; 0 where there is none.
    pub(crate) peers_left: AtomicU64,
}

impl RepairProgress {
    /// Asks for a repair; answers its number.
    pub(crate) fn request_repair(&self) -> u64 {
        self.wanted.fetch_add(1, Ordering::AcqRel) + 1
    }
}
