use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ladoga_cluster::NodeId;
use parking_lot::Mutex;

use super::name::PeerName;

/// What a node knows about a peer.
#[derive(Debug)]
pub(crate) struct PeerView {
    pub(crate) id: NodeId,
    pub(crate) url: String,
    pub(crate) name: PeerName,
    /// Connections that are up, of all event loops.
    pub(crate) connections: AtomicU64,
    pub(crate) connects: AtomicU64,
    pub(crate) connect_failures: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// Writes that it did not get from this node, and should have.
    pub(crate) missed: AtomicU64,
    /// Of those, what is kept for it; what could not be.
    pub(crate) hints_waiting: AtomicU64,
    pub(crate) hints_bytes: AtomicU64,
    pub(crate) hints_dropped: AtomicU64,
    /// The oldest timestamp among them.
    pub(crate) hints_oldest: AtomicU64,
    has_greeted: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
}

/// What keeps this node from speaking with a peer.
#[derive(Debug)]
struct Trouble {
    line: String,
    /// Whether it is in the log.
    is_told: bool,
}

impl PeerView {
    /// One that nothing is known of yet.
    pub(crate) fn new(id: NodeId, url: &str, name: PeerName) -> PeerView {
        PeerView {
            id,
            url: url.to_owned(),
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
            trouble: Mutex::default(),
        }
    }

    /// Takes note of what keeps this node from speaking with the peer; logged when it begins and when it changes, where
    /// somebody is `to_be_told`.
    pub(crate) fn record_trouble(&self, line: &str, to_be_told: bool) {
        let mut trouble = self.trouble.lock();
        let was_told = trouble.as_ref().is_some_and(|known| known.is_told && known.line == line);
        if to_be_told && !was_told {
            tracing::warn!("the peer {}: {line}", self.url);
        }
        *trouble = Some(Trouble { line: line.to_owned(), is_told: to_be_told || was_told });
    }

    /// The peer and this node have greeted each other.
    pub(crate) fn mark_greeted(&self) {
        self.has_greeted.store(true, Ordering::Relaxed);
        if self.trouble.lock().take().is_some_and(|trouble| trouble.is_told) {
            tracing::warn!("the peer {} is reachable again", self.url);
        }
    }

    /// What keeps this node from speaking with the peer, as far as it knows.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().as_ref().map(|trouble| trouble.line.clone())
    }

    /// Whether it ever greeted this node.
    pub(crate) fn has_greeted(&self) -> bool {
        self.has_greeted.load(Ordering::Relaxed)
    }
}
