//! What promises keep out whose coordinators are gone.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::Refusal;
use ladoga_local::store::Store;
use ladoga_model::{HybridClock, Version};

use crate::coordinate;
use crate::own::{OwnReplica, refusal, replica};

/// Why something is missing that a promise keeps out.
pub(super) const UNDER_WAY: &str = "a conditional write of the key is under way";
/// How often it looks whether the coordinator has ended that.
const LOOK_AGAIN_AFTER_MS: u64 = 100;

/// A promise kept out what this node was to take over, or a hint that it was to deliver: a cell for so many nodes. If its
/// coordinator must be gone by now, this node takes its place: otherwise what was kept out would wait for ever. Answers whether
/// that has worked out.
pub(super) async fn take_over<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    key: &Bytes,
    copies: u8,
    fence: Version,
) -> bool {
    let cluster = &replica.cluster;
    let began_ms = HybridClock::wall_ms(fence.timestamp);
    if cluster.versions.time_ms() < began_ms + cluster.limits.quorum_timeout_ms {
        return false;
    }
    let Some(_taking_over) = replica.take_overs.begin(key) else { return false };
    coordinate::take_over(Rc::clone(replica), key.clone(), copies).await
}

/// The same for a cell with this version, for so many nodes, that this node lacks: whether something is here in the end that is not
/// older. The coordinator may still be at it, and has its time before.
pub(super) async fn replace<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    key: &Bytes,
    (version, copies): (Version, u8),
    fence: Version,
) -> Result<bool, Refusal> {
    let (versions, quorum_timeout_ms) = (&replica.cluster.versions, replica.cluster.limits.quorum_timeout_ms);
    let until_ms = HybridClock::wall_ms(fence.timestamp) + quorum_timeout_ms;
    let mut waited_ms = 0;
    while versions.time_ms() < until_ms && waited_ms < quorum_timeout_ms {
        tokio::time::sleep(Duration::from_millis(LOOK_AGAIN_AFTER_MS)).await;
        waited_ms += LOOK_AGAIN_AFTER_MS;
        if is_here(replica, key, version).await? {
            return Ok(true);
        }
    }
    Ok(take_over(replica, key, copies, fence).await && is_here(replica, key, version).await?)
}

async fn is_here<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    key: &Bytes,
    version: Version,
) -> Result<bool, Refusal> {
    let found = replica::version_here(replica, key).await.map_err(|error| refusal(&error))?;
    Ok(found >= Some(version))
}
