use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_model::{HybridClock, Version};

/// What time it is, in microseconds since 1970.
pub type WallUs = Box<dyn Fn() -> u64 + Send + Sync>;

/// So many timestamps of Cassandra are in a millisecond: it counts microseconds.
const PER_MS: u64 = 1_000;
/// The clock follows versions of other doors that are at most so far ahead of this machine's clock.
const AHEAD_MS_MAX: u64 = 60_000;

/// The hybrid clock of a door. A version and a timestamp of Cassandra stand for each other, so that a version is newer
/// where Cassandra takes it for newer, and whoever writes to the tables with Cassandra's own tools is told apart by time as well.
pub(crate) struct DoorClock {
    wall_us: WallUs,
    /// The last timestamp given or seen.
    last: AtomicU64,
    /// Tells this run of this door from all others. Two doors may take one timestamp; the larger number then wins: see `row`.
    node: u16,
}

impl DoorClock {
    pub(crate) fn new(wall_us: WallUs) -> DoorClock {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(wall_us());
        DoorClock { node: hasher.finish() as u16, last: AtomicU64::new(0), wall_us }
    }

    pub(crate) fn wall_ms(&self) -> u64 {
        (self.wall_us)() / PER_MS
    }

    /// A version after all that were given or seen.
    pub(crate) fn next(&self) -> Version {
        let wall = (self.wall_us)();
        let after = |last: u64| Some(wall.max(last + 1));
        let last = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, after);
        let last = last.expect("there is always a next one");
        Version { timestamp: version_of(wall.max(last + 1)), node: self.node }
    }

    /// Moves behind a version that was read, unless it is further ahead than clocks may differ. Answers by how much it is then: what this
    /// door writes is older.
    pub(crate) fn observe(&self, version: Version) -> Result<(), Ahead> {
        let seen = timestamp_of(version).cast_unsigned();
        if seen <= self.last.load(Ordering::Acquire) {
            return Ok(());
        }
        let ahead_ms = seen.saturating_sub((self.wall_us)()) / PER_MS;
        if ahead_ms > AHEAD_MS_MAX {
            return Err(Ahead { ahead_ms });
        }
        self.last.fetch_max(seen, Ordering::AcqRel);
        Ok(())
    }
}

/// A version of a time that is yet to come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) ahead_ms: u64,
}

fn version_of(timestamp: u64) -> u64 {
    HybridClock::at_wall_ms(timestamp / PER_MS) + timestamp % PER_MS
}

/// What Cassandra has as the timestamp of a version.
pub(crate) fn timestamp_of(version: Version) -> i64 {
    let ms = HybridClock::wall_ms(version.timestamp);
    (ms * PER_MS + (version.timestamp - HybridClock::at_wall_ms(ms))).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(wall_ms: u64) -> DoorClock {
        DoorClock::new(Box::new(move || wall_ms * PER_MS))
    }

    #[test]
    fn versions_rise_as_timestamps_do() {
        let clock = clock(1_700_000_000_000);
        let versions: Vec<Version> = (0..5_000).map(|_| clock.next()).collect();
        assert!(versions.is_sorted_by(|older, newer| older < newer));
        assert!(versions.is_sorted_by(|older, newer| timestamp_of(*older) < timestamp_of(*newer)));
        assert_eq!(timestamp_of(versions[0]), 1_700_000_000_000_000);
        assert_eq!(timestamp_of(versions[4_999]), 1_700_000_000_004_999);
    }

    #[test]
    fn a_version_that_was_seen_is_older_than_what_follows() {
        let clock = clock(1_000_000);
        let ahead = |ms: u64| Version { timestamp: HybridClock::at_wall_ms(1_000_000 + ms) + 7, node: 3 };
        assert_eq!(clock.observe(ahead(59_000)), Ok(()));
        assert!(clock.next() > ahead(59_000));
        assert_eq!(clock.observe(ahead(61_000)), Err(Ahead { ahead_ms: 61_000 }));
        assert!(clock.next() < ahead(61_000), "a clock that is wrong is not followed");
        assert_eq!(clock.observe(ahead(0)), Ok(()));
    }
}
