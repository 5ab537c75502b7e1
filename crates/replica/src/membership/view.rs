use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ladoga_cluster::NodeId;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use super::name::PeerName;

/// What a node knows about a peer.
#[derive(Debug)]
pub(crate) struct PeerView {
    pub(crate) id: NodeId,
    pub(crate) url: String,
    /// What it is called on the disk: see [`ladoga_cluster::NodeList::name_hashes`].
    pub(crate) name_hash: u64,
    pub(crate) name: PeerName,
    /// Connections that are up, of all event loops.
    pub(crate) connections: AtomicU64,
    pub(crate) connects: AtomicU64,
    pub(crate) connect_failures: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// Writes that it did not get from this node, and should have; of this node itself, those that it took and could not store.
    pub(crate) missed: AtomicU64,
    /// Hints that are waiting for it; hints that could not be kept.
    pub(crate) hints_waiting: AtomicU64,
    pub(crate) hints_bytes: AtomicU64,
    pub(crate) hints_dropped: AtomicU64,
    /// The oldest timestamp among them.
    pub(crate) hints_oldest: AtomicU64,
    has_greeted: AtomicBool,
    unreachable: Mutex<Option<Unreachable>>,
}

/// Why this node cannot speak with a peer.
#[derive(Debug)]
struct Unreachable {
    reason: String,
    is_logged: bool,
}

impl Unreachable {
    fn is_logged_as(&self, reason: &str) -> bool {
        self.is_logged && self.reason == reason
    }
}

impl PeerView {
    /// One that nothing is known of yet.
    pub(crate) fn new(id: NodeId, url: &str, name: PeerName) -> PeerView {
        PeerView {
            id,
            url: url.to_owned(),
            name_hash: xxh3_64(url.as_bytes()),
            name,
            connections: AtomicU64::new(0),
            connects: AtomicU64::new(0),
            connect_failures: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            hints_waiting: AtomicU64::new(0),
            hints_bytes: AtomicU64::new(0),
            hints_dropped: AtomicU64::new(0),
            hints_oldest: AtomicU64::new(u64::MAX),
            has_greeted: AtomicBool::new(false),
            unreachable: Mutex::default(),
        }
    }

    /// Records why this node cannot speak with the peer. If it is `to_be_logged`, that is done once for each reason.
    pub(crate) fn record_unreachable(&self, reason: &str, to_be_logged: bool) {
        let mut unreachable = self.unreachable.lock();
        let was_logged = unreachable.as_ref().is_some_and(|known| known.is_logged_as(reason));
        if to_be_logged && !was_logged {
            tracing::warn!("the peer {}: {reason}", self.url);
        }
        *unreachable = Some(Unreachable { reason: reason.to_owned(), is_logged: to_be_logged || was_logged });
    }

    /// Whether the log has said that this is why this node cannot speak with the peer.
    pub(crate) fn has_logged(&self, reason: &str) -> bool {
        self.unreachable.lock().as_ref().is_some_and(|known| known.is_logged_as(reason))
    }

    /// The peer and this node have greeted each other.
    pub(crate) fn mark_greeted(&self) {
        self.has_greeted.store(true, Ordering::Relaxed);
        if self.unreachable.lock().take().is_some_and(|known| known.is_logged) {
            tracing::warn!("the peer {} is reachable again", self.url);
        }
    }

    /// Why this node cannot speak with the peer, as far as it knows.
    pub(crate) fn unreachable_reason(&self) -> Option<String> {
        self.unreachable.lock().as_ref().map(|known| known.reason.clone())
    }

    /// Whether this node can speak with the peer, as far as it knows.
    pub(crate) fn is_reachable(&self) -> bool {
        self.unreachable.lock().is_none()
    }

    /// Whether it ever greeted this node.
    pub(crate) fn has_greeted(&self) -> bool {
        self.has_greeted.load(Ordering::Relaxed)
    }
}
