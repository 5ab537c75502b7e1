//! Names the data directories that a node has had, in the order in which it had them.

use std::fmt;

const RANDOM_BITS: u32 = 40;
const RANDOM_MASK: u64 = (1 << RANDOM_BITS) - 2;
const JOINED: u64 = 1;

/// Names a data directory of a node. A directory gets an incarnation of its own if it is new, copied, or older than what its
/// node acknowledged.
///
/// ```text
/// incarnation := generation 24 bits (the upper ones), random 39 bits, joined 1 bit; 0 is none
/// ```
///
/// A new generation is above that of every incarnation of the node that is known where it is given out. A node whose volume was
/// rolled back learns of the later incarnation from any peer that has met it. If two incarnations differ in the random bits
/// only, they were given out without knowledge of each other: neither is the later one, and the node takes a third. `joined` is set
/// from when the node was new in a list of nodes on; early builds had a random bit there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// If there is none yet.
    pub const NONE: Incarnation = Incarnation(0);

    /// For a node that had no directory before, as far as is known.
    #[must_use]
    pub const fn first(random: u64) -> Incarnation {
        Incarnation::NONE.next(random)
    }

    /// For a directory that replaces the one with this incarnation. The last generation is followed by itself; reaching it
    /// takes more lost disks than a node lives to see.
    #[must_use]
    pub const fn next(self, random: u64) -> Incarnation {
        let generation = self.generation() + 1;
        let generation =
            if generation >> (u64::BITS - RANDOM_BITS) == 0 { generation } else { generation - 1 };
        Incarnation(generation << RANDOM_BITS | random & RANDOM_MASK | self.0 & JOINED)
    }

    /// The same as one that the node is expected to have had, because it is new in a list of nodes.
    #[must_use]
    pub(crate) const fn joined(self) -> Incarnation {
        Incarnation(self.0 | JOINED)
    }

    /// Whether the node was new in a list of nodes once: it may lack what trees say nothing of.
    pub(crate) const fn has_joined(self) -> bool {
        self.0 & JOINED != 0
    }

    /// Whether this is no incarnation.
    pub const fn is_none(self) -> bool {
        self.0 == Incarnation::NONE.0
    }

    /// Whether a peer that has met `known` takes this one for the directory after it.
    pub const fn comes_after(self, known: Incarnation) -> bool {
        !self.is_none() && (known.is_none() || self.generation() > known.generation())
    }

    /// Whether a directory with the incarnation `own` is not the last one that the node had, as this one exists.
    pub const fn supersedes(self, own: Incarnation) -> bool {
        !self.is_none() && self.0 != own.0 && self.generation() >= own.generation()
    }

    /// Whether this random part was given to it.
    pub(crate) const fn has_random(self, random: u64) -> bool {
        (self.0 ^ random) & RANDOM_MASK == 0
    }

    /// The later one of two, whichever nodes they are of.
    #[must_use]
    pub const fn later(self, other: Incarnation) -> Incarnation {
        if other.generation() > self.generation() { other } else { self }
    }

    const fn generation(self) -> u64 {
        self.0 >> RANDOM_BITS
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_one_comes_after_whatever_its_random_part_is() {
        let first = Incarnation::first(u64::MAX);
        let next = first.next(0);
        assert!(!first.is_none() && !next.is_none());
        assert!(first.comes_after(Incarnation::NONE) && next.comes_after(first) && next.supersedes(first));
        assert!(!first.comes_after(next) && !first.supersedes(next) && !first.comes_after(first));
        assert!(!Incarnation::NONE.comes_after(Incarnation::NONE) && !Incarnation::NONE.supersedes(first));
    }

    #[test]
    fn of_two_of_one_generation_neither_is_the_last() {
        let (one, other) = (Incarnation::first(1), Incarnation::first(2));
        assert!(!one.comes_after(other) && !other.comes_after(one));
        assert!(one.supersedes(other) && other.supersedes(one) && !one.supersedes(one));
    }

    #[test]
    fn generations_come_to_an_end_without_a_panic() {
        let last = Incarnation(u64::MAX);
        assert_eq!(last.next(7).generation(), last.generation());
    }
}
