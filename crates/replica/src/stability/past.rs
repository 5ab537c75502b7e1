//! What a replica remembers of versions that it no longer has, so that it can tell, of a write that met something newer,
//! whether it ever had it: a read may have returned the write only if it did.
//!
//! A version arrives with its client's write, or by repair: a read, a hint, an exchange. Versions that arrive by repair are
//! recorded before they are written, in a ring of a fixed size. Versions that met something newer in the store are recorded in
//! another ring, until their writer asks. A write that meets nothing newer costs neither a lock nor memory.
//!
//! # Why `Never` is right
//!
//! The store tells under the lock of the commit what was newer than a cell when it was committed, before anybody hears that
//! the commit is over. If somebody who repairs had written the same version, and it was the newest at some time, that was in a
//! commit before: so it came into the ring before that one, and before the question; it is found there, or has fallen out, and then
//! is not newer than the newest one that did. A client's write that may have come before says so. So whoever finds nothing
//! knows that there is one commit of the version, its own, and that met something newer.
//!
//! Where somebody has repaired as well, both are counted: how often the version came by repair, before each such commit, and how many
//! commits of it met something newer, under their lock. Once these are one more, all commits until then did, the client's
//! among them: it was never the newest, and what comes later finds the same newer ones. A client's write that is sent again counts
//! as a repair, so that there is one at most that does not.
//!
//! # What conditional writes went over
//!
//! A conditional write is decided on the newest cell of a majority of promises. That one may be on a minority, and unacknowledged;
//! by the decision it has been seen. [`PromisedBallots`] says whether it may have been.
//!
//! Whether anything newer than a version was ever promised is one look: the newest promise is remembered by the hash of the key, in an
//! array of a fixed size.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_cluster::{Had, PromisedBallots};
use ladoga_local::store::SupersededCell;
use ladoga_model::Version;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

/// How many versions each ring has: those of some seconds, at the highest pace of repair of recent cells. Versions older than
/// the newest one that fell out cost nothing, and are most of what an exchange brings.
const VERSIONS_MAX: usize = 8_192;
/// How many places there are for the newest promises.
const PROMISED_PLACES: usize = 4_096;

/// A version of a key, by the hash of the key.
type KeyVersion = (u64, Version);

/// What a replica remembers.
pub(crate) struct Past {
    /// The newest timestamp that met something newer: later ones met nothing.
    met_up_to: AtomicU64,
    /// Versions that met something newer.
    met: Mutex<Ring<MetNewer>>,
    /// Versions that came by who repairs, or again.
    came: Mutex<Ring<CameByRepair>>,
    /// The latest ballots that were promised.
    ballots: Mutex<PromisedBallots>,
    /// The newest timestamp that was ever promised, by the hash of the key.
    promised: Box<[AtomicU64]>,
}

/// What the commits of a version met that met something newer.
#[derive(Debug, Clone, Copy, Default)]
struct MetNewer {
    /// The newest of it.
    newest: Version,
    /// How many these commits are.
    commits: u32,
    /// Whether they are all that there were: then nobody has had the version from here.
    was_never_newest: bool,
}

/// How a version came by who repairs, or again.
#[derive(Debug, Clone, Copy, Default)]
struct CameByRepair {
    /// How often: there are no more commits of it than these, and one of the client.
    times: u32,
    /// Whether one of these met nothing newer, as far as that is known.
    was_newest: bool,
}

/// What a version met when it was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    /// Nothing newer.
    Nothing,
    /// This.
    Newer(Version),
    /// Too much was met since.
    Forgotten,
}

/// The latest of them, and the newest version that fell out.
struct Ring<T> {
    versions: HashMap<KeyVersion, T>,
    order: VecDeque<KeyVersion>,
    forgotten: Version,
}

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring { versions: HashMap::new(), order: VecDeque::new(), forgotten: Version::ZERO }
    }
}

impl<T> Ring<T> {
    /// The place of a version; `None` if everything of its time is forgotten anyway.
    fn enter(&mut self, version: KeyVersion, new: T) -> Option<&mut T> {
        if version.1 <= self.forgotten {
            return None;
        }
        if !self.versions.contains_key(&version) {
            self.order.push_back(version);
        }
        if self.order.len() > VERSIONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.versions.remove(&oldest);
            self.forgotten = oldest.1.max(self.forgotten);
        }
        Some(self.versions.entry(version).or_insert(new))
    }
}

impl Past {
    /// Of a node that never had anything.
    pub(super) fn new() -> Past {
        Past {
            met_up_to: AtomicU64::new(0),
            met: Mutex::default(),
            came: Mutex::default(),
            ballots: Mutex::default(),
            promised: (0..PROMISED_PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Nothing is known of versions with this timestamp or an older one: an earlier process may have had them.
    pub(crate) fn forget(&self, timestamp: u64) {
        let came = &mut *self.came.lock();
        came.forgotten = up_to(timestamp).max(came.forgotten);
        // What it was given while it was being rebuilt, it may have promised before not to take.
        came.versions.retain(|(_, version), _| version.timestamp > timestamp);
    }

    /// A repair, or a client's write that was sent again, is about to write this version. Called before it is committed.
    pub(crate) fn comes(&self, key_hash: u64, version: Version) {
        if let Some(came) = self.came.lock().enter((key_hash, version), CameByRepair::default()) {
            came.times = came.times.saturating_add(1);
        }
    }

    /// It met nothing newer.
    pub(crate) fn was_newest(&self, key_hash: u64, version: Version) {
        if let Some(came) = self.came.lock().versions.get_mut(&(key_hash, version)) {
            came.was_newest = true;
        }
    }

    /// These met something newer when they were committed.
    pub(super) fn met_newer(&self, cells: &[SupersededCell]) {
        let mut met = self.met.lock();
        for &SupersededCell { key_hash, version, newest } in cells {
            if let Some(known) = met.enter((key_hash, version), MetNewer::default()) {
                known.newest = newest.max(known.newest);
                known.commits = known.commits.saturating_add(1);
                let came = self.came.lock().versions.get(&(key_hash, version)).map_or(0, |came| came.times);
                known.was_never_newest |= known.commits > came;
            }
            self.met_up_to.fetch_max(version.timestamp, Ordering::Release);
        }
    }

    /// Whether a version may have met something newer. Asked once it is committed, before the key is hashed.
    pub(crate) fn may_have_met_newer(&self, version: Version) -> bool {
        version.timestamp <= self.met_up_to.load(Ordering::Acquire)
    }

    /// What a version met. Asked once it is committed.
    pub(crate) fn met(&self, key_hash: u64, version: Version) -> Met {
        let met = self.met.lock();
        match met.versions.get(&(key_hash, version)) {
            Some(known) => Met::Newer(known.newest),
            None if version <= met.forgotten => Met::Forgotten,
            None => Met::Nothing,
        }
    }

    /// A ballot is about to be promised, and `had` is what the key has.
    pub(crate) fn promises(&self, key_hash: u64, ballot: Version, had: Option<Version>) {
        self.ballots.lock().promised(key_hash, ballot, had);
        self.promised_of(key_hash).fetch_max(ballot.timestamp, Ordering::AcqRel);
    }

    /// Whether something newer than a version may ever have been promised.
    pub(crate) fn may_have_promised_over(&self, key_hash: u64, version: Version) -> bool {
        version.timestamp <= self.promised_of(key_hash).load(Ordering::Acquire)
    }

    /// Whether something conditional that was decided without a version may have gone over it: of the only replica of a key. Asked once
    /// it is committed.
    pub(crate) fn may_be_passed_over(&self, key: &[u8], version: Version) -> bool {
        let is_passed_over = |key_hash| {
            self.may_have_promised_over(key_hash, version) && self.met(key_hash, version) != Met::Nothing
        };
        self.may_have_met_newer(version) && is_passed_over(xxh3_64(key))
    }

    fn promised_of(&self, key_hash: u64) -> &AtomicU64 {
        &self.promised[key_hash as usize % PROMISED_PLACES]
    }

    /// The cell of a ballot was accepted, and decided on `base`. Comes once it is committed.
    pub(crate) fn accepts(&self, key_hash: u64, base: Option<Version>, ballot: Version) {
        self.ballots.lock().accepted(key_hash, ballot, base);
    }

    /// It is not accepted.
    pub(crate) fn refuses(&self, key_hash: u64, base: Option<Version>, ballot: Version) {
        self.ballots.lock().refused(key_hash, ballot, base);
    }

    /// Its coordinator has no use for the promise.
    pub(crate) fn released(&self, key_hash: u64, ballot: Version) {
        self.ballots.lock().released(key_hash, ballot);
    }

    /// Whether more is known of a version soon: once a cell is decided that may have seen it, by a ballot that is not older than this.
    pub(crate) fn is_open_over(&self, key_hash: u64, version: Version, since: u64) -> bool {
        self.ballots.lock().is_open_over(key_hash, version, since)
    }

    /// The newest ballot over this one that was promised, and still matters.
    pub(crate) fn newest_over(&self, key_hash: u64, ballot: Version) -> Option<Version> {
        self.ballots.lock().newest_over(key_hash, ballot)
    }

    /// Whether a version that met something newer was here before; asked for who wrote it once.
    pub(crate) fn had(&self, key_hash: u64, version: Version) -> Had {
        let met = self.met.lock().versions.get(&(key_hash, version)).copied().unwrap_or_default();
        let came = self.came.lock();
        match came.versions.get(&(key_hash, version)) {
            Some(came) if came.was_newest => return Had::Once,
            _ if version <= came.forgotten => return Had::Unknown,
            // It may be that commit which met something newer, or the other one.
            Some(_) if !met.was_never_newest => return Had::Unknown,
            Some(_) | None => {}
        }
        drop(came);
        if self.may_have_promised_over(key_hash, version) {
            self.ballots.lock().had(key_hash, version)
        } else {
            Had::Never
        }
    }
}

/// After all versions with this timestamp.
const fn up_to(timestamp: u64) -> Version {
    Version { timestamp, node: u16::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u64 = 7;

    fn version(timestamp: u64) -> Version {
        Version { timestamp, node: 1 }
    }

    fn meets(past: &Past, timestamp: u64, newest: u64) {
        let (version, newest) = (version(timestamp), version(newest));
        past.met_newer(&[SupersededCell { key_hash: KEY, version, newest }]);
    }

    #[test]
    fn what_came_by_repair_is_known_and_what_did_not_was_never_here() {
        let past = Past::new();
        past.forget(10);
        assert_eq!(past.had(KEY, version(11)), Had::Never);
        past.comes(KEY, version(11));
        assert_eq!(past.had(KEY, version(11)), Had::Unknown, "it may be written now, or not");
        past.was_newest(KEY, version(11));
        past.comes(KEY, version(11));
        assert_eq!(past.had(KEY, version(11)), Had::Once, "whatever comes again");
        assert_eq!(past.had(KEY + 1, version(11)), Had::Never, "another key");
        assert_eq!(past.had(KEY, version(10)), Had::Unknown, "of the life before");
        past.comes(KEY, version(13));
        past.was_newest(KEY, version(13));
        past.forget(12);
        assert_eq!(past.had(KEY, version(13)), Had::Once);
        assert_eq!(
            [version(11), version(14)].map(|version| past.had(KEY, version)),
            [Had::Unknown, Had::Never]
        );
    }

    #[test]
    fn what_met_something_newer_each_time_was_never_here() {
        let past = Past::new();
        let had = |at: u64| past.had(KEY, version(at));
        // The client's write, and then a repair, before and after that one is committed.
        meets(&past, 1, 9);
        past.comes(KEY, version(1));
        assert_eq!(had(1), Had::Never, "it was the client's that met something newer");
        meets(&past, 1, 9);
        assert_eq!(had(1), Had::Never);
        // Two repairs, of which one was the newest, or may have been.
        past.comes(KEY, version(2));
        past.comes(KEY, version(2));
        meets(&past, 2, 9);
        meets(&past, 2, 9);
        assert_eq!(had(2), Had::Unknown, "two of three");
        meets(&past, 2, 9);
        assert_eq!(had(2), Had::Never, "the third may be the client's");
        past.comes(KEY, version(2));
        assert_eq!(had(2), Had::Never, "whatever comes later");
        past.was_newest(KEY, version(2));
        assert_eq!(had(2), Had::Once);
        // What is known of an earlier life is not known of this one.
        past.forget(1);
        assert_eq!(had(1), Had::Unknown);
    }

    #[test]
    fn what_fell_out_is_unknown_with_all_that_is_older() {
        let past = Past::new();
        let last = VERSIONS_MAX as u64 + 1;
        // The newest one first, so that it is the first to fall out.
        past.comes(KEY, version(last));
        (1..=last).for_each(|timestamp| past.comes(KEY + 1, version(timestamp)));
        assert_eq!(past.had(KEY, version(last)), Had::Unknown);
        assert_eq!(past.had(KEY, version(1)), Had::Unknown);
        assert_eq!(past.had(KEY, version(last + 1)), Had::Never);
        assert!(past.came.lock().versions.len() <= VERSIONS_MAX);
        assert!(past.came.lock().order.len() <= VERSIONS_MAX);
    }

    #[test]
    fn what_is_older_than_a_promise_may_have_been_seen_unless_it_is_known_what_was() {
        let past = Past::new();
        let had = |at: u64| past.had(KEY, version(at));
        past.promises(KEY, version(9), Some(version(3)));
        assert_eq!([3, 8, 10].map(had), [Had::Never, Had::Unknown, Had::Never]);
        assert!(past.is_open_over(KEY, version(8), 0));
        assert_eq!(past.had(KEY + 1, version(8)), Had::Never, "another key");
        past.accepts(KEY, Some(version(6)), version(9));
        assert_eq!([5, 6, 7].map(had), [Had::Unknown, Had::Once, Had::Skipped]);
        past.comes(KEY, version(7));
        assert_eq!(had(7), Had::Unknown, "it may be written now");
        past.promises(KEY, version(12), Some(version(9)));
        past.refuses(KEY, Some(version(10)), version(12));
        past.promises(KEY, version(14), Some(version(9)));
        past.released(KEY, version(14));
        assert_eq!([10, 11, 13].map(had), [Had::Unknown, Had::Skipped, Had::Never]);
        assert!(!past.is_open_over(KEY, version(10), 0));
    }

    #[test]
    fn a_version_is_passed_over_if_what_it_met_was_promised() {
        let (past, key) = (Past::new(), b"key");
        let met = SupersededCell { key_hash: xxh3_64(key), version: version(5), newest: version(9) };
        past.met_newer(&[met]);
        assert!(!past.may_be_passed_over(key, version(5)), "a plain write at the same time");
        past.promises(xxh3_64(key), version(9), None);
        assert!(past.may_be_passed_over(key, version(5)));
        assert!(!past.may_be_passed_over(key, version(4)) && !past.may_be_passed_over(key, version(6)));
    }

    #[test]
    fn what_was_met_is_known_until_too_much_was() {
        let past = Past::new();
        assert!(!past.may_have_met_newer(version(1)));
        meets(&past, 5, 9);
        assert!(past.may_have_met_newer(version(5)) && !past.may_have_met_newer(version(6)));
        assert_eq!(past.met(KEY, version(5)), Met::Newer(version(9)));
        assert_eq!(past.met(KEY, version(4)), Met::Nothing);
        meets(&past, 5, 8);
        assert_eq!(past.met(KEY, version(5)), Met::Newer(version(9)), "the newest of them");
        (10..10 + VERSIONS_MAX as u64).for_each(|timestamp| meets(&past, timestamp, timestamp + 1));
        assert_eq!(past.met(KEY, version(5)), Met::Forgotten);
        assert_eq!(past.met(KEY, version(4)), Met::Forgotten);
        assert_eq!(past.met(KEY, version(6)), Met::Nothing);
    }
}
