use ladoga_model::{self as model, Stamp, Version, check_key};

use crate::blob::{BlobRef, FinishedBlob};
use crate::coding::Reader;
use crate::record::{BlobPointer, INLINE_BYTES_MAX, Kind, Record};

/// Cells that become durable and visible together, or not at all.
///
/// Encoded as it is built, on the thread that builds it, so that the thread which commits only copies.
#[derive(Debug)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    puts: usize,
    records: usize,
    /// The lowest timestamp of its cells; `u64::MAX` while it has none.
    oldest: u64,
    /// Keeps the files from being removed until a memtable refers to them.
    blobs: Vec<BlobRef>,
}

/// What happens to a cell of a batch that is checked again before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stays as it is.
    Stays,
    /// It stays, with this version.
    Renewed(Version),
    /// It is left out.
    Goes,
}

impl Default for WriteBatch {
    fn default() -> WriteBatch {
        WriteBatch { bytes: Vec::new(), puts: 0, records: 0, oldest: u64::MAX, blobs: Vec::new() }
    }
}

impl WriteBatch {
    /// A batch of nothing.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// The most bytes that one cell takes, with a value of so many bytes in memory or a value in a blob file.
    pub const fn cell_bytes_max(key_bytes: usize, value_bytes: usize) -> usize {
        let value_bytes = if value_bytes < BlobPointer::BYTES { BlobPointer::BYTES } else { value_bytes };
        Record::OVERHEAD_BYTES_MAX + key_bytes + value_bytes
    }

    /// Stores `value` under `key`. Values of [`crate::BLOB_BYTES_MIN`] and more go through
    /// [`WriteBatch::put_blob`].
    ///
    /// # Panics
    /// If the key is none, or the value too long: callers check what users give them.
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
        self.oldest = self.oldest.min(record.stamp.version.timestamp);
    }

    /// Rewrites the cells: `fate_of` is called with each cell's number, in the order in which they were added.
    pub fn rewrite(&mut self, mut fate_of: impl FnMut(usize) -> Fate) {
        let before = std::mem::take(self);
        let mut blobs = before.blobs.into_iter();
        for (number, record) in records(&before.bytes).flatten().enumerate() {
            let blob = if record.kind == Kind::Blob { blobs.next() } else { None };
            let stamp = match fate_of(number) {
                Fate::Stays => record.stamp,
                Fate::Renewed(version) => Stamp { version, ..record.stamp },
                Fate::Goes => continue,
            };
            self.push(Record { stamp, ..record });
            self.puts += usize::from(record.kind != Kind::Tombstone);
            self.blobs.extend(blob);
        }
    }

    /// The lowest timestamp of its cells; `u64::MAX` if it has none.
    pub const fn oldest(&self) -> u64 {
        self.oldest
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

    /// Its cells with their keys, in the order in which they were added; of a large value there is its length.
    pub fn cells(&self) -> impl Iterator<Item = (&[u8], model::Cell<&[u8], u64>)> {
        self.cells_by(|pointer| pointer.len)
    }

    /// The same with what a large value is to be named by again.
    pub fn cells_to_name_again(&self) -> impl Iterator<Item = (&[u8], model::Cell<&[u8], FinishedBlob>)> {
        let mut blobs = self.blobs.iter();
        self.cells_by(move |pointer| {
            let blob = blobs.next().expect("each cell with a large value came with a reference to its file");
            FinishedBlob::named(blob.clone(), pointer)
        })
    }

    fn cells_by<L>(
        &self,
        mut large: impl FnMut(BlobPointer) -> L,
    ) -> impl Iterator<Item = (&[u8], model::Cell<&[u8], L>)> {
        records(&self.bytes).flatten().map(move |record| {
            let value = match record.kind {
                Kind::Value => Some(model::Value::Inline(record.value)),
                Kind::Blob => record.blob().map(|pointer| model::Value::Large(large(pointer))),
                Kind::Tombstone => None,
            };
            (record.key, model::Cell { stamp: record.stamp, value })
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn blobs(&self) -> &[BlobRef] {
        &self.blobs
    }
}

/// The records of encoded batches, one after another; ends early, with `None` as its last item, if the bytes are
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

/// The records of batches, and their encoded bytes.
pub(crate) fn size(batches: &[WriteBatch]) -> (usize, usize) {
    (batches.iter().map(WriteBatch::len).sum(), batches.iter().map(WriteBatch::encoded_bytes).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_model::HybridClock;

    fn stamp(timestamp: u64) -> Stamp {
        Stamp { expires_at_ms: timestamp % 2, ..Stamp::new(Version { timestamp, node: 3 }) }
    }

    fn batch() -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put(b"a", stamp(7), b"value");
        batch.delete(b"b", stamp(5));
        batch.put(b"c", stamp(6), b"");
        batch
    }

    #[test]
    fn a_cell_stays_gets_another_version_or_goes() {
        let mut batch = batch();
        assert_eq!((batch.oldest(), batch.len()), (5, 3));
        let renewed = Version { timestamp: 9, node: 0 };
        batch.rewrite(|number| [Fate::Stays, Fate::Renewed(renewed), Fate::Goes][number]);
        let expected = [
            (&b"a"[..], model::Cell { stamp: stamp(7), value: Some(model::Value::Inline(&b"value"[..])) }),
            (b"b", model::Cell::tombstone(Stamp { version: renewed, ..stamp(5) })),
        ];
        assert_eq!(batch.cells().collect::<Vec<_>>(), expected);
        assert_eq!((batch.oldest(), batch.len(), batch.puts), (7, 2, 1));
        batch.rewrite(|_| Fate::Goes);
        assert!(batch.is_empty() && !batch.has_puts() && batch.oldest() == u64::MAX);
    }

    #[test]
    fn no_cell_takes_more_than_it_may() {
        for value in [0, 1, 19, 20, 21, 1_000] {
            let mut batch = WriteBatch::new();
            let version = Version { timestamp: HybridClock::TIMESTAMP_MAX, node: u16::MAX };
            let stamp = Stamp { version, expires_at_ms: u64::MAX, copies: u8::MAX };
            batch.put(b"key", stamp, &vec![7; value]);
            assert!(batch.encoded_bytes() <= WriteBatch::cell_bytes_max(3, value), "{value}");
        }
    }
}
