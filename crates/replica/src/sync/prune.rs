use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{NodeId, Partition, Prune, Refusal, WriteAnswer};
use ladoga_model::{Stamp, Version};

use super::fenced;
use crate::own::replica;
use crate::own::{OwnReplica, refusal};
use crate::wire::{Record, put_mark, take_record};
use ladoga_local::store::{LocalStore, Store};

/// Deletes here what a peer should hold and does not have: see [`Prune`]. Answers the keys of which promises keep that out.
pub(super) async fn prune<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    peer: NodeId,
    prune: &Prune<Bytes>,
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
            match replica::apply_pulled(replica, (&key, stamp, None)).await {
                Ok(WriteAnswer::Fenced { fence }) => {
                    let kept_out = (stamp.version, cell.stamp.copies);
                    if !fenced::replace(replica, &key, kept_out, fence).await? {
                        promised.push(key);
                    }
                }
                Ok(_) | Err(Refusal::TooOld { .. }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
    }
    Ok(promised)
}
