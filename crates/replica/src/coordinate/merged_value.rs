use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{NodeId, Origin, SentCell};
use ladoga_model::{Cell, Stamp, Value, Version};

use super::failures::{failure, within};
use super::fetch::{behind, open_remote, unreadable};
use crate::own::OwnReplica;
use crate::own::replica::large_value_of;
use crate::wire::{Answer, Request};
use ladoga_local::store::{LocalStore, Pieces, Store, StoreError};

/// How often a value is asked for that is replaced faster than it can be opened.
const MERGED_OPENS_MAX: usize = 8;

/// A large value of a range over all nodes, as it is read from one of those that have it.
pub(super) struct MergedValue {
    pub(super) bytes: u64,
    /// How many of them have been passed on.
    passed: u64,
    pieces: Box<dyn Pieces>,
    key: Bytes,
    version: Version,
    /// Others that have it.
    others: Vec<NodeId>,
}

/// A cell with the large value opened.
type MergedCell = Cell<Bytes, MergedValue>;

/// Opens a large value at one of its holders. If it has been replaced at all that can be asked, this is what has taken its place, which
/// may be a deletion.
pub(super) async fn open_merged<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    mut others: Vec<NodeId>,
    (key, stamp, bytes): (Bytes, Stamp, u64),
) -> Result<MergedCell, StoreError> {
    let version = stamp.version;
    let (mut replaced_at, mut failed) = (None, None);
    while let Some(holder) = others.pop() {
        match open_at(replica, holder, &key, version).await {
            Ok(Some(pieces)) => {
                let value = MergedValue { bytes, passed: 0, pieces, key, version, others };
                return Ok(Cell { stamp, value: Some(Value::Large(value)) });
            }
            Ok(None) => replaced_at = Some(holder),
            Err(error) => failed = Some(error),
        }
    }
    match replaced_at {
        Some(node) => newest_at(replica, node, key, stamp).await,
        None => Err(failed.expect("a record is of a node")),
    }
}

async fn open_at<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    node: NodeId,
    key: &Bytes,
    version: Version,
) -> Result<Option<Box<dyn Pieces>>, StoreError> {
    if node != replica.cluster.own {
        return open_remote((replica.peers.link(node), None), key, version).await;
    }
    let found = replica.store.get_cell(key).wait().await?;
    Ok(large_value_of(found, version))
}

/// What a node has by now of a key of which it had a cell with this stamp. If that is nothing, the key was deleted, and the deletion is
/// dropped by now; unless the node lacks some of what it acknowledged.
async fn newest_at<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    node: NodeId,
    key: Bytes,
    replaced: Stamp,
) -> Result<MergedCell, StoreError> {
    let lost = || {
        let what = format!("the large value of {} is not there any more", key.escape_ascii());
        unreadable(&replica.cluster.node_url(node), &what)
    };
    let dropped = |is_whole| if is_whole { Ok(Cell { stamp: replaced, value: None }) } else { Err(lost()) };
    let of = |version, bytes, pieces| {
        let key = key.clone();
        MergedValue { bytes, passed: 0, pieces, key, version, others: Vec::new() }
    };
    if node == replica.cluster.own {
        let found = replica.store.get_cell(&key).wait().await?;
        let Some(cell) = found else { return dropped(replica.cluster.stability().has_all()) };
        let version = cell.stamp.version;
        if version < replaced.version {
            return Err(lost());
        }
        return Ok(cell.map_large(|large| of(version, large.bytes, large.pieces)));
    }
    let link = replica.peers.link(node);
    let request = Request::Read { key: key.clone(), digest: false, origin: Origin::Repair };
    for _ in 0..MERGED_OPENS_MAX {
        let asked = link.ask(&request);
        let asked = async move { asked.await.map_err(|error| failure(&error)) };
        let said = within(link.cluster.limits.quorum_timeout_ms, asked).await;
        let said = said.map_err(|failure| unreadable(link.url(), &failure))?;
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
                Some(Value::Large(of(stamp.version, bytes, pieces)))
            }
            Some(Value::Inline(value)) => Some(Value::Inline(value)),
            None => None,
        };
        return Ok(Cell { stamp, value });
    }
    Err(unreadable(link.url(), &"a large value is replaced faster than it can be read"))
}

impl MergedValue {
    /// Its next bytes, and what follows them. If the node that it is read from fails, another one that has it goes on from there.
    pub(super) async fn next<S: Store>(
        mut self,
        replica: &Rc<OwnReplica<S>>,
    ) -> Result<Option<(Bytes, MergedValue)>, StoreError> {
        let mut next = self.pieces.next().await;
        loop {
            let error = match next {
                Ok(None) => return Ok(None),
                Ok(Some((bytes, pieces))) => {
                    let passed = self.passed + bytes.len() as u64;
                    return Ok(Some((bytes, MergedValue { passed, pieces, ..self })));
                }
                // Only its end was still to come.
                Err(_) if self.passed == self.bytes => return Ok(None),
                Err(error) => error,
            };
            let Some(node) = self.others.pop() else { return Err(error) };
            next = match open_at(replica, node, &self.key, self.version).await {
                Ok(Some(mut pieces)) => {
                    let passed = pieces.skip(self.passed);
                    behind(pieces.next().await, passed).await
                }
                Ok(None) | Err(_) => Err(error),
            };
        }
    }
}
