use std::sync::Arc;

use ladoga_model::{HybridClock, KEY_BYTES_MAX, Version};

use super::expiries::Expiries;
use crate::coding::{Reader, put_short_bytes};
use crate::paths::NUMBER_MAX;
use crate::record::{Kind, Record};

/// What the manifest keeps of a table, so that opening a store opens no table.
///
/// ```text
/// meta := number u64, file_bytes u64, records u64, tombstones u64, blob_bytes u64, newest timestamp u64, node u16,
///         oldest timestamp u64, node u16, smallest key, largest key, n u32, blob file u64 × n
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableMeta {
    pub number: u64,
    pub file_bytes: u64,
    pub records: u64,
    pub tombstones: u64,
    /// Bytes of blob files that the records name.
    pub blob_bytes: u64,
    pub newest: Version,
    pub oldest: Version,
    /// Shared with those who choose between tables: keys may be long.
    pub smallest: Arc<[u8]>,
    pub largest: Arc<[u8]>,
    pub blobs: Vec<u64>,
    /// How much of it expires. Stored behind the meta, if anything does.
    pub expiries: Expiries,
}

impl TableMeta {
    /// The meta of an empty table, to which records are added.
    pub(crate) fn of_nothing(number: u64) -> TableMeta {
        TableMeta {
            number,
            file_bytes: 0,
            records: 0,
            tombstones: 0,
            blob_bytes: 0,
            newest: Version::ZERO,
            oldest: Version::MAX,
            smallest: Arc::default(),
            largest: Arc::default(),
            blobs: Vec::new(),
            expiries: Expiries::default(),
        }
    }

    /// Takes in the next record. Which key is the largest is not known before the last one: see [`TableMeta::finish`].
    pub(crate) fn count(&mut self, record: &Record<'_>) {
        if self.records == 0 {
            self.smallest = record.key.into();
        }
        self.records += 1;
        self.tombstones += u64::from(record.kind == Kind::Tombstone);
        self.newest = self.newest.max(record.stamp.version);
        self.oldest = self.oldest.min(record.stamp.version);
        self.expiries.count(record);
        if let Some(blob) = record.blob() {
            self.blob_bytes += blob.len;
            self.blobs.push(blob.file);
        }
    }

    /// This was the key of the last record.
    pub(crate) fn finish(&mut self, last_key: &[u8]) {
        self.largest = last_key.into();
        self.expiries.finish();
    }

    /// Appends all but `expiries`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.number, self.file_bytes, self.records, self.tombstones, self.blob_bytes] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for version in [self.newest, self.oldest] {
            out.extend_from_slice(&version.timestamp.to_le_bytes());
            out.extend_from_slice(&version.node.to_le_bytes());
        }
        put_short_bytes(out, &self.smallest);
        put_short_bytes(out, &self.largest);
        out.extend_from_slice(&(self.blobs.len() as u32).to_le_bytes());
        self.blobs.iter().for_each(|blob| out.extend_from_slice(&blob.to_le_bytes()));
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<TableMeta> {
        let (number, file_bytes) = (reader.u64()?, reader.u64()?);
        let (records, tombstones, blob_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let newest = Version { timestamp: reader.u64()?, node: reader.u16()? };
        let oldest = Version { timestamp: reader.u64()?, node: reader.u16()? };
        let (smallest, largest) = (reader.short_bytes()?, reader.short_bytes()?);
        let count = reader.u32()? as usize;
        let blobs = reader.bytes(count.checked_mul(8)?)?;
        let (blobs, _) = blobs.as_chunks::<8>();
        let blobs: Vec<u64> = blobs.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let key = |key: &[u8]| !key.is_empty() && key.len() <= KEY_BYTES_MAX;
        let numbers = number <= NUMBER_MAX && blobs.iter().all(|blob| *blob <= NUMBER_MAX);
        let sound = numbers
            && newest.timestamp <= HybridClock::TIMESTAMP_MAX
            && tombstones <= records
            && key(smallest)
            && key(largest)
            && smallest <= largest;
        let (smallest, largest) = (smallest.into(), largest.into());
        sound.then_some(TableMeta {
            number,
            file_bytes,
            records,
            tombstones,
            blob_bytes,
            newest,
            oldest,
            smallest,
            largest,
            blobs,
            expiries: Expiries::default(),
        })
    }

    /// Whether `key` lies between the smallest and the largest key.
    #[inline]
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        *self.smallest <= *key && *key <= *self.largest
    }

    /// What it takes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<TableMeta>()
            + self.smallest.len()
            + self.largest.len()
            + size_of_val(&*self.blobs)
            + self.expiries.memory_bytes()
    }

    /// The timestamp before which all that it deletes was deleted.
    pub(crate) fn last_deletion(&self) -> u64 {
        self.newest.timestamp.max(self.expiries.last_end())
    }

    /// What this table costs on disk, its blob files included.
    pub(crate) const fn disk_bytes(&self) -> u64 {
        self.file_bytes.saturating_add(self.blob_bytes)
    }
}
