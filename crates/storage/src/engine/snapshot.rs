use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{Inner, Range, View};
use crate::error::Error;
use crate::iterator::{Merge, Source};
use crate::memtable::Memtable;
use crate::table::TableMeta;
use crate::value::Cell;

/// The store at one moment: every batch that was written before, whole; nothing that came after.
///
/// Keeps the memtables and tables of that moment; a range lets go of the memtables as they are flushed, all but the one
/// that was written to at that moment. If memtables that only snapshots keep take more than their share of the memory
/// budget, the oldest snapshot is given up: it keeps nothing any more, and its reads answer [`Error::SnapshotTooOld`].
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
    sequence: u64,
    lease: Arc<Lease>,
}

/// What a snapshot keeps, and by which the engine takes it back.
pub(crate) struct Lease {
    /// `None` once it is given up.
    view: Mutex<Option<Arc<View>>>,
    /// Of its ranges that rest.
    resting: Mutex<Vec<Weak<Resting>>>,
    given_up: AtomicBool,
    pinned_bytes: AtomicU64,
}

/// The cursors of a range of which nobody asks for more just now: they keep memtables and tables, too.
pub(super) type Resting = Mutex<[Option<Merge>; 2]>;

impl Lease {
    pub(crate) fn of(view: Arc<View>) -> Lease {
        Lease {
            view: Mutex::new(Some(view)),
            resting: Mutex::default(),
            given_up: AtomicBool::new(false),
            pinned_bytes: AtomicU64::new(0),
        }
    }

    /// Whether the snapshot keeps this memtable.
    pub(crate) fn keeps(&self, memtable: &Arc<Memtable>) -> bool {
        let is_kept = |view: &Arc<View>| view.memtables().any(|kept| Arc::ptr_eq(kept, memtable));
        self.view.lock().as_ref().is_some_and(is_kept)
    }

    /// It keeps nothing from now on. Who reads just now lets go with the next record.
    pub(crate) fn give_up(&self, pinned_bytes: u64) {
        self.pinned_bytes.store(pinned_bytes, Ordering::Relaxed);
        self.given_up.store(true, Ordering::Release);
        *self.view.lock() = None;
        self.drop_resting();
    }

    fn drop_resting(&self) {
        for resting in self.resting.lock().drain(..).filter_map(|resting| resting.upgrade()) {
            *resting.lock() = [None, None];
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.given_up.load(Ordering::Acquire) { Err(self.too_old()) } else { Ok(()) }
    }

    fn too_old(&self) -> Error {
        Error::SnapshotTooOld { pinned_bytes: self.pinned_bytes.load(Ordering::Relaxed) }
    }
}

impl Snapshot {
    pub(crate) fn new(inner: Arc<Inner>, sequence: u64, lease: Arc<Lease>) -> Snapshot {
        Snapshot { inner, sequence, lease }
    }

    fn view(&self) -> Result<Arc<View>, Error> {
        self.lease.view.lock().clone().ok_or_else(|| self.lease.too_old())
    }

    /// Releases memtables that have been flushed to tables. If the view is another one then, sources that were made before must be
    /// made anew.
    pub(super) fn refresh(&self) -> Result<Arc<View>, Error> {
        let mut kept = self.lease.view.lock();
        let view = kept.as_mut().ok_or_else(|| self.lease.too_old())?;
        if let Some(next) = view.without_flushed(self.sequence) {
            *view = Arc::new(next);
            self.lease.drop_resting();
        }
        Ok(view.clone())
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.lease.check()
    }

    /// Keeps the cursors of a range until it goes on, or the snapshot is given up.
    pub(super) fn rest(&self, cursors: [Option<Merge>; 2]) -> Arc<Resting> {
        let resting = Arc::new(Mutex::new(cursors));
        {
            let mut all = self.lease.resting.lock();
            all.retain(|resting| resting.strong_count() > 0);
            all.push(Arc::downgrade(&resting));
        }
        // Whoever gives it up may have looked before.
        if self.check().is_err() {
            *resting.lock() = [None, None];
        }
        resting
    }

    /// The newest cell of `key` at that moment, deletions and expired values included. May wait for the disk.
    pub fn get_cell(&self, key: &[u8]) -> Result<Option<Cell>, Error> {
        self.view()?.find(key, self.sequence)?.into_cell()
    }

    /// The records with `start <= key`, and `key < end` if there is an end, in the order of their keys.
    pub fn range(&self, start: &[u8], end: Option<&[u8]>) -> Range {
        Range::new(self.clone(), start, end)
    }

    /// What a walk over its sources may hold of blocks.
    pub(crate) fn held_bytes_max(&self) -> usize {
        self.inner.budget.held_bytes
    }

    pub(crate) fn sources(&self) -> Result<Vec<Source>, Error> {
        self.sources_if(|_| true)
    }

    /// The memtables, and those of the tables that are wanted.
    pub(crate) fn sources_if(&self, is_wanted: impl Fn(&TableMeta) -> bool) -> Result<Vec<Source>, Error> {
        let view = self.view()?;
        let mut sources = Vec::new();
        for memtable in view.memtables() {
            sources.extend(memtable.cursors(self.sequence).into_iter().map(Source::Memtable));
        }
        view.levels.add_sources(&mut sources, is_wanted);
        Ok(sources)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // The background takes over what the view holds, so that nothing is freed or removed on the caller's thread.
        if self.inner.has_retired() {
            self.inner.background.wake();
        }
    }
}
