use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_storage::{FinishedBlob, WriteBatch};
use parking_lot::Mutex;

use super::inbox::Inbox;
use super::unit_cost::Cost;
use crate::store::{Cell, CellKind, CellValue, StoreError};

/// What is encoded into one batch at most, before another one begins: a group may be cut between batches where it is
/// too large for the engine.
const BATCH_BYTES_MAX: usize = 64 << 10;
const BATCH_CELLS_MAX: usize = 256;

/// The writes of one event loop that are not committed yet.
pub(in super::super) struct WriteQueue {
    pending: Mutex<Pending>,
    inbox: Arc<Inbox>,
    /// What is pending or being committed; written by the event loop alone.
    queued_units: AtomicU64,
    queued_bytes: AtomicU64,
}

/// Writes that were not taken by the committer yet.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) puts: PendingWrites,
    pub(super) deletes: PendingWrites,
}

/// Writes that share their fate.
#[derive(Default)]
pub(super) struct PendingWrites {
    pub(super) batches: Vec<WriteBatch>,
    /// Who waits for them.
    pub(super) waiters: Vec<u32>,
    pub(super) load: Cost,
}

/// What became of writes.
pub(in super::super) struct CommitResult {
    pub(super) waiters: Vec<u32>,
    pub(super) load: Cost,
    pub(super) outcome: Result<(), StoreError>,
}

impl PendingWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    fn batch(&mut self) -> &mut WriteBatch {
        let is_full =
            |batch: &WriteBatch| batch.encoded_bytes() >= BATCH_BYTES_MAX || batch.len() >= BATCH_CELLS_MAX;
        if self.batches.last().is_none_or(is_full) {
            self.batches.push(WriteBatch::new());
        }
        self.batches.last_mut().expect("there is one now")
    }
}

impl WriteQueue {
    pub(super) fn new(inbox: Arc<Inbox>) -> WriteQueue {
        let queued_units = AtomicU64::new(0);
        WriteQueue { pending: Mutex::default(), inbox, queued_units, queued_bytes: AtomicU64::new(0) }
    }

    /// Encodes cells that belong together, and remembers who waits for them. On the event loop.
    pub(in super::super) fn push<'c>(
        &self,
        kind: CellKind,
        cells: impl IntoIterator<Item = Cell<'c, FinishedBlob>>,
        waiter: u32,
    ) {
        let mut pending = self.pending.lock();
        let part = match kind {
            CellKind::Put => &mut pending.puts,
            CellKind::Delete => &mut pending.deletes,
        };
        let batch = part.batch();
        let bytes_before = batch.encoded_bytes();
        for cell in cells {
            match cell.value {
                CellValue::Bytes(value) => batch.put(cell.key, cell.stamp, value),
                CellValue::Uploaded(blob) => batch.put_blob(cell.key, cell.stamp, blob),
                CellValue::Tombstone => batch.delete(cell.key, cell.stamp),
            }
        }
        let load = Cost::of_entry((batch.encoded_bytes() - bytes_before) as u64);
        part.load = part.load + load;
        part.waiters.push(waiter);
        drop(pending);
        self.set_queued(self.queued() + load);
    }

    /// Takes everything.
    pub(super) fn take(&self) -> Pending {
        std::mem::take(&mut *self.pending.lock())
    }

    /// Gives back what was taken. On the event loop, before anything else is pushed.
    pub(super) fn put_back(&self, kind: CellKind, part: PendingWrites) {
        let mut pending = self.pending.lock();
        let place = match kind {
            CellKind::Put => &mut pending.puts,
            CellKind::Delete => &mut pending.deletes,
        };
        assert!(place.is_empty(), "nothing is pushed between taking and giving back");
        *place = part;
    }

    /// Whether there is nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        let pending = self.pending.lock();
        pending.puts.is_empty() && pending.deletes.is_empty()
    }

    /// Says what became of writes. On the committer.
    pub(super) fn deliver(&self, result: CommitResult) {
        self.inbox.deliver(result);
    }

    /// Writes are no longer queued. On the event loop.
    pub(super) fn leave(&self, load: Cost) {
        self.set_queued(self.queued() - load);
    }

    /// What is pending or being committed.
    pub(super) fn queued(&self) -> Cost {
        Cost {
            units: self.queued_units.load(Ordering::Relaxed),
            bytes: self.queued_bytes.load(Ordering::Relaxed),
        }
    }

    fn set_queued(&self, load: Cost) {
        self.queued_units.store(load.units, Ordering::Relaxed);
        self.queued_bytes.store(load.bytes, Ordering::Relaxed);
    }
}
