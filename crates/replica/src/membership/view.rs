use std::collections::VecDeque;
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
    /// Whether it listens to another process as this node, for so long that the log tells of it.
    pub(crate) hears_another_process: AtomicBool,
    has_greeted: AtomicBool,
    unreachable: Mutex<Unreachable>,
}

/// How many reasons the log tells of once for each peer. Several may alternate: what this node finds, and what the peer says.
const REASONS_LOGGED_MAX: usize = 8;

/// Why this node cannot speak with a peer.
#[derive(Debug, Default)]
struct Unreachable {
    reason: Option<String>,
    /// Hashes of the reasons that the log has told of since the peer was last reachable: the last few.
    logged: VecDeque<u64>,
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
            hears_another_process: AtomicBool::new(false),
            has_greeted: AtomicBool::new(false),
            unreachable: Mutex::default(),
        }
    }

    /// Records why this node cannot speak with the peer. If it is `to_be_logged`, that is done once for each reason.
    pub(crate) fn record_unreachable(&self, reason: &str, to_be_logged: bool) {
        let mut unreachable = self.unreachable.lock();
        let hash = xxh3_64(reason.as_bytes());
        if to_be_logged && !unreachable.logged.contains(&hash) {
            self.log(reason);
            if unreachable.logged.len() == REASONS_LOGGED_MAX {
                unreachable.logged.pop_front();
            }
            unreachable.logged.push_back(hash);
        }
        unreachable.reason = Some(reason.to_owned());
    }

    /// Records why somebody who claims to be the peer was refused. Anybody may, so the log tells of it only if it is admitted; and it
    /// takes no room of the reasons that this node found itself.
    pub(crate) fn record_refused(&self, reason: &str, admit_line: impl FnOnce() -> bool) {
        let mut unreachable = self.unreachable.lock();
        let hash = xxh3_64(reason.as_bytes());
        if !unreachable.logged.contains(&hash) && admit_line() {
            self.log(reason);
            if unreachable.logged.len() < REASONS_LOGGED_MAX {
                unreachable.logged.push_back(hash);
            }
        }
        unreachable.reason = Some(reason.to_owned());
    }

    fn log(&self, reason: &str) {
        tracing::warn!("the peer {}: {reason}", self.url);
    }

    /// The peer and this node have greeted each other.
    pub(crate) fn mark_greeted(&self) {
        self.has_greeted.store(true, Ordering::Relaxed);
        let before = std::mem::take(&mut *self.unreachable.lock());
        if !before.logged.is_empty() {
            tracing::warn!("the peer {} is reachable again", self.url);
        }
    }

    /// The peer answers what it is asked again and again, so whatever was found before is over: an unused connection of another event
    /// loop that broke, or somebody who claimed to be the peer. The log is not told: it would tell of both again.
    pub(crate) fn mark_answering(&self) {
        self.unreachable.lock().reason = None;
    }

    /// Why this node cannot speak with the peer, as far as it knows.
    pub(crate) fn unreachable_reason(&self) -> Option<String> {
        self.unreachable.lock().reason.clone()
    }

    /// A sentence of which the peer is the subject.
    pub(crate) fn sentence(&self, predicate: &str) -> String {
        format!("{} {}", self.url, predicate.strip_prefix("it ").unwrap_or(predicate))
    }

    /// Whether this node can speak with the peer, as far as it knows.
    pub(crate) fn is_reachable(&self) -> bool {
        self.unreachable.lock().reason.is_none()
    }

    /// Whether it ever greeted this node.
    pub(crate) fn has_greeted(&self) -> bool {
        self.has_greeted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(view: &PeerView) -> usize {
        view.unreachable.lock().logged.len()
    }

    #[test]
    fn reasons_that_alternate_are_told_once_until_the_peer_is_reachable() {
        let view = PeerView::new(NodeId(1), "http://a", PeerName::new("a", 80));
        for _ in 0..3 {
            view.record_unreachable("it says this", true);
            view.record_refused("it says that", || true);
        }
        view.record_unreachable("is not there yet", false);
        assert_eq!(logged(&view), 2);
        assert_eq!(view.unreachable_reason().as_deref(), Some("is not there yet"));
        view.mark_greeted();
        assert!(logged(&view) == 0 && view.is_reachable());
    }

    /// It was missed until another connection to it was made, which nothing called for.
    #[test]
    fn a_peer_that_answers_is_reachable_whatever_broke_on_another_connection() {
        let view = PeerView::new(NodeId(1), "http://a", PeerName::new("a", 80));
        view.mark_greeted();
        view.record_unreachable("the connection broke", true);
        view.mark_answering();
        assert!(view.is_reachable());
        view.record_unreachable("the connection broke", true);
        assert_eq!(logged(&view), 1, "it is told once until there is another connection");
    }

    #[test]
    fn who_claims_to_be_a_peer_hides_nothing_of_it() {
        let view = PeerView::new(NodeId(1), "http://a", PeerName::new("a", 80));
        view.record_unreachable("it says this", true);
        for number in 0..100 {
            view.record_refused(&format!("somebody says {number}"), || true);
        }
        assert_eq!(logged(&view), REASONS_LOGGED_MAX);
        let this = xxh3_64(b"it says this");
        assert!(view.unreachable.lock().logged.contains(&this), "it would be told again");
        view.record_unreachable("it says that", true);
        assert_eq!(logged(&view), REASONS_LOGGED_MAX);
        view.record_refused("it says that", || unreachable!("the log has that"));
    }
}
