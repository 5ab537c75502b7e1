//! The engine: what holds the parts together.
//!
//! - `parts`: the state that reads, writes and the background use
//! - `open`: recovery, orphans, the first manifest; `close`; `recover`: from the log to memtables or tables
//! - `write`: log, memtable; `sync`: what makes the log durable; `segments`: the files of the log; `room`: what is left of the disk
//! - `read`: point reads; `ahead`: what they are going to wait for; `view`: what they look at; `found`: what they find;
//!   `search`: their way through the tables; `pending`: those that memory cannot answer
//! - `snapshot`, `range`: the store at one moment, and its keys in order; `newer`: those that were written within some time
//! - `flush`, `compact`: memtables to tables, tables to tables; `install`: the manifest that names those; `background`: when;
//!   `threads`: on which thread; `looks`: how often they look around; `flush_time`: whether there is time; `damage`: which
//!   tables they leave alone; `deletions`: which of them go
//! - `retire`: frees what nothing uses any more

mod ahead;
mod background;
mod compact;
mod damage;
mod deletions;
#[cfg(test)]
mod descriptors_tests;
mod flush;
mod flush_failures;
mod flush_time;
#[cfg(test)]
mod forged_tests;
mod found;
mod given_up;
#[cfg(test)]
mod held_tests;
mod install;
#[cfg(test)]
mod kept_room_tests;
#[cfg(test)]
mod kept_tests;
mod looks;
mod newer;
mod open;
mod parts;
#[cfg(test)]
mod patient_tests;
mod pending;
mod range;
mod read;
mod recover;
mod retire;
mod room;
mod search;
mod segments;
mod snapshot;
mod still_dead;
mod sync;
mod threads;
mod view;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ladoga_env::{Env, FileIdentity, Lock};
use ladoga_model::Durability;
use parking_lot::Mutex;

use crate::batch::WriteBatch;
use crate::blob::BlobWriter;
use crate::error::Error;
use crate::health::{Health, WriteState};
use crate::log_file::{KeptSegment, LogFile};
use crate::options::{Budget, Options};
use crate::stats::Statistics;
use crate::table::TableShared;
use background::BackgroundWork;
pub use newer::{Newer, NewerStep};
pub(crate) use open::{levels_of, take_lock};
use parts::{ReadPath, Upkeep, WritePath};
pub use pending::{PendingRead, Progress};
pub(crate) use range::cell_of;
pub use range::{Range, RangeStep, Side};
pub use read::{Cached, ReadTier};
pub use snapshot::Snapshot;
use threads::{Spawn, Threads};
pub(crate) use view::View;

/// A persistent ordered map from keys to versioned cells. Shared by reference; all methods may be called from any
/// thread.
///
/// # Errors
/// A read fails with [`Error::Corruption`], [`Error::Io`] or [`Error::NewerFormat`] of what it needs; a read of a snapshot with
/// [`Error::SnapshotTooOld`] too. A write fails with [`Error::DiskFull`], [`Error::BatchTooLarge`] or [`Error::Io`], and has no
/// effect. From the first failure of the log or the manifest on, writes fail with [`Error::Poisoned`]; whether the first of
/// those is there after a reopening is unknown. After [`Engine::close`] they fail with [`Error::Closed`].
///
/// Dropped without [`Engine::close`], it leaves what a crash of the process leaves: nothing that was acknowledged is lost, and
/// the next open reads the log.
pub struct Engine {
    inner: Arc<Inner>,
    threads: Mutex<Threads>,
}

pub(crate) struct Inner {
    pub(crate) env: Env,
    dir: PathBuf,
    options: Options,
    budget: Budget,
    reads: ReadPath,
    writes: WritePath,
    upkeep: Upkeep,
    pub(crate) background: BackgroundWork,
    /// What tables, blob files and their caches have in common.
    pub(crate) shared: Arc<TableShared>,
    health: Arc<Health>,
    next_file: AtomicU64,
    last_timestamp: u64,
    lost_groups: u64,
    closed: AtomicBool,
    lock: Mutex<Option<Box<dyn Lock>>>,
    /// The file that was locked.
    lock_file: FileIdentity,
}

impl Engine {
    /// Opens the store in `dir`, creating it if there is none.
    pub fn open(env: Env, dir: &Path, options: Options) -> Result<Engine, Error> {
        Engine::open_with(env, dir, options, &threads::spawn)
    }

    /// The same, but nothing is flushed or compacted before [`Engine::start_work`]: until then, no deletion is dropped.
    pub fn open_idle(env: Env, dir: &Path, options: Options) -> Result<Engine, Error> {
        Ok(Engine { inner: open::open(env, dir, options)?, threads: Mutex::default() })
    }

    fn open_with(env: Env, dir: &Path, options: Options, spawn: &Spawn) -> Result<Engine, Error> {
        let engine = Engine::open_idle(env, dir, options)?;
        engine.start_threads(spawn)?;
        Ok(engine)
    }

    /// Starts the background work of an engine that was opened idle. Called once.
    pub fn start_work(&self) -> Result<(), Error> {
        self.start_threads(&threads::spawn)
    }

    /// Dropped, the engine ends the threads that there are.
    fn start_threads(&self, spawn: &Spawn) -> Result<(), Error> {
        threads::start(&self.inner, &mut self.threads.lock(), spawn)
    }

    /// Writes the memtables to tables, so that the next open has no log to read, and releases the directory.
    pub fn close(&self) -> Result<(), Error> {
        if self.inner.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.stop_threads();
        self.inner.finish()
    }

    fn stop_threads(&self) {
        self.inner.background.stop();
        self.threads.lock().join();
        self.inner.discard_unfinished();
        self.inner.discard_written();
    }

    /// Writes batches as one group, with one frame and one sync, all or nothing. The caller has a queue that gathers the writes
    /// which arrive during a sync. A group is at most [`Engine::group_bytes_max`] long. Waits while the background is behind.
    pub fn write_group(&self, batches: &[WriteBatch]) -> Result<(), Error> {
        self.write_group_as(batches, self.durability())
    }

    /// The same with a durability of its own. One that is synced, be it an empty one, makes all durable that was written before it.
    pub fn write_group_as(&self, batches: &[WriteBatch], durability: Durability) -> Result<(), Error> {
        self.write_in_parts(batches, durability).1
    }

    /// The same, but of batches that may be too many for a group: then each batch is all or nothing, in their order. Answers how many
    /// are stored, and why no more are.
    pub fn write_in_parts(
        &self,
        batches: &[WriteBatch],
        durability: Durability,
    ) -> (usize, Result<(), Error>) {
        self.inner.write_in_parts(batches, durability)
    }

    /// As [`Engine::write_group`], but only if that takes no waiting for a flush, another writer or the background: the sync of a
    /// group that is to be synced is all that it waits for. Otherwise it does nothing and answers false: then a thread that may wait
    /// has to write the group.
    pub fn try_write_group(&self, batches: &[WriteBatch]) -> Result<bool, Error> {
        self.try_write_group_as(batches, self.durability())
    }

    /// The same with a durability of its own.
    pub fn try_write_group_as(&self, batches: &[WriteBatch], durability: Durability) -> Result<bool, Error> {
        self.inner.try_write_group(batches, durability)
    }

    /// The same, but `make` is called for the batches once nothing is in the way: so what they are made from is consumed only
    /// if they are written. They have at most so many records and bytes. Answers the batches, or `None`, with nothing made, if
    /// something is in the way.
    ///
    /// # Panics
    /// If `make` returns more than that. The store is poisoned then, as by a panic of `make`.
    pub fn try_write_made<B: AsRef<[WriteBatch]>>(
        &self,
        room: (usize, usize),
        durability: Durability,
        make: impl FnOnce() -> B,
    ) -> Result<Option<B>, Error> {
        self.inner.try_write_made(room, durability, make)
    }

    /// The durability of groups that ask for none.
    pub fn durability(&self) -> Durability {
        self.inner.durability()
    }

    /// The most encoded bytes that one group may have.
    pub fn group_bytes_max(&self) -> usize {
        self.inner.group_bytes_max()
    }

    /// If a batch of so many records, and encoded bytes, does not fit into one group: how many bytes it takes of the log or of memory,
    /// and how many it may.
    pub fn excess(&self, records: usize, bytes: usize) -> Option<(usize, usize)> {
        self.inner.excess(records, bytes)
    }

    /// Whether writes are taken.
    pub fn write_state(&self) -> WriteState {
        self.inner.health.state()
    }

    /// Why writes are refused for good, if they are.
    pub fn poison_reason(&self) -> Option<String> {
        self.inner.health.reason()
    }

    /// The newest timestamp in the store when it was opened.
    pub fn last_timestamp(&self) -> u64 {
        self.inner.last_timestamp
    }

    /// Groups of writes that a power cut lost, counted when the store was opened; always 0 if every write is synced.
    pub fn lost_groups(&self) -> u64 {
        self.inner.lost_groups
    }

    /// The store at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let inner = &self.inner;
        loop {
            let view = inner.reads.view.load_full();
            let sequence = inner.writes.visible.load(Ordering::Acquire);
            // The sequence belongs to the view only if the view was the same before and after.
            if Arc::ptr_eq(&view, &inner.reads.view.load()) {
                let lease = inner.upkeep.retired.lock().lease(view);
                return Snapshot::new(inner.clone(), sequence, lease);
            }
        }
    }

    /// Begins a large value. May wait for the disk.
    pub fn create_blob(&self) -> Result<BlobWriter, Error> {
        self.check_open()?;
        self.inner.shared.blobs.admit_puts(1)?;
        BlobWriter::create(&self.inner.shared.blobs, self.inner.new_file_number())
    }

    /// Does one step of background work; `false` if there is none. For [`crate::Background::Manual`].
    pub fn step(&self) -> Result<bool, Error> {
        self.check_open()?;
        self.inner.step()
    }

    /// Seals the memtable, so that it is flushed.
    pub fn seal(&self) -> Result<(), Error> {
        self.check_open()?;
        self.inner.seal()
    }

    /// Has all that was written before the call in the log that is kept. Answers the first group that may not be; `None` if the
    /// store keeps no log. Waits for flushes.
    pub fn seal_log(&self) -> Result<Option<u64>, Error> {
        self.check_open()?;
        self.inner.check_writable()?;
        if self.inner.upkeep.kept_log.is_none() {
            return Ok(None);
        }
        self.inner.flush_all().map(Some)
    }

    /// The segments of the log that are kept, oldest first, from the one on that ends behind group `after`.
    pub fn kept_log(&self, after: u64, count_max: usize) -> Vec<KeptSegment> {
        self.inner.upkeep.kept_log.as_ref().map_or_else(Vec::new, |kept| kept.segments(after, count_max))
    }

    /// Where a file of the log is that is kept; `None` if there is none.
    pub fn kept_log_path(&self, file: LogFile) -> Option<PathBuf> {
        self.inner.upkeep.kept_log.as_ref()?.path(file)
    }

    /// Whether the log is kept.
    pub fn keeps_log(&self) -> bool {
        self.inner.upkeep.kept_log.is_some()
    }

    /// Makes everything written so far durable, whatever the durability. Writes go on meanwhile.
    pub fn sync(&self) -> Result<(), Error> {
        self.check_open()?;
        self.inner.sync_log()
    }

    /// What the engine knows about itself.
    pub fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    /// Fails once the directory may belong to another process.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.inner.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) const fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop_threads();
        self.inner.shared.blobs.freeze();
        *self.inner.lock.lock() = None;
    }
}

impl Inner {
    fn new_file_number(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn statistics(&self) -> Statistics {
        let view = self.reads.view.load();
        let counters = &self.shared.counters;
        Statistics {
            memtable_bytes: view.active.used_bytes(),
            sealed_memtables: view.sealed.len() as u64,
            sealed_bytes: view.sealed.iter().map(|table| table.used_bytes()).sum(),
            levels: view.levels.statistics(),
            blob_files: self.shared.blobs.live(),
            blob_bytes: view.blob_bytes(),
            cache_bytes: self.shared.cache.bytes(),
            cache_capacity_bytes: self.shared.cache.capacity_bytes(),
            pinned_bytes: self.shared.cache.pinned_bytes(),
            record_cache_bytes: self.reads.records.bytes(),
            record_cache_hits: counters.reads.sum(|counts| &counts.record_hits),
            record_cache_misses: counters.reads.sum(|counts| &counts.record_misses),
            cache_hits: counters.reads.sum(|counts| &counts.cache_hits),
            cache_misses: counters.reads.sum(|counts| &counts.cache_misses),
            block_reads: counters.reads.sum(|counts| &counts.block_reads),
            block_read_bytes: counters.reads.sum(|counts| &counts.block_read_bytes),
            filter_negatives: counters.reads.sum(|counts| &counts.filter_negatives),
            corrupt_reads: counters.reads.sum(|counts| &counts.corrupt_reads),
            write_groups: counters.write_groups.get(),
            write_records: counters.write_records.get(),
            wal_bytes: counters.wal_bytes.get(),
            syncs: counters.syncs.read(),
            flushes: counters.flushes.get(),
            flush_bytes: counters.flush_bytes.get(),
            compactions: counters.compactions.get(),
            expired_values: counters.expired_values.get(),
            compaction_read_bytes: counters.compaction_read_bytes.get(),
            compaction_written_bytes: counters.compaction_written_bytes.get(),
            background_failures: counters.background_failures.get(),
            stalls: counters.stalls.read(),
            slowed_ns: counters.slowed_ns.get(),
            refused_full: counters.refused_full.get(),
            free_bytes: self.health.free_bytes(),
            kept_log: self.upkeep.kept_log.as_ref().map(|kept| kept.statistics()).unwrap_or_default(),
        }
    }
}
