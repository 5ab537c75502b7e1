use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{NodeId, Origin, Refusal, WriteAnswer};
use ladoga_model::Stamp;

use super::held_pieces::Held;
use super::plan::nodes_of;
use crate::own::{FinishedUpload, OwnReplica, refusal, replica};
use ladoga_local::store::{LocalStore, Store, StoreError, Upload};

/// How long anti-entropy waits for a source that is over capacity before it asks again. Its clients need that capacity too.
pub(crate) const ASK_AGAIN_AFTER_MS: u64 = 500;
/// How often it does for a large value: for half a minute, as any answer to anti-entropy is waited for.
const ASKED_AGAIN_MAX: usize = 60;

/// Why a large value was not taken over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The peer does not have it any more.
    Gone,
    /// Neither the peer nor another node gives it: what the peer says.
    BySource(StoreError),
    /// This node does not store it.
    Here(Refusal),
}

impl NotTaken {
    /// Whether it may be taken later: the source has no place for it now, or this node has too much to do.
    const fn is_for_lack_of_room(&self) -> bool {
        matches!(
            self,
            NotTaken::BySource(StoreError::OverCapacity { .. }) | NotTaken::Here(Refusal::OverCapacity)
        )
    }
}

impl From<Refusal> for NotTaken {
    fn from(refusal: Refusal) -> NotTaken {
        NotTaken::Here(refusal)
    }
}

/// Takes a large value of so many bytes over from a peer, or else from another node that has it, through the memory of a piece. Answers
/// what this node said to it. If all places of the peer for large values are taken, or a queue of this node is full, it begins anew later.
pub(crate) async fn take_large<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    peer: NodeId,
    key: &Bytes,
    (stamp, bytes): (Stamp, u64),
) -> Result<WriteAnswer, NotTaken> {
    let mut asked_again = 0;
    let finished = loop {
        match upload_from(replica, peer, key, (stamp, bytes)).await {
            Err(error) if error.is_for_lack_of_room() && asked_again < ASKED_AGAIN_MAX => {
                asked_again += 1;
                tokio::time::sleep(Duration::from_millis(ASK_AGAIN_AFTER_MS)).await;
            }
            finished => break finished?,
        }
    };
    let origin = (Origin::Exchange, None);
    let arrival = replica::arrival(replica, key, stamp.version, origin);
    Ok(replica::apply_upload(replica, (key, stamp), finished, arrival, origin).await?)
}

async fn upload_from<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    peer: NodeId,
    key: &Bytes,
    (stamp, bytes): (Stamp, u64),
) -> Result<FinishedUpload<S>, NotTaken> {
    let cluster = &replica.cluster;
    let here = |error: StoreError| NotTaken::Here(refusal(&error));
    let holders = cluster.placement.replicas(key, nodes_of(replica, stamp.copies) as usize);
    let others = holders.iter().copied().rev().filter(|&node| node != peer && node != cluster.own);
    let held = Held {
        replica: Rc::clone(replica),
        key: key.clone(),
        version: stamp.version,
        bytes,
        trace: None,
        others: others.collect(),
    };
    // The peer gets half of it.
    let until_ms = replica.core.now_ms() + 2 * cluster.limits.quorum_timeout_ms;
    let opened = held.open(peer, until_ms).await.map_err(NotTaken::BySource)?;
    let Some(mut pieces) = opened else { return Err(NotTaken::Gone) };
    let mut upload = replica.store.upload().await.map_err(here)?;
    while let Some((piece, rest)) = pieces.next().await.map_err(NotTaken::BySource)? {
        cluster.pace.draw_piece(piece.len() as u64).await;
        upload = upload.write(piece).await.map_err(here)?;
        pieces = rest;
    }
    upload.finish().await.map_err(here)
}
