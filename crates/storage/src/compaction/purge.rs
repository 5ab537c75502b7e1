use std::ops::Range;
use std::sync::Arc;

use ladoga_model::Version;

use crate::coding::key_hash;
use crate::levels::Levels;
use crate::memtable::Memtable;
use crate::options::LEVELS;
use crate::record::{Kind, Record};
use crate::table::{Access, Table, TableGet};

/// Whether the newest cell of a key may be dropped. A tombstone hides older cells, and so does a value that expired: it may go
/// if it hides nothing that is left or may still come. Writes older than `drop_before` come no more, and every replica has the
/// deletions from before it.
pub(crate) fn may_drop(record: &Record<'_>, hides: bool, drop_before: u64) -> bool {
    !hides && record.mark().deleted_at().is_some_and(|deleted_at| deleted_at < drop_before)
}

/// What is left of a value that had expired by `expired_before_ms`: the same cell without its bytes. It is dropped as a
/// tombstone is; until then every replica still answers the same about the key.
pub(crate) fn without_expired_value(record: Record<'_>, expired_before_ms: u64) -> Record<'_> {
    if record.kind != Kind::Tombstone && record.stamp.is_expired(expired_before_ms) {
        return Record { kind: Kind::Tombstone, value: b"", ..record };
    }
    record
}

/// Everything that a compaction does not read.
pub(crate) struct Surroundings<'a> {
    pub levels: &'a Levels,
    pub memtables: Vec<Arc<Memtable>>,
    /// Numbers of the tables that it does read.
    pub inputs: &'a [u64],
    pub output_level: usize,
    /// Whether what newer cells elsewhere hide goes, too.
    pub trims: bool,
}

impl Surroundings<'_> {
    /// Whether a cell is to go because a table that is not read has a newer one.
    pub(crate) fn hides(&self, record: &Record<'_>) -> bool {
        if !self.trims {
            return false;
        }
        let (key, version) = (record.key, record.stamp.version);
        let mut others = self.others(key, 0..LEVELS).filter(|table| table.meta().newest > version);
        // If the other one cannot be read, the record stays.
        others.any(|table| {
            let found = table.get(key_hash(key), key, Access::Once);
            matches!(found, Ok(TableGet::Found { stamp, .. }) if stamp.version > version)
        })
    }

    /// Whether a cell of `key` older than `version` may be somewhere else.
    pub(crate) fn may_hold_older(&self, key: &[u8], version: Version) -> bool {
        let below = (self.output_level + 1..LEVELS).any(|level| self.levels.table_of(level, key).is_some());
        // Usually only newer cells are above. Older ones are if versions arrived out of order.
        let above = || self.others(key, 0..self.output_level + 1).any(|table| table.meta().oldest < version);
        let in_memory =
            || self.memtables.iter().any(|table| table.get(key_hash(key), key, u64::MAX).is_some());
        below || above() || in_memory()
    }

    /// The tables of these levels that it does not read and that may hold `key`: searched for, as millions of records may ask for them in
    /// a store of tens of thousands of tables.
    fn others<'k>(&'k self, key: &'k [u8], levels: Range<usize>) -> impl Iterator<Item = &'k Arc<Table>> {
        self.levels.tables_for(key, levels).filter(|table| {
            let meta = table.meta();
            meta.covers(key) && !self.inputs.contains(&meta.number)
        })
    }
}

#[cfg(test)]
#[path = "purge_tests.rs"]
mod tests;
