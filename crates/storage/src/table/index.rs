use crate::coding::{Reader, common_prefix, head_u64, put_short_bytes};
use crate::heads::Heads;
use crate::prefetch::prefetch_from;

/// Collects where the data blocks of a table begin.
#[derive(Default)]
pub(super) struct IndexBuilder {
    bytes: Vec<u8>,
    count: u32,
}

impl IndexBuilder {
    /// A block at `offset`, all of whose keys are at or behind `separator`, and all before it below.
    pub(super) fn add(&mut self, separator: &[u8], offset: u64) {
        put_short_bytes(&mut self.bytes, separator);
        self.bytes.extend_from_slice(&offset.to_le_bytes());
        self.count += 1;
    }

    pub(super) fn finish(self, end: u64) -> Vec<u8> {
        let mut out = self.count.to_le_bytes().to_vec();
        out.extend_from_slice(&self.bytes);
        out.extend_from_slice(&end.to_le_bytes());
        out
    }
}

/// The shortest key over `before` and at most `first`; keys are in order, so they differ.
pub(super) fn separator<'a>(before: &[u8], first: &'a [u8]) -> &'a [u8] {
    &first[..=common_prefix(before, first)]
}

/// Which block of a table holds a key.
///
/// The search runs over 64-bit numbers: the eight bytes behind what all separators share. Only where those are equal
/// are the separators themselves compared.
#[derive(Debug)]
pub(crate) struct Index {
    shared: Box<[u8]>,
    heads: Heads,
    /// Separators without their shared beginning, end to end; and where each ends.
    rests: Box<[u8]>,
    ends: Box<[u32]>,
    /// Where each block begins, and where the last one ends.
    offsets: Box<[u64]>,
}

impl Index {
    /// `None` where the bytes are no index.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Index> {
        let mut reader = Reader::new(bytes);
        let count = reader.u32()? as usize;
        // Each entry has at least ten bytes: bounds the count before anything is reserved for it.
        if count == 0 || count > bytes.len() / 10 {
            return None;
        }
        let mut separators = Vec::with_capacity(count);
        let mut offsets = Vec::with_capacity(count + 1);
        for _ in 0..count {
            separators.push(reader.short_bytes()?);
            offsets.push(reader.u64()?);
        }
        offsets.push(reader.u64()?);
        let ordered = separators.windows(2).all(|pair| pair[0] < pair[1]);
        let spaced = offsets.windows(2).all(|pair| pair[0] < pair[1]);
        if reader.remaining() != 0 || !ordered || !spaced {
            return None;
        }
        Some(Index::of(&separators, offsets))
    }

    fn of(separators: &[&[u8]], offsets: Vec<u64>) -> Index {
        // The first block takes all keys below the second separator, so its own never decides.
        let deciding = &separators[1..];
        let first = deciding.first().copied().unwrap_or_default();
        let shared =
            deciding.iter().fold(first.len(), |length, other| common_prefix(&first[..length], other));
        let mut rests = Vec::new();
        let mut ends = Vec::with_capacity(deciding.len());
        for separator in deciding {
            rests.extend_from_slice(&separator[shared..]);
            ends.push(rests.len() as u32);
        }
        let heads: Vec<u64> = deciding.iter().map(|separator| head_u64(&separator[shared..])).collect();
        Index {
            shared: first[..shared].into(),
            heads: Heads::of(&heads),
            rests: rests.into(),
            ends: ends.into(),
            offsets: offsets.into(),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let numbers = size_of_val(&*self.ends) + size_of_val(&*self.offsets);
        self.heads.memory_bytes() + numbers + self.rests.len() + self.shared.len()
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

    fn rest(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.rests[start as usize..self.ends[index] as usize]
    }

    /// Has the processor fetch what [`Index::block_of`] looks at first.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.heads.prefetch();
    }

    /// The only block that can hold `key`.
    #[inline]
    pub(crate) fn block_of(&self, key: &[u8]) -> usize {
        let shared = self.shared.len().min(key.len());
        match key[..shared].cmp(&self.shared) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Greater => return self.heads.len(),
            std::cmp::Ordering::Equal => {}
        }
        let rest = &key[shared..];
        let mut equal = self.heads.equal(head_u64(rest), |near| {
            prefetch_from(&self.offsets, near);
        });
        while !equal.is_empty() {
            let middle = equal.start.midpoint(equal.end);
            if self.rest(middle) <= rest {
                equal.start = middle + 1;
            } else {
                equal.end = middle;
            }
        }
        equal.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index_of(separators: &[Vec<u8>]) -> Index {
        let mut builder = IndexBuilder::default();
        for (block, separator) in separators.iter().enumerate() {
            builder.add(separator, block as u64 * 100);
        }
        Index::parse(&builder.finish(separators.len() as u64 * 100)).expect("an index")
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
            let _ = Index::parse(&bytes);
        }
    }
}
