//! Writes that this node acknowledged for a client and could not store itself: its disk was full, or it had too much to do.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ladoga_local::store::{LocalStore, Store, WriteKind};

use super::exchange::pull_from_all;
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
    /// Copies them from the others, once the store takes writes again. What the others do not have yet either, the next one brings,
    /// or anti-entropy.
    pub(super) async fn maybe_copy<S: Store>(
        &mut self,
        replica: &Rc<OwnReplica<S>>,
        stability: &Arc<Stability>,
    ) {
        let cluster = &replica.cluster;
        let missed = cluster.peers[cluster.own.index()].missed.load(Ordering::Relaxed);
        let now_ms = replica.core.now_ms();
        let is_due = self.copied_at_ms.is_none_or(|then_ms| now_ms >= then_ms + COPY_EVERY_MS);
        // (While it is being rebuilt, that copies everything.)
        let may_copy = is_due && stability.has_all() && replica.store.admit(WriteKind::Put, 0).is_ok();
        if missed == self.copied || !may_copy {
            return;
        }
        self.copied_at_ms = Some(now_ms);
        let errors = pull_from_all(replica, stability).await;
        if errors.is_empty() {
            self.copied = missed;
        } else {
            cluster.exchange.failures.fetch_add(1, Ordering::Relaxed);
            tracing::debug!("what this node could not store was not copied: {}", errors.join("; "));
        }
    }
}
