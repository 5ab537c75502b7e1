use std::sync::Arc;

use bytes::Bytes;

use crate::coding::key_hash;
use crate::error::Error;
use crate::levels::Levels;
use crate::memtable::Memtable;
use crate::table::{Access, Table};

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
        self.with_tables(|memtable| memtable.tables_at(sequence))
    }

    /// The same by what is said of each memtable, which is asked for once: a flush may end at any time. If one ended between two answers,
    /// the view would have neither the memtable nor its tables.
    fn with_tables<'v>(
        &'v self,
        mut tables_of: impl FnMut(&'v Arc<Memtable>) -> Option<&'v [Arc<Table>]>,
    ) -> Option<View> {
        let active = tables_of(&self.active);
        let sealed: Vec<_> = self.sealed.iter().map(|memtable| (memtable, tables_of(memtable))).collect();
        if active.is_none() && sealed.iter().all(|(_, tables)| tables.is_none()) {
            return None;
        }
        let tables = active.into_iter().chain(sealed.iter().filter_map(|(_, tables)| *tables)).flatten();
        let tables: Vec<_> = tables.map(|table| (0, table.clone())).collect();
        let left = sealed.iter().filter(|(_, tables)| tables.is_none()).map(|(memtable, _)| *memtable);
        Some(View {
            active: if active.is_some() { Memtable::empty() } else { self.active.clone() },
            sealed: left.cloned().collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Its records were missing in what a range read from then on: it was left out of the memtables, and had not been flushed when the
    /// tables were taken.
    #[test]
    fn a_memtable_whose_flush_ends_meanwhile_is_not_lost() {
        let [active, flushed, flushing] = [Memtable::empty(), Memtable::empty(), Memtable::empty()];
        let view = View {
            active: active.clone(),
            sealed: vec![flushing.clone(), flushed.clone()],
            levels: Arc::default(),
        };
        let mut has_ended = false;
        let next = view.with_tables(|memtable| {
            let is_flushed =
                Arc::ptr_eq(memtable, &flushed) || (Arc::ptr_eq(memtable, &flushing) && has_ended);
            has_ended |= Arc::ptr_eq(memtable, &flushing);
            is_flushed.then_some(&[][..])
        });
        let next = next.expect("one is flushed");
        assert!(Arc::ptr_eq(&next.active, &active));
        assert!(next.sealed.len() == 1 && Arc::ptr_eq(&next.sealed[0], &flushing));
    }
}
