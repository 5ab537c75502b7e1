//! The newest writes, in memory: found by hash in a few cache misses, put into order only when somebody asks for an
//! order (a range, a flush). See `docs/decisions/0003-memtable-by-hash-ordered-on-demand.md` for why it is no tree.

mod arena;
mod node;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::blob::BlobRef;
use crate::coding::key_hash;
use crate::prefetch::{KEYS_AHEAD_MAX, prefetch};
use crate::record::{Kind, Record};
use crate::table::Table;
use arena::{Arena, zeroed_words};
use node::{KeyNode, ValueNode, node_bytes};
pub(crate) use order::RunCursor;
use order::SortedRuns;

/// Bytes of memtable for one bucket; about one key each for small records.
const BYTES_PER_BUCKET: usize = 128;
/// How many keys of a bucket are fetched ahead: few buckets have more.
const CHAIN_AHEAD_MAX: usize = 3;

/// A memtable: one writer, any number of readers, and none of them ever waits.
pub(crate) struct Memtable {
    arena: Arena,
    buckets: Box<[AtomicU32]>,
    /// Which bucket a hash belongs to: odd, and by chance. Who knows only the hashes of keys cannot tell which of them share
    /// a bucket, and so cannot have all of them do so.
    multiplier: u64,
    /// The key that arrived last; the beginning of the list of all keys.
    last_key: AtomicU32,
    counts: Counts,
    /// Blob files that the values are in, also of versions that are no longer the newest.
    blobs: Mutex<BTreeMap<u64, BlobRef>>,
    runs: Mutex<SortedRuns>,
    /// The log whose records are here.
    wal_number: u64,
    /// The sequence of the first group that is not here; behind all others until that is known.
    end_sequence: AtomicU64,
    /// The tables that it was flushed to, once it is.
    flushed: OnceLock<Vec<Arc<Table>>>,
}

#[derive(Default)]
struct Counts {
    keys: AtomicU64,
    records: AtomicU64,
    tombstones: AtomicU64,
    blob_bytes: AtomicU64,
}

/// Adds one; only for counters that one thread writes.
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl Memtable {
    pub(crate) fn wal_number(&self) -> u64 {
        self.wal_number
    }

    /// The sequence of the first group behind those in this memtable; known once it is sealed.
    pub(crate) fn end_sequence(&self) -> u64 {
        self.end_sequence.load(Ordering::Acquire)
    }

    pub(crate) fn seal(&self, end_sequence: u64) {
        self.end_sequence.store(end_sequence, Ordering::Release);
    }

    /// Says to which tables it was flushed.
    pub(crate) fn flushed_to(&self, tables: Vec<Arc<Table>>) {
        let first = self.flushed.set(tables).is_ok();
        assert!(first, "a memtable is flushed once");
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.flushed.get().is_some()
    }

    /// The tables that read the same as this memtable at `sequence`, if it has been flushed: tables have only the newest
    /// versions, so everything here must have been written by `sequence`. One that is not sealed has no end: it may get
    /// more, be sealed and be flushed between the two looks.
    pub(crate) fn tables_at(&self, sequence: u64) -> Option<&[Arc<Table>]> {
        let is_complete = sequence != u64::MAX && self.end_sequence() <= sequence.saturating_add(1);
        self.flushed.get().filter(|_| is_complete).map(Vec::as_slice)
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        (self.arena.used() + self.buckets.len() * 4) as u64
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> u64 {
        self.counts.keys.load(Ordering::Relaxed)
    }

    pub(crate) fn records(&self) -> u64 {
        self.counts.records.load(Ordering::Relaxed)
    }

    pub(crate) fn tombstones(&self) -> u64 {
        self.counts.tombstones.load(Ordering::Relaxed)
    }

    pub(crate) fn blob_bytes(&self) -> u64 {
        self.counts.blob_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records() == 0
    }

    #[inline]
    fn bucket(&self, hash: u64) -> &AtomicU32 {
        // The upper bits of a product (Dietzfelbinger et al., 1997); there is a power of two of buckets.
        let bits = self.buckets.len().trailing_zeros();
        &self.buckets[((hash.wrapping_mul(self.multiplier) >> 1) >> (63 - bits)) as usize]
    }

    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<KeyNode<'_>> {
        let mut offset = self.bucket(hash).load(Ordering::Acquire);
        while offset != 0 {
            let node = KeyNode::at(&self.arena, offset);
            if node.hash() == (hash >> 32) as u32 && node.key() == key {
                return Some(node);
            }
            offset = node.next();
        }
        None
    }

    /// Prefetches the nodes that look-ups of keys with these hashes probably end at: one step of all of them after the other.
    pub(crate) fn fetch_ahead(&self, hashes: &[u64]) {
        let mut nodes = [0; KEYS_AHEAD_MAX];
        let looks = || hashes.iter().take(KEYS_AHEAD_MAX);
        looks().for_each(|&hash| prefetch(self.bucket(hash)));
        for (node, &hash) in nodes.iter_mut().zip(looks()) {
            *node = self.bucket(hash).load(Ordering::Acquire);
            self.prefetch_node(*node);
        }
        for _ in 0..CHAIN_AHEAD_MAX {
            for (offset, &hash) in nodes.iter_mut().zip(looks()).filter(|(offset, _)| **offset != 0) {
                let node = KeyNode::at(&self.arena, *offset);
                let is_found = node.hash() == (hash >> 32) as u32;
                if is_found {
                    node.newest().prefetch();
                }
                *offset = if is_found { 0 } else { node.next() };
                self.prefetch_node(*offset);
            }
        }
    }

    fn prefetch_node(&self, offset: u32) {
        if offset != 0 {
            KeyNode::at(&self.arena, offset).prefetch();
        }
    }

    /// The newest version of `key` that was written at or before `sequence`.
    #[inline]
    pub(crate) fn get(&self, hash: u64, key: &[u8], sequence: u64) -> Option<Record<'_>> {
        self.find(hash, key)?.record_at(sequence)
    }

    /// Another reference to the blob file `number`, which a record of this memtable names.
    pub(crate) fn blob_ref(&self, number: u64) -> Option<BlobRef> {
        self.blobs.lock().get(&number).cloned()
    }

    /// The numbers of all blob files that it keeps.
    pub(crate) fn blob_numbers(&self) -> BTreeSet<u64> {
        self.blobs.lock().keys().copied().collect()
    }

    /// Cursors over all keys, in order, one for each sorted run; together they cover everything up to now.
    pub(crate) fn cursors(self: &Arc<Self>, sequence: u64) -> Vec<RunCursor> {
        let mut runs = self.runs.lock();
        runs.add_new(&self.arena, self.last_key.load(Ordering::Acquire));
        runs.iter().map(|run| RunCursor::new(self.clone(), run.clone(), sequence)).collect()
    }

    /// A cursor over everything, for a memtable that is no longer written.
    pub(crate) fn sorted(self: &Arc<Self>) -> RunCursor {
        let mut runs = self.runs.lock();
        runs.add_new(&self.arena, self.last_key.load(Ordering::Acquire));
        let run = runs.merge_all(&self.arena);
        RunCursor::new(self.clone(), run, u64::MAX)
    }

    /// The same for a thread that may be without a core for long: it sorts for itself only, so nobody ever waits for it.
    pub(crate) fn sorted_alone(self: &Arc<Self>) -> RunCursor {
        let mut runs = SortedRuns::default();
        runs.add_new(&self.arena, self.last_key.load(Ordering::Acquire));
        RunCursor::new(self.clone(), runs.merge_all(&self.arena), u64::MAX)
    }
}

/// The most that `records` records of `bytes` encoded bytes in all take in a memtable.
pub(crate) const fn worst_bytes(records: usize, bytes: usize) -> usize {
    bytes + records * (node_bytes(0, 0) + 14)
}

/// Why a record was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MemtableFull;

impl Memtable {
    /// One that has nothing and takes nothing.
    pub(crate) fn empty() -> Arc<Memtable> {
        MemtableWriter::new(EMPTY_BYTES, 0, 0).table
    }
}

/// The least that an arena can be.
const EMPTY_BYTES: usize = 64;

/// What the buckets take by which a memtable finds its records, beside those.
pub(crate) const fn bucket_bytes(capacity: usize) -> u64 {
    ((capacity / BYTES_PER_BUCKET).next_power_of_two() * size_of::<AtomicU32>()) as u64
}

/// The memory of a memtable without its records. What was used before is in the page tables already.
pub(crate) struct Spare {
    arena: Arena,
    /// All zero.
    buckets: Box<[AtomicU32]>,
}

impl Spare {
    fn new(capacity: usize) -> Spare {
        let buckets = bucket_bytes(capacity) as usize / size_of::<AtomicU32>();
        Spare { arena: Arena::new(capacity), buckets: zeroed_words(buckets) }
    }

    /// The memory of a memtable, for the next one; `None` if anything else still uses it.
    pub(crate) fn of(memtable: Arc<Memtable>) -> Option<Spare> {
        let Memtable { mut arena, mut buckets, .. } = Arc::into_inner(memtable)?;
        arena.clear();
        buckets.iter_mut().for_each(|bucket| *bucket.get_mut() = 0);
        Some(Spare { arena, buckets })
    }

    /// How large a memtable in it is.
    pub(crate) const fn capacity(&self) -> usize {
        self.arena.capacity()
    }
}

/// The one writer of a memtable.
pub(crate) struct MemtableWriter {
    table: Arc<Memtable>,
}

impl MemtableWriter {
    /// A writer of an empty memtable; `seed` is a random number.
    pub(crate) fn new(capacity: usize, wal_number: u64, seed: u64) -> MemtableWriter {
        MemtableWriter::within(Spare::new(capacity), wal_number, seed)
    }

    /// The same in this memory.
    pub(crate) fn within(Spare { arena, buckets }: Spare, wal_number: u64, seed: u64) -> MemtableWriter {
        let table = Arc::new(Memtable {
            arena,
            buckets,
            multiplier: seed | 1,
            last_key: AtomicU32::new(0),
            counts: Counts::default(),
            blobs: Mutex::default(),
            runs: Mutex::default(),
            wal_number,
            end_sequence: AtomicU64::new(u64::MAX),
            flushed: OnceLock::new(),
        });
        MemtableWriter { table }
    }

    pub(crate) const fn table(&self) -> &Arc<Memtable> {
        &self.table
    }

    /// Whether `records` records of `bytes` encoded bytes in all are sure to fit.
    pub(crate) fn has_room(&self, records: usize, bytes: usize) -> bool {
        worst_bytes(records, bytes) <= self.table.arena.room(self.table.arena.used())
    }

    /// Keeps blob files from being removed while this memtable names them.
    pub(crate) fn keep_blobs(&mut self, blobs: &[BlobRef]) {
        if !blobs.is_empty() {
            self.table.blobs.lock().extend(blobs.iter().map(|blob| (blob.number(), blob.clone())));
        }
    }

    /// Makes a record visible. A record that is not newer than the stored one has no effect: the newest version wins in
    /// whatever order they arrive.
    pub(crate) fn insert(&mut self, sequence: u64, record: &Record<'_>) -> Result<(), MemtableFull> {
        let table = &*self.table;
        let hash = key_hash(record.key);
        if let Some(node) = table.find(hash, record.key) {
            let newest = node.newest();
            if newest.version() < record.stamp.version {
                let value = ValueNode::create(&table.arena, newest.offset(), sequence, record);
                node.publish_newest(value.ok_or(MemtableFull)?);
            }
        } else {
            self.insert_key(hash, sequence, record)?;
        }
        self.count(record);
        Ok(())
    }

    fn insert_key(&mut self, hash: u64, sequence: u64, record: &Record<'_>) -> Result<(), MemtableFull> {
        let table = &*self.table;
        let bucket = table.bucket(hash);
        let (next, previous) = (bucket.load(Ordering::Relaxed), table.last_key.load(Ordering::Relaxed));
        // Both nodes fit, or neither is begun.
        if node_bytes(record.key.len(), record.value.len()) > table.arena.room(table.arena.used()) {
            return Err(MemtableFull);
        }
        let value = ValueNode::create(&table.arena, 0, sequence, record).ok_or(MemtableFull)?;
        let node = KeyNode::create(&table.arena, next, (hash >> 32) as u32, value, previous, record.key);
        let node = node.ok_or(MemtableFull)?;
        table.last_key.store(node.offset, Ordering::Release);
        bucket.store(node.offset, Ordering::Release);
        bump(&table.counts.keys, 1);
        Ok(())
    }

    fn count(&self, record: &Record<'_>) {
        let counts = &self.table.counts;
        bump(&counts.records, 1);
        bump(&counts.tombstones, u64::from(record.kind == Kind::Tombstone));
        bump(&counts.blob_bytes, record.blob_bytes());
    }
}

#[cfg(test)]
mod tests;
