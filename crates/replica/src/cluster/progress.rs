use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The progress of repair, for people.
#[derive(Debug, Default)]
pub(crate) struct RepairProgress {
    /// Passes that were made to their end, with all peers.
    pub(crate) passes: AtomicU64,
    /// Pulls from a peer that failed.
    pub(crate) failures: AtomicU64,
    /// Of the pull under way, or the last one.
    pub(crate) differing_partitions: AtomicU64,
    pub(crate) compared_keys: AtomicU64,
    pub(crate) copied_cells: AtomicU64,
    /// Since the node was started.
    pub(crate) copied_cells_total: AtomicU64,
    /// Repairs on demand: how many were requested, and how many of these have ended.
    pub(crate) requested: AtomicU64,
    pub(crate) completed: AtomicU64,
    /// What the last repair on demand could not repair.
    pub(crate) error: Mutex<Option<String>>,
    /// Peers that the current sync round has still to pull from; 0 if there is none.
    pub(crate) peers_left: AtomicU64,
    /// What was warned of since the last pass that was made to its end.
    pub(crate) unreadable: Mutex<BTreeSet<String>>,
}

impl RepairProgress {
    /// A large value is missing here, a node cannot read it, and no other gives it. That is said once, not each time that it is tried.
    pub(crate) fn warn_of_unreadable(&self, reason: &str) {
        if self.unreadable.lock().insert(reason.to_owned()) {
            tracing::warn!("a large value is not copied: {reason}, and no other node gives it");
        }
    }

    /// Requests a repair; answers its number.
    pub(crate) fn request_repair(&self) -> u64 {
        self.requested.fetch_add(1, Ordering::AcqRel) + 1
    }
}
