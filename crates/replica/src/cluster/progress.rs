use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// So many of the things that cannot be read are named in the log: there may be as many as there are keys.
const WARNINGS_MAX: usize = 100;

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
    /// Something may be missing here that cannot be read where it is. That is said once, not each time that it is tried.
    pub(crate) fn warn_of_unreadable(&self, what: &str) {
        let mut unreadable = self.unreadable.lock();
        if unreadable.len() == WARNINGS_MAX || !unreadable.insert(what.to_owned()) {
            return;
        }
        tracing::warn!("not copied: {what}");
        if unreadable.len() == WARNINGS_MAX {
            tracing::warn!(
                "more that is not copied is not named, until anti-entropy has worked out with all nodes"
            );
        }
    }

    /// Requests a repair; answers its number.
    pub(crate) fn request_repair(&self) -> u64 {
        self.requested.fetch_add(1, Ordering::AcqRel) + 1
    }
}
