use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use ladoga_cluster::{AsOf, KeyVersion, LIST_BYTES_MAX, NodeId, Partition, Refusal};

use super::asked::Asked;
use super::session::Session;
use crate::cluster::Cluster;
use crate::membership::PeerLimits;
use crate::own::refusal;
use crate::wire::{Answer, Record, put_mark, take_record};
use ladoga_local::store::{LocalStore, Pieces, Store, StoreError};
use ladoga_model::CellMark;

/// A page of the keys and versions that this node and a peer both hold.
pub(super) fn list<S: Store>(
    session: &Rc<Session<S>>,
    asked: Asked<S>,
    (slice, partitions, after): (AsOf, Vec<Partition>, Bytes),
) {
    let Some(peer) = session.peer_id() else { return };
    let stability = session.cluster.stability();
    if stability.holds_up_pulls_of(peer) {
        return session.answer(asked.number, &Answer::Refused(Refusal::Rebuilding));
    }
    if !session.account.repair_begins() {
        return session.answer(asked.number, &Answer::Refused(Refusal::OverCapacity));
    }
    let mut start = BytesMut::from(&after[..]);
    if !after.is_empty() {
        start.extend_from_slice(&[0]);
    }
    // Only versions are listed; values stay on the disk.
    let pieces = session.replica.store.cells(start.freeze(), None, put_mark);
    let of = Wanted { peer, slice, partitions, tells_of_all: stability.tells_of_all() };
    let listing = Listing { of, entries: Vec::new(), bytes: 0, scanned: 0, last: None };
    let cluster = std::sync::Arc::clone(&session.cluster);
    let listed = Rc::clone(session);
    session.answer_later(asked, async move {
        let page = listing.page(&cluster, pieces).await;
        listed.account.repair_is_answered();
        page.unwrap_or_else(|error| Answer::Refused(refusal(&error)))
    });
}

/// What the peer is to be told of.
struct Wanted {
    peer: NodeId,
    slice: AsOf,
    partitions: Vec<Partition>,
    /// Whether also of what this node should not hold itself; and of what is for at least so many nodes.
    tells_of_all: Option<u8>,
}

struct Listing {
    of: Wanted,
    entries: Vec<KeyVersion<Bytes>>,
    bytes: usize,
    scanned: usize,
    /// The last key that was scanned.
    last: Option<Bytes>,
}

impl Listing {
    async fn page(mut self, cluster: &Cluster, mut pieces: Box<dyn Pieces>) -> Result<Answer, StoreError> {
        while let Some((mut bytes, rest)) = pieces.next().await? {
            pieces = rest;
            let damaged =
                |error: crate::wire::FrameError| StoreError::Unreadable { reason: error.to_string() };
            while let Some(record) = take_record(&mut bytes).map_err(damaged)? {
                self.look_at(cluster, record);
                if self.is_full(&cluster.limits) {
                    cluster.pace.draw_page(self.entries.len(), self.scanned).await;
                    return Ok(Answer::List { entries: self.entries, next: self.last });
                }
            }
        }
        cluster.pace.draw_page(self.entries.len(), self.scanned).await;
        Ok(Answer::List { entries: self.entries, next: None })
    }

    fn is_full(&self, limits: &PeerLimits) -> bool {
        self.entries.len() >= limits.list_keys_max
            || self.bytes >= LIST_BYTES_MAX
            || self.scanned >= limits.list_scan_max
    }

    fn look_at(&mut self, cluster: &Cluster, record: Record) {
        let (key, mark) = (record.key, record.cell.mark());
        self.scanned += 1;
        if self.of.has(cluster, &key, mark) {
            self.bytes += key.len();
            // Copied, because the piece that contains it is much longer.
            let key = Bytes::copy_from_slice(&key);
            self.entries.push(KeyVersion { key, mark });
        }
        self.last = Some(key);
    }
}

impl Wanted {
    fn has(&self, cluster: &Cluster, key: &[u8], mark: CellMark) -> bool {
        let Wanted { peer, slice, partitions, tells_of_all } = self;
        let (partition, placement) = (Partition::of(key), &cluster.placement);
        let is_named = partitions.is_empty() || partitions.binary_search(&partition).is_ok();
        let is_for_peer = match tells_of_all {
            Some(copies) => placement.holds(partition, *peer, mark) || mark.stamp.copies >= *copies,
            None => placement.both_hold(partition, [*peer, cluster.own], mark),
        };
        is_named && slice.has(mark) && is_for_peer
    }
}

/// The answer if hashes as of that time cannot be given.
pub(super) fn hashes(found: Option<Answer>) -> Answer {
    found.unwrap_or(Answer::Refused(Refusal::Rebuilding))
}
