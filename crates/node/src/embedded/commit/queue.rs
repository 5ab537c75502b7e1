use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};

use ladoga_env::Clock;
use ladoga_storage::Engine;
use parking_lot::{Mutex, RwLock};

use super::super::inbox::Inbox;
use super::committer::Committer;
use super::lane::Lane;
use super::pace::{Load, Pace, admit};
use crate::store::{Sample, SampleKind, SampleValue, StoreError};

/// The share of the memory budget that queued writes may take, and never more than the second.
const QUEUE_MEMORY_SHARE: u64 = 16;
const QUEUE_BYTES_MAX: u64 = 32 << 20;

/// The queue of writes, with the thread that commits them.
pub(in super::super) struct CommitQueue {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the event loops and the committer share.
pub(in super::super) struct Shared {
    lanes: RwLock<Vec<Arc<Lane>>>,
    committer: RwLock<Option<Thread>>,
    /// Whether the committer sleeps, or is about to.
    is_parked: AtomicBool,
    is_closed: AtomicBool,
    unit_ns: AtomicU64,
    queue_bytes_max: u64,
    groups: AtomicU64,
    entries: AtomicU64,
}

impl CommitQueue {
    pub(in super::super) fn start(
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
        memory_bytes: u64,
    ) -> CommitQueue {
        let shared = Arc::new(Shared {
            lanes: RwLock::default(),
            committer: RwLock::default(),
            is_parked: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            unit_ns: AtomicU64::new(Pace::new().unit_ns()),
            queue_bytes_max: (memory_bytes / QUEUE_MEMORY_SHARE).min(QUEUE_BYTES_MAX),
            groups: AtomicU64::new(0),
            entries: AtomicU64::new(0),
        });
        let committer = Committer::new(Arc::clone(&shared), engine, clock);
        let thread = std::thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || committer.run())
            .expect("the system has room for the threads of a server");
        *shared.committer.write() = Some(thread.thread().clone());
        CommitQueue { shared, thread: Mutex::new(Some(thread)) }
    }

    pub(in super::super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// A lane for one more event loop.
    pub(in super::super) fn add_lane(&self, inbox: Arc<Inbox>) -> Arc<Lane> {
        let lane = Arc::new(Lane::new(inbox));
        self.shared.lanes.write().push(Arc::clone(&lane));
        lane
    }

    /// Commits what is queued, and ends the thread.
    pub(in super::super) fn close(&self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the committer panicked");
            }
        }
    }

    pub(in super::super) fn statistics(&self) -> Vec<Sample> {
        let shared = &*self.shared;
        let queued = shared.queued();
        let sample = |name, help, kind, value: u64| {
            let value = SampleValue::Number(value as f64);
            Sample { name, help, kind, value }
        };
        let counter = SampleKind::Counter;
        vec![
            sample(
                "ladoga_commit_groups_total",
                "Groups of writes.",
                counter,
                shared.groups.load(Ordering::Relaxed),
            ),
            sample(
                "ladoga_commit_entries_total",
                "Writes in them.",
                counter,
                shared.entries.load(Ordering::Relaxed),
            ),
            sample("ladoga_commit_queue_bytes", "Bytes of writes queued.", SampleKind::Gauge, queued.bytes),
            sample("ladoga_commit_queue_units", "Writes queued, by weight.", SampleKind::Gauge, queued.units),
        ]
    }
}

impl Drop for CommitQueue {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Whether there is room for more.
    pub(in super::super) fn admit(&self) -> Result<(), StoreError> {
        admit(self.queued(), self.unit_ns.load(Ordering::Relaxed), self.queue_bytes_max)
    }

    fn queued(&self) -> Load {
        self.lanes.read().iter().fold(Load::default(), |sum, lane| sum + lane.queued())
    }

    /// Says that something was pushed into a lane.
    pub(in super::super) fn pushed(&self) {
        // The lane's lock orders this after the push, and the committer looks once more after it has set the flag.
        if self.is_parked.load(Ordering::SeqCst)
            && self.is_parked.swap(false, Ordering::SeqCst)
            && let Some(committer) = &*self.committer.read()
        {
            committer.unpark();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Sleeps until something is pushed, unless `is_empty` says that it was.
    pub(super) fn park_if(&self, is_empty: impl FnOnce() -> bool) {
        self.is_parked.store(true, Ordering::SeqCst);
        if is_empty() && !self.is_closed() {
            std::thread::park();
        }
        self.is_parked.store(false, Ordering::SeqCst);
    }

    pub(super) fn lanes(&self) -> Vec<Arc<Lane>> {
        self.lanes.read().clone()
    }

    pub(super) fn lanes_count(&self) -> usize {
        self.lanes.read().len()
    }

    /// A group was committed.
    pub(super) fn committed(&self, entries: u64, unit_ns: u64) {
        // One thread writes these.
        self.groups.store(self.groups.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.entries.store(self.entries.load(Ordering::Relaxed) + entries, Ordering::Relaxed);
        self.unit_ns.store(unit_ns, Ordering::Relaxed);
    }
}
