use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::NodeId;
use ladoga_model::{TraceContext, Version};

use super::remote_pieces::{behind, is_late, no_answer, open_remote};
use crate::own::OwnReplica;
use crate::own::replica::large_value_of;
use ladoga_local::store::{Later, LocalStore, Piece, Pieces, Store, StoreError};

/// A large value that several nodes may have.
pub(super) struct Held<S: Store> {
    pub(super) replica: Rc<OwnReplica<S>>,
    pub(super) key: Bytes,
    pub(super) version: Version,
    pub(super) bytes: u64,
    pub(super) trace: Option<TraceContext>,
    /// Those that were not asked for it yet; the last one is the next.
    pub(super) others: Vec<NodeId>,
}

impl<S: Store> Held<S> {
    /// Opens it at the node that showed it, or else at any other that has it, and goes on at those if it fails later. Each gets half of
    /// the time that is left, so that one whose disk hangs leaves some for another.
    pub(super) async fn open(
        mut self,
        first: NodeId,
        until_ms: u64,
    ) -> Result<Option<Box<dyn Pieces>>, StoreError> {
        let mut opened = self.open_in_half_of(until_ms, first).await;
        while opened.is_err()
            && let Some(node) = self.others.pop()
        {
            if let Ok(Some(pieces)) = self.open_in_half_of(until_ms, node).await {
                opened = Ok(Some(pieces));
            }
        }
        Ok(opened?.map(|pieces| -> Box<dyn Pieces> { Box::new(HeldPieces::new(self, pieces)) }))
    }

    async fn open_in_half_of(
        &self,
        until_ms: u64,
        node: NodeId,
    ) -> Result<Option<Box<dyn Pieces>>, StoreError> {
        let left_ms = until_ms.saturating_sub(self.replica.core.now_ms()) / 2;
        let opened = tokio::time::timeout(Duration::from_millis(left_ms), self.open_at(node)).await;
        let late = || no_answer(&self.replica.cluster.node_url(node), &is_late(left_ms));
        opened.unwrap_or_else(|_| Err(late()))
    }

    /// Opens it at a node; `None` if it has been replaced there.
    pub(super) async fn open_at(&self, node: NodeId) -> Result<Option<Box<dyn Pieces>>, StoreError> {
        let (replica, key) = (&self.replica, &self.key);
        if node != replica.cluster.own {
            return open_remote((replica.peers.link(node), self.trace), key, self.version).await;
        }
        let found = replica.store.get_cell(key).wait().await?;
        Ok(large_value_of(found, self.version))
    }
}

/// The bytes of it, from one of them. If that fails, another one that has it goes on from there.
pub(super) struct HeldPieces<S: Store> {
    held: Held<S>,
    /// How many bytes have been passed on, or over.
    passed: u64,
    pieces: Box<dyn Pieces>,
}

impl<S: Store> HeldPieces<S> {
    /// All of it, as it was opened at a node that is not among the others.
    pub(super) fn new(held: Held<S>, pieces: Box<dyn Pieces>) -> HeldPieces<S> {
        HeldPieces { held, passed: 0, pieces }
    }
}

impl<S: Store> Pieces for HeldPieces<S> {
    fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let HeldPieces { mut held, passed, pieces } = *self;
        // Asked for at once, although the piece before it may be waited for.
        let asked = pieces.next();
        Box::pin(async move {
            let mut next = asked.await;
            loop {
                let error = match next {
                    Ok(None) if passed >= held.bytes => return Ok(None),
                    Ok(None) => StoreError::Unreadable {
                        reason: format!("the value ended after {passed} bytes, expected {}", held.bytes),
                    },
                    Ok(Some((bytes, pieces))) => {
                        let passed = passed + bytes.len() as u64;
                        let rest: Box<dyn Pieces> = Box::new(HeldPieces { held, passed, pieces });
                        return Ok(Some((bytes, rest)));
                    }
                    // Only its end was still to come.
                    Err(_) if passed == held.bytes => return Ok(None),
                    Err(error) => error,
                };
                let Some(node) = held.others.pop() else { return Err(error) };
                next = match held.open_at(node).await {
                    Ok(Some(mut pieces)) => {
                        let comes = pieces.skip(passed);
                        // If all fail, the first one is told of: it is this node, if that has it, which names the file.
                        behind(pieces.next().await, comes).await.map_err(|_| error)
                    }
                    Ok(None) | Err(_) => Err(error),
                };
            }
        })
    }

    fn skip(&mut self, bytes: u64) -> u64 {
        let comes = self.pieces.skip(bytes);
        self.passed += bytes - comes;
        comes
    }
}
