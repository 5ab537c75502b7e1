use std::sync::Arc;

use ladoga_model::Version;

use crate::coding::key_hash;
use crate::levels::Levels;
use crate::memtable::Memtable;
use crate::options::LEVELS;
use crate::record::{Kind, Record};
use crate::table::{Access, TableGet};

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
        let mut others = self.levels.iter().map(|(_, table)| table).filter(|table| {
            let meta = table.meta();
            meta.newest > version && meta.covers(key) && !self.inputs.contains(&meta.number)
        });
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
        let above = || {
            let mut tables = self.levels.iter().take_while(|(level, _)| *level <= self.output_level);
            tables.any(|(_, table)| {
                let meta = table.meta();
                meta.covers(key) && meta.oldest < version && !self.inputs.contains(&meta.number)
            })
        };
        let in_memory =
            || self.memtables.iter().any(|table| table.get(key_hash(key), key, u64::MAX).is_some());
        below || above() || in_memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_model::{HybridClock, Stamp};

    #[test]
    fn a_tombstone_goes_only_when_nothing_older_is_left_or_can_come() {
        let version = |timestamp| Version { timestamp, node: 0 };
        let stamp = Stamp::new(version(10));
        let tombstone = Record { key: b"k", stamp, kind: Kind::Tombstone, value: b"" };
        assert!(may_drop(&tombstone, false, 11));
        assert!(!may_drop(&tombstone, true, 11));
        assert!(!may_drop(&tombstone, false, 10));
        let value = Record { kind: Kind::Value, ..tombstone };
        assert!(!may_drop(&value, false, u64::MAX));
    }

    #[test]
    fn a_value_that_expires_loses_its_bytes_first_and_goes_once_all_have_closed_its_end() {
        let version = Version { timestamp: HybridClock::at_wall_ms(1_000), node: 0 };
        let stamp = Stamp { expires_at_ms: 50_000, ..Stamp::new(version) };
        let value = Record { key: b"k", stamp, kind: Kind::Value, value: b"value" };
        assert_eq!(without_expired_value(value, 49_999), value);
        let left = without_expired_value(value, 50_000);
        assert_eq!((left.kind, left.value, left.stamp), (Kind::Tombstone, &b""[..], stamp));
        let end = HybridClock::at_wall_ms(60_000);
        for record in [value, left] {
            assert!(!may_drop(&record, false, end));
            assert!(may_drop(&record, false, end + 1));
            assert!(!may_drop(&record, true, end + 1));
        }
        let forever = Record { stamp: Stamp::new(version), ..value };
        assert_eq!(without_expired_value(forever, u64::MAX), forever);
    }
}
