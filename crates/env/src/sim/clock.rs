use crate::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Where the wall clock starts: a day in November 2023, far from every round number.
const START_WALL_MS: i64 = 1_700_000_000_123;

/// Time that moves only when told to, or when a task sleeps. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct SimClock {
    hands: Arc<Hands>,
}

#[derive(Debug, Default)]
struct Hands {
    monotonic_ns: AtomicU64,
    wall_jump_ms: AtomicI64,
    has_core_to_spare: AtomicBool,
}

impl SimClock {
    /// A clock at its start.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves both clocks forward.
    pub fn advance(&self, duration: Duration) {
        self.hands.monotonic_ns.fetch_add(duration.as_nanos() as u64, Ordering::SeqCst);
    }

    /// Sets the wall clock forward or back, as an administrator or NTP does; the monotonic one stays.
    pub fn jump_wall_ms(&self, by_ms: i64) {
        self.hands.wall_jump_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Says whether those who serve requests leave a core to others. At the start they do not.
    pub fn set_core_to_spare(&self, has_one: bool) {
        self.hands.has_core_to_spare.store(has_one, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn wall_ms(&self) -> u64 {
        let passed_ms = (self.monotonic_ns() / 1_000_000) as i64;
        let wall_ms = START_WALL_MS + passed_ms + self.hands.wall_jump_ms.load(Ordering::SeqCst);
        wall_ms.max(0) as u64
    }

    fn monotonic_ns(&self) -> u64 {
        self.hands.monotonic_ns.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
        // A thread that waits in a loop must let those run that it waits for.
        std::thread::yield_now();
    }

    fn has_core_to_spare(&self) -> bool {
        self.hands.has_core_to_spare.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stands_still_until_it_is_moved() {
        let clock = SimClock::new();
        let wall_ms = clock.wall_ms();
        assert_eq!((clock.monotonic_ns(), clock.wall_ms()), (0, wall_ms));
        clock.clone().sleep(Duration::from_millis(5));
        clock.advance(Duration::from_millis(7));
        assert_eq!((clock.monotonic_ns(), clock.wall_ms()), (12_000_000, wall_ms + 12));
    }

    #[test]
    fn a_jump_moves_the_wall_clock_only_and_not_before_1970() {
        let clock = SimClock::new();
        let wall_ms = clock.wall_ms();
        clock.jump_wall_ms(-1000);
        assert_eq!((clock.monotonic_ns(), clock.wall_ms()), (0, wall_ms - 1000));
        clock.jump_wall_ms(-2 * START_WALL_MS);
        assert_eq!(clock.wall_ms(), 0);
    }
}
