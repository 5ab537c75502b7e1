use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{Failure, Refusal};
use ladoga_local::store::{Later, Piece, Pieces, StoreError};
use ladoga_model::{TraceContext, Version};
use ladoga_service::TooFewReplicas;
use tokio::time::Instant;

use crate::link::{PeerError, PeerLink, RemoteStream};
use crate::wire::{Answer, Request, SKIPS_SINCE};

/// How many times as long as an answer to a client a piece of cells is waited for: there may be much that is older between them.
const CELLS_PATIENCE: u64 = 4;

/// Opens a large value at a peer; `None` if it has been replaced there.
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

/// What clients are told whose value or range a peer has no room to give: they are to come back.
const NO_ROOM: &str = "the large values and ranges that are read from another node";

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
pub(super) fn no_answer(url: &str, why: &dyn std::fmt::Display) -> StoreError {
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

pub(super) fn is_late(limit_ms: u64) -> String {
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
                // It had to make room for others.
                Ok(Answer::Gone) => {
                    Err(not_given(self.stream.link().url(), Failure::Refused(Refusal::OverCapacity)))
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
