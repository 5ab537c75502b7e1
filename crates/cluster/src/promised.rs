//! Which ballots a replica promised, and what it heard of their cells: so that it can tell a plain write, which finds something newer
//! here, whether a decision may have seen it.
//!
//! A conditional write is decided on the newest cell of a majority of promises. That one may be a plain write on a minority, which
//! no read has returned; by the decision it has been seen. So a replica that never had a version says so only if no ballot that it
//! promised may have been decided on that version: none that is newer than the version, and that was promised when this replica
//! had something older. (Whoever was told of something newer decided on something newer.) What such a ballot was decided on is
//! known once its cell is to be accepted here, whether or not it is. Once its coordinator releases it, it does not matter here: its cell
//! is nowhere, or it was decided by a majority without this replica, one of which knows what on.
//!
//! If this replica accepted a cell that was decided on the version, it counts as having had it; unless another ballot was decided without
//! the version. That one's cell may be on another replica, be found there by a coordinator whose majority lacks the cell that was accepted
//! here, and go over both.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use ladoga_model::Version;

use crate::write::Had;

/// How many ballots are remembered: it takes a plain write and a conditional one of a key at the same moment to ask for one.
const BALLOTS_MAX: usize = 4_096;

/// A version of a key, by the hash of the key.
type KeyVersion = (u64, Version);

/// A ballot that was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Promised {
    /// What this replica had then.
    had: Option<Version>,
    basis: Basis,
}

/// What is known of what the cell of a ballot was decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Basis {
    /// Nothing yet.
    Open,
    /// It was decided on this, and not accepted here.
    Refused(Option<Version>),
    /// It was decided on this, and accepted here.
    Accepted(Option<Version>),
    /// It does not matter here.
    Void,
}

/// The latest ballots that a replica promised.
#[derive(Debug, Clone, Default, Hash)]
pub struct PromisedBallots {
    ballots: BTreeMap<KeyVersion, Promised>,
    /// In the order in which they were promised.
    order: VecDeque<KeyVersion>,
    /// No ballot that is newer was forgotten.
    forgotten: Version,
}

impl PromisedBallots {
    /// Of a replica that remembers no ballots up to this version.
    pub fn forgetting(forgotten: Version) -> PromisedBallots {
        PromisedBallots { forgotten, ..PromisedBallots::default() }
    }

    /// The replica promises a ballot, and `had` is what it has of the key.
    pub fn promised(&mut self, key_hash: u64, ballot: Version, had: Option<Version>) {
        match self.ballots.entry((key_hash, ballot)) {
            // Its coordinator asked again. What was heard since then counts.
            Entry::Occupied(_) => return,
            Entry::Vacant(entry) => entry.insert(Promised { had, basis: Basis::Open }),
        };
        self.order.push_back((key_hash, ballot));
        if self.order.len() > BALLOTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ballots.remove(&oldest);
            self.forgotten = oldest.1.max(self.forgotten);
        }
    }

    /// The replica accepts the cell of a ballot, which was decided on this.
    pub fn accepted(&mut self, key_hash: u64, ballot: Version, base: Option<Version>) {
        self.hear(key_hash, ballot, Basis::Accepted(base));
    }

    /// It does not accept it.
    pub fn refused(&mut self, key_hash: u64, ballot: Version, base: Option<Version>) {
        self.hear(key_hash, ballot, Basis::Refused(base));
    }

    /// The coordinator of a ballot has no use for the promise.
    pub fn released(&mut self, key_hash: u64, ballot: Version) {
        self.hear(key_hash, ballot, Basis::Void);
    }

    /// What is heard first counts: who is asked to accept once more has something newer by then.
    fn hear(&mut self, key_hash: u64, ballot: Version, basis: Basis) {
        if let Some(known) = self.ballots.get_mut(&(key_hash, ballot))
            && known.basis == Basis::Open
        {
            known.basis = basis;
        }
    }

    /// Whether this replica had a version that it was never given, and has something newer than, by what was decided on it.
    ///
    /// - [`Had::Once`]: it accepted a cell that was decided on the version, and no other one that may go over the version
    /// - [`Had::Skipped`]: no ballot that it promised was decided on the version, and one was decided on something older
    /// - [`Had::Never`]: no ballot that it promised was decided on the version, or on something older
    ///
    /// What is decided on a version is promised by a majority that had nothing newer. None of that majority says that it never had the
    /// version: so not enough replicas do, to write it again.
    pub fn had(&self, key_hash: u64, version: Version) -> Had {
        let mut is_known = version > self.forgotten;
        let (mut is_accepted, mut is_gone_over) = (false, false);
        for (_, promised) in self.over(key_hash, version) {
            match promised.basis {
                Basis::Void => {}
                Basis::Accepted(base) | Basis::Refused(base) if base < Some(version) => is_gone_over = true,
                Basis::Accepted(base) if base == Some(version) => is_accepted = true,
                // What is newer than the version may have been decided on it.
                Basis::Open | Basis::Accepted(_) | Basis::Refused(_) => is_known = false,
            }
        }
        match (is_accepted, is_gone_over) {
            _ if !is_known => Had::Unknown,
            (true, false) => Had::Once,
            // What goes over it may be on another replica, and be found there.
            (true, true) => Had::Unknown,
            (false, true) => Had::Skipped,
            (false, false) => Had::Never,
        }
    }

    /// Whether that is unknown for now, until more is heard of a ballot that is not older than this timestamp.
    pub fn is_open_over(&self, key_hash: u64, version: Version, since: u64) -> bool {
        let is_open = |(ballot, promised): (Version, &Promised)| {
            promised.basis == Basis::Open && ballot.timestamp >= since
        };
        version > self.forgotten
            && self.had(key_hash, version) == Had::Unknown
            && self.over(key_hash, version).any(is_open)
    }

    /// The newest ballot over this one that still matters. The key has nothing that is newer than either: then, the promise ended by a cell
    /// of another key of the same hash, and has to be kept all the same.
    pub fn newest_over(&self, key_hash: u64, ballot: Version) -> Option<Version> {
        let newer = self.ballots.range((key_hash, ballot)..).take_while(|((key, _), _)| *key == key_hash);
        let matters = newer.filter(|((_, other), promised)| *other > ballot && promised.basis != Basis::Void);
        matters.map(|((_, other), _)| *other).last()
    }

    /// The ballots that may have been decided on a version.
    fn over(&self, key_hash: u64, version: Version) -> impl Iterator<Item = (Version, &Promised)> {
        let newer =
            self.ballots.range((key_hash, version)..).take_while(move |((key, _), _)| *key == key_hash);
        newer
            .filter(move |((_, ballot), promised)| *ballot > version && promised.had < Some(version))
            .map(|((_, ballot), promised)| (*ballot, promised))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u64 = 7;

    const fn version(timestamp: u64) -> Version {
        Version { timestamp, node: 0 }
    }

    fn promised(ballots: &[(u64, Option<u64>)]) -> PromisedBallots {
        let mut all = PromisedBallots::default();
        ballots.iter().for_each(|&(ballot, had)| all.promised(KEY, version(ballot), had.map(version)));
        all
    }

    #[test]
    fn a_version_may_have_been_seen_by_a_newer_ballot_that_was_not_told_of_anything_newer() {
        let ballots = promised(&[(9, Some(3)), (5, None)]);
        let had = |at| ballots.had(KEY, version(at));
        assert_eq!([2, 3, 4, 8, 9, 10].map(had), {
            [Had::Unknown, Had::Unknown, Had::Unknown, Had::Unknown, Had::Never, Had::Never]
        });
        let told = promised(&[(9, Some(3))]);
        assert_eq!(told.had(KEY, version(2)), Had::Never, "it was told of 3");
        assert_eq!(told.had(KEY + 1, version(8)), Had::Never, "another key");
        assert!(told.is_open_over(KEY, version(8), 0) && !told.is_open_over(KEY, version(2), 0));
    }

    #[test]
    fn what_a_ballot_was_decided_on_says_what_it_saw() {
        let mut ballots = promised(&[(9, Some(3))]);
        ballots.refused(KEY, version(9), Some(version(6)));
        assert_eq!([3, 5, 6, 7, 9].map(|at| ballots.had(KEY, version(at))), {
            [Had::Never, Had::Unknown, Had::Unknown, Had::Skipped, Had::Never]
        });
        assert!(!ballots.is_open_over(KEY, version(5), 0), "6 may have been decided on it");
        assert!(!ballots.is_open_over(KEY, version(6), 0), "nothing more is going to be heard");
        ballots.promised(KEY, version(12), Some(version(3)));
        assert_eq!(ballots.had(KEY, version(7)), Had::Unknown, "which says nothing of another one");
        ballots.accepted(KEY, version(12), Some(version(7)));
        assert_eq!(
            ballots.had(KEY, version(7)),
            Had::Unknown,
            "9 went over it, and may be on another replica"
        );
        let mut ballots = promised(&[(5, None), (9, None)]);
        ballots.accepted(KEY, version(9), Some(version(6)));
        ballots.released(KEY, version(5));
        ballots.refused(KEY, version(9), Some(version(6)));
        assert_eq!(ballots.had(KEY, version(6)), Had::Once, "whoever asks again");
        let mut ballots = promised(&[(9, None), (12, None)]);
        ballots.accepted(KEY, version(9), None);
        assert_eq!(ballots.had(KEY, version(8)), Had::Unknown, "12 may have been decided on it, elsewhere");
        assert!(ballots.is_open_over(KEY, version(8), 12) && !ballots.is_open_over(KEY, version(8), 13));
        assert_eq!(ballots.had(KEY, version(10)), Had::Unknown);
        assert_eq!(ballots.newest_over(KEY, version(9)), Some(version(12)));
        ballots.released(KEY, version(12));
        assert_eq!(ballots.newest_over(KEY, version(9)), None);
        assert_eq!(ballots.had(KEY, version(8)), Had::Skipped);
        assert_eq!(ballots.had(KEY, version(10)), Had::Never);
    }

    /// Of two ballots, one was decided on something newer: that does not say what the other one saw.
    #[test]
    fn what_one_ballot_did_not_see_another_one_may_have() {
        for decided in [9, 12] {
            let mut ballots = promised(&[(9, None), (12, None)]);
            ballots.accepted(KEY, version(decided), Some(version(6)));
            assert_eq!(ballots.had(KEY, version(5)), Had::Unknown, "{decided}");
            assert!(ballots.is_open_over(KEY, version(5), 0));
        }
    }

    /// Of five replicas, one had a version on which something was decided and acknowledged. The others accepted what had been decided on
    /// something older, with minorities, and three said that they never had the version: it was written again, over what was built on it.
    #[test]
    fn what_one_ballot_went_over_another_one_may_have_been_decided_on() {
        let mut ballots = promised(&[(7, None), (9, None)]);
        ballots.accepted(KEY, version(9), None);
        ballots.refused(KEY, version(7), Some(version(5)));
        assert_eq!(ballots.had(KEY, version(5)), Had::Unknown);
        ballots.promised(KEY, version(7), Some(version(6)));
        assert_eq!(
            ballots.had(KEY, version(5)),
            Had::Unknown,
            "who asks for the promise again changes nothing"
        );
    }

    #[test]
    fn only_so_many_are_remembered_and_who_asks_again_is_one() {
        let mut ballots = promised(&[(2, None), (2, None)]);
        assert_eq!(ballots.order.len(), 1);
        (0..BALLOTS_MAX as u64).for_each(|key| ballots.promised(KEY + 1 + key, version(1), None));
        assert_eq!(ballots.order.len(), BALLOTS_MAX);
        assert_eq!(ballots.ballots.len(), BALLOTS_MAX);
        let had = |at| ballots.had(KEY, version(at));
        assert_eq!([1, 2, 3].map(had), [Had::Unknown, Had::Unknown, Had::Never]);
        assert!(!ballots.is_open_over(KEY, version(1), 0));
        assert_eq!(PromisedBallots::forgetting(version(5)).had(KEY, version(5)), Had::Unknown);
    }
}
