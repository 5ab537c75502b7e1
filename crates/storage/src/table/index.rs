use ladoga_model::KEY_BYTES_MAX;

use super::separators::{Separators, SeparatorsBuilder};
use crate::coding::{Reader, common_prefix, head_u64};
use crate::prefixes::{PrefixTree, prefetch_from};

/// Collects where the data blocks of a table begin.
pub(super) struct IndexBuilder {
    /// Room for the count, then the entries.
    bytes: Vec<u8>,
    count: u32,
    last: Vec<u8>,
}

const COUNT_BYTES: usize = 4;
const END_BYTES: usize = 8;

impl IndexBuilder {
    pub(super) fn new() -> IndexBuilder {
        IndexBuilder { bytes: vec![0; COUNT_BYTES], count: 0, last: Vec::new() }
    }

    /// A block at `offset`, all of whose keys are at or behind `separator`, and all before it below.
    pub(super) fn add(&mut self, separator: &[u8], offset: u64) {
        let shared = common_prefix(&self.last, separator);
        let rest = &separator[shared..];
        for length in [shared, rest.len()] {
            let length = u16::try_from(length).expect("a separator is no longer than a key");
            self.bytes.extend_from_slice(&length.to_le_bytes());
        }
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(&offset.to_le_bytes());
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
        self.count += 1;
    }

    /// How long it is once it is finished.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes.len() + END_BYTES
    }

    pub(super) fn finish(mut self, end: u64) -> Vec<u8> {
        self.bytes[..COUNT_BYTES].copy_from_slice(&self.count.to_le_bytes());
        self.bytes.extend_from_slice(&end.to_le_bytes());
        self.bytes
    }
}

/// The shortest key over `before` and at most `first`; keys are in order, so they differ.
pub(super) fn separator<'a>(before: &[u8], first: &'a [u8]) -> &'a [u8] {
    &first[..=common_prefix(before, first)]
}

/// The encoding of an index in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexFormat {
    /// Each separator as a whole: tables up to format 2.
    Whole,
    /// Each without what it shares with the one before.
    Shared,
}

/// The entries of an index, one after the other, read from bytes that may be malformed.
struct Entries<'a> {
    reader: Reader<'a>,
    format: IndexFormat,
    left: u32,
    is_begun: bool,
    separator: Vec<u8>,
}

impl<'a> Entries<'a> {
    /// `None` if the bytes are no index.
    fn begin(bytes: &'a [u8], format: IndexFormat) -> Option<Entries<'a>> {
        let mut reader = Reader::new(bytes);
        let left = reader.u32()?;
        // Each entry has at least ten bytes: bounds the count before anything is reserved for it.
        let is_possible = left > 0 && left as usize <= bytes.len() / 10;
        is_possible.then_some(Entries { reader, format, left, is_begun: false, separator: Vec::new() })
    }

    /// The next separator, which is over the one before, and the offset of its block; `None` at the end, or if the entry is
    /// malformed.
    fn next(&mut self) -> Option<(&[u8], u64)> {
        let left = self.left.checked_sub(1)?;
        let shared = match self.format {
            IndexFormat::Whole => 0,
            IndexFormat::Shared => usize::from(self.reader.u16()?),
        };
        let rest = self.reader.short_bytes()?;
        let offset = self.reader.u64()?;
        let is_behind = *rest > *self.separator.get(shared..)? || !self.is_begun;
        if !is_behind || shared + rest.len() > KEY_BYTES_MAX {
            return None;
        }
        self.separator.truncate(shared);
        self.separator.extend_from_slice(rest);
        (self.is_begun, self.left) = (true, left);
        Some((&self.separator, offset))
    }

    /// The end of the last block, after the last entry.
    fn end(mut self) -> Option<u64> {
        let end = self.reader.u64()?;
        (self.left == 0 && self.reader.remaining() == 0).then_some(end)
    }
}

/// Which block of a table holds a key.
///
/// The search runs over 64-bit numbers: the eight bytes behind what all separators share. Only if those are equal are the
/// separators themselves compared.
#[derive(Debug)]
pub(crate) struct Index {
    shared: Box<[u8]>,
    prefixes: PrefixTree,
    /// Separators without their shared beginning.
    rests: Separators,
    /// Where each block begins, and where the last one ends.
    offsets: Box<[u64]>,
}

impl Index {
    /// `None` if the bytes are no index.
    pub(crate) fn parse(bytes: &[u8], format: IndexFormat) -> Option<Index> {
        let mut entries = Entries::begin(bytes, format)?;
        let mut offsets = Vec::with_capacity(entries.left as usize + 1);
        // The first block takes all keys below the second separator, so its own never decides.
        let mut first = Vec::new();
        while let Some((separator, offset)) = entries.next() {
            if offsets.len() == 1 {
                first = separator.to_vec();
            }
            offsets.push(offset);
        }
        // They are in order: what the first and the last one share, all do.
        let shared = common_prefix(&first, &entries.separator);
        offsets.push(entries.end()?);
        let spaced = offsets.windows(2).all(|pair| pair[0] < pair[1]);
        spaced.then(|| Index::of(Entries::begin(bytes, format), &first[..shared], offsets))
    }

    /// From entries that were validated before.
    fn of(entries: Option<Entries<'_>>, shared: &[u8], offsets: Vec<u64>) -> Index {
        let mut prefixes = Vec::with_capacity(offsets.len());
        let mut rests = SeparatorsBuilder::default();
        let mut entries = entries.expect("they were looked through");
        let _first_decides_nothing = entries.next();
        while let Some((separator, _)) = entries.next() {
            let rest = &separator[shared.len()..];
            prefixes.push(head_u64(rest));
            rests.add(rest);
        }
        let (shared, offsets) = (shared.into(), offsets.into());
        Index { shared, prefixes: PrefixTree::of(&prefixes), rests: rests.finish(), offsets }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.prefixes.memory_bytes()
            + self.rests.memory_bytes()
            + size_of_val(&*self.offsets)
            + self.shared.len()
    }

    /// How many blocks there are.
    pub(crate) const fn blocks(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Where a block begins, and its size.
    #[inline]
    pub(crate) fn place(&self, block: usize) -> (u64, u64) {
        (self.offsets[block], self.offsets[block + 1] - self.offsets[block])
    }

    /// Prefetches what [`Index::block_of`] looks at first.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.prefixes.prefetch();
    }

    /// The only block that can hold `key`.
    #[inline]
    pub(crate) fn block_of(&self, key: &[u8]) -> usize {
        let shared = self.shared.len().min(key.len());
        match key[..shared].cmp(&self.shared) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Greater => return self.prefixes.len(),
            std::cmp::Ordering::Equal => {}
        }
        let rest = &key[shared..];
        let equal = self.prefixes.equal(head_u64(rest), |near| {
            prefetch_from(&self.offsets, near);
        });
        if equal.is_empty() { equal.start } else { self.rests.at_most(rest, equal) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::put_short_bytes;
    use proptest::prelude::*;

    fn index_of(separators: &[Vec<u8>]) -> Index {
        let mut builder = IndexBuilder::new();
        // As tables up to format 2 have it.
        let mut whole = (separators.len() as u32).to_le_bytes().to_vec();
        for (block, separator) in separators.iter().enumerate() {
            builder.add(separator, block as u64 * 100);
            put_short_bytes(&mut whole, separator);
            whole.extend_from_slice(&(block as u64 * 100).to_le_bytes());
        }
        let end = separators.len() as u64 * 100;
        whole.extend_from_slice(&end.to_le_bytes());
        assert_eq!(builder.bytes(), builder.bytes.len() + 8);
        let index = Index::parse(&builder.finish(end), IndexFormat::Shared).expect("an index");
        let from_whole = Index::parse(&whole, IndexFormat::Whole).expect("an index of format 2");
        assert_eq!(format!("{index:?}"), format!("{from_whole:?}"));
        index
    }

    #[test]
    fn a_separator_lies_between() {
        assert_eq!(separator(b"abc", b"abd"), b"abd");
        assert_eq!(separator(b"abc", b"b000"), b"b");
        assert_eq!(separator(b"ab", b"abc"), b"abc");
        assert_eq!(separator(b"ab", b"ab00"), b"ab0");
    }

    proptest! {
        #[test]
        fn the_block_is_the_last_whose_separator_is_not_over_the_key(
            separators in proptest::collection::btree_set(proptest::collection::vec(97..100_u8, 1..12), 1..30),
            prefix in proptest::collection::vec(97..100_u8, 0..12),
            keys in proptest::collection::vec(proptest::collection::vec(96..101_u8, 1..14), 20),
        ) {
            let mut separators: Vec<Vec<u8>> =
                separators.into_iter().map(|rest| [prefix.clone(), rest].concat()).collect();
            separators[0].clear();
            let index = index_of(&separators);
            for key in keys.into_iter().chain(separators.iter().skip(1).cloned()) {
                let expected = separators.partition_point(|separator| *separator <= key) - 1;
                prop_assert_eq!(index.block_of(&key), expected);
            }
        }

        #[test]
        fn keys_whose_heads_are_equal_are_told_apart(
            separators in proptest::collection::btree_set((0..3_usize, proptest::collection::vec(97..100_u8, 1..5)), 2..90),
            keys in proptest::collection::vec((0..3_usize, proptest::collection::vec(96..101_u8, 0..6)), 20),
        ) {
            let whole = |(run, rest): (usize, Vec<u8>)| [[&b"a"[..], b"aaaaaaaaaa", b"aaaaaaaaab"][run], &rest].concat();
            let mut separators: Vec<Vec<u8>> = separators.into_iter().map(whole).collect();
            separators.sort_unstable();
            separators.dedup();
            separators[0].clear();
            let index = index_of(&separators);
            for key in keys.into_iter().map(whole).chain(separators.iter().skip(1).cloned()) {
                let expected = separators.partition_point(|separator| *separator <= key) - 1;
                prop_assert_eq!(index.block_of(&key), expected);
            }
        }

        #[test]
        fn broken_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for format in [IndexFormat::Whole, IndexFormat::Shared] {
                if let Some(index) = Index::parse(&bytes, format) {
                    let _ = index.place(index.block_of(&bytes));
                }
            }
        }
    }
}
