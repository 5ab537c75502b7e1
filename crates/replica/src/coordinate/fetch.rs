use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{Failure, Origin, Refusal, WriteAnswer};
use ladoga_model::{self as model, Cell, Stamp, Version};
use ladoga_runtime::{Address, Gate};

use super::failures::within;
use super::held_pieces::{Held, HeldPieces};
use super::plan::Plan;
use super::remote_pieces::{is_late, no_answer, open_remote};
use super::target::Target;
use crate::bounds::{Copying, NotCopied};
use crate::link::PeerLink;
use crate::own::{OwnReplica, refusal, replica};
use ladoga_local::store::{LargeValue, LocalStore, Pieces, Store, StoreError, Upload, Value};

/// A large value, as the coordinator of a read has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldValue {
    /// Its length.
    bytes: u64,
    /// The place of the replica that has it.
    pub(super) holder: usize,
}

impl HeldValue {
    /// A value of so many bytes that the replica at this place has.
    pub(super) const fn new(bytes: u64, holder: usize) -> HeldValue {
        HeldValue { bytes, holder }
    }
}

/// A cell, as the coordinator of a read has it.
pub(super) type HeldCell = Cell<Bytes, HeldValue>;

/// Opens a value that was found with this version; `None` if it has been replaced.
pub(crate) async fn open_found<S: Store>(
    plan: &Plan<S>,
    version: Version,
    found: model::Value<Bytes, HeldValue>,
) -> Result<Option<Value>, StoreError> {
    match found {
        model::Value::Inline(bytes) => Ok(Some(Value::Inline(bytes))),
        model::Value::Large(held) => {
            let pieces = open_held(plan, version, held).await?;
            Ok(pieces.map(|pieces| Value::Large(LargeValue { bytes: held.bytes, pieces })))
        }
    }
}

/// Opens a large value at the replica that showed it, or else at any other that has it, and goes on at those if it fails later. Each
/// gets half of the time that is left, so that one whose disk hangs leaves some for another.
pub(super) async fn open_held<S: Store>(
    plan: &Plan<S>,
    version: Version,
    HeldValue { bytes, holder }: HeldValue,
) -> Result<Option<Box<dyn Pieces>>, StoreError> {
    let until_ms = plan.until_ms();
    let first = plan.node(holder);
    let others = plan.nodes().iter().copied().rev().filter(|&node| node != first).collect();
    let mut held = Held { others, ..held(plan, version, bytes) };
    let open = async |held: &Held<S>, node| {
        let left_ms = until_ms.saturating_sub(plan.replica.core.now_ms()) / 2;
        let opened = tokio::time::timeout(Duration::from_millis(left_ms), held.open_at(node));
        opened.await.unwrap_or_else(|_| Err(no_answer(&plan.cluster().node_url(node), &is_late(left_ms))))
    };
    let mut opened = open(&held, first).await;
    while opened.is_err()
        && let Some(node) = held.others.pop()
    {
        if let Ok(Some(pieces)) = open(&held, node).await {
            opened = Ok(Some(pieces));
        }
    }
    Ok(opened?.map(|pieces| -> Box<dyn Pieces> { Box::new(HeldPieces::new(held, pieces)) }))
}

/// Opens a large value at one replica only.
pub(super) async fn open_large<S: Store>(
    plan: &Plan<S>,
    version: Version,
    holder: usize,
) -> Result<Option<Box<dyn Pieces>>, StoreError> {
    held(plan, version, 0).open_at(plan.node(holder)).await
}

fn held<S: Store>(plan: &Plan<S>, version: Version, bytes: u64) -> Held<S> {
    let (replica, key) = (Rc::clone(&plan.replica), plan.key.clone());
    Held { replica, key, version, bytes, trace: plan.trace, others: Vec::new() }
}

/// Copies a large value from one replica to another; from a third one if that fails.
pub(super) async fn copy_large<S: Store>(
    plan: &Plan<S>,
    stamp: Stamp,
    (held, to): (HeldValue, usize),
    copying: &mut Copying,
) -> Result<WriteAnswer, NotCopied> {
    copying.begin().await?;
    copy_once(plan, stamp, (held.holder, to), open_held(plan, stamp.version, held), copying).await
}

/// The same once its turn has begun, from the replica where it is opened, through the memory of a piece.
pub(super) async fn copy_once<S: Store>(
    plan: &Plan<S>,
    stamp: Stamp,
    (holder, to): (usize, usize),
    opening: impl Future<Output = Result<Option<Box<dyn Pieces>>, StoreError>>,
    copying: &mut Copying,
) -> Result<WriteAnswer, NotCopied> {
    let failed = |error: StoreError| NotCopied::BySource(Failure::Refused(refusal(&error)));
    // A place here, as for a client's value; peers look after theirs.
    let (node, own) = (&plan.replica, plan.cluster().own);
    // No other client gives way for it.
    let enter = |gate: &Gate| gate.enter_if_room(Address::Own, 1).map_err(|_| NotCopied::NoTurn);
    let source = (plan.node(holder) == own).then(|| enter(&node.streams)).transpose()?;
    let place = (plan.node(to) == own).then(|| enter(&node.uploads)).transpose()?;
    for permit in [&source, &place].into_iter().flatten() {
        permit.granted().await;
    }
    let Some(mut pieces) = opening.await.map_err(failed)? else { return Err(NotCopied::Gone) };
    let mut target = Target::open(plan, to).await.map_err(NotCopied::by_target)?;
    while let Some((bytes, rest)) = pieces.next().await.map_err(failed)? {
        copying.piece(&plan.cluster().pace, bytes.len() as u64).await?;
        target = target.write(plan, bytes).await.map_err(NotCopied::by_target)?;
        pieces = rest;
    }
    drop((source, place));
    let finished = target.finish(plan, stamp, Origin::Repair);
    within(plan.cluster().limits.quorum_timeout_ms, finished).await.map_err(NotCopied::by_target)
}

/// Takes a large value over from a peer, through the memory of a piece. Answers what this node said to it.
pub(crate) async fn take_large<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    link: &Rc<PeerLink>,
    key: &Bytes,
    stamp: Stamp,
) -> Result<WriteAnswer, Refusal> {
    let refused = |error: StoreError| refusal(&error);
    let Some(mut pieces) = open_remote((link, None), key, stamp.version).await.map_err(refused)? else {
        let expired_before_ms = replica.cluster.versions.expired_before_ms();
        if expired_before_ms.is_some_and(|before_ms| stamp.is_expired(before_ms)) {
            // It has lost its bytes by now, and is to be here all the same: it may hide something older.
            return replica::apply(replica, (key, stamp, None), (Origin::Exchange, None))?.await;
        }
        // Replaced since it was listed: what replaced it is listed another time.
        return Ok(WriteAnswer::Applied);
    };
    let mut upload = replica.store.upload().await.map_err(refused)?;
    while let Some((piece, rest)) = pieces.next().await.map_err(refused)? {
        replica.cluster.pace.draw_piece(piece.len() as u64).await;
        upload = upload.write(piece).await.map_err(refused)?;
        pieces = rest;
    }
    let finished = upload.finish().await.map_err(refused)?;
    let origin = (Origin::Exchange, None);
    let arrival = replica::arrival(replica, key, stamp.version, origin);
    replica::apply_upload(replica, (key, stamp), finished, arrival, origin).await
}
