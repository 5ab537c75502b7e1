//! Sorted numbers, laid out so that a search has few cache misses in a row.
//!
//! A binary search waits for one cache line after the other. Here sixteen numbers stand side by side, in two lines that are
//! fetched at once; above them stands the greatest of each sixteen, again in sixteens, up to a row that is short enough to be
//! fetched as a whole.
//!
//! Source: Slotin, "Static B-Trees", Algorithmica, 2022; the layout is that of its B+ tree.

use std::ops::Range;

use crate::prefetch::{LINE_BYTES, prefetch};

/// Numbers side by side: what a step of the search compares.
const GROUP: usize = 16;
/// What the first step compares: what the processor fetches at once.
const TOP_GROUPS: usize = 4;
/// Steps of a search: enough for as many numbers as fit into 32 bits.
const STEPS_MAX: usize = 8;

/// Two lines of the processor's cache, which it likes to fetch in pairs.
#[derive(Debug, Clone)]
#[repr(align(128))]
struct PrefixGroup([u64; GROUP]);

impl PrefixGroup {
    #[inline]
    fn below(&self, head: u64) -> usize {
        self.0.iter().map(|&number| usize::from(number < head)).sum()
    }
}

/// One step of a search: where its groups begin, and the index of its last number (or of the last group of the next step).
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    first_group: u32,
    last: u32,
}

/// Prefetches those of `places`, which are numbers or pointers, among which a search by [`PrefixTree`] ends: from the index
/// `near` on.
#[inline]
pub(crate) fn prefetch_from<T>(places: &[T], near: usize) {
    let places = &places[near.min(places.len())..];
    let near = &places[..places.len().min(GROUP + 1)];
    near.iter().step_by(LINE_BYTES / size_of::<T>()).chain(near.last()).for_each(prefetch);
}

/// The first eight bytes of keys, in order.
#[derive(Debug, Default)]
pub(crate) struct PrefixTree {
    /// From the row at the top down to all numbers; unused places in a last group are `u64::MAX`.
    groups: Box<[PrefixGroup]>,
    steps: [Step; STEPS_MAX],
    depth: usize,
    len: usize,
}

impl PrefixTree {
    /// Of numbers that do not decrease.
    pub(crate) fn of(prefixes: &[u64]) -> PrefixTree {
        debug_assert!(prefixes.is_sorted(), "callers have them in order");
        assert!(u32::try_from(prefixes.len()).is_ok(), "as many blocks do not fit into a table");
        if prefixes.is_empty() {
            return PrefixTree::default();
        }
        let mut rows: Vec<Vec<PrefixGroup>> = Vec::new();
        let mut row = groups_of(prefixes);
        while row.len() > TOP_GROUPS {
            let greatest: Vec<u64> = row.iter().map(|group| group.0[GROUP - 1]).collect();
            rows.push(std::mem::replace(&mut row, groups_of(&greatest)));
        }
        rows.push(row);
        rows.reverse();
        let mut steps = [Step::default(); STEPS_MAX];
        let mut first_group = 0;
        for (index, row) in rows.iter().enumerate() {
            // The next row has a group for each number of this one.
            let last = rows.get(index + 1).map_or(prefixes.len(), |next| next.len() - 1);
            steps[index] = Step { first_group, last: last as u32 };
            first_group += row.len() as u32;
        }
        PrefixTree { depth: rows.len(), groups: rows.concat().into(), steps, len: prefixes.len() }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn memory_bytes(&self) -> usize {
        self.groups.len() * size_of::<PrefixGroup>()
    }

    /// The number with this index.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> u64 {
        assert!(index < self.len, "an index of what is there");
        let leaves = self.steps[self.depth - 1].first_group as usize;
        self.groups[leaves + index / GROUP].0[index % GROUP]
    }

    /// How many numbers are below `head`.
    #[inline]
    pub(crate) fn below(&self, head: u64) -> usize {
        self.below_in(head, |_| {})
    }

    /// The same; see [`PrefixTree::equal`] for `near`.
    #[inline]
    fn below_in(&self, head: u64, near: impl Fn(usize)) -> usize {
        let Some((top, rows)) = self.steps[..self.depth].split_first() else { return 0 };
        let top_below: usize = self.top().iter().map(|group| group.below(head)).sum();
        let mut at = top_below.min(top.last as usize);
        for (index, row) in rows.iter().enumerate() {
            if index + 1 == rows.len() {
                near(at * GROUP);
            }
            let group = &self.groups[row.first_group as usize + at];
            at = (at * GROUP + group.below(head)).min(row.last as usize);
        }
        at
    }

    fn top(&self) -> &[PrefixGroup] {
        let end = if self.depth > 1 { self.steps[1].first_group as usize } else { self.groups.len() };
        &self.groups[..end]
    }

    /// The indexes of the numbers that are equal to `head`; the first is how many are below it. Before the last cache miss,
    /// `near` is called with an index at most [`GROUP`] before it, unless there is one group only.
    #[inline]
    pub(crate) fn equal(&self, head: u64, near: impl Fn(usize)) -> Range<usize> {
        let first = self.below_in(head, near);
        if first == self.len || self.get(first) != head {
            return first..first;
        }
        first..head.checked_add(1).map_or(self.len, |next| self.below(next))
    }

    /// Prefetches what a search looks at first.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.top().iter().for_each(prefetch);
    }
}

fn groups_of(numbers: &[u64]) -> Vec<PrefixGroup> {
    let group = |chunk: &[u64]| {
        let mut group = [u64::MAX; GROUP];
        group[..chunk.len()].copy_from_slice(chunk);
        PrefixGroup(group)
    };
    numbers.chunks(GROUP).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_of_every_row_are_found() {
        for len in [0, 1, 15, 16, 17, 255, 256, 257, 4096, 4097, 70_000] {
            let numbers: Vec<u64> = (0..len).map(|n| n * 3).collect();
            let prefixes = PrefixTree::of(&numbers);
            assert_eq!(prefixes.len() as u64, len);
            for (index, &number) in numbers.iter().enumerate() {
                assert_eq!(prefixes.get(index), number);
                assert_eq!(prefixes.equal(number, |_| {}), index..index + 1, "{number} of {len}");
                assert_eq!(prefixes.equal(number + 1, |_| {}), index + 1..index + 1, "{number} + 1 of {len}");
            }
            assert_eq!(prefixes.below(u64::MAX) as u64, len);
            assert_eq!(prefixes.below(0), 0);
        }
    }

    proptest! {
        #[test]
        fn a_search_finds_what_a_scan_does(
            mut numbers in proptest::collection::vec(
                prop_oneof![0..9_u64, u64::MAX - 3..=u64::MAX, any::<u64>()], 0..600),
            probes in proptest::collection::vec(any::<u64>(), 20),
        ) {
            numbers.sort_unstable();
            let prefixes = PrefixTree::of(&numbers);
            for head in probes.into_iter().chain(numbers.iter().copied()).chain([0, 5, u64::MAX]) {
                let below = numbers.iter().filter(|&&number| number < head).count();
                let equal = numbers.iter().filter(|&&number| number == head).count();
                prop_assert_eq!(prefixes.below(head), below);
                prop_assert_eq!(prefixes.equal(head, |_| {}), below..below + equal);
            }
        }
    }
}
