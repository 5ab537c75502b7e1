//! What this node says as a replica to conditional writes: to a ballot, and to the cell of one. Both are decided in the turn in
//! which groups of cells are written, so that nothing comes between what it looks at and what it does.
//!
//! A node that has lost its disk promises nothing until it is whole: it does not know what it has promised before. Nor does it
//! after that; so all others know by then that it lost its disk, and accept no cell whose coordinator may count on such a promise.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{AcceptAnswer, NoPromise, Origin, PrepareAnswer, Refusal, SentCell};
use ladoga_local::store::{LocalStore, NewestCell, Store};
use ladoga_model::{Cell, Durability, HybridClock, Stamp, Value, Version};
use xxhash_rust::xxh3::xxh3_64;

use super::refusal::refusal;
use super::replica::{acknowledged, admit};
use super::{FinishedUpload, OwnReplica};
use crate::planted::{self, Bug, OvertakenCell, note_overtaken};
use crate::stability::Admitted;
use crate::wire::Base;

/// For how long a ballot waits for the end of an older promise, at most. Most are on their way to their ends; to promise at once would
/// outbid them, and whoever is outbid with its cell on its way cannot know what became of it. So this is longer than a busy node takes.
const OLDER_PROMISE_WAIT_MS: u64 = 100;
/// How often it is looked whether it has ended.
const LOOK_EVERY_MS: u64 = 1;

/// What this replica says to a ballot: it promises to take no older cell of the key, and tells the newest one that it has, once
/// that is as durable as asked; or it has promised or has something that is not older. Who asks again is promised the same again.
pub(crate) fn prepare<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    key: &Bytes,
    ballot: Version,
    durability: Option<Durability>,
) -> impl Future<Output = Result<PrepareAnswer<Bytes, u64>, Refusal>> + use<S> {
    let (replica, key) = (Rc::clone(replica), key.clone());
    async move {
        let key_hash = xxh3_64(&key);
        let fences = Arc::clone(replica.cluster.fences());
        until_older_ends(&replica, key_hash, ballot).await;
        let admitted = let_in(&replica, Stamp::new(ballot), None)?;
        let stability = Arc::clone(replica.cluster.stability());
        let decide = move |newest: Option<NewestCell>| {
            let has = newest.as_ref().map(|newest| newest.stamp.version);
            let newer = has.filter(|version| *version >= ballot);
            let promised = match newer.or_else(|| stability.past.newest_over(key_hash, ballot)) {
                Some(version) => Err(NoPromise::Outbid(version)),
                None => fences.promise(key_hash, ballot),
            };
            if promised.is_ok() {
                stability.past.promises(key_hash, ballot, has);
            }
            promised.map(|fence| (fence, newest))
        };
        let decided = replica.store_for(durability).inspect(&key, decide).await;
        let decided = decided.map_err(|error| refusal(&error))?;
        let fences = replica.cluster.fences();
        let answer = match decided {
            Ok((fence, newest)) => {
                // If it cannot be made so, its coordinator may have asked again meanwhile, so that it still matters.
                fences.durable(fence).await?;
                Ok(PrepareAnswer::Promised(newest.map(SentCell::Whole)))
            }
            Err(NoPromise::Outbid(newest)) => {
                fences.figures.outbid.fetch_add(1, Ordering::Relaxed);
                Ok(PrepareAnswer::Outbid(newest))
            }
            Err(NoPromise::Full) => Err(Refusal::OverCapacity),
        };
        drop(admitted);
        answer
    }
}

/// Waits for the end of an older promise, unless its coordinator must be gone by now, or has gone on: a node proposes once at a time
/// for a key, so by a newer ballot of it its older one is over. What it still sends about that comes behind all of its ballots that
/// are on their way, and a node that was away for a moment gets thousands of those: it would wait for each of them in vain.
async fn until_older_ends<S: Store>(replica: &OwnReplica<S>, key_hash: u64, ballot: Version) {
    let OwnReplica { cluster, .. } = replica;
    let standing = || cluster.fences().newest(key_hash);
    if standing().is_some_and(|standing| standing.node != ballot.node) {
        cluster.shared_keys.share(key_hash, cluster.versions.monotonic_ms());
    }
    let lives_ms = cluster.limits.quorum_timeout_ms;
    let is_waited_for = |standing: Version| {
        let began_ms = HybridClock::wall_ms(standing.timestamp);
        let is_another = standing.node != ballot.node;
        is_another && standing < ballot && cluster.versions.time_ms() <= began_ms + lives_ms
    };
    for look in 0..OLDER_PROMISE_WAIT_MS / LOOK_EVERY_MS {
        if !standing().is_some_and(is_waited_for) {
            return;
        }
        if look == 0 {
            cluster.fences().figures.waited.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(LOOK_EVERY_MS)).await;
    }
}

/// What this replica says to the cell of a ballot: it takes it only if that is its newest promise, what it has is what it had
/// when it promised, and none of the key's replicas has lost its promises since the coordinator began. Something newer may have come
/// meanwhile, as plain writes do; if nothing else was promised before that, and the cell was decided on what was here until then, it
/// counts as if it had come right before it. Who asks again for what it took is told so again. [`Refusal::StoreFailed`] does not say that
/// it has not taken it.
pub(crate) fn accept<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    (key, stamp, value): (&Bytes, Stamp, Option<Value<Bytes, FinishedUpload<S>>>),
    base: Base,
    durability: Option<Durability>,
) -> impl Future<Output = Result<AcceptAnswer, Refusal>> + use<S> {
    let (replica, key) = (Rc::clone(replica), key.clone());
    async move {
        let inline_bytes = value.as_ref().map_or(0, Value::inline_bytes);
        let value_bytes = value.as_ref().map(|value| match value {
            Value::Inline(_) => inline_bytes,
            // It is on the disk.
            Value::Large(_) => 0,
        });
        let admitted = let_in(&replica, stamp, value_bytes)?;
        let (key_hash, ballot) = (xxh3_64(&key), stamp.version);
        let fences = Arc::clone(replica.cluster.fences());
        let stability = Arc::clone(replica.cluster.stability());
        let nodes = replica.cluster.placement.replicas(&key, base.met.len().min(replica.cluster.nodes.len()));
        let nodes = nodes.to_vec();
        let decided_on = base.newest;
        let was_tried = Arc::new(AtomicBool::new(false));
        let is_tried = Arc::clone(&was_tried);
        let decide = move |newest: Option<NewestCell>| {
            let has = newest.map(|newest| newest.stamp.version);
            if has == Some(ballot) {
                return (None, AcceptAnswer::Accepted);
            }
            // What it was decided on was here by then. Otherwise that may be a write that began after the newer one had ended.
            let is_overtaken = base.newest == base.had
                && fences.is_overtaken((key_hash, ballot), base.had, has)
                || has > Some(ballot) && planted::has(Bug::CountAnyOvertaken);
            let is_promised = is_overtaken || has == base.had && fences.is_newest(key_hash, ballot);
            if !is_promised || stability.has_met_later(&nodes, &base.met) {
                let newest = has.max(fences.newest(key_hash)).unwrap_or(ballot);
                return (None, AcceptAnswer::Outbid(newest));
            }
            if is_overtaken {
                let value = match value {
                    Some(Value::Inline(bytes)) => Some(bytes),
                    Some(Value::Large(_)) | None => None,
                };
                note_overtaken(OvertakenCell { version: ballot, key_hash, value });
                fences.figures.overtaken.fetch_add(1, Ordering::Relaxed);
                return (None, AcceptAnswer::Accepted);
            }
            is_tried.store(true, Ordering::Release);
            (Some(Cell { stamp, value }), AcceptAnswer::Accepted)
        };
        let updated = replica.store_for(durability).update(&key, inline_bytes, decide).await;
        drop(admitted);
        let figures = &replica.cluster.fences().figures;
        let past = &replica.cluster.stability().past;
        // It counts as accepted once it is: until then, nothing is known of what it was decided on.
        match updated {
            Ok(AcceptAnswer::Accepted) => past.accepts(key_hash, decided_on, ballot),
            Ok(AcceptAnswer::Outbid(_)) | Err(_) => past.refuses(key_hash, decided_on, ballot),
        }
        let updated = updated.map_err(|error| {
            // What could not be written may be there after all.
            if was_tried.load(Ordering::Acquire) { Refusal::StoreFailed } else { refusal(&error) }
        });
        match updated? {
            AcceptAnswer::Accepted => {
                figures.accepts.fetch_add(1, Ordering::Relaxed);
                acknowledged(&replica, Some(ballot));
                Ok(AcceptAnswer::Accepted)
            }
            outbid @ AcceptAnswer::Outbid(_) => {
                figures.outbid.fetch_add(1, Ordering::Relaxed);
                Ok(outbid)
            }
        }
    }
}

/// A coordinator gave up before its cell was anywhere: its promise is void.
pub(crate) fn release<S: Store>(replica: &OwnReplica<S>, key: &[u8], ballot: Version) {
    let key_hash = xxh3_64(key);
    replica.cluster.fences().release(key_hash, ballot);
    replica.cluster.stability().past.released(key_hash, ballot);
}

/// Whether this replica may promise, and accept, with a version: then, what is to be on disk next waits for it.
fn let_in<S: Store>(
    replica: &OwnReplica<S>,
    stamp: Stamp,
    value_bytes: Option<u64>,
) -> Result<Admitted, Refusal> {
    match replica.cluster.stability().vouches() {
        Ok(false) if !planted::has(Bug::PromiseByLostDisk) => return Err(Refusal::Rebuilding),
        Err(refusal) => return Err(refusal),
        Ok(_) => {}
    }
    admit(replica, stamp, value_bytes, Origin::Client)
}
