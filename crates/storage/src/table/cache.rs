//! The block cache: data blocks, and the indexes and filters of tables that are not pinned, in one budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::{Block, Resident};

/// A table's number, and an offset in its file.
pub(crate) type CacheKey = (u64, u64);

#[derive(Clone)]
pub(crate) enum CacheEntry {
    Block(Block),
    Resident(Arc<Resident>),
}

#[derive(Clone)]
struct ByBytes;

/// What an entry costs beside its bytes: the cache's own slot, the allocations' headers.
const OVERHEAD_BYTES: u64 = 160;

impl Weighter<CacheKey, CacheEntry> for ByBytes {
    fn weight(&self, _: &CacheKey, entry: &CacheEntry) -> u64 {
        OVERHEAD_BYTES
            + match entry {
                CacheEntry::Block(block) => block.memory_bytes() as u64,
                CacheEntry::Resident(resident) => resident.memory_bytes() as u64,
            }
    }
}

pub(crate) struct BlockCache {
    cache: Cache<CacheKey, CacheEntry, ByBytes>,
    capacity_bytes: u64,
    pinned_bytes: AtomicU64,
    pinned_bytes_max: u64,
}

impl BlockCache {
    pub(crate) fn new(capacity_bytes: u64, pinned_bytes_max: u64) -> BlockCache {
        let entries = (capacity_bytes / 4096) as usize;
        let cache = Cache::with_weighter(entries, capacity_bytes, ByBytes);
        BlockCache { cache, capacity_bytes, pinned_bytes: AtomicU64::new(0), pinned_bytes_max }
    }

    #[inline]
    pub(crate) fn block(&self, key: CacheKey) -> Option<Block> {
        match self.cache.get(&key)? {
            CacheEntry::Block(block) => Some(block),
            CacheEntry::Resident(_) => None,
        }
    }

    pub(crate) fn resident(&self, key: CacheKey) -> Option<Arc<Resident>> {
        match self.cache.get(&key)? {
            CacheEntry::Resident(resident) => Some(resident),
            CacheEntry::Block(_) => None,
        }
    }

    pub(crate) fn insert(&self, key: CacheKey, entry: CacheEntry) {
        self.cache.insert(key, entry);
    }

    pub(crate) fn remove(&self, key: CacheKey) {
        self.cache.remove(&key);
    }

    /// Takes `bytes` of the budget for what stays in memory; `false` if there is not so much.
    pub(crate) fn pin(&self, bytes: u64) -> bool {
        let taken = self.pinned_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pinned| {
            (pinned + bytes <= self.pinned_bytes_max).then_some(pinned + bytes)
        });
        taken.is_ok()
    }

    /// Takes `bytes` of the same budget for what there is no choice about.
    pub(crate) fn hold(&self, bytes: u64) {
        self.pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn unpin(&self, bytes: u64) {
        self.pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.cache.weight()
    }

    pub(crate) const fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ladoga_model::{Stamp, Version};

    use super::OVERHEAD_BYTES;
    use crate::{Background, Compression, Durability, Engine, LEVELS, Options, WriteBatch};

    #[test]
    fn blocks_count_with_the_padding_that_they_keep() {
        let (env, _, _) = ladoga_env::sim::env(1);
        let options = Options {
            background: Background::Manual,
            compression: [Compression::None; LEVELS],
            reserve_bytes: Some(0),
            first_segment_bytes: Some(u64::MAX),
            ..Options::new(16 << 20, Durability::Never)
        };
        let engine = Engine::open(env, Path::new("/data"), options).expect("a new store");
        let mut batch = WriteBatch::new();
        for key in 1..300_u64 {
            let stamp = Stamp::new(Version { timestamp: key, node: 1 });
            batch.put(&key.to_be_bytes(), stamp, &[7; 900]);
        }
        engine.write_group(&[batch]).expect("room");
        engine.seal().expect("room");
        assert!(engine.step().expect("a sound disk"));
        let snapshot = engine.snapshot();
        for key in 1..300_u64 {
            assert!(snapshot.get_cell(&key.to_be_bytes()).expect("a sound disk").is_some());
        }
        let statistics = engine.statistics();
        let (blocks, read) = (statistics.block_reads, statistics.block_read_bytes);
        assert!(read > blocks * 4000 && blocks > 70, "{blocks} blocks of {read} bytes fill their pages");
        assert_eq!(statistics.cache_bytes, read + blocks * OVERHEAD_BYTES);
    }
}
