use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{NodeId, Partition, Prune, Refusal, WriteAnswer};
use ladoga_model::{Stamp, Version};

use super::fenced::{self, Patience};
use crate::own::replica;
use crate::own::{OwnReplica, refusal};
use crate::wire::{Record, put_mark, take_record};
use ladoga_local::store::{LocalStore, Store};

/// Deletes here what a peer should hold and does not have: see [`Prune`]. Answers the keys of which promises keep that out. All of them
/// share the patience: everything else waits meanwhile.
pub(super) async fn prune<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    peer: NodeId,
    prune: &Prune<Bytes>,
    patience: &mut Patience,
) -> Result<Vec<Bytes>, Refusal> {
    let cluster = &replica.cluster;
    let mut promised = Vec::new();
    let behind = |key: &Bytes| Bytes::from([&key[..], &[0]].concat());
    let start = prune.after.as_ref().map_or_else(Bytes::new, behind);
    let mut pieces = replica.store.cells(start, prune.until.as_ref().map(behind), put_mark);
    while let Some((mut bytes, rest)) = pieces.next().await.map_err(|error| refusal(&error))? {
        pieces = rest;
        while let Some(Record { key, cell }) = take_record(&mut bytes).map_err(|_| Refusal::Unreadable)? {
            let mark = cell.mark();
            let is_shared = cluster.placement.both_hold(Partition::of(&key), [peer, cluster.own], mark);
            if !is_shared || !prune.takes(&key, mark) {
                continue;
            }
            cluster.pace.draw_cell(0).await;
            // Newer than the value, and than nothing else.
            let stamp = Stamp::new(Version { node: u16::MAX, ..cell.stamp.version });
            let delete = async || match replica::apply_pulled(replica, (&key, stamp, None)).await {
                // It is not missed: see `ladoga_cluster::SyncSession::refusing_before`.
                Err(Refusal::TooOld { .. }) => Ok(WriteAnswer::Applied),
                deleted => deleted,
            };
            if let WriteAnswer::Fenced { fence } = delete().await? {
                let kept_out = Stamp { copies: cell.stamp.copies, ..stamp };
                if !fenced::replace(replica, (&key, kept_out), fence, patience, delete).await? {
                    promised.push(key);
                }
            }
        }
    }
    Ok(promised)
}
