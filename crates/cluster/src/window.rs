//! Windows of time: trees keep what changed in each of them apart.

use ladoga_model::HybridClock;

/// How long a window is. Timestamps at which trees are compared are multiples of it.
pub const WINDOW_MS: u64 = 30_000;

/// The start of the window that a timestamp is in.
pub(crate) const fn window_start(timestamp: u64) -> u64 {
    let wall_ms = HybridClock::wall_ms(timestamp);
    HybridClock::at_wall_ms(wall_ms - wall_ms % WINDOW_MS)
}

/// The end of the window that starts at a timestamp.
pub(crate) const fn next_window(window: u64) -> u64 {
    window.saturating_add(HybridClock::at_wall_ms(WINDOW_MS))
}
