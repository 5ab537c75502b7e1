use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Inner, View};
use crate::coding::key_hash;
use crate::compaction::{Outputs, merge_tables};
use crate::error::Error;
use crate::frame::LogId;
use crate::iterator::Source;
use crate::levels::{Edit, Levels, Manifest};
use crate::memtable::Memtable;
use crate::paths;
use crate::table::{Table, TableMeta};

/// Records that are handed to the record cache at a time.
const CACHED_AT_ONCE: usize = 32;
/// A memtable that holds less than this part of a full one says nothing about how fast flushes are.
const RATE_SHARE: u64 = 4;

impl Inner {
    /// Writes the oldest sealed memtable to level 0; `false` if none waits.
    pub(super) fn flush_one(&self) -> Result<bool, Error> {
        self.check_writable()?;
        let Some(memtable) = self.reads.view.load().sealed.last().cloned() else { return Ok(false) };
        let started = self.env.clock.monotonic_ns();
        let metas = self.write_memtable(&memtable)?;
        let bytes: u64 = metas.iter().map(|meta| meta.file_bytes).sum();
        self.cache_records(&memtable);
        self.keep_segment(memtable.wal_number(), memtable.end_sequence(), || memtable.blob_numbers());
        self.install_flush(&memtable, metas)?;
        let elapsed = self.env.clock.monotonic_ns() - started;
        // The time for a small memtable is that of its syncs, and tells nothing about larger ones.
        let tells_rate = memtable.used_bytes() >= self.budget.memtable_bytes as u64 / RATE_SHARE;
        self.background.flushed(tells_rate.then(|| bytes_per_s(memtable.used_bytes(), elapsed)));
        self.shared.counters.flushes.add(1);
        self.shared.counters.flush_bytes.add(bytes);
        self.retire_segment(memtable.wal_number());
        self.let_go(memtable);
        Ok(true)
    }

    /// Updates the record cache with what is about to be in a table.
    fn cache_records(&self, memtable: &Arc<Memtable>) {
        self.reads.records.begin_flush();
        let newest_of_tables = self.current_levels().newest_of_all();
        let cursor = memtable.sorted();
        let mut records = cursor.records().map(|record| (key_hash(record.key), record));
        let mut some = Vec::with_capacity(CACHED_AT_ONCE);
        loop {
            some.clear();
            some.extend(records.by_ref().take(CACHED_AT_ONCE));
            if some.is_empty() {
                return;
            }
            self.reads.records.flushed(&some, newest_of_tables);
        }
    }

    /// A memtable's newest versions as a table, in a file that nothing names yet.
    pub(super) fn write_memtable(&self, memtable: &Arc<Memtable>) -> Result<Vec<TableMeta>, Error> {
        let next_number = || self.new_file_number();
        let outputs = Outputs {
            disk: &*self.env.disk,
            dir: &self.dir,
            compression: self.options.compression[0],
            table_bytes: u64::MAX,
            room_bytes: u64::MAX,
            next_number: &next_number,
            stop: &AtomicBool::new(false),
        };
        let metas = merge_tables(vec![Source::Memtable(memtable.sorted())], &outputs, None)?;
        if let Err(error) = self.sync_tables_dir() {
            // What is left of each attempt would add up.
            for meta in metas {
                _ = self.env.disk.remove(&paths::table(&self.dir, meta.number));
            }
            return Err(error);
        }
        Ok(metas)
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

    /// Current to next, persist, publish: the only place where the set of tables changes.
    pub(super) fn install(
        &self,
        mut edit: Edit,
        added: &[(usize, Arc<Table>)],
        removed: &[u64],
        flushed: Option<&Arc<Memtable>>,
    ) -> Result<(), Error> {
        let mut manifest = self.upkeep.manifest.lock();
        edit.next_file = Some(self.new_file_number());
        if let Err(error) = self.check_writable().and_then(|()| manifest.reserve(&edit)) {
            self.discard(added, removed);
            return Err(error);
        }
        // Reads come as soon as it is published, and some of them may not wait for the disk.
        added.iter().for_each(|(_, table)| table.warm());
        manifest.append(&edit).map_err(|error| self.poison(&error))?;
        self.reads.publish(|view| View {
            active: view.active.clone(),
            sealed: view
                .sealed
                .iter()
                .filter(|sealed| flushed.is_none_or(|flushed| !Arc::ptr_eq(sealed, flushed)))
                .cloned()
                .collect(),
            levels: Arc::new(view.levels.with(added, removed)),
        });
        self.background.observe(&self.reads.view.load().levels, self.env.clock.monotonic_ns());
        if manifest.is_long(self.budget.manifest_bytes()) {
            self.replace_manifest(&mut manifest);
        }
        Ok(())
    }

    /// Begins a new manifest in the place of one that has become long: the next open reads it as a whole.
    fn replace_manifest(&self, manifest: &mut Manifest) {
        let disk = &*self.env.disk;
        let number = self.new_file_number();
        let levels = self.current_levels();
        let tables = levels.iter().map(|(level, table)| (level, table.meta().clone())).collect();
        let everything = manifest.everything(number + 1, tables);
        let prepared =
            Manifest::prepare(disk, &self.dir, LogId { number, secret: self.writes.secret }, &everything)
                .and_then(|next| match next.prepare_current(disk, &self.dir) {
                    Ok(current) => Ok((next, current)),
                    Err(error) => {
                        _ = disk.remove(next.path());
                        Err(error)
                    }
                });
        let (next, current) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                // Nothing is lost: the old manifest stays in use, and the next edit tries again.
                tracing::warn!(%error, "could not begin a new manifest");
                return;
            }
        };
        // After a failure it is unknown which manifest `CURRENT` names.
        if let Err(error) = current.publish(disk) {
            self.poison(&error.into());
            return;
        }
        let old = std::mem::replace(manifest, next);
        if let Err(error) = disk.remove(old.path()) {
            // The next open does it.
            tracing::warn!(%error, "could not remove the old manifest");
        }
    }

    /// Removes tables that were written and are named by nothing; one that only moves is named still.
    fn discard(&self, tables: &[(usize, Arc<Table>)], moved: &[u64]) {
        for (_, table) in tables.iter().filter(|(_, table)| !moved.contains(&table.meta().number)) {
            _ = self.env.disk.remove(table.path());
        }
    }

    /// Writes everything that is in memory now to tables, and waits for it. Answers the first group that may be in none.
    pub(crate) fn flush_all(&self) -> Result<u64, Error> {
        self.seal()?;
        let (last, end_sequence) = {
            let writer = self.writes.writer.lock();
            (writer.memtable.table().wal_number(), writer.wal.first_sequence())
        };
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
