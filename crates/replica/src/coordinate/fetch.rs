use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{Failure, Origin, Refusal, WriteAnswer};
use ladoga_model::{self as model, Cell, Stamp, TraceContext, Version};
use ladoga_runtime::{Address, Gate};

use super::plan::Plan;
use super::target::Target;
use crate::bounds::Copying;
use crate::link::{PeerLink, RemoteStream};
use crate::own::{OwnReplica, refusal, replica};
use crate::wire::{Answer, Request, SKIPS_SINCE};
use ladoga_local::store::{LargeValue, Later, LocalStore, Piece, Pieces, Store, StoreError, Upload, Value};

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
        model::Value::Large(HeldValue { bytes, holder }) => {
            let pieces = open_large(plan, version, holder).await?;
            Ok(pieces.map(|pieces| Value::Large(LargeValue { bytes, pieces })))
        }
    }
}

pub(super) async fn open_large<S: Store>(
    plan: &Plan<S>,
    version: Version,
    holder: usize,
) -> Result<Option<Box<dyn Pieces>>, StoreError> {
    if plan.node(holder) != plan.cluster().own {
        return open_remote((plan.link(holder), plan.trace), &plan.key, version).await;
    }
    let found = plan.replica.store.get_cell(&plan.key).wait().await?;
    Ok(replica::large_value_of(found, version))
}

pub(super) async fn open_remote(
    (link, of): (&Rc<PeerLink>, Option<TraceContext>),
    key: &Bytes,
    version: Version,
) -> Result<Option<Box<dyn Pieces>>, StoreError> {
    match link.open((&Request::OpenValue { key: key.clone(), version }, of)).await {
        Ok(stream) => Ok(Some(Box::new(RemotePieces::new(stream)))),
        Err(Ok(Answer::Gone)) => Ok(None),
        Err(Ok(Answer::Refused(refusal))) => Err(unreadable(link, &refusal)),
        Err(Ok(_)) => Err(unreadable(link, &"it answers something else")),
        Err(Err(error)) => Err(unreadable(link, &error)),
    }
}

fn unreadable(link: &PeerLink, why: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unreadable { reason: format!("{}: {why}", link.url()) }
}

/// What a peer streams.
pub(super) struct RemotePieces {
    stream: RemoteStream,
    /// Bytes that the peer is to pass over before the next piece.
    skip: u64,
}

impl RemotePieces {
    pub(super) const fn new(stream: RemoteStream) -> RemotePieces {
        RemotePieces { stream, skip: 0 }
    }
}

impl Pieces for RemotePieces {
    fn next(mut self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let skip = std::mem::take(&mut self.skip);
        let asked = self.stream.ask(|stream| Request::Next { stream, skip });
        Box::pin(async move {
            match asked.await {
                Ok(Answer::Piece(bytes)) => Ok(Some((bytes, self as Box<dyn Pieces>))),
                Ok(Answer::End) => {
                    self.stream.mark_closed();
                    Ok(None)
                }
                Ok(Answer::Refused(refusal)) => Err(unreadable(self.stream.link(), &refusal)),
                Ok(_) => Err(unreadable(self.stream.link(), &"the stream is not there any more")),
                Err(error) => Err(unreadable(self.stream.link(), &error)),
            }
        })
    }

    fn skip(&mut self, bytes: u64) -> u64 {
        if self.stream.link().version.get() < SKIPS_SINCE {
            return bytes;
        }
        self.skip += bytes;
        0
    }
}

/// Copies a large value from one replica to another, through the memory of a piece.
pub(super) async fn copy_large<S: Store>(
    plan: &Plan<S>,
    stamp: Stamp,
    (holder, to): (usize, usize),
    copying: &mut Copying,
) -> Result<WriteAnswer, Failure> {
    let refused = |error: StoreError| Failure::Refused(refusal(&error));
    copying.begin().await?;
    // A place here, as for a client's value; peers look after theirs.
    let (node, own) = (&plan.replica, plan.cluster().own);
    // No other client gives way for it.
    let enter = |gate: &Gate| {
        gate.enter_if_room(Address::Own, 1).map_err(|_| Failure::Refused(Refusal::OverCapacity))
    };
    let source = (plan.node(holder) == own).then(|| enter(&node.streams)).transpose()?;
    let place = (plan.node(to) == own).then(|| enter(&node.uploads)).transpose()?;
    for permit in [&source, &place].into_iter().flatten() {
        permit.granted().await;
    }
    let pieces = open_large(plan, stamp.version, holder).await.map_err(refused)?;
    // Replaced since then: what replaced it is repaired by who finds it missing.
    let Some(mut pieces) = pieces else { return Err(Failure::Broken) };
    let mut target = Target::open(plan, to).await?;
    while let Some((bytes, rest)) = pieces.next().await.map_err(refused)? {
        copying.piece(&plan.cluster().pace, bytes.len() as u64).await?;
        target = target.write(bytes).await?;
        pieces = rest;
    }
    drop((source, place));
    target.finish(plan, stamp, Origin::Repair).await
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
    let arrival = replica::arrival(replica, key, stamp.version, Origin::Exchange);
    let origin = (Origin::Exchange, None);
    replica::apply_upload(replica, (key, stamp), finished, arrival, origin).await
}
