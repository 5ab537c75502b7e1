use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ladoga_model::{Stamp, Version};
use ladoga_service::{Error, StoreError};
use xxhash_rust::xxh3::xxh3_64;

use crate::admission::{Admission, StampOfUpdate};
use crate::store::{CellGate, CellOrder, Passage};
use crate::versions::{IN_A_ROW_MAX, VersionClock};

/// How many fences there are. Two keys that share one cost each other a version now and then, and nothing else.
const FENCES: usize = 4 << 10;

/// The versions of a node on its own.
///
/// A write gets its version before it is queued, an update when it is decided. So a write may be committed after an update that
/// has a newer version but did not see it. The write would be lost, although nothing orders it before the update. Therefore an
/// update leaves its version as a fence, and an older cell that comes to the fence gets a new version. Nobody has seen that
/// write yet, and it has not been answered, so it may happen now. The new version is a fence, too: what the same client sent after
/// that write, in one pipeline, may have an older version that was given behind the update.
pub struct LoneVersions {
    clock: VersionClock,
    /// By the hash of a key, the timestamp of the newest update, or new version; never lowered, so that no write is missed however long it
    /// takes. Written and read in the turn of the commit alone.
    fences: Box<[AtomicU64]>,
    /// The highest of them, and of `closed`.
    newest: AtomicU64,
    /// While changes are followed: what was committed last. Who follows has been told of everything up to here, so an older cell
    /// gets a new version, too.
    closed: AtomicU64,
}

impl LoneVersions {
    /// By this clock.
    pub fn new(clock: VersionClock) -> LoneVersions {
        let fences = (0..FENCES).map(|_| AtomicU64::new(0)).collect();
        LoneVersions { clock, fences, newest: AtomicU64::new(0), closed: AtomicU64::new(0) }
    }

    /// The clock.
    pub const fn clock(&self) -> &VersionClock {
        &self.clock
    }

    fn next(&self) -> Version {
        Version { timestamp: self.clock.next(), node: 0 }
    }

    fn fence(&self, key_hash: u64) -> &AtomicU64 {
        &self.fences[key_hash as usize % FENCES]
    }

    /// The version of an update that is decided now, and fences off all that were given before.
    fn next_with_fence(&self, key_hash: u64) -> Version {
        self.fenced(self.clock.next(), key_hash)
    }

    fn fenced(&self, timestamp: u64, key_hash: u64) -> Version {
        let version = Version { timestamp, node: 0 };
        self.fence(key_hash).fetch_max(version.timestamp, Ordering::Relaxed);
        self.newest.fetch_max(version.timestamp, Ordering::Relaxed);
        version
    }
}

impl CellGate for LoneVersions {
    fn is_open_to(&self, timestamp: u64) -> bool {
        timestamp > self.newest.load(Ordering::Relaxed)
    }

    fn pass(&self, key_hash: u64, version: Version) -> Passage {
        let fence = self.fence(key_hash).load(Ordering::Relaxed);
        if version.timestamp > fence.max(self.closed.load(Ordering::Relaxed)) {
            return Passage::Open;
        }
        Passage::Renewed(self.next_with_fence(key_hash))
    }
}

impl CellOrder for LoneVersions {
    fn close_up_to(&self, timestamp: u64) {
        self.closed.fetch_max(timestamp, Ordering::Relaxed);
        self.newest.fetch_max(timestamp, Ordering::Relaxed);
    }

    fn close_all(&self) -> u64 {
        let timestamp = self.clock.next();
        self.close_up_to(timestamp);
        timestamp
    }
}

/// Nothing keeps a node on its own from a write.
impl Admission for Arc<LoneVersions> {
    type Admitted = ();

    fn stamp(&self) -> Stamp {
        Stamp::new(self.next())
    }

    fn time_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    fn given_up_to_ms(&self) -> u64 {
        self.clock.given_up_to_ms(self.clock.wall_ms())
    }

    fn admits_all(&self) -> bool {
        true
    }

    async fn admit(&self, _: Stamp) -> Result<(), Error> {
        Ok(())
    }

    fn stamp_of_update(&self, key: &[u8]) -> Result<impl FnOnce() -> Stamp + Send + 'static, Error> {
        let (versions, key_hash) = (Arc::clone(self), xxh3_64(key));
        Ok(move || Stamp::new(versions.next_with_fence(key_hash)))
    }

    /// All within one millisecond: who restores what there was at a point in time gets all of them, or none.
    fn stamps_together(&self, keys: &[&[u8]]) -> Result<Vec<StampOfUpdate>, Error> {
        let (count, first) = (keys.len() as u64, Arc::new(OnceLock::new()));
        if count > IN_A_ROW_MAX {
            return Err(StoreError::TooManyTogether { cells: count, cells_max: IN_A_ROW_MAX }.into());
        }
        let stamp_of = |(place, key): (u64, &&[u8])| -> StampOfUpdate {
            let (versions, first, key_hash) = (Arc::clone(self), Arc::clone(&first), xxh3_64(key));
            Box::new(move || {
                let first = first.get_or_init(|| versions.clock.next_in_a_row(count));
                Stamp::new(versions.fenced(first + place, key_hash))
            })
        };
        Ok((0..).zip(keys).map(stamp_of).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ladoga_env::sim::SimClock;
    use ladoga_model::HybridClock;

    #[test]
    fn what_was_given_before_an_update_gets_a_version_anew() {
        let versions = Arc::new(LoneVersions::new(VersionClock::new(Arc::new(SimClock::new()))));
        let before = versions.stamp().version;
        assert!(versions.is_open_to(before.timestamp), "there was no update yet");
        let decide = versions.stamp_of_update(b"key").expect("it takes updates");
        let update = decide().version;
        let after = versions.stamp().version;
        assert!(!versions.is_open_to(before.timestamp) && versions.is_open_to(after.timestamp));
        let hash = xxh3_64(b"key");
        assert_eq!(versions.pass(hash, after), Passage::Open);
        let Passage::Renewed(renewed) = versions.pass(hash, before) else { panic!("it is older") };
        assert!(renewed > after && after > update && update > before);
        assert_eq!(versions.pass(xxh3_64(b"another key"), before), Passage::Open);
    }

    /// Two writes of one connection, an update between them or a group that is followed: the first one won, for ever.
    #[test]
    fn what_gets_a_version_anew_stays_before_what_came_after_it() {
        let hash = xxh3_64(b"key");
        for is_followed in [false, true] {
            let versions = Arc::new(LoneVersions::new(VersionClock::new(Arc::new(SimClock::new()))));
            let first = versions.stamp().version;
            if is_followed {
                versions.close_up_to(versions.stamp().version.timestamp);
            } else {
                versions.stamp_of_update(b"key").expect("it takes updates")();
            }
            let second = versions.stamp().version;
            assert_eq!(versions.pass(hash, second), Passage::Open, "it is newer, if it comes alone");
            let Passage::Renewed(first) = versions.pass(hash, first) else { panic!("it is older") };
            assert!(!versions.is_open_to(second.timestamp));
            let Passage::Renewed(second) = versions.pass(hash, second) else { panic!("it came later") };
            assert!(first < second);
        }
    }

    #[test]
    fn what_happens_together_is_of_one_millisecond_and_in_order() {
        let clock = SimClock::new();
        let versions = Arc::new(LoneVersions::new(VersionClock::new(Arc::new(clock.clone()))));
        let now_ms = versions.clock().wall_ms();
        // The counter of this millisecond is nearly used up.
        versions.clock().continue_after((HybridClock::at_wall_ms(now_ms) | 0xffff) - 2);
        let keys: [&[u8]; 4] = [b"a", b"b", b"a", b"c"];
        let mut given = Vec::new();
        for stamp in versions.stamps_together(&keys).expect("it takes updates") {
            given.push(stamp().version.timestamp);
            clock.advance(Duration::from_secs(1));
            versions.stamp();
        }
        assert_eq!(
            given,
            (0..4).map(|place| HybridClock::at_wall_ms(now_ms + 1) + place).collect::<Vec<_>>()
        );
        let late = Version { timestamp: given[2] - 1, node: 0 };
        assert!(matches!(versions.pass(xxh3_64(b"a"), late), Passage::Renewed(_)));
    }

    /// Those of the next millisecond were left out by a restore to this one.
    #[test]
    fn more_than_one_millisecond_has_versions_for_are_refused() {
        let clock = SimClock::new();
        let versions = Arc::new(LoneVersions::new(VersionClock::new(Arc::new(clock))));
        versions.stamp();
        let names: Vec<[u8; 4]> = (0..=1 << 16_u32).map(u32::to_be_bytes).collect();
        let keys: Vec<&[u8]> = names.iter().map(<[u8; 4]>::as_slice).collect();
        let Err(Error::Store(StoreError::TooManyTogether { cells, cells_max })) =
            versions.stamps_together(&keys)
        else {
            panic!("they are too many")
        };
        assert_eq!((cells, cells_max), (65_537, 65_536));
        let stamps = versions.stamps_together(&keys[1..]).expect("as many as there are");
        let given: Vec<u64> = stamps.into_iter().map(|stamp| stamp().version.timestamp).collect();
        let moments: std::collections::BTreeSet<u64> =
            given.iter().map(|&it| HybridClock::wall_ms(it)).collect();
        assert!(given.is_sorted() && moments.len() == 1, "{moments:?}");
    }

    #[test]
    fn what_was_given_before_all_was_closed_gets_a_version_anew() {
        let versions = Arc::new(LoneVersions::new(VersionClock::new(Arc::new(SimClock::new()))));
        let [first, second] = [versions.stamp().version, versions.stamp().version];
        versions.close_up_to(first.timestamp);
        assert!(!versions.is_open_to(first.timestamp) && versions.is_open_to(second.timestamp));
        let hash = xxh3_64(b"key");
        assert_eq!(versions.pass(hash, second), Passage::Open);
        let closed = versions.close_all();
        assert!(closed > second.timestamp && !versions.is_open_to(second.timestamp));
        let Passage::Renewed(renewed) = versions.pass(hash, second) else { panic!("it is older") };
        assert!(renewed.timestamp > closed);
        versions.close_up_to(first.timestamp);
        assert!(!versions.is_open_to(second.timestamp), "what is closed stays closed");
    }
}
