use std::cmp::Ordering;
use std::ops::Range;

use crate::coding::{common_prefix, u16_at};

/// Byte strings in order, each stored without the prefix that it shares with the one before: keys of a kilobyte that differ at
/// their ends take a few bytes each. Some are stored whole, so that a binary search is possible: they take no more space than
/// the others do.
///
/// ```text
/// entry := shared u16, length u16, rest          (shared: as many bytes as it and the one before share; 0 for a whole one)
/// ```
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Separators {
    entries: Box<[u8]>,
    /// The separators that are stored whole; each begins a group.
    wholes: Box<[Whole]>,
    count: usize,
}

/// A separator that is stored whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Whole {
    index: u32,
    /// Where it begins.
    at: u32,
}

/// The smallest group: from one separator that is stored whole to the next.
const GROUP_MIN: usize = 16;
const LENGTHS_BYTES: usize = 4;

#[derive(Default)]
pub(super) struct SeparatorsBuilder {
    entries: Vec<u8>,
    wholes: Vec<Whole>,
    count: usize,
    last: Vec<u8>,
}

impl SeparatorsBuilder {
    /// Adds a separator that is over the last; both are shorter than 64 KiB.
    pub(super) fn add(&mut self, separator: &[u8]) {
        let shared = if self.is_whole(separator) {
            self.wholes.push(Whole { index: self.count as u32, at: self.entries.len() as u32 });
            0
        } else {
            common_prefix(&self.last, separator)
        };
        let rest = &separator[shared..];
        self.entries.extend_from_slice(&(shared as u16).to_le_bytes());
        self.entries.extend_from_slice(&(rest.len() as u16).to_le_bytes());
        self.entries.extend_from_slice(rest);
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
        self.count += 1;
    }

    /// Whether the next one is to be stored whole: the group before it is large enough, in number and in bytes.
    fn is_whole(&self, next: &[u8]) -> bool {
        self.wholes.last().is_none_or(|last| {
            let (entries, bytes) = (self.count - last.index as usize, self.entries.len() - last.at as usize);
            entries >= GROUP_MIN && bytes >= 2 * next.len()
        })
    }

    pub(super) fn finish(self) -> Separators {
        // Copied: to make a buffer shorter does not give its room back.
        let (entries, wholes) = (self.entries.as_slice().into(), self.wholes.as_slice().into());
        Separators { entries, wholes, count: self.count }
    }
}

impl Separators {
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.len() + size_of_val(&*self.wholes)
    }

    /// An entry: the length of its shared prefix, the rest of it, and the offset of the next entry.
    fn entry(&self, at: usize) -> (usize, &[u8], usize) {
        let rest_at = at + LENGTHS_BYTES;
        let end = rest_at + usize::from(u16_at(&self.entries, at + 2));
        (usize::from(u16_at(&self.entries, at)), &self.entries[rest_at..end], end)
    }

    fn whole(&self, group: usize) -> &[u8] {
        self.entry(self.wholes[group].at as usize).1
    }

    /// The first index of `among` whose separator is over `key`; the end of `among` if there is none.
    ///
    /// Those before `among` are known to be at most `key`, and those behind it to be over it.
    pub(super) fn at_most(&self, key: &[u8], among: Range<usize>) -> usize {
        debug_assert!(among.start < among.end && among.end <= self.count);
        // The last group whose first separator is at most `key`.
        let groups_to = |end: usize| self.wholes.partition_point(|whole| (whole.index as usize) < end);
        let (mut low, mut high) = (groups_to(among.start + 1) - 1, groups_to(among.end));
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.whole(middle) <= key {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.at_most_in(low, key).clamp(among.start, among.end)
    }

    /// The first index of a group, or of the next one, whose separator is over `key`.
    fn at_most_in(&self, group: usize, key: &[u8]) -> usize {
        let Whole { index, at } = self.wholes[group];
        let (mut index, mut at) = (index as usize, at as usize);
        let end = self.wholes.get(group + 1).map_or(self.count, |next| next.index as usize);
        // What `key` shares with the separator before `index`, which is at most `key`.
        let mut matched = 0;
        while index < end {
            let (shared, rest, next) = self.entry(at);
            match shared.cmp(&matched) {
                // It shares the part of the one before in which that is already less than `key`.
                Ordering::Greater => {}
                // It differs from the one before while that still equals `key`, and is over it.
                Ordering::Less => return index,
                Ordering::Equal => {
                    if *rest > key[matched..] {
                        return index;
                    }
                    matched += common_prefix(rest, &key[matched..]);
                }
            }
            (index, at) = (index + 1, next);
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn build(separators: &[Vec<u8>]) -> Separators {
        let mut builder = SeparatorsBuilder::default();
        separators.iter().for_each(|separator| builder.add(separator));
        builder.finish()
    }

    #[test]
    fn long_separators_that_share_most_take_little() {
        let separators: Vec<_> =
            (0..16_000).map(|n| [&[b'k'; 4_000][..], format!("{n:08}").as_bytes()].concat()).collect();
        let built = build(&separators);
        assert!(built.wholes.len() > 4, "a search goes by halves");
        let bytes = built.memory_bytes();
        assert!(bytes < separators.len() * 40, "{bytes} bytes");
    }

    proptest! {
        #[test]
        fn the_first_over_a_key_is_found(
            separators in proptest::collection::btree_set(proptest::collection::vec(97..100_u8, 0..7), 1..120),
            keys in proptest::collection::vec(proptest::collection::vec(96..101_u8, 0..8), 20),
            within in (0..120_usize, 0..120_usize),
        ) {
            let separators: Vec<Vec<u8>> = separators.into_iter().collect();
            let built = build(&separators);
            for key in keys.iter().chain(&separators) {
                let expected = separators.partition_point(|separator| separator <= key);
                prop_assert_eq!(built.at_most(key, 0..separators.len()), expected);
                // Any part of `within` that contains the expected index.
                let start = within.0.min(expected).min(separators.len() - 1);
                let end = (expected + within.1).clamp(start + 1, separators.len());
                prop_assert_eq!(built.at_most(key, start..end), expected);
            }
        }
    }
}
