use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{NodeId, Origin, SentCell};
use ladoga_model::{Cell, Stamp, Value};

use super::failures::{failure, within};
use super::held_pieces::{Held, HeldPieces};
use super::remote_pieces::{not_given, open_remote, unreadable};
use crate::own::OwnReplica;
use crate::wire::{Answer, Request};
use ladoga_local::store::{LargeValue, LocalStore, Store, StoreError, StoredCell};

/// How often a value is asked for that is replaced faster than it can be opened.
const MERGED_OPENS_MAX: usize = 8;

/// Opens a large value at one of its holders. If it has been replaced at all that can be asked, this is what has taken its place, which
/// may be a deletion.
pub(super) async fn open_merged<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    others: Vec<NodeId>,
    (key, stamp, bytes): (Bytes, Stamp, u64),
) -> Result<StoredCell, StoreError> {
    let replica_of = Rc::clone(replica);
    let mut held = Held { replica: replica_of, key, version: stamp.version, bytes, trace: None, others };
    let (mut replaced_at, mut failed) = (None, None);
    while let Some(holder) = held.others.pop() {
        match held.open_at(holder).await {
            Ok(Some(pieces)) => {
                let pieces = Box::new(HeldPieces::new(held, pieces));
                return Ok(Cell { stamp, value: Some(Value::Large(LargeValue { bytes, pieces })) });
            }
            Ok(None) => replaced_at = Some(holder),
            Err(error) => failed = Some(error),
        }
    }
    match replaced_at {
        Some(node) => newest_at(replica, node, held.key, stamp).await,
        None => Err(failed.expect("a record is of a node")),
    }
}

/// What a node has by now of a key of which it had a cell with this stamp. If that is nothing, the key was deleted, and the deletion is
/// dropped by now; unless the node lacks some of what it acknowledged.
async fn newest_at<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    node: NodeId,
    key: Bytes,
    replaced: Stamp,
) -> Result<StoredCell, StoreError> {
    let lost = || {
        let what = format!("the large value of {} is not there any more", key.escape_ascii());
        unreadable(&replica.cluster.node_url(node), &what)
    };
    let dropped = |is_whole| if is_whole { Ok(Cell { stamp: replaced, value: None }) } else { Err(lost()) };
    if node == replica.cluster.own {
        let found = replica.store.get_cell(&key).wait().await?;
        let Some(cell) = found else { return dropped(replica.cluster.stability().has_all()) };
        if cell.stamp.version < replaced.version {
            return Err(lost());
        }
        return Ok(cell);
    }
    let link = replica.peers.link(node);
    let request = Request::Read { key: key.clone(), digest: false, origin: Origin::Repair };
    for _ in 0..MERGED_OPENS_MAX {
        let asked = link.ask(&request);
        let asked = async move { asked.await.map_err(|error| failure(&error)) };
        let said = within(link.cluster.limits.quorum_timeout_ms, asked).await;
        let said = said.map_err(|failure| not_given(link.url(), failure))?;
        let Answer::Read(answer) = said else { return Err(lost()) };
        let (stamp, value) = match answer.cell {
            Some(SentCell::Whole(Cell { stamp, value })) => (stamp, value),
            None => return dropped(answer.is_whole),
            Some(SentCell::Digest(_)) => return Err(lost()),
        };
        if stamp.version < replaced.version {
            return Err(lost());
        }
        let value = match value {
            Some(Value::Large(bytes)) => {
                let opened = open_remote((link, None), &key, stamp.version).await?;
                let Some(pieces) = opened else { continue };
                Some(Value::Large(LargeValue { bytes, pieces }))
            }
            Some(Value::Inline(value)) => Some(Value::Inline(value)),
            None => None,
        };
        return Ok(Cell { stamp, value });
    }
    Err(unreadable(link.url(), &"a large value is replaced faster than it can be read"))
}
