use std::sync::Arc;

use bytes::Bytes;

use crate::coding::key_hash;
use crate::error::Error;
use crate::levels::Levels;
use crate::memtable::Memtable;
use crate::table::Access;

use super::found::Found;
use super::search::Search;

/// All that a read looks at; replaced as a whole, never changed.
pub(crate) struct View {
    pub active: Arc<Memtable>,
    /// Waiting for their flush, newest first.
    pub sealed: Vec<Arc<Memtable>>,
    pub levels: Arc<Levels>,
}

impl View {
    /// This view as of `sequence` with tables in the place of memtables that are flushed by now, if there are any.
    pub(crate) fn without_flushed(&self, sequence: u64) -> Option<View> {
        let flushed = |memtable: &Arc<Memtable>| memtable.tables_at(sequence).is_some();
        let none = !self.sealed.iter().any(flushed);
        if none && !flushed(&self.active) {
            return None;
        }
        let tables = self.memtables().filter_map(|memtable| memtable.tables_at(sequence)).flatten();
        let tables: Vec<_> = tables.map(|table| (0, table.clone())).collect();
        let active = if flushed(&self.active) { Memtable::empty() } else { self.active.clone() };
        Some(View {
            active,
            sealed: self.sealed.iter().filter(|memtable| !flushed(memtable)).cloned().collect(),
            levels: Arc::new(self.levels.with(&tables, &[])),
        })
    }

    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }

    /// The size of the large values that its records have, those that were replaced too.
    pub(crate) fn blob_bytes(&self) -> u64 {
        let in_memory: u64 = self.memtables().map(|memtable| memtable.blob_bytes()).sum();
        let in_tables: u64 = self.levels.iter().map(|(_, table)| table.meta().blob_bytes).sum();
        in_memory + in_tables
    }

    /// The newest cell of `key`, considering only writes at or before `sequence` of the memtables: memtables, level 0, the
    /// levels below, each asked only if it can have a newer cell. May wait for the disk.
    pub(crate) fn find(&self, key: &[u8], sequence: u64) -> Result<Found, Error> {
        let hash = key_hash(key);
        let mut search = Search::new(self.find_in_memtables(hash, key, sequence));
        let needed = search.go_on(&self.levels, hash, key, Access::Disk)?;
        assert!(needed.is_none(), "a read that may wait for the disk needs nobody");
        Ok(search.found)
    }

    #[inline]
    pub(crate) fn find_in_memtables(&self, hash: u64, key: &[u8], sequence: u64) -> Found {
        let mut best = None;
        let mut best_table = &self.active;
        for memtable in self.memtables() {
            let Some(record) = memtable.get(hash, key, sequence) else { continue };
            if best
                .as_ref()
                .is_none_or(|best: &crate::record::Record<'_>| best.stamp.version < record.stamp.version)
            {
                best = Some(record);
                best_table = memtable;
            }
        }
        let Some(record) = best else { return Found::Nothing };
        Found::Cell {
            stamp: record.stamp,
            kind: record.kind,
            value: Bytes::copy_from_slice(record.value),
            blob: record.blob().and_then(|blob| best_table.blob_ref(blob.file)),
        }
    }
}
