use std::io;
use std::sync::Arc;

use ladoga_env::{Clock, WorkerHandle, Workers};
use ladoga_storage::Engine;

use super::super::feed::Feed;
use super::committer::Committer;
use super::inbox::Inbox;
use super::shared::CommitShared;
use super::syncer::Syncer;
use super::write_queue::WriteQueue;
use crate::store::{CellGate, CellObserver, Metric, StoreError};

/// The queue of writes, with the workers that commit and sync them.
pub(in super::super) struct CommitQueue {
    shared: Arc<CommitShared>,
    committer: Arc<dyn WorkerHandle>,
    /// None if the store syncs each group.
    syncer: Option<Arc<dyn WorkerHandle>>,
}

impl CommitQueue {
    pub(in super::super) fn start(
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
        (memory_bytes, may_be_weaker): (u64, bool),
        workers: &dyn Workers,
    ) -> io::Result<CommitQueue> {
        let shared = Arc::new(CommitShared::new(Arc::clone(&engine), memory_bytes, may_be_weaker));
        let committer = Committer::new(Arc::clone(&shared), clock);
        let committer = workers.start("committer", Box::new(committer))?;
        shared.wakes(Arc::clone(&committer));
        // Dropped, it ends the worker that there is.
        let mut queue = CommitQueue { shared, committer, syncer: None };
        if !queue.shared.syncs_each_group() {
            let syncer = Syncer::new(queue.shared(), engine);
            let syncer = workers.start("syncer", Box::new(syncer))?;
            queue.shared.unsynced().wakes(Arc::clone(&syncer));
            queue.syncer = Some(syncer);
        }
        Ok(queue)
    }

    pub(in super::super) fn shared(&self) -> Arc<CommitShared> {
        Arc::clone(&self.shared)
    }

    /// A write queue for one more event loop.
    pub(in super::super) fn add_write_queue(&self, inbox: Arc<Inbox>) -> Arc<WriteQueue> {
        self.shared.add_write_queue(inbox)
    }

    /// Notifies an observer of everything that is committed from now on.
    pub(in super::super) fn observe(&self, observer: Arc<dyn CellObserver>) {
        self.shared.writer().observe(observer);
    }

    /// Tells a feed of everything that is committed from now on.
    pub(in super::super) fn feed(&self, feed: Arc<Feed>) {
        self.shared.writer().feed(feed);
    }

    /// Has everything that is committed from now on pass a gate.
    pub(in super::super) fn gate(&self, gate: Arc<dyn CellGate>) {
        self.shared.writer().gate(gate);
    }

    /// Commits and syncs what is queued, and ends the workers. Fails if a write panicked.
    pub(in super::super) fn close(&self) -> Result<(), StoreError> {
        self.shared.mark_closed();
        self.committer.wake();
        if !self.committer.join() {
            self.shared.mark_panicked();
        }
        // The last group may have been one to be synced.
        self.shared.unsynced().close();
        if let Some(syncer) = &self.syncer {
            syncer.wake();
            if !syncer.join() {
                self.shared.mark_panicked();
            }
        }
        self.shared.check()
    }

    pub(in super::super) fn metrics(&self) -> [Metric; 7] {
        self.shared.metrics()
    }
}

impl Drop for CommitQueue {
    fn drop(&mut self) {
        // A panic was reported when it happened.
        let _ = self.close();
    }
}
