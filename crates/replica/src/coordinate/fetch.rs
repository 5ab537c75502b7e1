use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{Failure, Origin, WriteAnswer};
use ladoga_model::{self as model, Cell, Stamp, Version};
use ladoga_runtime::{Address, Gate};

use super::failures::within;
use super::held_pieces::Held;
use super::plan::Plan;
use super::target::Target;
use crate::bounds::{Copying, NotCopied};
use crate::own::refusal;
use ladoga_local::store::{LargeValue, Pieces, Store, StoreError, Value};

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

/// Opens a large value at the replica that showed it, or else at any other that has it: see [`Held::open`].
pub(super) async fn open_held<S: Store>(
    plan: &Plan<S>,
    version: Version,
    HeldValue { bytes, holder }: HeldValue,
) -> Result<Option<Box<dyn Pieces>>, StoreError> {
    let first = plan.node(holder);
    let others = plan.nodes().iter().copied().rev().filter(|&node| node != first).collect();
    Held { others, ..held(plan, version, bytes) }.open(first, plan.until_ms()).await
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
