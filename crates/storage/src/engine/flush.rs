use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Inner;
use super::background::Pace;
use super::looks::Looks;
use crate::coding::key_hash;
use crate::compaction::{Grandparents, Outputs, TableMerge};
use crate::error::Error;
use crate::health::WriteState;
use crate::iterator::Source;
use crate::levels::{Edit, Levels};
use crate::memtable::{Memtable, RunCursor};
use crate::paths;
use crate::table::{Table, TableMeta};

/// Records that are handed to the record cache at a time.
const CACHED_AT_ONCE: usize = 32;
/// A memtable that holds less than this part of a full one says nothing about how fast flushes are.
const RATE_SHARE: u64 = 4;

/// A memtable whose table is written, by the thread that is patient. Nothing names the table yet.
pub(super) struct Written {
    memtable: Arc<Memtable>,
    metas: Vec<TableMeta>,
}

impl Inner {
    /// Has the oldest sealed memtable in level 0; `false` if none waits.
    pub(super) fn flush_one(&self) -> Result<bool, Error> {
        self.check_writable()?;
        let Some(memtable) = self.reads.view.load().sealed.last().cloned() else { return Ok(false) };
        let metas = match self.take_written(&memtable) {
            Some(metas) => metas,
            None => self.write_and_cache(&memtable)?,
        };
        let bytes: u64 = metas.iter().map(|meta| meta.file_bytes).sum();
        self.keep_segment(memtable.wal_number(), memtable.end_sequence(), || memtable.blob_numbers());
        {
            let _caching = self.upkeep.caching.lock();
            self.install_flush(&memtable, metas)?;
        }
        // What the patient thread has written of it meanwhile.
        self.discard_written();
        self.background.flush_failures.flushed();
        self.health.forget_lack();
        self.shared.counters.flushes.add(1);
        self.shared.counters.flush_bytes.add(bytes);
        self.retire_segment(memtable.wal_number());
        self.let_go(memtable);
        Ok(true)
    }

    /// All of a flush but its end, at the lowest priority: writes the table of the oldest sealed memtable and leaves the rest,
    /// which is short, to the thread that flushes. Others may wait for that one, so this one never holds a lock for long: once
    /// flushes are not to be patient any more, the other begins anew. `false` if there is nothing to do.
    pub(super) fn flush_patiently(&self) -> Result<bool, Error> {
        if !self.is_patient_flush_due() {
            return Ok(false);
        }
        self.check_writable()?;
        let Some(memtable) = self.reads.view.load().sealed.last().cloned() else { return Ok(false) };
        let cursor = memtable.sorted_alone();
        let mut merge = TableMerge::new(vec![Source::Memtable(cursor.clone())], Grandparents::default())?;
        let looks = Looks::default();
        let is_to_stop = || {
            looks.is_due() && {
                self.env.clock.make_way();
                !self.are_flushes_patient()
            }
        };
        if self.write_table(&mut merge, &is_to_stop)? && self.cache_records(&cursor, Pace::Patient) {
            let written = Written { memtable: memtable.clone(), metas: merge.into_tables() };
            *self.upkeep.written.lock() = Some(written);
            if !self.is_oldest_sealed(&memtable) {
                // The other has begun anew, and was first.
                self.discard_written();
            }
        } else {
            merge.discard(&*self.env.disk, &self.dir);
        }
        self.background.wake();
        Ok(true)
    }

    /// Whether a memtable waits whose table is to be written at the lowest priority.
    pub(super) fn is_patient_flush_due(&self) -> bool {
        let is_waiting = !self.reads.view.load().sealed.is_empty();
        is_waiting && self.are_flushes_patient() && self.upkeep.written.lock().is_none()
    }

    /// Whether flushes are written at the lowest priority: there is time for that, and those who serve requests leave no core to them.
    pub(super) fn are_flushes_patient(&self) -> bool {
        self.health.state() == WriteState::Open
            && self.background.has_time_to_flush(self.memtables())
            && !self.env.clock.has_core_to_spare()
    }

    /// Whether something is left to do for the thread that flushes.
    pub(super) fn is_flush_due(&self) -> bool {
        !self.are_flushes_patient() || self.upkeep.written.lock().is_some()
    }

    /// The tables of a memtable, if they are written.
    fn take_written(&self, memtable: &Arc<Memtable>) -> Option<Vec<TableMeta>> {
        let written = self.upkeep.written.lock().take()?;
        if Arc::ptr_eq(&written.memtable, memtable) {
            return Some(written.metas);
        }
        self.discard_metas(&written.metas);
        None
    }

    pub(super) fn discard_written(&self) {
        // Not under the lock: the other thread looks at it while this one may have no core.
        let written = self.upkeep.written.lock().take();
        if let Some(written) = written {
            self.discard_metas(&written.metas);
        }
    }

    fn discard_metas(&self, metas: &[TableMeta]) {
        for meta in metas {
            _ = self.env.disk.remove(&paths::table(&self.dir, meta.number));
        }
    }

    /// Writes the tables of a memtable, and tells how fast that was.
    fn write_and_cache(&self, memtable: &Arc<Memtable>) -> Result<Vec<TableMeta>, Error> {
        let started = self.env.clock.monotonic_ns();
        let metas = self.write_memtable(memtable)?;
        self.cache_records(&memtable.sorted(), Pace::Hurried);
        let elapsed = self.env.clock.monotonic_ns() - started;
        // The time for a small memtable is that of its syncs, and tells nothing about larger ones.
        if memtable.used_bytes() >= self.budget.memtable_bytes as u64 / RATE_SHARE {
            self.background.flush_time.flushes_at(bytes_per_s(memtable.used_bytes(), elapsed));
        }
        Ok(metas)
    }

    /// Updates the record cache with what is about to be in a table. Answers whether the memtable is still to be flushed: the
    /// thread that flushes may have begun anew and have done it, and then the cache must not be told any more.
    fn cache_records(&self, cursor: &RunCursor, pace: Pace) -> bool {
        self.reads.records.begin_flush();
        let newest_of_tables = self.current_levels().newest_of_all();
        let mut records = cursor.records().map(|record| (key_hash(record.key), record));
        let mut some = Vec::with_capacity(CACHED_AT_ONCE);
        loop {
            some.clear();
            some.extend(records.by_ref().take(CACHED_AT_ONCE));
            let caching = self.upkeep.caching.lock();
            if !self.is_oldest_sealed(cursor.table()) {
                return false;
            }
            if some.is_empty() {
                return true;
            }
            self.reads.records.flushed(&some, newest_of_tables);
            drop(caching);
            if pace == Pace::Patient {
                self.env.clock.make_way();
            }
        }
    }

    fn is_oldest_sealed(&self, memtable: &Arc<Memtable>) -> bool {
        self.reads.view.load().sealed.last().is_some_and(|oldest| Arc::ptr_eq(oldest, memtable))
    }

    /// A memtable's newest versions as a table, in a file that nothing names yet.
    pub(super) fn write_memtable(&self, memtable: &Arc<Memtable>) -> Result<Vec<TableMeta>, Error> {
        let mut merge = TableMerge::new(vec![Source::Memtable(memtable.sorted())], Grandparents::default())?;
        let is_whole = self.write_table(&mut merge, &|| false)?;
        assert!(is_whole, "nobody asked for a pause");
        Ok(merge.into_tables())
    }

    /// Goes on with that until its end, or until `is_to_pause`. Answers whether it is at the end.
    fn write_table(&self, merge: &mut TableMerge, is_to_pause: &dyn Fn() -> bool) -> Result<bool, Error> {
        let next_number = || self.new_file_number();
        let is_moved = self.upkeep.flushed_is_moved.load(Ordering::Relaxed);
        let outputs = Outputs {
            disk: &*self.env.disk,
            dir: &self.dir,
            compression: self.options.compression[usize::from(is_moved)],
            table_bytes: u64::MAX,
            room_bytes: u64::MAX,
            next_number: &next_number,
            stop: &AtomicBool::new(false),
        };
        let is_whole = merge.run(&outputs, None, is_to_pause)?;
        if is_whole {
            // What is left of each attempt would add up.
            self.sync_tables_dir().inspect_err(|_| merge.discard(&*self.env.disk, &self.dir))?;
        }
        Ok(is_whole)
    }

    pub(super) fn sync_tables_dir(&self) -> Result<(), Error> {
        let dir = paths::tables_dir(&self.dir);
        let synced = self.env.disk.sync_dir(&dir).map_err(Error::io("sync directory", dir));
        // A failed sync covered the names of other threads' tables too, and the kernel may report success to their own sync.
        // But if the directory could not be opened, nothing was synced.
        synced.map_err(|error| if error.is_out_of_descriptors() { error } else { self.poison(&error) })
    }

    fn install_flush(&self, memtable: &Arc<Memtable>, metas: Vec<TableMeta>) -> Result<(), Error> {
        let edit = Edit {
            first_wal: Some(memtable.wal_number() + 1),
            first_sequence: Some(memtable.end_sequence()),
            added: metas.iter().map(|meta| (0, meta.clone())).collect(),
            ..Edit::default()
        };
        let tables: Vec<_> = metas.into_iter().map(|meta| (0, Table::new(&self.shared, meta))).collect();
        self.install(edit, &tables, &[], Some(memtable))?;
        memtable.flushed_to(tables.into_iter().map(|(_, table)| table).collect());
        Ok(())
    }

    /// Writes everything that is in memory now to tables, and waits for it. Answers the first group that may be in none.
    pub(crate) fn flush_all(&self) -> Result<u64, Error> {
        self.seal()?;
        let (last, end_sequence) = {
            let writer = self.writes.writer.lock();
            (writer.memtable.table().wal_number(), writer.wal.first_sequence())
        };
        let _waiting = self.background.flush_time.wait();
        let failures = self.background.flush_failures.count();
        while self.reads.view.load().sealed.iter().any(|sealed| sealed.wal_number() < last) {
            if self.background.is_manual() {
                self.flush_one()?;
            } else {
                if self.closed.load(Ordering::SeqCst) {
                    return Err(Error::Closed);
                }
                // A full disk may stay full.
                self.health.admit(true, self.budget.reserve_bytes)?;
                self.background.wake();
                let mut writer = self.writes.writer.lock();
                self.background.wait_for_progress(&mut writer);
                // The background tries again. Who asked for it can do so as well.
                if let Some(error) = self.background.flush_failures.since(failures) {
                    return Err(error);
                }
            }
        }
        Ok(end_sequence)
    }

    /// The tables of this moment; they stay as long as the answer does.
    pub(crate) fn current_levels(&self) -> Arc<Levels> {
        self.reads.view.load().levels.clone()
    }

    /// Removes a segment whose records are in tables. One that stays is removed at the next open.
    pub(super) fn remove_segment(&self, number: u64) {
        let path = paths::wal(&self.dir, number);
        if let Err(error) = self.env.disk.remove(&path) {
            tracing::warn!(path = %path.display(), %error, "could not remove a segment of the write-ahead log");
        }
    }
}

fn bytes_per_s(bytes: u64, elapsed_ns: u64) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(elapsed_ns.max(1));
    rate.min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ladoga_model::{Stamp, Version};

    use super::*;
    use crate::{Background, Durability, Engine, Options, WriteBatch};

    #[test]
    fn who_comes_late_does_not_tell_the_cache_what_is_old() {
        let (env, _, _) = ladoga_env::sim::env(1);
        let options = Options {
            background: Background::Manual,
            reserve_bytes: Some(0),
            ..Options::new(16 << 20, Durability::Never)
        };
        let engine = Engine::open(env, Path::new("/data"), options).expect("a new store");
        let inner = &engine.inner;
        let flush = |change: &dyn Fn(&mut WriteBatch, Stamp), timestamp| {
            let mut batch = WriteBatch::new();
            change(&mut batch, Stamp::new(Version { timestamp, node: 1 }));
            engine.write_group(&[batch]).expect("room");
            engine.seal().expect("room");
            let memtable = inner.reads.view.load().sealed.last().cloned().expect("one that was sealed");
            assert!(inner.cache_records(&memtable.sorted_alone(), Pace::Patient), "it waits");
            assert!(inner.flush_one().expect("a sound disk"));
            memtable
        };
        let old = flush(&|batch, stamp| batch.put(b"key", stamp, b"value"), 1);
        let deleted = flush(&|batch, stamp| batch.delete(b"key", stamp), 2);
        for memtable in [&old, &deleted] {
            assert!(!inner.cache_records(&memtable.sorted(), Pace::Patient), "it was flushed");
        }
        assert!(engine.get(b"key").expect("a sound disk").is_none(), "it was deleted");
    }
}
