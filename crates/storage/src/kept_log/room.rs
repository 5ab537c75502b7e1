//! How much of the log goes so that a disk has room that shows it late.

/// ZFS shows room with one of its next transaction groups, after some 5 s, and btrfs with its next commit, after up to 30 s. What has
/// not shown by then may never: a copy has the files, too, or they took less than their length.
pub(super) const SHOWS_WITHIN_NS: u64 = 60_000_000_000;

/// The same while puts are refused for lack of room.
const SHOWS_WITHIN_NS_FULL: u64 = 250_000_000;

/// How much is to be free.
#[derive(Clone, Copy)]
pub(crate) struct RoomLimits {
    /// With less, puts are refused.
    pub reserve_bytes: u64,
    /// With less, log goes.
    pub wanted_bytes: u64,
}

/// Room of what was removed that does not show yet in what is free.
#[derive(Default)]
pub(super) struct AwaitedRoom {
    bytes: u64,
    /// When something was removed last: to remove much takes a while.
    since_ns: u64,
    /// What was free at the last look.
    free_bytes: u64,
}

impl AwaitedRoom {
    /// Whether enough is free now, or will be. What has come since the last look is taken for what was awaited. Once the reserve is
    /// used up, nothing counts any more that was awaited before: writes do not wait for it.
    pub(super) fn is_enough(&mut self, free_bytes: u64, limits: RoomLimits, now_ns: u64) -> bool {
        let is_full = free_bytes < limits.reserve_bytes;
        let becomes_full = is_full && self.free_bytes >= limits.reserve_bytes;
        let shows_within_ns = if is_full { SHOWS_WITHIN_NS_FULL } else { SHOWS_WITHIN_NS };
        let is_over = becomes_full || now_ns.saturating_sub(self.since_ns) >= shows_within_ns;
        let shown_bytes = free_bytes.saturating_sub(self.free_bytes);
        self.bytes = if is_over { 0 } else { self.bytes.saturating_sub(shown_bytes) };
        self.free_bytes = free_bytes;
        free_bytes.saturating_add(self.bytes) >= limits.wanted_bytes
    }

    /// So much more was removed.
    pub(super) const fn add(&mut self, bytes: u64, now_ns: u64) {
        self.since_ns = now_ns;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}
