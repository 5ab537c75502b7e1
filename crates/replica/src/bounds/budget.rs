use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::wire::FRAME_BYTES_MAX;

/// What a connection of a peer may hold without asking: enough for greetings, statements and small requests.
pub(crate) const SESSION_OWN_BYTES: usize = 32 << 10;
/// What the making of hashes of a tree takes, or of a list, and the answer.
pub(super) const REPAIR_BYTES: usize = 512 << 10;
/// What a connection that needs more than its own share gets at once: with it any request can be received and answered. So a
/// connection that waits for a lease holds nothing that others wait for.
pub(crate) const SESSION_LEASE_BYTES: usize = 896 << 10;
/// What one connection may have of the shared part, however many it could use: one that does not read its answers leaves the
/// rest to the others.
const SESSION_SHARE: usize = 3;
/// The part of the budget that connections have as their own, all together.
const OWN_SHARE: usize = 4;
/// The part for what serves repair, which takes its time: requests of clients do not wait for that.
const REPAIR_SHARE: usize = 4;
/// The part of the connections that may not have greeted yet. One more than that, and the oldest of them goes: a peer sends its
/// greeting with its first bytes.
const STRANGERS_SHARE: usize = 4;
/// At least this many connections can be served at the same time, however little memory there is.
const LEASES_MIN: usize = 4;

const _: () = assert!(SESSION_LEASE_BYTES > 2 * FRAME_BYTES_MAX + (32 << 10));

/// The memory of all connections that peers make to this node: a little for each, and a part that they share, first come,
/// first served.
#[derive(Debug)]
pub(crate) struct SessionBudget {
    /// Of those that have greeted.
    pub(super) sessions_max: usize,
    pub(super) sessions: AtomicUsize,
    pub(super) strangers_max: usize,
    shared_bytes: usize,
    pub(super) session_bytes_max: usize,
    pub(super) shared: Mutex<SharedBytes>,
    /// What there is room for that serves repair.
    pub(super) repairs_left: AtomicUsize,
    /// Whether anybody waits.
    pub(super) is_contended: AtomicBool,
}

#[derive(Debug)]
pub(super) struct SharedBytes {
    pub(super) free_bytes: usize,
    pub(super) waiting: VecDeque<Arc<SessionEntry>>,
    /// Those that have not greeted yet, the oldest first.
    pub(super) strangers: VecDeque<Arc<SessionEntry>>,
}

/// By which others reach a connection.
#[derive(Debug, Default)]
pub(super) struct SessionEntry {
    pub(super) is_granted: AtomicBool,
    pub(super) has_to_go: AtomicBool,
    pub(super) task: Mutex<Option<Waker>>,
}

impl SessionBudget {
    pub(crate) fn new(bytes: usize) -> Arc<SessionBudget> {
        let (own_bytes, repair_bytes) = (bytes / OWN_SHARE, bytes / REPAIR_SHARE);
        let connections = (own_bytes / SESSION_OWN_BYTES).max(2);
        let strangers_max = (connections / STRANGERS_SHARE).max(1);
        let shared_bytes = (bytes - own_bytes - repair_bytes).max(LEASES_MIN * SESSION_LEASE_BYTES);
        Arc::new(SessionBudget {
            sessions_max: connections - strangers_max,
            sessions: AtomicUsize::new(0),
            strangers_max,
            shared_bytes,
            session_bytes_max: (shared_bytes / SESSION_SHARE).max(SESSION_LEASE_BYTES),
            shared: Mutex::new(SharedBytes {
                free_bytes: shared_bytes,
                waiting: VecDeque::new(),
                strangers: VecDeque::new(),
            }),
            repairs_left: AtomicUsize::new((repair_bytes / REPAIR_BYTES).max(1)),
            is_contended: AtomicBool::new(false),
        })
    }

    /// Whether there are as many connections as there may be.
    pub(crate) fn is_full(&self) -> bool {
        self.sessions() >= self.sessions_max
    }

    /// Connections of peers that have greeted.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    /// What connections have taken of the shared part.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.shared_bytes - self.shared.lock().free_bytes
    }

    pub(super) fn give_back(&self, bytes: usize) {
        let mut shared = self.shared.lock();
        shared.free_bytes += bytes;
        self.grant(&mut shared);
    }

    /// Gives those their leases who have waited the longest.
    pub(super) fn grant(&self, shared: &mut SharedBytes) {
        while shared.free_bytes >= SESSION_LEASE_BYTES
            && let Some(entry) = shared.waiting.pop_front()
        {
            shared.free_bytes -= SESSION_LEASE_BYTES;
            entry.is_granted.store(true, Ordering::Release);
            entry.wake();
        }
        self.is_contended.store(!shared.waiting.is_empty(), Ordering::Relaxed);
    }
}

impl SessionEntry {
    pub(super) fn wake(&self) {
        if let Some(task) = self.task.lock().take() {
            task.wake();
        }
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
