//! The record cache: for keys that were read or flushed lately, the newest cell that the tables have.
//!
//! A point read of a table touches its filter, its index, a cached block and the block's own index, each in another place of
//! the memory. Here it touches a bucket and the record; and memory holds records that are read instead of the blocks around
//! them.
//!
//! A shard is a ring of records, which is filled from the front and then overwritten from the oldest on, and a table of buckets
//! that maps a key's hash to places in the ring. A place is valid until the ring comes round to it.
//!
//! Invariant of a cached cell: no table of the published levels has a newer one. A flush preserves it by `begin_flush
//! (flushed)* publish`; a reader by reading [`RecordCache::generation`] before its view and passing it to
//! [`RecordCache::keep`], which takes nothing if a flush began in between.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ladoga_model::{Stamp, Version};
use parking_lot::RwLock;

use crate::coding::Reader;
use crate::prefetch::{prefetch_bytes, prefetch_line};
use crate::record::{Kind, Record};

/// Longer records are left to the block cache: few of them would drive out many.
const RECORD_BYTES_MAX: usize = 16 << 10;
/// A shard at least this large holds sixty of the longest.
const SHARD_BYTES_MIN: usize = 1 << 20;
const SHARDS_MAX: usize = 64;
/// Places in a bucket: one line of the processor's cache.
const BUCKET_SLOTS: usize = 8;
/// One slot for this many bytes of the ring: most records are longer, so few buckets are full.
const BYTES_A_SLOT: usize = 64;
/// Records begin at multiples of it, and places count in it.
const UNIT: usize = 8;
/// What is fetched ahead of a record whose length is not known yet.
const RECORD_BYTES_FETCHED: usize = 128;
/// A slot is a tag of 16 bits above a place of 48.
const PLACE_BITS: u32 = 48;

pub(crate) struct RecordCache {
    shards: Box<[Aligned]>,
    generation: AtomicU64,
}

/// The locks of two shards do not share a line.
#[repr(align(128))]
struct Aligned {
    shard: RwLock<Shard>,
    buckets: Buckets,
}

/// Where the buckets of a shard are. That never changes, so it can be known without the lock.
#[derive(Clone, Copy)]
struct Buckets {
    address: usize,
    count: usize,
}

impl Buckets {
    /// The one that a hash belongs to: the shard took the low bits, the tag takes the high ones.
    #[inline]
    const fn index(self, hash: u64) -> usize {
        ((((hash >> 8) & 0xffff_ffff) * self.count as u64) >> 32) as usize
    }
}

struct Shard {
    /// Buckets of [`BUCKET_SLOTS`], from `first_slot` on; 0 is empty.
    slots: Vec<u64>,
    first_slot: usize,
    buckets: Buckets,
    ring: Vec<u8>,
    /// Where the next record goes, counted on when the ring begins again.
    end: usize,
    scratch: Vec<u8>,
}

impl RecordCache {
    /// A cache that takes at most this many bytes, its buckets included.
    pub(crate) fn new(bytes: u64) -> RecordCache {
        let bytes = bytes as usize;
        let count = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let count = if count.is_power_of_two() { count } else { count.next_power_of_two() / 2 };
        let shards = (0..count).map(|_| Aligned::new(bytes / count)).collect();
        RecordCache { shards, generation: AtomicU64::new(0) }
    }

    #[inline]
    fn aligned(&self, hash: u64) -> &Aligned {
        &self.shards[hash as usize & (self.shards.len() - 1)]
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.aligned(hash).shard
    }

    /// Prefetches the bucket that [`RecordCache::get`] looks at.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let buckets = self.aligned(hash).buckets;
        prefetch_line(buckets.address + buckets.index(hash) * BUCKET_SLOTS * size_of::<u64>());
    }

    /// Prefetches the record that [`RecordCache::get`] probably finds; its bucket was prefetched before.
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) {
        self.shard(hash).read().prefetch(hash);
    }

    /// Counts the flushes that began.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The newest cell of `key` that tables have, if it is here: it has a value, in memory.
    #[inline]
    pub(crate) fn get(&self, hash: u64, key: &[u8]) -> Option<(Stamp, Bytes)> {
        let shard = self.shard(hash).read();
        let (_, record) = shard.find(hash, key)?;
        Some((record.stamp, Bytes::copy_from_slice(record.value)))
    }

    /// Takes what a reader found to be the tables' newest cell of a key, unless a flush began since `generation`.
    pub(crate) fn keep(&self, generation: u64, hash: u64, record: &Record<'_>) {
        if !is_cacheable(record) {
            return;
        }
        let mut shard = self.shard(hash).write();
        if self.generation() == generation {
            shard.put(hash, record);
        }
    }

    /// A memtable is about to become a table: what readers found before is out of date from now on.
    pub(crate) fn begin_flush(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Updates the cache with records that are about to be in a table, by their hashes. Each replaces an older cell of its key,
    /// or takes a free place if it is newer than all that the tables have; it evicts no other key.
    pub(crate) fn flushed(&self, flushed: &[(u64, Record<'_>)], newest_of_tables: Version) {
        // Each is in two places of the memory: the processor fetches those of all of them at once.
        flushed.iter().for_each(|(hash, _)| self.prefetch(*hash));
        flushed.iter().for_each(|(hash, _)| self.prefetch_record(*hash));
        flushed.iter().for_each(|(hash, record)| self.flushed_one(*hash, record, newest_of_tables));
    }

    fn flushed_one(&self, hash: u64, record: &Record<'_>, newest_of_tables: Version) {
        let mut shard = self.shard(hash).write();
        let cached = shard.find(hash, record.key).map(|(slot, cached)| (slot, cached.stamp.version));
        match cached {
            Some((_, version)) if version >= record.stamp.version => {}
            Some((slot, _)) if !is_cacheable(record) => shard.slots[slot] = 0,
            None if record.stamp.version <= newest_of_tables => {}
            None if !is_cacheable(record) || shard.has_come_round() => {}
            Some(_) | None => shard.put(hash, record),
        }
    }

    /// How many bytes of records it has or had room for.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.shard.read().used_bytes() as u64).sum()
    }
}

fn is_cacheable(record: &Record<'_>) -> bool {
    record.kind == Kind::Value && record.encoded_bytes() <= RECORD_BYTES_MAX
}

impl Aligned {
    fn new(bytes: usize) -> Aligned {
        let shard = Shard::new(bytes);
        Aligned { buckets: shard.buckets, shard: RwLock::new(shard) }
    }
}

impl Shard {
    fn new(bytes: usize) -> Shard {
        let slots = bytes / (BYTES_A_SLOT + size_of::<u64>());
        let buckets = (slots / BUCKET_SLOTS).max(1);
        // Memory that is zero and never touched costs nothing; one line more, so that buckets begin with a line.
        let slots = vec![0_u64; (buckets + 1) * BUCKET_SLOTS];
        let first_slot = slots.as_ptr().align_offset(BUCKET_SLOTS * size_of::<u64>()).min(BUCKET_SLOTS);
        let ring_bytes = bytes.saturating_sub(slots.len() * size_of::<u64>()).max(RECORD_BYTES_MAX);
        let ring = vec![0; ring_bytes.next_multiple_of(UNIT)];
        // No record begins at place 0, which means none.
        let buckets = Buckets { address: slots[first_slot..].as_ptr().addr(), count: buckets };
        Shard { slots, first_slot, buckets, ring, end: UNIT, scratch: Vec::new() }
    }

    fn bucket(&self, hash: u64) -> std::ops::Range<usize> {
        let first = self.first_slot + self.buckets.index(hash) * BUCKET_SLOTS;
        first..first + BUCKET_SLOTS
    }

    /// Prefetches the record that the hash probably belongs to.
    fn prefetch(&self, hash: u64) {
        let slots = &self.slots[self.bucket(hash)];
        if let Some(&slot) = slots.iter().find(|&&slot| slot >> PLACE_BITS == hash >> PLACE_BITS) {
            prefetch_bytes(self.ring.as_ptr().addr() + place(slot) % self.ring.len(), RECORD_BYTES_FETCHED);
        }
    }

    /// The slot and the record of `key`.
    fn find(&self, hash: u64, key: &[u8]) -> Option<(usize, Record<'_>)> {
        let bucket = self.bucket(hash);
        let first = bucket.start;
        for (index, &slot) in self.slots[bucket].iter().enumerate() {
            if slot >> PLACE_BITS == hash >> PLACE_BITS
                && let Some(record) = self.record(slot)
                && record.key == key
            {
                return Some((first + index, record));
            }
        }
        None
    }

    /// The record that a slot names, unless it is overwritten.
    fn record(&self, slot: u64) -> Option<Record<'_>> {
        let place = place(slot);
        if place == 0 || place + self.ring.len() < self.end {
            return None;
        }
        Record::decode(&mut Reader::new(&self.ring[place % self.ring.len()..]))
    }

    /// Puts a record in the place of its key's older one, or at the end of the ring.
    fn put(&mut self, hash: u64, record: &Record<'_>) {
        let mut target = None;
        if let Some((slot, old)) = self.find(hash, record.key) {
            if old.stamp.version >= record.stamp.version {
                return;
            }
            target = Some((slot, old.encoded_bytes()));
        }
        self.scratch.clear();
        record.encode(&mut self.scratch);
        let bytes = self.scratch.len();
        let (slot, place) = match target {
            Some((slot, old_bytes)) if old_bytes == bytes => (slot, place(self.slots[slot])),
            Some((slot, _)) => (slot, self.reserve(bytes)),
            None => (self.victim(hash), self.reserve(bytes)),
        };
        let at = place % self.ring.len();
        self.ring[at..at + bytes].copy_from_slice(&self.scratch);
        self.slots[slot] = (hash >> PLACE_BITS << PLACE_BITS) | (place / UNIT) as u64;
    }

    /// Room at the end of the ring; a record does not wrap.
    fn reserve(&mut self, bytes: usize) -> usize {
        let ring = self.ring.len();
        if self.end % ring + bytes > ring {
            self.end = self.end.next_multiple_of(ring);
        }
        let place = self.end;
        self.end += bytes.next_multiple_of(UNIT);
        place
    }

    /// The slot to use for a new key: an empty one, or that of the oldest record.
    fn victim(&self, hash: u64) -> usize {
        self.bucket(hash).min_by_key(|&slot| place(self.slots[slot])).expect("a bucket has slots")
    }

    fn has_come_round(&self) -> bool {
        self.end + RECORD_BYTES_MAX > self.ring.len()
    }

    fn used_bytes(&self) -> usize {
        self.end.min(self.ring.len())
    }
}

const fn place(slot: u64) -> usize {
    (slot & ((1 << PLACE_BITS) - 1)) as usize * UNIT
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::coding::key_hash;

    fn record<'a>(key: &'a [u8], timestamp: u64, value: &'a [u8]) -> Record<'a> {
        let stamp = Stamp { version: version(timestamp), ..Stamp::default() };
        Record { key, stamp, kind: Kind::Value, value }
    }

    const fn version(timestamp: u64) -> Version {
        Version { timestamp, node: 1 }
    }

    fn keep(cache: &RecordCache, record: &Record<'_>) {
        cache.keep(cache.generation(), key_hash(record.key), record);
    }

    fn value(cache: &RecordCache, key: &[u8]) -> Option<Bytes> {
        cache.get(key_hash(key), key).map(|(_, value)| value)
    }

    #[test]
    fn a_reader_from_before_a_flush_keeps_nothing() {
        let cache = RecordCache::new(1 << 20);
        let generation = cache.generation();
        cache.begin_flush();
        let tombstone = Record { kind: Kind::Tombstone, value: b"", ..record(b"key", 2, b"") };
        cache.flushed(&[(key_hash(b"key"), tombstone)], version(1));
        cache.keep(generation, key_hash(b"key"), &record(b"key", 1, b"old"));
        assert_eq!(value(&cache, b"key"), None);
        keep(&cache, &record(b"key", 3, b"new"));
        assert_eq!(value(&cache, b"key").as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn what_is_flushed_replaces_what_is_older_and_nothing_else() {
        let cache = RecordCache::new(1 << 20);
        keep(&cache, &record(b"a", 5, b"five"));
        keep(&cache, &record(b"b", 5, b"five"));
        keep(&cache, &record(b"c", 5, b"five"));
        cache.begin_flush();
        let large = vec![1; RECORD_BYTES_MAX];
        cache.flushed(&[(key_hash(b"a"), record(b"a", 4, b"four"))], version(5));
        cache.flushed(&[(key_hash(b"b"), record(b"b", 6, b"sixsix"))], version(5));
        cache.flushed(&[(key_hash(b"c"), record(b"c", 6, &large))], version(5));
        assert_eq!(value(&cache, b"a").as_deref(), Some(&b"five"[..]));
        assert_eq!(value(&cache, b"b").as_deref(), Some(&b"sixsix"[..]));
        assert_eq!(value(&cache, b"c"), None);
    }

    #[test]
    fn a_flush_drives_nobody_out() {
        let cache = RecordCache::new(1 << 20);
        let keys: Vec<Vec<u8>> = (0..20_000_u32).map(|n| n.to_be_bytes().to_vec()).collect();
        for key in &keys {
            keep(&cache, &record(key, 1, &[7; 100]));
        }
        let held: Vec<_> = keys.iter().filter(|key| value(&cache, key).is_some()).collect();
        assert!(held.len() > 5_000 && held.len() < 9_000, "{}", held.len());
        for n in 100_000..200_000_u32 {
            cache
                .flushed(&[(key_hash(&n.to_be_bytes()), record(&n.to_be_bytes(), 1, &[7; 100]))], version(0));
        }
        assert!(held.iter().all(|key| value(&cache, key).is_some()));
        assert!(cache.bytes() <= 1 << 20);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// What is there is the newest, however small the ring and in whatever order versions arrive.
        #[test]
        fn an_answer_is_the_newest_version(
            actions in prop::collection::vec((0..60_u8, 1..50_u64, 0..3000_usize, 0..4_u8), 1..400),
        ) {
            let cache = RecordCache::new(40 << 10);
            let mut newest = BTreeMap::new();
            let mut newest_of_all = 0;
            for (key, timestamp, len, action) in actions {
                let key = [key];
                let best = newest.entry(key).or_insert((0, 0, false));
                if best.0 < timestamp {
                    *best = (timestamp, len, action == 0);
                }
                // A reader knows the newest only, a flush may bring an older one.
                let (newest_timestamp, newest_len, is_deleted) = *best;
                let is_late = action == 1 && timestamp < newest_timestamp;
                let (timestamp, len) = if is_late { (timestamp, len) } else { (newest_timestamp, newest_len) };
                let value = vec![timestamp as u8; len];
                let mut cell = record(&key, timestamp, &value);
                if is_deleted && !is_late {
                    cell = Record { kind: Kind::Tombstone, value: b"", ..cell };
                }
                if action < 2 {
                    cache.begin_flush();
                    cache.flushed(&[(key_hash(&key), cell)], version(newest_of_all));
                } else {
                    keep(&cache, &cell);
                }
                newest_of_all = newest_of_all.max(cell.stamp.version.timestamp);
                for (key, &(timestamp, len, is_deleted)) in &newest {
                    if let Some((stamp, value)) = cache.get(key_hash(key), key) {
                        prop_assert!(!is_deleted);
                        prop_assert_eq!(stamp.version.timestamp, timestamp);
                        prop_assert!(value == vec![timestamp as u8; len]);
                    }
                }
            }
        }
    }
}
