//! The promises of a replica: which versions of which keys it does not take.
//!
//! Keys are known by their hash, as everywhere between nodes. Two of one hash share their fences: a proposal for one may fail
//! because of the other, and a cell of one ends the promises for the other. By chance, no two keys of a store have one hash.

use std::collections::{HashMap, VecDeque};

use ladoga_model::Version;

/// For how many keys a replica holds promises. Each belongs to a proposal that is under way, or whose coordinator is gone.
pub const FENCED_KEYS_MAX: usize = 65_536;

/// How many promises it holds for one key. More than one means that coordinators outbid each other, or are gone. If there are
/// more, the oldest become one: to refuse a promise would leave the key to nobody.
const FENCES_PER_KEY_MAX: usize = 8;

/// How many promises it remembers that were overtaken: whoever was promised asks a round trip later, or not at all.
const OVERTAKEN_MAX: usize = 1_024;

/// Why a replica does not promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPromise {
    /// It has promised something that is not older.
    Outbid(Version),
    /// It holds as many promises as it can.
    Full,
}

/// A promise that was the newest one of its key until a newer cell came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Overtaken {
    /// The hash of the key.
    pub key_hash: u64,
    /// What was promised.
    pub ballot: Version,
    /// What the key had until then.
    pub had: Option<Version>,
    /// The cell that came.
    pub by: Version,
}

/// The promises of a replica.
#[derive(Debug, Clone, Default)]
pub struct Fences {
    /// In ascending order.
    by_key: HashMap<u64, Vec<Version>>,
    /// The latest of them, the oldest first.
    overtaken: VecDeque<Overtaken>,
}

impl Fences {
    /// Promises that no cell of the key that is older than `ballot` is taken from now on. Earlier promises stay in force: a
    /// coordinator that got one may have had its cell accepted somewhere.
    pub fn promise(&mut self, key_hash: u64, ballot: Version) -> Result<(), NoPromise> {
        if self.by_key.len() >= FENCED_KEYS_MAX && !self.by_key.contains_key(&key_hash) {
            return Err(NoPromise::Full);
        }
        let fences = self.by_key.entry(key_hash).or_default();
        match fences.last() {
            Some(&newest) if newest >= ballot => Err(NoPromise::Outbid(newest)),
            _ => {
                if fences.len() >= FENCES_PER_KEY_MAX {
                    // One in the place of the two oldest, which nobody can release: it keeps out whatever they did.
                    let merged = Version { node: u16::MAX, ..fences[1] };
                    fences.splice(..2, [merged]);
                }
                fences.push(ballot);
                Ok(())
            }
        }
    }

    /// Takes over a promise that was given before: in whichever order, and however many there are. Answers whether it is new.
    pub fn learn(&mut self, key_hash: u64, fence: Version) -> bool {
        let fences = self.by_key.entry(key_hash).or_default();
        match fences.binary_search(&fence) {
            Ok(_) => false,
            Err(place) => {
                fences.insert(place, fence);
                true
            }
        }
    }

    /// Whether the newest promise for the key is this one.
    pub fn is_newest(&self, key_hash: u64, ballot: Version) -> bool {
        self.newest(key_hash) == Some(ballot)
    }

    /// The newest promise for the key.
    pub fn newest(&self, key_hash: u64) -> Option<Version> {
        self.by_key.get(&key_hash)?.last().copied()
    }

    /// The newest promise for the key that is not newer than this version.
    pub fn newest_up_to(&self, key_hash: u64, version: Version) -> Option<Version> {
        self.by_key.get(&key_hash)?.iter().rev().copied().find(|fence| *fence <= version)
    }

    /// The promise that keeps a version of the key out.
    pub fn refusing(&self, key_hash: u64, version: Version) -> Option<Version> {
        self.newest(key_hash).filter(|newest| *newest > version)
    }

    /// The coordinator of a proposal gave up before it had a cell accepted: its promise is void. Answers whether there was one.
    pub fn release(&mut self, key_hash: u64, ballot: Version) -> bool {
        self.retain(key_hash, |fence| fence != ballot)
    }

    /// The key has a cell of this version: no promise up to it is needed. Answers whether there was one.
    pub fn lift(&mut self, key_hash: u64, version: Version) -> bool {
        self.retain(key_hash, |fence| fence > version)
    }

    /// The key has a cell of this version, in the place of another one or of none: lifts the promises up to it, and remembers the newest
    /// one if this is not its cell. Answers whether there was one.
    pub fn replace(&mut self, key_hash: u64, had: Option<Version>, by: Version) -> bool {
        if let Some(ballot) = self.newest(key_hash).filter(|newest| *newest < by) {
            if self.overtaken.len() == OVERTAKEN_MAX {
                self.overtaken.pop_front();
            }
            self.overtaken.push_back(Overtaken { key_hash, ballot, had, by });
        }
        self.lift(key_hash, by)
    }

    /// Whether this was the newest promise of the key until something newer came in the place of what the key had when it was given;
    /// `newest` is what the key has now. Then, the cell of the ballot may count as if it had come right before, if it was decided on
    /// that: nobody reads it here, and whoever was promised something newer was told of what came.
    pub fn is_overtaken(
        &self,
        key_hash: u64,
        ballot: Version,
        had: Option<Version>,
        newest: Version,
    ) -> bool {
        let is_this = |overtaken: &Overtaken| {
            // Another key of this hash has no cell of the same version, but none is what it may have had as well.
            let is_of_key = had.is_some() || overtaken.by == newest;
            is_of_key && (overtaken.key_hash, overtaken.ballot, overtaken.had) == (key_hash, ballot, had)
        };
        // One that still stands is lifted in a moment, and has kept out whatever is in between.
        newest > ballot && (self.is_newest(key_hash, ballot) || self.overtaken.iter().any(is_this))
    }

    /// The promises that were overtaken, as far as they are remembered, the oldest first.
    pub fn overtaken(&self) -> impl Iterator<Item = &Overtaken> {
        self.overtaken.iter()
    }

    /// Whatever is older than this timestamp has arrived everywhere: no promise for it is needed. Answers whether there was one.
    pub fn void_before(&mut self, timestamp: u64) -> bool {
        let before = self.len();
        self.by_key.retain(|_, fences| {
            fences.retain(|fence| fence.timestamp >= timestamp);
            !fences.is_empty()
        });
        self.len() != before
    }

    /// All promises, as (hash of the key, version).
    pub fn iter(&self) -> impl Iterator<Item = (u64, Version)> {
        self.by_key.iter().flat_map(|(&hash, fences)| fences.iter().map(move |&fence| (hash, fence)))
    }

    /// How many promises there are.
    pub fn len(&self) -> usize {
        self.by_key.values().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Whether something was removed.
    fn retain(&mut self, key_hash: u64, is_kept: impl Fn(Version) -> bool) -> bool {
        let Some(fences) = self.by_key.get_mut(&key_hash) else { return false };
        let before = fences.len();
        fences.retain(|&fence| is_kept(fence));
        let is_changed = fences.len() != before;
        if fences.is_empty() {
            self.by_key.remove(&key_hash);
        }
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn version(timestamp: u64) -> Version {
        Version { timestamp, node: 0 }
    }

    #[test]
    fn a_promise_keeps_older_versions_out_until_there_is_a_cell_or_it_is_released() {
        let mut fences = Fences::default();
        assert_eq!(fences.promise(1, version(5)), Ok(()));
        assert_eq!(fences.refusing(1, version(4)), Some(version(5)));
        assert_eq!(fences.refusing(1, version(5)), None);
        assert_eq!(fences.refusing(2, version(4)), None);
        assert_eq!(fences.promise(1, version(5)), Err(NoPromise::Outbid(version(5))));
        assert!(!fences.lift(1, version(4)) && fences.lift(1, version(5)));
        assert!(fences.is_empty());
    }

    #[test]
    fn an_older_promise_holds_on_when_a_newer_one_is_released() {
        let mut fences = Fences::default();
        fences.promise(1, version(5)).expect("the first");
        fences.promise(1, version(7)).expect("a newer one");
        assert!(!fences.is_newest(1, version(5)) && fences.is_newest(1, version(7)));
        assert!(fences.release(1, version(7)) && !fences.release(1, version(7)));
        assert_eq!(fences.refusing(1, version(4)), Some(version(5)));
        assert!(fences.is_newest(1, version(5)));
    }

    #[test]
    fn a_promise_is_overtaken_by_the_cell_that_came_while_it_was_the_newest() {
        let mut fences = Fences::default();
        let is_overtaken = |fences: &Fences, ballot, had: Option<u64>, newest| {
            fences.is_overtaken(1, version(ballot), had.map(version), version(newest))
        };
        fences.promise(1, version(5)).expect("the first");
        assert!(is_overtaken(&fences, 5, None, 6), "it is to be lifted");
        assert!(!is_overtaken(&fences, 5, None, 4) && !is_overtaken(&fences, 5, None, 5));
        fences.promise(1, version(7)).expect("a newer one");
        assert!(!is_overtaken(&fences, 5, None, 8), "another one was promised something newer");
        assert!(fences.replace(1, Some(version(3)), version(8)));
        assert!(is_overtaken(&fences, 7, Some(3), 8) && !is_overtaken(&fences, 5, Some(3), 8));
        assert!(is_overtaken(&fences, 7, Some(3), 9), "whatever came after that");
        assert!(!is_overtaken(&fences, 7, Some(4), 8), "something else was there in between");
        assert!(!fences.replace(1, Some(version(8)), version(9)));
        assert_eq!(fences.overtaken().count(), 1, "nothing was promised");
        fences.promise(1, version(10)).expect("room");
        fences.replace(1, Some(version(9)), version(10));
        assert_eq!(fences.overtaken().count(), 1, "it is the cell that it was promised for");
        for timestamp in 0..OVERTAKEN_MAX as u64 {
            fences.promise(2, version(2 * timestamp)).expect("room");
            fences.replace(2, Some(version(3)), version(2 * timestamp + 1));
        }
        assert!(fences.overtaken().count() == OVERTAKEN_MAX && !is_overtaken(&fences, 7, Some(3), 8));
    }

    /// The other one lifts the promise, and something that was decided without the cell of the ballot comes then.
    #[test]
    fn what_a_key_of_the_same_hash_had_does_not_count() {
        let mut fences = Fences::default();
        fences.promise(1, version(5)).expect("the first");
        fences.replace(1, None, version(6));
        assert!(fences.is_overtaken(1, version(5), None, version(6)));
        assert!(!fences.is_overtaken(1, version(5), None, version(7)), "it may be the cell of the other key");
        assert!(!fences.is_overtaken(1, version(5), Some(version(2)), version(6)), "it is");
    }

    #[test]
    fn promises_of_before_are_taken_over_in_any_order() {
        let mut fences = Fences::default();
        assert!(fences.learn(1, version(7)) && fences.learn(1, version(5)) && !fences.learn(1, version(7)));
        assert!(fences.is_newest(1, version(7)));
        assert!(fences.release(1, version(7)));
        assert_eq!(fences.refusing(1, version(4)), Some(version(5)));
    }

    /// It refused the ninth, and since nothing but a new cell ends those of coordinators that are gone, all after it.
    #[test]
    fn the_oldest_promises_of_a_key_become_one_that_nobody_releases() {
        let mut fences = Fences::default();
        for timestamp in 1..=10 {
            fences.promise(1, version(timestamp)).expect("there is always room for one more");
        }
        assert_eq!(fences.len(), 8);
        for timestamp in (1..=10).rev() {
            assert_eq!(fences.release(1, version(timestamp)), timestamp > 3, "{timestamp}");
        }
        assert_eq!(fences.refusing(1, version(3)).map(|fence| fence.timestamp), Some(3));
        assert_eq!(fences.refusing(1, version(4)), None);
        assert!(fences.lift(1, version(4)) && fences.is_empty());
    }

    #[test]
    fn there_are_only_so_many_and_what_is_old_goes() {
        let mut fences = Fences::default();
        for timestamp in 1..=8 {
            fences.promise(1, version(timestamp)).expect("room");
        }
        assert!(fences.void_before(3) && !fences.void_before(3));
        assert_eq!(fences.len(), 6);
        assert_eq!(fences.promise(1, version(9)), Ok(()));
        for hash in 2..=FENCED_KEYS_MAX as u64 {
            fences.promise(hash, version(9)).expect("room");
        }
        assert_eq!(fences.promise(0, version(9)), Err(NoPromise::Full));
        assert_eq!(fences.promise(1, version(10)), Ok(()));
        assert_eq!(fences.iter().count(), fences.len());
    }
}
