use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ladoga_env::WorkerHandle;
use ladoga_storage::Error;
use parking_lot::Mutex;

use super::super::write_error;
use super::inbox::CommitResult;
use super::write_queue::WriteQueue;

/// Writes that are in the log and visible, and are answered once they are on disk.
#[derive(Default)]
pub(super) struct UnsyncedWrites {
    waiting: Mutex<Waiting>,
    syncer: OnceLock<Arc<dyn WorkerHandle>>,
    syncs: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    results: Unsynced,
    is_closed: bool,
}

/// What becomes of writes if the log can be synced, and whose they are.
pub(super) type Unsynced = Vec<(Arc<WriteQueue>, CommitResult)>;

impl UnsyncedWrites {
    /// This is what syncs.
    pub(super) fn wakes(&self, syncer: Arc<dyn WorkerHandle>) {
        self.syncer.get_or_init(|| syncer);
    }

    /// What became of writes, if the log can be synced: that is what they wait for.
    pub(super) fn push(&self, write_queue: Arc<WriteQueue>, mut result: CommitResult) {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            drop(waiting);
            result.fail(&write_error(&Error::Closed));
            return write_queue.deliver(result);
        }
        let is_first = waiting.results.is_empty();
        waiting.results.push((write_queue, result));
        drop(waiting);
        // The others are taken with the first one.
        if is_first && let Some(syncer) = self.syncer.get() {
            syncer.wake();
        }
    }

    /// Takes all that wait, to sync the log for them. `None` if there is nothing, and nothing will come.
    pub(super) fn take(&self) -> Option<Unsynced> {
        let mut waiting = self.waiting.lock();
        if waiting.results.is_empty() && waiting.is_closed {
            return None;
        }
        let results = std::mem::take(&mut waiting.results);
        drop(waiting);
        self.syncs.fetch_add(u64::from(!results.is_empty()), Ordering::Relaxed);
        Some(results)
    }

    /// Nothing waits for a sync from now on, except for what does already.
    pub(super) fn close(&self) {
        self.waiting.lock().is_closed = true;
    }

    /// How often the log was synced because somebody waited for it.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}
