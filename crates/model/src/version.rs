use crate::HybridClock;

/// When a write happened, and who coordinated it: the total order of all writes to a key.
///
/// Compared by `timestamp`, ties broken by `node`; the same everywhere, so the newest version wins in whatever
/// order versions arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version {
    /// Hybrid logical time: milliseconds since 1970 in the upper 48 bits, a counter in the lower 16.
    pub timestamp: u64,
    /// The node that coordinated the write.
    pub node: u16,
}

impl Version {
    /// Before every version that a clock gives.
    pub const ZERO: Version = Version { timestamp: 0, node: 0 };
    /// Not before any version.
    pub const MAX: Version = Version { timestamp: u64::MAX, node: u16::MAX };
}

/// What a cell carries beside its value: its version, when it ceases to be, and on how many nodes it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stamp {
    /// The version that decides which cell of a key wins.
    pub version: Version,
    /// Milliseconds since 1970 from which on the cell reads as absent; 0 means never.
    pub expires_at_ms: u64,
    /// How many nodes it is for: so many from the front of its key's preference list. Repairs need to know, or a write to one node
    /// would end on every node. 0 is as many as there were in the list of nodes when it was written: so wrote a node on its own,
    /// and those of a cluster until each write said its number.
    pub copies: u8,
}

impl Stamp {
    /// A stamp without an expiry, of a node on its own or of a deletion.
    pub const fn new(version: Version) -> Stamp {
        Stamp { version, expires_at_ms: 0, copies: 0 }
    }

    /// Whether the cell reads as absent at `now_ms`.
    pub const fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms != 0 && self.expires_at_ms <= now_ms
    }

    /// The timestamp of the deletion that a value ends in, if it expires: the end of the grain of time that its expiry is in,
    /// and not before its version. A grain is at most half of the time that the value was to live, so a store with values of
    /// one age has few of them; see [`crate::CellMark::deleted_at`].
    pub const fn ends_at(&self) -> Option<u64> {
        if self.expires_at_ms == 0 {
            return None;
        }
        let lives_ms = self.expires_at_ms.saturating_sub(HybridClock::wall_ms(self.version.timestamp));
        let mut grain_ms = EXPIRY_GRAIN_MS;
        while grain_ms <= lives_ms / 4 {
            grain_ms *= 2;
        }
        let end = match self.expires_at_ms.checked_next_multiple_of(grain_ms) {
            Some(end_ms) if end_ms <= WALL_MS_MAX => HybridClock::at_wall_ms(end_ms),
            _ => u64::MAX,
        };
        Some(if end < self.version.timestamp { self.version.timestamp } else { end })
    }
}

/// The shortest grain of time by which replicas tell expiries apart when they compare and drop what is deleted. Replicas must
/// agree on what has expired, so this, like the rule that makes longer grains of it, must never change.
const EXPIRY_GRAIN_MS: u64 = 30_000;
/// The latest time that a timestamp has room for.
const WALL_MS_MAX: u64 = HybridClock::wall_ms(u64::MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_decides_and_the_node_breaks_ties() {
        let version = |timestamp, node| Version { timestamp, node };
        assert!(version(1, 9) < version(2, 0));
        assert!(version(2, 0) < version(2, 1));
        assert!(Version::ZERO < version(1, 0));
        assert!(version(u64::MAX, 0) < Version::MAX);
    }

    #[test]
    fn no_expiry_never_expires() {
        let mut stamp = Stamp::new(Version::ZERO);
        assert!(!stamp.is_expired(u64::MAX));
        stamp.expires_at_ms = 5;
        assert!(!stamp.is_expired(4));
        assert!(stamp.is_expired(5));
    }

    fn expiring(written_ms: u64, expires_at_ms: u64) -> Stamp {
        let version = Version { timestamp: HybridClock::at_wall_ms(written_ms) + 7, node: 1 };
        Stamp { expires_at_ms, ..Stamp::new(version) }
    }

    #[test]
    fn a_value_ends_after_its_expiry_and_by_at_most_half_its_life_or_a_window_later() {
        assert_eq!(Stamp::new(Version::ZERO).ends_at(), None);
        let written_ms = 1_700_000_000_123;
        let mut ends = std::collections::BTreeSet::new();
        for lives_ms in (1..2_000).map(|n| n * 997).chain([86_400_000, 30 * 86_400_000]) {
            let stamp = expiring(written_ms, written_ms + lives_ms);
            let end_ms = HybridClock::wall_ms(stamp.ends_at().expect("it expires"));
            let late_ms = end_ms - stamp.expires_at_ms;
            assert!(late_ms < (lives_ms / 2).max(EXPIRY_GRAIN_MS), "{lives_ms} ms: {late_ms} ms");
        }
        // Written all the time with the same age, few ends are ahead at a time.
        for minute in 0..10_000 {
            let at_ms = written_ms + minute * 60_000;
            ends.insert(expiring(at_ms, at_ms + 86_400_000).ends_at());
        }
        assert!(ends.len() <= 10_000 / (1_440 / 4) + 1, "{}", ends.len());
    }

    #[test]
    fn an_expiry_that_is_odd_ends_too() {
        assert_eq!(expiring(5, u64::MAX).ends_at(), Some(u64::MAX));
        // It had expired when it was written.
        assert_eq!(expiring(86_400_000, 1).ends_at(), Some(HybridClock::at_wall_ms(86_400_000) + 7));
    }
}
