//! What promises keep out whose coordinators are gone.

use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::Refusal;
use ladoga_local::store::{LocalStore, Store};
use ladoga_model::{HybridClock, Version};

use crate::coordinate;
use crate::own::{OwnReplica, refusal};

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

/// The same for a cell with this version, for so many nodes, that this node lacks: fails unless something is here by now that is
/// not older.
pub(super) async fn replace<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    key: &Bytes,
    (version, copies): (Version, u8),
    fence: Version,
) -> Result<(), Refusal> {
    if take_over(replica, key, copies, fence).await {
        let found = replica.store.get_cell(key).wait().await.map_err(|error| refusal(&error))?;
        if found.is_some_and(|found| found.stamp.version >= version) {
            return Ok(());
        }
    }
    // Another time.
    Err(Refusal::OverCapacity)
}
