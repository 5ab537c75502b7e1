use std::io;
use std::sync::Arc;

use ladoga_env::{Clock, WorkerHandle, Workers};
use ladoga_storage::Engine;

use super::committer::Committer;
use super::inbox::Inbox;
use super::shared::CommitShared;
use super::write_queue::WriteQueue;
use crate::store::{CellGate, CellObserver, Metric, StoreError};

/// The queue of writes, with the worker that commits them.
pub(in super::super) struct CommitQueue {
    shared: Arc<CommitShared>,
    committer: Arc<dyn WorkerHandle>,
}

impl CommitQueue {
    pub(in super::super) fn start(
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
        memory_bytes: u64,
        workers: &dyn Workers,
    ) -> io::Result<CommitQueue> {
        let shared = Arc::new(CommitShared::new(engine, memory_bytes));
        let committer = Committer::new(Arc::clone(&shared), clock);
        let committer = workers.start("committer", Box::new(committer))?;
        shared.wakes(Arc::clone(&committer));
        Ok(CommitQueue { shared, committer })
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

    /// Has everything that is committed from now on pass a gate.
    pub(in super::super) fn gate(&self, gate: Arc<dyn CellGate>) {
        self.shared.writer().gate(gate);
    }

    /// Commits what is queued, and ends the committer. Fails if a write panicked.
    pub(in super::super) fn close(&self) -> Result<(), StoreError> {
        self.shared.mark_closed();
        self.committer.wake();
        if !self.committer.join() {
            self.shared.mark_panicked();
        }
        self.shared.check()
    }

    pub(in super::super) fn metrics(&self) -> [Metric; 6] {
        self.shared.metrics()
    }
}

impl Drop for CommitQueue {
    fn drop(&mut self) {
        // A panic was reported when it happened.
        let _ = self.close();
    }
}
