use bytes::Bytes;

use crate::coding::key_hash;
use crate::coding::{Reader, u32_at};
use crate::record::Record;

/// Builds one data block.
#[derive(Default)]
pub(super) struct BlockBuilder {
    bytes: Vec<u8>,
    tags: Vec<u8>,
    offsets: Vec<u32>,
}

/// Behind the records, for each: a tag and where it begins.
const PLACE_BYTES: usize = 1 + 4;
/// At the end: how many records there are.
const COUNT_BYTES: usize = 4;

/// The byte of a key's hash by which a block finds it.
const fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8
}

impl BlockBuilder {
    pub(super) fn add(&mut self, hash: u64, record: &Record<'_>) {
        self.offsets.push(self.bytes.len() as u32);
        self.tags.push(tag(hash));
        record.encode(&mut self.bytes);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// How long the finished block is.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes.len() + self.offsets.len() * PLACE_BYTES + COUNT_BYTES
    }

    /// How long the finished block is with another record.
    pub(super) const fn bytes_with(&self, record: &Record<'_>) -> usize {
        self.bytes() + record.encoded_bytes() + PLACE_BYTES
    }

    /// The finished block; valid until [`BlockBuilder::clear`].
    pub(super) fn finish(&mut self) -> &[u8] {
        self.bytes.extend_from_slice(&self.tags);
        for offset in &self.offsets {
            self.bytes.extend_from_slice(&offset.to_le_bytes());
        }
        self.bytes.extend_from_slice(&(self.offsets.len() as u32).to_le_bytes());
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.tags.clear();
        self.offsets.clear();
    }
}

/// A data block in memory. Its bytes have passed their checksum; their structure is checked when it is used.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    bytes: Bytes,
    /// What they keep in memory.
    held_bytes: usize,
    count: usize,
    /// Where the records end and the tags begin.
    tags_at: usize,
}

impl Block {
    /// `None` if the bytes are no block. They keep `held_bytes` in memory.
    pub(crate) fn parse(bytes: Bytes, held_bytes: usize) -> Option<Block> {
        let count_at = bytes.len().checked_sub(COUNT_BYTES)?;
        let count = u32_at(&bytes, count_at) as usize;
        let tags_at = count_at.checked_sub(count.checked_mul(PLACE_BYTES)?)?;
        (count > 0).then_some(Block { bytes, held_bytes, count, tags_at })
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    pub(crate) const fn memory_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The record with this index; `None` if the bytes are no record.
    #[inline]
    pub(crate) fn record(&self, index: usize) -> Option<Record<'_>> {
        let offset = u32_at(&self.bytes, self.tags_at + self.count + index * 4) as usize;
        Record::decode(&mut Reader::new(self.bytes.get(offset..self.tags_at)?))
    }

    /// The record of `key`, by its hash. `Err` if the block is malformed.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Result<Option<Record<'_>>, BrokenBlock> {
        let tags = &self.bytes[self.tags_at..self.tags_at + self.count];
        for index in memchr::memchr_iter(tag(hash), tags) {
            let record = self.record(index).ok_or(BrokenBlock)?;
            if record.key == key {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The index of the first record at or behind `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> Result<usize, BrokenBlock> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.record(middle).ok_or(BrokenBlock)?.key < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Bytes of a record of this block, kept alive without a copy.
    pub(crate) fn share(&self, part: &[u8]) -> Bytes {
        self.bytes.slice_ref(part)
    }

    /// Checks every record: order, tags, no gaps. For offline verification.
    pub(crate) fn verify(&self) -> Result<(), BrokenBlock> {
        let mut end = 0;
        let mut previous: &[u8] = b"";
        for index in 0..self.count {
            let record = self.record(index).ok_or(BrokenBlock)?;
            let offset = u32_at(&self.bytes, self.tags_at + self.count + index * 4) as usize;
            let tagged = self.bytes[self.tags_at + index] == tag(key_hash(record.key));
            if offset != end || !tagged || record.key <= previous {
                return Err(BrokenBlock);
            }
            end += record.encoded_bytes();
            previous = record.key;
        }
        if end == self.tags_at { Ok(()) } else { Err(BrokenBlock) }
    }
}

/// The bytes have a valid checksum and are no block all the same.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BrokenBlock;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;
    use ladoga_model::Stamp;
    use proptest::prelude::*;

    fn parse(bytes: Bytes) -> Option<Block> {
        let held_bytes = bytes.len();
        Block::parse(bytes, held_bytes)
    }

    fn build(keys: &[Vec<u8>]) -> Block {
        let mut builder = BlockBuilder::default();
        for key in keys {
            let record = Record { key, stamp: Stamp::default(), kind: Kind::Value, value: key };
            builder.add(key_hash(key), &record);
        }
        parse(Bytes::copy_from_slice(builder.finish())).expect("a block")
    }

    #[test]
    fn an_empty_or_cut_block_is_none() {
        assert!(parse(Bytes::new()).is_none());
        assert!(parse(Bytes::from_static(&[0; 4])).is_none());
        assert!(parse(Bytes::from_static(&[255; 12])).is_none());
    }

    proptest! {
        #[test]
        fn finds_exactly_what_is_there(
            keys in proptest::collection::btree_set(proptest::collection::vec(any::<u8>(), 1..6), 1..40),
            probe in proptest::collection::vec(any::<u8>(), 1..6),
        ) {
            let keys: Vec<_> = keys.into_iter().collect();
            let block = build(&keys);
            prop_assert_eq!(block.verify(), Ok(()));
            for key in keys.iter().chain(std::iter::once(&probe)) {
                let found = block.find(key_hash(key), key).expect("intact").map(|record| record.value.to_vec());
                prop_assert_eq!(found, keys.contains(key).then(|| key.clone()));
                prop_assert_eq!(block.lower_bound(key), Ok(keys.partition_point(|other| other < key)));
            }
        }

        #[test]
        fn broken_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), key: [u8; 2]) {
            if let Some(block) = parse(Bytes::from(bytes)) {
                let _ = block.find(key_hash(&key), &key);
                let _ = block.lower_bound(&key);
                let _ = block.verify();
            }
        }
    }
}
