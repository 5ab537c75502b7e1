//! Counters. Those of the hot path are striped, so that threads do not fight over a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::error::Error;

const STRIPES: usize = 16;

#[repr(align(128))]
#[derive(Default)]
struct Stripe(AtomicU64);

/// A counter that many threads add to.
#[derive(Default)]
pub(crate) struct Counter {
    stripes: [Stripe; STRIPES],
}

fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
    }
    MINE.with(Cell::get)
}

impl Counter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.stripes[stripe()].0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}

/// One count of many in a stripe.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

/// What a point read counts, in one line of the processor's cache: a read counts several of these.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct ReadCounts {
    pub record_hits: Count,
    pub record_misses: Count,
    pub cache_hits: Count,
    pub cache_misses: Count,
    pub block_reads: Count,
    pub block_read_bytes: Count,
    pub filter_negatives: Count,
    pub corrupt_reads: Count,
}

/// What point reads count on many threads.
#[derive(Default)]
pub(crate) struct ReadCounters {
    stripes: [ReadCounts; STRIPES],
}

impl ReadCounters {
    /// Those of this thread's stripe.
    #[inline]
    pub(crate) fn mine(&self) -> &ReadCounts {
        &self.stripes[stripe()]
    }

    /// One of them, of all threads.
    pub(crate) fn sum(&self, one: impl Fn(&ReadCounts) -> &Count) -> u64 {
        self.stripes.iter().map(|counts| one(counts).0.load(Ordering::Relaxed)).sum()
    }
}

/// Upper bounds of the histogram's buckets in microseconds; one more bucket takes what is above the last.
pub const LATENCY_BOUNDS_US: [u64; 16] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000,
];

/// How long something took, in buckets.
#[derive(Default)]
pub(crate) struct LatencyHistogram {
    buckets: [AtomicU64; LATENCY_BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

impl LatencyHistogram {
    pub(crate) fn record(&self, nanoseconds: u64) {
        let bucket = LATENCY_BOUNDS_US.partition_point(|&bound| bound * 1_000 < nanoseconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Latencies {
        let buckets = std::array::from_fn(|index| self.buckets[index].load(Ordering::Relaxed));
        Latencies { buckets, sum_ns: self.sum_ns.load(Ordering::Relaxed) }
    }
}

/// A histogram as of one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Latencies {
    /// How many fell into each bucket of [`LATENCY_BOUNDS_US`], and above the last.
    pub buckets: [u64; LATENCY_BOUNDS_US.len() + 1],
    /// All together, in nanoseconds.
    pub sum_ns: u64,
}

impl Latencies {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What the engine counts while it runs.
#[derive(Default)]
pub(crate) struct Counters {
    pub reads: ReadCounters,
    pub write_groups: Counter,
    pub write_records: Counter,
    pub wal_bytes: Counter,
    pub syncs: LatencyHistogram,
    pub flushes: Counter,
    pub flush_bytes: Counter,
    pub compactions: Counter,
    pub expired_values: Counter,
    pub compaction_read_bytes: Counter,
    pub compaction_written_bytes: Counter,
    pub background_failures: Counter,
    /// Waits of writers for a flush.
    pub stalls: LatencyHistogram,
    /// Nanoseconds by which writers were slowed down.
    pub slowed_ns: Counter,
    pub refused_full: Counter,
}

impl Counters {
    /// Counts a read that did not get the bytes that were written, unless it only lacked a descriptor.
    pub(crate) fn count_failed_read(&self, error: &Error) {
        if !error.may_pass() {
            self.reads.mine().corrupt_reads.add(1);
        }
    }
}

/// One level as of one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct LevelStatistics {
    /// How many tables it has.
    pub tables: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// How many records they have, tombstones included.
    pub records: u64,
}

/// What the engine knows about itself.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// Bytes in the memtable that takes writes.
    pub memtable_bytes: u64,
    /// Memtables that wait for their flush.
    pub sealed_memtables: u64,
    /// Bytes in those.
    pub sealed_bytes: u64,
    /// Levels from 0.
    pub levels: Vec<LevelStatistics>,
    /// Live blob files.
    pub blob_files: u64,
    /// Bytes of live blob files that tables and memtables name.
    pub blob_bytes: u64,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// Its capacity in bytes.
    pub cache_capacity_bytes: u64,
    /// Bytes of indexes and filters that stay in memory, and of the metadata of each table.
    pub pinned_bytes: u64,
    /// Bytes in the record cache.
    pub record_cache_bytes: u64,
    /// Reads beyond the memtables that the record cache answered.
    pub record_cache_hits: u64,
    /// Those that it could not.
    pub record_cache_misses: u64,
    /// Blocks found in the cache.
    pub cache_hits: u64,
    /// Blocks not found there.
    pub cache_misses: u64,
    /// Blocks read from files.
    pub block_reads: u64,
    /// Their bytes.
    pub block_read_bytes: u64,
    /// Tables that a filter saved a read of.
    pub filter_negatives: u64,
    /// Reads that did not get the bytes that were written: they are others, they are gone, or the disk does not give them.
    pub corrupt_reads: u64,
    /// Groups of writes: each one log frame, and with `always` one sync.
    pub write_groups: u64,
    /// Records in them.
    pub write_records: u64,
    /// Bytes appended to the log.
    pub wal_bytes: u64,
    /// Syncs of the log, and how long they took.
    pub syncs: Latencies,
    /// Memtables written to tables.
    pub flushes: u64,
    /// Bytes of those tables.
    pub flush_bytes: u64,
    /// Compactions.
    pub compactions: u64,
    /// Values that compactions took the bytes of, because they had expired.
    pub expired_values: u64,
    /// Bytes of the tables that they read.
    pub compaction_read_bytes: u64,
    /// Bytes of the tables that they wrote.
    pub compaction_written_bytes: u64,
    /// Flushes and compactions that failed, and are tried again.
    pub background_failures: u64,
    /// Waits of writers for a flush, and how long they were.
    pub stalls: Latencies,
    /// Nanoseconds by which writers were slowed down.
    pub slowed_ns: u64,
    /// Writes refused because the disk was full.
    pub refused_full: u64,
    /// Bytes that were free on the disk at the last look.
    pub free_bytes: u64,
    /// The log that is kept for backups.
    pub kept_log: KeptStatistics,
}

/// The log that a store keeps for backups; all zeros if it keeps none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeptStatistics {
    /// Segments.
    pub segments: u64,
    /// Bytes of them, and of the large values that they name: of each once, also if the store uses it.
    pub bytes: u64,
    /// When the oldest of them was full, in milliseconds since 1970; 0 if there is none.
    pub oldest_ms: u64,
    /// Segments that could not be kept, or that a full disk had removed before their time; since the store was opened.
    pub gaps: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fall_into_the_bucket_of_their_bound() {
        let histogram = LatencyHistogram::default();
        histogram.record(10_000);
        histogram.record(10_001);
        histogram.record(5_000_000_000);
        let read = histogram.read();
        assert_eq!((read.buckets[0], read.buckets[1], read.buckets[16]), (1, 1, 1));
        assert_eq!((read.count(), read.sum_ns), (3, 5_000_020_001));
    }

    #[test]
    fn a_counter_adds_up_over_threads() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.add(1)));
            }
        });
        assert_eq!(counter.get(), 4000);
    }
}
