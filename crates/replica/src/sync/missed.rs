//! Writes that this node acknowledged for a client and could not store itself: its disk was full, or it had too much to do.

use std::sync::atomic::Ordering;

use ladoga_local::store::{LocalStore, Store};

use crate::own::OwnReplica;
use crate::stability::Stability;

/// How often it tries at most: each time, its trees are compared with those of all peers.
const COPY_EVERY_MS: u64 = 10_000;

/// Nobody keeps a hint for the node that took the write. The others have it: they acknowledged it.
#[derive(Default)]
pub(super) struct OwnMisses {
    /// How many had been missed when the last copy began that succeeded.
    copied: u64,
    /// When the last one began, if there was any.
    copied_at_ms: Option<u64>,
}

impl OwnMisses {
    /// How many there are, if it is time to copy them from the others: once the store takes writes again. What the others do not have
    /// yet either, the next copy brings, or anti-entropy.
    pub(super) fn due<S: Store>(&mut self, replica: &OwnReplica<S>, stability: &Stability) -> Option<u64> {
        let cluster = &replica.cluster;
        let missed = cluster.peers[cluster.own.index()].missed.load(Ordering::Relaxed);
        let now_ms = replica.core.now_ms();
        let is_due = self.copied_at_ms.is_none_or(|then_ms| now_ms >= then_ms + COPY_EVERY_MS);
        // (While it is being rebuilt, that copies everything.)
        let may_copy = is_due && stability.has_all() && replica.store.has_room();
        if missed == self.copied || !may_copy {
            return None;
        }
        self.copied_at_ms = Some(now_ms);
        Some(missed)
    }

    /// All that had been missed when it was asked for is here.
    pub(super) const fn copied(&mut self, missed: u64) {
        self.copied = missed;
    }
}
