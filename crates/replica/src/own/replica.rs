//! What a node does as one of the replicas of a key, for itself and for peers alike.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{NodeId, Origin, ReadAnswer, Refusal, SentCell, Statement, WriteAnswer};
use ladoga_local::store::{LargeValue, LocalStore, Pieces, Store, StoreError, StoredCell, WriteKind};
use ladoga_model::{Cell, Durability, Stamp, Value, Version};

use super::refusal::refusal;
use super::{Arrival, FinishedUpload, OwnReplica};
use crate::stability::{Admitted, Stability};

/// A replica's answer with a cell; `is_whole` is whether the replica has all that it acknowledged.
pub(crate) fn read_answer(found: Option<StoredCell>, digest: bool, is_whole: bool) -> ReadAnswer<Bytes, u64> {
    let cell = found.map(|cell| {
        if digest && cell.value.is_some() {
            return SentCell::Digest(cell.stamp);
        }
        SentCell::Whole(cell.map_large(|LargeValue { bytes, .. }| bytes))
    });
    ReadAnswer { cell, is_whole }
}

/// The pieces of the large value that a key has in this version; `None` if it has none, or was replaced since then.
pub(crate) fn large_value_of(found: Option<StoredCell>, version: Version) -> Option<Box<dyn Pieces>> {
    match found {
        Some(Cell { stamp, value: Some(Value::Large(large)) }) if stamp.version == version => {
            Some(large.pieces)
        }
        _ => None,
    }
}

/// How long a cell that is pulled waits if the commit queue is full, before it tries again: what may be queued takes about that long.
const ROOM_PAUSE_MS: u64 = 25;
/// So often it only looks whether there is room before it tries: each attempt counts as a write that is refused.
const ROOM_LOOKS_MAX: usize = 40;

/// Whether a replica takes a cell with this stamp now, with a value of which so many bytes are still to be stored, or none.
pub(crate) fn admit<S: Store>(
    replica: &OwnReplica<S>,
    stamp: Stamp,
    value_bytes: Option<u64>,
    origin: Origin,
) -> Result<Admitted, Refusal> {
    replica.cluster.versions.observe(stamp.version.timestamp).map_err(|error| {
        replica.core.metrics.clock_ahead();
        Refusal::ClockAhead(error)
    })?;
    let kind = if value_bytes.is_some() { WriteKind::Put } else { WriteKind::Delete };
    replica.store.admit(kind, value_bytes.unwrap_or_default()).map_err(|error| refusal(&error))?;
    replica.cluster.stability().admit(stamp.version, origin)
}

/// The same, except that a pull is never refused for lack of room: it has time, waits for room in the commit queue, and lets clients go
/// first. If it broke off, all that waits for it would wait longer.
async fn admit_in_time<S: Store>(
    replica: &OwnReplica<S>,
    stamp: Stamp,
    value_bytes: Option<u64>,
    origin: Origin,
) -> Result<Admitted, Refusal> {
    loop {
        match admit(replica, stamp, value_bytes, origin) {
            Err(Refusal::OverCapacity) if origin == Origin::Exchange => {
                for _ in 0..ROOM_LOOKS_MAX {
                    wait_for_room().await;
                    if replica.store.has_room() {
                        break;
                    }
                }
            }
            admitted => return admitted,
        }
    }
}

/// The version of a key here, for a pull, which has time. If the queue of reads is full, one of them at a time tries again, as each attempt
/// counts as a read that is refused.
pub(crate) async fn version_here<S: Store>(
    replica: &OwnReplica<S>,
    key: &[u8],
) -> Result<Option<Version>, StoreError> {
    let mut turn = None;
    loop {
        match replica.store.get_cell(key).wait().await {
            Err(StoreError::OverCapacity { .. }) if turn.is_none() => {
                turn = Some(replica.cluster.copy_turns.look().await);
            }
            Err(StoreError::OverCapacity { .. }) => wait_for_room().await,
            found => return found.map(|found| found.map(|cell| cell.stamp.version)),
        }
    }
}

/// Waits until a queue of the store that was full may have room again.
async fn wait_for_room() {
    tokio::time::sleep(Duration::from_millis(ROOM_PAUSE_MS)).await;
}

/// Makes a cell durable here, as this node's part of what it coordinates: admitted at once, and done when it is awaited.
pub(crate) fn apply<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    (key, stamp, value): (&Bytes, Stamp, Option<&[u8]>),
    (origin, durability): (Origin, Option<Durability>),
) -> Result<impl Future<Output = Result<WriteAnswer, Refusal>> + use<S>, Refusal> {
    let bytes = value.map(|value| value.len() as u64);
    let arrival = arrival(replica, key, stamp.version, (origin, durability));
    let admitted = admit(replica, stamp, bytes, origin)?;
    Ok(apply_admitted(replica, (key, stamp, value), (arrival, admitted), durability))
}

/// The same for what is pulled from a peer, or deleted as the peer lacks it, once there is room for it.
pub(crate) async fn apply_pulled<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    (key, stamp, value): (&Bytes, Stamp, Option<&[u8]>),
) -> Result<WriteAnswer, Refusal> {
    let bytes = value.map(|value| value.len() as u64);
    let arrival = arrival(replica, key, stamp.version, (Origin::Exchange, None));
    let admitted = admit_in_time(replica, stamp, bytes, Origin::Exchange).await?;
    apply_admitted(replica, (key, stamp, value), (arrival, admitted), None).await
}

fn apply_admitted<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    (key, stamp, value): (&Bytes, Stamp, Option<&[u8]>),
    (arrival, admitted): (Arrival, Admitted),
    durability: Option<Durability>,
) -> impl Future<Output = Result<WriteAnswer, Refusal>> + use<S> {
    let cell = Cell { stamp, value: value.map(Value::Inline) };
    let applied = replica.store_for(durability).apply([(&key[..], cell)]);
    let (replica, key) = (Rc::clone(replica), key.clone());
    async move {
        let applied = applied.await;
        drop(admitted);
        let answer = arrival.outcome(&replica, &key, (&applied, 0)).await;
        arrival.once_known(&replica, &key, answer).await
    }
}

/// The same for a large value that was uploaded here.
pub(crate) async fn apply_upload<S: Store>(
    replica: &OwnReplica<S>,
    (key, stamp): (&Bytes, Stamp),
    upload: FinishedUpload<S>,
    arrival: Arrival,
    (origin, durability): (Origin, Option<Durability>),
) -> Result<WriteAnswer, Refusal> {
    // The value is on the disk.
    let admitted = admit_in_time(replica, stamp, Some(0), origin).await?;
    let cell = Cell { stamp, value: Some(Value::Large(upload)) };
    let applied = replica.store_for(durability).apply([(&key[..], cell)]).await;
    drop(admitted);
    let answer = arrival.outcome(replica, key, (&applied, 0)).await;
    arrival.once_known(replica, key, answer).await
}

/// A cell that this node writes to itself, as the coordinator or as who repairs.
pub(crate) fn arrival<S: Store>(
    replica: &OwnReplica<S>,
    key: &[u8],
    version: Version,
    (origin, durability): (Origin, Option<Durability>),
) -> Arrival {
    match origin {
        Origin::Client => Arrival::stamped_here(version, durability),
        Origin::Hint | Origin::Repair | Origin::Exchange => {
            Arrival::of(replica, key, version, (origin, false), durability)
        }
    }
}

/// A peer's statement, in the answer to a question of this moment; none if there was no question.
pub(crate) fn heard<S: Store>(
    replica: &OwnReplica<S>,
    stability: &Stability,
    (peer, statement): (NodeId, Statement),
    asked_at_ms: Option<u64>,
) {
    if stability.heard(&replica.cluster.versions, peer, statement, asked_at_ms).is_err() {
        replica.core.metrics.clock_ahead();
    }
}

/// Records the newest version of the writes that this node has made durable.
pub(crate) fn acknowledged<S: Store>(replica: &OwnReplica<S>, newest: Option<Version>) {
    if let Some(newest) = newest {
        let cluster = &replica.cluster;
        cluster.stability().acknowledged(cluster.own, newest.timestamp);
    }
}
