use std::rc::Rc;
use std::time::Duration;

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
use tokio::time::Instant;

/// How long a page may take, of the time for which who pulls waits for it: to pass over long values is to read them.
const PAGE_MS_MAX: u64 = 5_000;

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
        let until = Instant::now() + Duration::from_millis(PAGE_MS_MAX);
        while let Some((mut bytes, rest)) = pieces.next().await? {
            pieces = rest;
            let damaged =
                |error: crate::wire::FrameError| StoreError::Unreadable { reason: error.to_string() };
            while let Some(record) = take_record(&mut bytes).map_err(damaged)? {
                self.look_at(cluster, record);
                if self.is_full(&cluster.limits) {
                    return Ok(self.end(cluster, true).await);
                }
            }
            if self.last.is_some() && Instant::now() >= until {
                return Ok(self.end(cluster, true).await);
            }
        }
        Ok(self.end(cluster, false).await)
    }

    async fn end(self, cluster: &Cluster, goes_on: bool) -> Answer {
        cluster.pace.draw_page(self.entries.len(), self.scanned).await;
        Answer::List { entries: self.entries, next: self.last.filter(|_| goes_on) }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ladoga_cluster::NodeList;
    use ladoga_env::sim;
    use ladoga_local::store::{Later, Piece};
    use ladoga_model::{Cell, Stamp, Value, Version};

    use super::*;
    use crate::membership::Membership;

    const CELLS: u8 = 12;

    /// Cells from this one on, each of which takes a second.
    struct Slow(u8);

    impl Pieces for Slow {
        fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let Slow(number) = *self;
                let mut out = Vec::new();
                let stamp = Stamp::new(Version { timestamp: 1, node: 0 });
                put_mark(&mut out, &[number], Cell { stamp, value: Some(Value::Inline(b"value")) });
                let rest: Box<dyn Pieces> = Box::new(Slow(number + 1));
                Ok((number < CELLS).then(|| (out.into(), rest)))
            })
        }
    }

    /// A page was given up by who waited for it, and each pass began anew.
    #[test]
    fn a_page_ends_in_time_however_slow_the_disk_is() {
        let (env, ..) = sim::env(1);
        let nodes = NodeList::first(["http://a", "http://b"]).expect("a list");
        let addresses = ["a", "b"].map(|host| (host.to_owned(), 80)).to_vec();
        let membership = Membership { nodes, own: NodeId(0), addresses };
        let cluster =
            Cluster::new(&membership, PeerLimits::default(), Arc::clone(&env.clock), Arc::clone(&env.net));
        let page = async |first: u8| {
            let slice = AsOf { before: u64::MAX, dropped_before: 0 };
            let of = Wanted { peer: NodeId(1), slice, partitions: Vec::new(), tells_of_all: None };
            let listing = Listing { of, entries: Vec::new(), bytes: 0, scanned: 0, last: None };
            match listing.page(&cluster, Box::new(Slow(first))).await {
                Ok(Answer::List { entries, next }) => (entries.len(), next.map(|key| key[0])),
                other => panic!("{other:?}"),
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            assert_eq!(page(0).await, (5, Some(4)));
            assert_eq!(page(5).await, (5, Some(9)));
            assert_eq!(page(10).await, (2, None));
        });
    }
}
