use ladoga_model::{Stamp, Version, check_key};

use crate::blob::{BlobRef, FinishedBlob};
use crate::coding::Reader;
use crate::record::{INLINE_BYTES_MAX, Kind, Record};

/// Cells that become durable and visible together, or not at all.
///
/// Encoded as it is built, on the thread that builds it, so that the thread which commits only copies.
#[derive(Debug, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    puts: usize,
    records: usize,
    /// Keeps the files from being removed until a memtable refers to them.
    blobs: Vec<BlobRef>,
}

impl WriteBatch {
    /// A batch of nothing.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Stores `value` under `key`. Values of [`crate::BLOB_BYTES_MIN`] and more go through
    /// [`WriteBatch::put_blob`].
    ///
    /// # Panics
    /// Where the key is none, or the value too long: callers check what users give them.
    pub fn put(&mut self, key: &[u8], stamp: Stamp, value: &[u8]) {
        assert!(value.len() <= INLINE_BYTES_MAX, "large values go to blob files");
        self.push(Record { key, stamp, kind: Kind::Value, value });
        self.puts += 1;
    }

    /// Stores a value that was written to a blob file before.
    pub fn put_blob(&mut self, key: &[u8], stamp: Stamp, blob: FinishedBlob) {
        let pointer = blob.pointer();
        self.push(Record { key, stamp, kind: Kind::Blob, value: &pointer.encode() });
        self.blobs.push(blob.into_ref());
        self.puts += 1;
    }

    /// Deletes `key`: leaves a tombstone.
    pub fn delete(&mut self, key: &[u8], stamp: Stamp) {
        self.push(Record { key, stamp, kind: Kind::Tombstone, value: b"" });
    }

    fn push(&mut self, record: Record<'_>) {
        assert!(record.stamp.version > Version::ZERO, "clocks give versions above zero");
        if let Err(error) = check_key(record.key) {
            panic!("callers check keys: {error}");
        }
        record.encode(&mut self.bytes);
        self.records += 1;
    }

    /// How many bytes it takes in the log.
    pub const fn encoded_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it stores anything, as opposed to deleting only.
    pub const fn has_puts(&self) -> bool {
        self.puts > 0
    }

    /// How many cells it has.
    pub const fn len(&self) -> usize {
        self.records
    }

    /// Whether it has no cells.
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Its cells, in the order in which they were added: key, stamp, and whether it is a deletion.
    pub fn cells(&self) -> impl Iterator<Item = (&[u8], Stamp, bool)> {
        records(&self.bytes)
            .flatten()
            .map(|record| (record.key, record.stamp, record.kind == Kind::Tombstone))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn blobs(&self) -> &[BlobRef] {
        &self.blobs
    }
}

/// The records of encoded batches, one after another; ends early, with `None` as its last item, where the bytes are
/// no record.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = Option<Record<'_>>> {
    let mut reader = Reader::new(bytes);
    let mut broken = false;
    std::iter::from_fn(move || {
        if broken || reader.remaining() == 0 {
            return None;
        }
        let record = Record::decode(&mut reader);
        broken = record.is_none();
        Some(record)
    })
}
