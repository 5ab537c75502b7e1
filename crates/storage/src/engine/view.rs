use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::{Stamp, Version};

use crate::blob::BlobRef;
use crate::coding::key_hash;
use crate::error::Error;
use crate::levels::Levels;
use crate::memtable::Memtable;
use crate::record::Kind;
use crate::table::Access;
use crate::value::{Cell, Value, value_from_parts};

use super::search::Search;

/// All that a read looks at; replaced as a whole, never changed.
pub(crate) struct View {
    pub active: Arc<Memtable>,
    /// Waiting for their flush, newest first.
    pub sealed: Vec<Arc<Memtable>>,
    pub levels: Arc<Levels>,
}

/// The newest cell of a key.
#[derive(Debug)]
pub(crate) enum Found {
    Cell { stamp: Stamp, kind: Kind, value: Bytes, blob: Option<BlobRef> },
    Nothing,
}

impl Found {
    pub(crate) fn version(&self) -> Version {
        match self {
            Found::Cell { stamp, .. } => stamp.version,
            Found::Nothing => Version::ZERO,
        }
    }

    /// The newer of this and a value of the record cache.
    pub(crate) fn or_newer(self, (stamp, value): (Stamp, Bytes)) -> Found {
        if stamp.version > self.version() {
            return Found::Cell { stamp, kind: Kind::Value, value, blob: None };
        }
        self
    }

    /// What a user sees of it at a time, in milliseconds since 1970.
    pub(crate) fn into_value(self, now_ms: impl FnOnce() -> u64) -> Result<Option<Value>, Error> {
        Ok(self.into_cell(now_ms)?.and_then(|cell| cell.value))
    }

    /// What a replica sees of it.
    #[inline]
    pub(crate) fn into_cell(self, now_ms: impl FnOnce() -> u64) -> Result<Option<Cell>, Error> {
        match self {
            Found::Nothing => Ok(None),
            Found::Cell { stamp, kind: Kind::Tombstone, .. } => Ok(Some(Cell::tombstone(stamp))),
            // Few cells expire: only for those it matters what time it is.
            Found::Cell { stamp, .. } if stamp.expires_at_ms != 0 && stamp.is_expired(now_ms()) => {
                Ok(Some(Cell::tombstone(stamp)))
            }
            Found::Cell { stamp, kind, value, blob } => {
                let keep = value.clone();
                let value = value_from_parts(kind, &value, move |_| keep, |_| blob)?;
                Ok(Some(Cell { stamp, value: Some(value) }))
            }
        }
    }
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

    /// The newest cell of `key`, of the memtables' only what was written at or before `sequence`: memtables, level 0,
    /// the levels below, each asked only if it can have a better answer. May wait for the disk.
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
