use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_env::Clock;
use ladoga_model::HybridClock;

/// How many timestamps there are of one millisecond.
pub(crate) const IN_A_ROW_MAX: u64 = HybridClock::at_wall_ms(1);

/// The hybrid clock of a node, for all its threads: every timestamp is after all that were given before, on
/// whichever thread, so a write that follows an acknowledged one is newer.
pub struct VersionClock {
    clock: Arc<dyn Clock>,
    last: AtomicU64,
}

impl VersionClock {
    /// One that goes by the wall clock as it is.
    pub const fn new(clock: Arc<dyn Clock>) -> VersionClock {
        VersionClock { clock, last: AtomicU64::new(0) }
    }

    /// Gives only timestamps after `timestamp`, which was given or observed before.
    pub fn continue_after(&self, timestamp: u64) {
        self.last.fetch_max(timestamp, Ordering::SeqCst);
    }

    /// Whether a timestamp is after every one that was given or observed.
    pub fn is_after_all(&self, timestamp: u64) -> bool {
        timestamp > self.last()
    }

    /// The last timestamp that was given or observed.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }

    /// The next timestamp.
    pub fn next(&self) -> u64 {
        self.next_at(self.clock.wall_ms())
    }

    /// The next timestamp, at this time.
    pub fn next_at(&self, time_ms: u64) -> u64 {
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let next = HybridClock::following(last, time_ms);
            match self.last.compare_exchange_weak(last, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return next,
                Err(current) => last = current,
            }
        }
    }

    /// The first of so many timestamps in a row, all of one millisecond: so no moment lies between two of them.
    ///
    /// # Panics
    /// If a millisecond has fewer.
    pub fn next_in_a_row(&self, count: u64) -> u64 {
        assert!(count <= IN_A_ROW_MAX, "callers refuse what is more");
        let (time_ms, mut last) = (self.clock.wall_ms(), self.last.load(Ordering::Relaxed));
        loop {
            let next = HybridClock::following(last, time_ms);
            let is_split = HybridClock::wall_ms(next) != HybridClock::wall_ms(next + count.saturating_sub(1));
            let first = if is_split { HybridClock::at_wall_ms(HybridClock::wall_ms(next) + 1) } else { next };
            let end = first + count.saturating_sub(1);
            match self.last.compare_exchange_weak(last, end, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return first,
                Err(current) => last = current,
            }
        }
    }

    /// Up to which millisecond all timestamps have been given that ever will be, at this time. While timestamps are ahead of the
    /// time, as after a start, so is this.
    pub fn given_up_to_ms(&self, time_ms: u64) -> u64 {
        let last_ms = HybridClock::wall_ms(self.last());
        // The millisecond of `time_ms` is left to those that are to come: to end it each time would bring the clock ahead of the time.
        let given_ms = if last_ms > time_ms { last_ms } else { time_ms.saturating_sub(1) };
        self.continue_after(HybridClock::at_wall_ms(given_ms + 1) - 1);
        given_ms
    }

    /// What the wall clock shows, as it is.
    pub fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// A moment, to measure by.
    pub fn monotonic_ms(&self) -> u64 {
        self.clock.monotonic_ns() / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_env::sim::SimClock;

    #[test]
    fn threads_never_share_a_timestamp() {
        let clock = VersionClock::new(Arc::new(SimClock::new()));
        let give = || (0..10_000).map(|n| clock.next_at(n / 100)).collect::<Vec<_>>();
        let mut all = std::thread::scope(|scope| {
            let threads = [scope.spawn(give), scope.spawn(give)];
            threads.map(|thread| thread.join().expect("gives timestamps"))
        });
        assert!(all.iter().all(|given| given.is_sorted()));
        let [first, second] = &mut all;
        first.append(second);
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 20_000);
    }

    #[test]
    fn goes_on_where_the_store_ended() {
        let clock = SimClock::new();
        let after = HybridClock::at_wall_ms(clock.wall_ms() + 5);
        let versions = VersionClock::new(Arc::new(clock));
        versions.continue_after(after);
        assert_eq!(versions.next(), after + 1);
    }

    #[test]
    fn what_was_given_is_over_also_if_it_is_ahead_of_the_time() {
        let clock = SimClock::new();
        let now_ms = clock.wall_ms();
        let versions = VersionClock::new(Arc::new(clock));
        assert_eq!(versions.given_up_to_ms(now_ms), now_ms - 1);
        assert_eq!(HybridClock::wall_ms(versions.next()), now_ms);
        versions.continue_after(HybridClock::at_wall_ms(now_ms + 8_000) + 3);
        assert_eq!(HybridClock::wall_ms(versions.next()), now_ms + 8_000);
        assert_eq!(versions.given_up_to_ms(now_ms), now_ms + 8_000, "the last one as well");
        assert_eq!(versions.given_up_to_ms(now_ms), now_ms + 8_000, "nothing was given since");
        assert_eq!(HybridClock::wall_ms(versions.next()), now_ms + 8_001);
    }

    /// Each time, the clock went a millisecond further: backups of a busy node brought it a minute ahead.
    #[test]
    fn to_ask_for_what_was_given_brings_a_clock_no_further_ahead() {
        let clock = SimClock::new();
        let now_ms = clock.wall_ms();
        let versions = VersionClock::new(Arc::new(clock));
        for _ in 0..100 {
            assert_eq!(HybridClock::wall_ms(versions.next()), now_ms);
            assert_eq!(versions.given_up_to_ms(now_ms), now_ms - 1);
        }
    }
}
