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
    /// How many nodes it is for: so many from the front of its key's preference list; 0 means all of them. Repairs
    /// need to know, or a write to one node would end on every node.
    pub copies: u8,
}

impl Stamp {
    /// A stamp without an expiry, for all nodes.
    pub const fn new(version: Version) -> Stamp {
        Stamp { version, expires_at_ms: 0, copies: 0 }
    }

    /// Whether the cell reads as absent at `now_ms`.
    pub const fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms != 0 && self.expires_at_ms <= now_ms
    }
}

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
}
