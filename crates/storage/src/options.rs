use ladoga_model::Durability;

use crate::error::Error;

/// Who does the background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// Threads of the engine.
    Threads,
    /// The caller, by [`crate::Engine::step`]: for deterministic tests.
    Manual,
}

/// How blocks of a level are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: cheap to read.
    Lz4,
    /// Zstandard at level 1: smaller, five times dearer to read.
    Zstd,
}

/// How many levels a store has.
pub const LEVELS: usize = 7;

/// The smallest memory budget.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// The permitted sizes of a memtable: it holds a block at least, and half of it is a group that fits into a frame of the log.
pub(crate) const MEMTABLE_BYTES: std::ops::RangeInclusive<usize> = 4 << 10..=512 << 20;

/// More would mean many small tables.
const FLUSH_EARLY_PERCENT_MAX: u64 = 50;

/// Deletions that somebody may still ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeptDeletions {
    /// They stay until they are this old,
    pub age_ms: u64,
    /// up to this time by the wall clock.
    pub until_ms: u64,
}

/// What an engine is opened with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The budget for memtables, caches, indexes, filters and iterators.
    pub memory_bytes: u64,
    /// When an acknowledged write is on disk, unless the write asks for something else.
    pub durability: Durability,
    /// Who does the background work.
    pub background: Background,
    /// Compression by level.
    pub compression: [Compression; LEVELS],
    /// How long after its timestamp a write may still arrive, and how far the wall clock may be ahead of the clock that counts.
    /// If `None`, no tombstone and no expired value is dropped before [`crate::Engine::drop_tombstones_before`] and
    /// [`crate::Engine::drop_values_expired_before_ms`] say so.
    pub tombstone_age_ms_min: Option<u64>,
    /// Which deletions stay longer than that, from the start on. See [`crate::Engine::keep_deletions`].
    pub kept_deletions: KeptDeletions,
    /// The size of a memtable; `None` derives it from the budget.
    pub memtable_bytes: Option<usize>,
    /// The size of the first segment of the log after a start; `None` derives it from what the store has. Those after it grow to the
    /// size of a memtable.
    pub first_segment_bytes: Option<u64>,
    /// By how much of its size a memtable is flushed before it is full, at most; by chance, for each another. Replicas take
    /// the same writes: without it they would all flush at the same time, and no quorum could do without one that does.
    pub flush_early_percent: u64,
    /// The size at which a compaction starts its next output table; `None` derives it.
    pub table_bytes: Option<u64>,
    /// The size of level 1; `None` derives it.
    pub level_1_bytes: Option<u64>,
    /// Bytes that stay free for flushes, compactions and deletes; `None` derives it.
    pub reserve_bytes: Option<u64>,
    /// For how long segments of the log are kept when all of their records are in tables; if `None`, not at all.
    pub keep_log_ms: Option<u64>,
}

impl Options {
    /// Settings for a node with this budget.
    pub fn new(memory_bytes: u64, durability: Durability) -> Options {
        use Compression::{Lz4, None as Plain};
        Options {
            memory_bytes,
            durability,
            background: Background::Threads,
            // Level 0 is rewritten at once, so compressing it would be work for nothing.
            compression: [Plain, Lz4, Lz4, Lz4, Lz4, Lz4, Lz4],
            tombstone_age_ms_min: None,
            kept_deletions: KeptDeletions::default(),
            memtable_bytes: None,
            first_segment_bytes: None,
            flush_early_percent: 0,
            table_bytes: None,
            level_1_bytes: None,
            reserve_bytes: None,
            keep_log_ms: None,
        }
    }

    /// Checks every setting.
    pub fn validate(&self) -> Result<(), Error> {
        if self.memory_bytes < MEMORY_BYTES_MIN {
            return Err(Error::Setting {
                setting: "memory",
                value: self.memory_bytes.to_string(),
                expected: "at least 16 MiB (16777216 bytes)",
            });
        }
        if let Some(bytes) = self.memtable_bytes.filter(|bytes| !MEMTABLE_BYTES.contains(bytes)) {
            return Err(Error::Setting {
                setting: "memtable",
                value: bytes.to_string(),
                expected: "4 KiB to 512 MiB",
            });
        }
        if self.flush_early_percent > FLUSH_EARLY_PERCENT_MAX {
            return Err(Error::Setting {
                setting: "flush early",
                value: self.flush_early_percent.to_string(),
                expected: "at most 50 percent",
            });
        }
        Ok(())
    }

    /// The budget, divided.
    pub(crate) fn budget(&self) -> Budget {
        Budget::of(self)
    }
}

/// Sealed memtables that may wait for their flush; a writer that would make one more waits for it.
pub(crate) const SEALED_MAX: usize = 3;

/// The memory budget and the sizes that follow from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// One memtable.
    pub memtable_bytes: usize,
    /// Blocks, and the indexes and filters that are not pinned.
    pub cache_bytes: u64,
    /// Records that point reads asked for.
    pub records_bytes: u64,
    /// Indexes and filters that stay in memory.
    pub pinned_bytes: u64,
    /// One output table of a compaction.
    pub table_bytes: u64,
    /// Level 1; each further level is [`LEVEL_RATIO`] times larger.
    pub level_1_bytes: u64,
    /// Bytes that stay free on the disk.
    pub reserve_bytes: u64,
    /// What a range holds of blocks beside the one with its current record: room for a dozen of the usual length at least. There are 24
    /// ranges at a time however little memory there is, and up to one for each 8 MiB.
    pub held_bytes: usize,
}

/// How much larger a level is than the one above it.
pub(crate) const LEVEL_RATIO: u64 = 10;

/// How many tables of the usual size below it a table may overlap; in the middle, it overlaps as many as a level is larger.
const OVERLAP_TABLES_MAX: u64 = LEVEL_RATIO;

impl Budget {
    /// How long a manifest becomes before it is replaced, so that opening a store takes little memory and time.
    pub(crate) const fn manifest_bytes(&self) -> u64 {
        self.memtable_bytes as u64 / 4
    }

    /// All memtables, the active one and those that wait.
    pub(crate) const fn memtables_bytes(&self) -> u64 {
        self.memtable_bytes as u64 * (SEALED_MAX as u64 + 1)
    }

    /// What a table may overlap of the level below it: one of a compaction's inputs decides how much of that the compaction reads.
    pub(crate) const fn overlap_bytes_max(&self) -> u64 {
        self.table_bytes.saturating_mul(OVERLAP_TABLES_MAX)
    }

    fn of(options: &Options) -> Budget {
        let memory = options.memory_bytes;
        // An eighth for memtables, the active one and those that wait, and as much for those that snapshots keep.
        let memtable_default = (memory / 8 / (SEALED_MAX as u64 + 1)).clamp(1 << 20, 64 << 20) as usize;
        let memtable_bytes = options.memtable_bytes.unwrap_or(memtable_default).next_multiple_of(4096);
        let table_bytes = options.table_bytes.unwrap_or((memtable_bytes as u64).clamp(2 << 20, 32 << 20));
        // Five eighths for caches; less if little memory is left beside the memtables, which cannot be smaller.
        let memtables_bytes = 2 * memtable_bytes as u64 * (SEALED_MAX as u64 + 1);
        let caches_bytes = (memory / 8 * 5).min((memory / 8 * 7).saturating_sub(memtables_bytes));
        Budget {
            memtable_bytes,
            cache_bytes: caches_bytes / 5,
            records_bytes: caches_bytes / 5 * 2,
            pinned_bytes: caches_bytes / 5 * 2,
            table_bytes,
            level_1_bytes: options.level_1_bytes.unwrap_or(memtable_bytes as u64 * 4),
            reserve_bytes: options.reserve_bytes.unwrap_or(table_bytes * 2 + memtable_bytes as u64 * 2),
            held_bytes: (memory / 512).clamp(128 << 10, 512 << 10) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_budget_stay_inside_it() {
        for memory_bytes in [MEMORY_BYTES_MIN, 32 << 20, 128 << 20, 1 << 30, 64 << 30] {
            let budget = Options::new(memory_bytes, Durability::Always).budget();
            let memtables = budget.memtables_bytes() * 2;
            assert!(
                memtables + budget.cache_bytes + budget.records_bytes + budget.pinned_bytes
                    <= memory_bytes * 7 / 8
            );
        }
    }

    #[test]
    fn a_budget_below_the_minimum_is_named() {
        let error = Options::new(1, Durability::Always).validate().expect_err("too small");
        assert!(error.to_string().contains("memory is 1, expected at least"), "{error}");
    }
}
