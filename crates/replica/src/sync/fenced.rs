//! What promises keep out whose coordinators are gone.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{Refusal, WriteAnswer};
use ladoga_local::store::Store;
use ladoga_model::{HybridClock, Stamp, Version};
use xxhash_rust::xxh3::xxh3_64;

use crate::coordinate;
use crate::own::{OwnReplica, refusal, replica};

/// Why something is missing that a promise keeps out.
pub(super) const UNDER_WAY: &str = "a conditional write of the key is under way";
/// How often it looks whether the coordinator has ended that.
const LOOK_AGAIN_AFTER_MS: u64 = 100;
/// What it may take longer: its clock may be ahead of this node's, and what a majority has may be here a moment later.
const GRACE_MS: u64 = 1_000;

/// A promise kept out what this node was to take over, or a hint that it was to deliver: a cell for so many nodes. If its
/// coordinator must be gone by now, this node takes its place: otherwise what was kept out would wait for ever. Answers whether
/// that has worked out.
pub(super) async fn take_over<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    key: &Bytes,
    copies: u8,
    fence: Version,
) -> bool {
    if !must_be_gone(replica, fence) {
        return false;
    }
    let Some(_taking_over) = replica.take_overs.begin(key) else { return false };
    coordinate::take_over(Rc::clone(replica), key.clone(), copies).await
}

/// Whether the coordinator that was promised this has no time left.
fn must_be_gone<S: Store>(replica: &OwnReplica<S>, fence: Version) -> bool {
    let cluster = &replica.cluster;
    let began_ms = HybridClock::wall_ms(fence.timestamp);
    cluster.versions.time_ms() >= began_ms + cluster.limits.quorum_timeout_ms
}

/// For how long all that is kept out one after the other is waited for: a little longer than a request may take.
pub(super) struct Patience {
    left_ms: u64,
}

impl Patience {
    pub(super) fn of<S: Store>(replica: &OwnReplica<S>) -> Patience {
        Patience { left_ms: replica.cluster.limits.quorum_timeout_ms + GRACE_MS }
    }

    /// Waits until it is time to look again; not if there is no time left, which it answers.
    async fn wait(&mut self) -> bool {
        if self.left_ms == 0 {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(LOOK_AGAIN_AFTER_MS)).await;
        self.left_ms = self.left_ms.saturating_sub(LOOK_AGAIN_AFTER_MS);
        true
    }
}

/// A promise kept out a cell with this stamp, which this node lacks, and `write` writes: whether that, or something newer, is here in the
/// end. The coordinator may still be at it, and has its time before this node takes its place.
pub(super) async fn replace<S: Store, E: From<Refusal>>(
    replica: &Rc<OwnReplica<S>>,
    (key, Stamp { version, copies, .. }): (&Bytes, Stamp),
    mut fence: Version,
    patience: &mut Patience,
    write: impl AsyncFn() -> Result<WriteAnswer, E>,
) -> Result<bool, E> {
    if patience.left_ms == 0 {
        return Ok(false);
    }
    while !must_be_gone(replica, fence) {
        if !patience.wait().await {
            return Ok(false);
        }
        if is_here(replica, key, version).await? {
            return Ok(true);
        }
        // A large value is fetched each time.
        if replica.cluster.fences().keeps_out(xxh3_64(key), version) {
            continue;
        }
        // The coordinator may have given up, and left everything as it was.
        match write().await? {
            WriteAnswer::Fenced { fence: newer } => fence = newer,
            WriteAnswer::Applied | WriteAnswer::Superseded { .. } => return Ok(true),
        }
    }
    // If something else takes its place already, that is waited for.
    if let Some(_taking_over) = replica.take_overs.begin_in_turn(key).await {
        let began_ms = replica.core.now_ms();
        if !coordinate::take_over(Rc::clone(replica), key.clone(), copies).await {
            patience.left_ms = patience.left_ms.saturating_sub(replica.core.now_ms() - began_ms);
            return Ok(false);
        }
    }
    // A majority may have it a moment before this node.
    let mut until_here = Patience { left_ms: GRACE_MS };
    while !is_here(replica, key, version).await? {
        if !until_here.wait().await {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn is_here<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    key: &Bytes,
    version: Version,
) -> Result<bool, Refusal> {
    let found = replica::version_here(replica, key).await.map_err(|error| refusal(&error))?;
    Ok(found >= Some(version))
}
