use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{Failure, Origin, Refusal, WriteAnswer};
use ladoga_model::{self as model, Cell, Stamp, TraceContext, Version};
use ladoga_runtime::{Address, Gate};
use ladoga_service::TooFewReplicas;
use tokio::time::Instant;

use super::failures::within;
use super::held_pieces::{Held, HeldPieces};
use super::plan::Plan;
use super::target::Target;
use crate::bounds::{Copying, NotCopied};
use crate::link::{PeerError, PeerLink, RemoteStream};
use crate::own::{OwnReplica, refusal, replica};
use crate::wire::{Answer, Request, SKIPS_SINCE};
use ladoga_local::store::{LargeValue, Later, LocalStore, Piece, Pieces, Store, StoreError, Upload, Value};

/// How many times as long as an answer to a client a piece of cells is waited for: there may be much that is older between them.
const CELLS_PATIENCE: u64 = 4;

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

pub(super) async fn open_remote(
    (link, of): (&Rc<PeerLink>, Option<TraceContext>),
    key: &Bytes,
    version: Version,
) -> Result<Option<Box<dyn Pieces>>, StoreError> {
    let limit_ms = link.cluster.limits.quorum_timeout_ms;
    let opening = link.open((&Request::OpenValue { key: key.clone(), version }, of));
    let Ok(opened) = tokio::time::timeout(Duration::from_millis(limit_ms), opening).await else {
        return Err(no_answer(link.url(), &is_late(limit_ms)));
    };
    match opened {
        Ok(stream) => Ok(Some(Box::new(RemotePieces::of_value(stream, limit_ms)))),
        Err(Ok(Answer::Gone)) => Ok(None),
        Err(Ok(Answer::Refused(refusal))) => Err(not_given(link.url(), Failure::Refused(refusal))),
        Err(Ok(_)) => Err(no_answer(link.url(), &"answers something else")),
        Err(Err(error)) => Err(not_reached(link.url(), &error)),
    }
}

/// What clients are told whose value a peer has no room to give: they are to come back.
const NO_ROOM: &str = "the large values that are read from another node";

/// A peer fails to give what it has. Unless it says that it cannot read it, nothing is wrong with that.
pub(super) fn not_given(url: &str, failure: Failure) -> StoreError {
    match failure {
        Failure::Refused(Refusal::Unreadable) => unreadable(url, &Refusal::Unreadable),
        Failure::Refused(Refusal::OverCapacity) => StoreError::OverCapacity { bound: NO_ROOM },
        failure => no_answer(url, &failure),
    }
}

/// The same in the words of the connection.
fn not_reached(url: &str, error: &PeerError) -> StoreError {
    match error {
        PeerError::Full { .. } => StoreError::OverCapacity { bound: NO_ROOM },
        error => no_answer(url, error),
    }
}

/// The one node that was asked does not answer, for this reason.
fn no_answer(url: &str, why: &dyn std::fmt::Display) -> StoreError {
    StoreError::TooFewReplicas(Box::new(TooFewReplicas {
        acked: 0,
        required: 1,
        asked: 1,
        failures: vec![(url.to_owned(), why.to_string())],
        may_have_happened: false,
    }))
}

/// A value is at a node, which cannot read it, or has lost it.
pub(super) fn unreadable(url: &str, why: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unreadable { reason: format!("{url}: {why}") }
}

fn is_late(limit_ms: u64) -> String {
    format!("no answer within {limit_ms} ms")
}

/// What a peer streams.
pub(super) struct RemotePieces {
    stream: RemoteStream,
    /// Bytes that the peer is to pass over before the next piece.
    skip: u64,
    /// How long a piece is waited for. A peer whose disk hangs shows that it is alive, and would be waited for as long as it does.
    limit_ms: u64,
}

impl RemotePieces {
    pub(super) fn of_cells(stream: RemoteStream) -> RemotePieces {
        let limit_ms = CELLS_PATIENCE * stream.link().cluster.limits.quorum_timeout_ms;
        RemotePieces { stream, skip: 0, limit_ms }
    }

    const fn of_value(stream: RemoteStream, limit_ms: u64) -> RemotePieces {
        RemotePieces { stream, skip: 0, limit_ms }
    }
}

impl Pieces for RemotePieces {
    fn next(mut self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let skip = std::mem::take(&mut self.skip);
        let asked = self.stream.ask(|stream| Request::Next { stream, skip });
        // From now on, although others may be waited for before.
        let until = Instant::now() + Duration::from_millis(self.limit_ms);
        Box::pin(async move {
            let Ok(answer) = tokio::time::timeout_at(until, asked).await else {
                return Err(no_answer(self.stream.link().url(), &is_late(self.limit_ms)));
            };
            match answer {
                Ok(Answer::Piece(bytes)) => Ok(Some((bytes, self as Box<dyn Pieces>))),
                Ok(Answer::End) => {
                    self.stream.mark_closed();
                    Ok(None)
                }
                Ok(Answer::Refused(refusal)) => {
                    Err(not_given(self.stream.link().url(), Failure::Refused(refusal)))
                }
                Ok(_) => Err(no_answer(self.stream.link().url(), &"has closed the stream")),
                Err(error) => Err(not_reached(self.stream.link().url(), &error)),
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

/// The next piece, without the first so many bytes of what comes, which may be all of several pieces.
pub(crate) async fn behind(
    mut next: Result<Option<Piece>, StoreError>,
    mut passed: u64,
) -> Result<Option<Piece>, StoreError> {
    loop {
        match next? {
            Some((bytes, rest)) if passed > 0 && passed >= bytes.len() as u64 => {
                passed -= bytes.len() as u64;
                next = rest.next().await;
            }
            Some((bytes, rest)) => return Ok(Some((bytes.slice(passed as usize..), rest))),
            None => return Ok(None),
        }
    }
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
