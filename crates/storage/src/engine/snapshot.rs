use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Inner, Range, View};
use crate::error::Error;
use crate::iterator::Source;
use crate::memtable::Memtable;
use crate::table::TableMeta;
use crate::value::Cell;

/// The store at one moment: every batch that was written before, whole; nothing that came after.
///
/// Keeps the memtables and tables of that moment; a range lets go of the memtables as they are flushed, all but the one
/// that was written to at that moment. If memtables that only snapshots keep take more than their share of the memory
/// budget, the oldest snapshot is given up: its reads answer [`Error::SnapshotTooOld`].
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
    view: Arc<View>,
    sequence: u64,
    lease: Arc<Lease>,
}

/// By which the engine takes a snapshot back.
pub(crate) struct Lease {
    /// The logs of the memtables that it may keep: the oldest and the newest.
    oldest_log: u64,
    newest_log: u64,
    given_up: AtomicBool,
    pinned_bytes: AtomicU64,
}

impl Lease {
    pub(crate) fn of(view: &View) -> Lease {
        let newest_log = view.active.wal_number();
        let oldest_log = view.sealed.last().map_or(newest_log, |oldest| oldest.wal_number());
        Lease { oldest_log, newest_log, given_up: AtomicBool::new(false), pinned_bytes: AtomicU64::new(0) }
    }

    /// Whether the snapshot may read this memtable.
    pub(crate) fn keeps(&self, memtable: &Memtable) -> bool {
        (self.oldest_log..=self.newest_log).contains(&memtable.wal_number())
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    pub(crate) fn give_up(&self, pinned_bytes: u64) {
        self.pinned_bytes.store(pinned_bytes, Ordering::Relaxed);
        self.given_up.store(true, Ordering::Release);
    }
}

impl Snapshot {
    pub(crate) fn new(inner: Arc<Inner>, view: Arc<View>, sequence: u64, lease: Arc<Lease>) -> Snapshot {
        Snapshot { inner, view, sequence, lease }
    }

    /// Releases memtables that have been flushed to tables; `true` if there were any, and sources that were made before must be
    /// made anew.
    pub(crate) fn refresh(&mut self) -> bool {
        let Some(view) = self.view.without_flushed(self.sequence) else { return false };
        self.view = Arc::new(view);
        true
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.lease.is_given_up() {
            return Err(Error::SnapshotTooOld {
                pinned_bytes: self.lease.pinned_bytes.load(Ordering::Relaxed),
            });
        }
        Ok(())
    }

    /// The newest cell of `key` at that moment, deletions and expired values included. May wait for the disk.
    pub fn get_cell(&self, key: &[u8]) -> Result<Option<Cell>, Error> {
        self.check()?;
        self.view.find(key, self.sequence)?.into_cell()
    }

    /// The records with `start <= key`, and `key < end` if there is an end, in the order of their keys.
    pub fn range(&self, start: &[u8], end: Option<&[u8]>) -> Range {
        Range::new(self.clone(), start, end)
    }

    /// What a walk over its sources may hold of blocks.
    pub(crate) fn held_bytes_max(&self) -> usize {
        self.inner.budget.held_bytes
    }

    pub(crate) fn sources(&self) -> Vec<Source> {
        self.sources_if(|_| true)
    }

    /// The memtables, and those of the tables that are wanted.
    pub(crate) fn sources_if(&self, is_wanted: impl Fn(&TableMeta) -> bool) -> Vec<Source> {
        let mut sources = Vec::new();
        for memtable in self.view.memtables() {
            sources.extend(memtable.cursors(self.sequence).into_iter().map(Source::Memtable));
        }
        self.view.levels.add_sources(&mut sources, is_wanted);
        sources
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
