use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_model::{ClockError, HybridClock};

/// The hybrid clock of a node, for all its threads: every timestamp is after all that were given before, on
/// whichever thread, so a write that follows an acknowledged one is newer.
#[derive(Debug, Default)]
pub(crate) struct VersionClock {
    last: AtomicU64,
}

impl VersionClock {
    pub(crate) const fn new() -> VersionClock {
        VersionClock { last: AtomicU64::new(0) }
    }

    /// Gives only timestamps after `timestamp` from now on.
    pub(crate) fn continue_after(&self, timestamp: u64) {
        self.last.fetch_max(timestamp, Ordering::SeqCst);
    }

    /// Whether a timestamp is after every one that was given or observed.
    pub(crate) fn is_after_all(&self, timestamp: u64) -> bool {
        timestamp > self.last.load(Ordering::SeqCst)
    }

    /// Takes note of another node's timestamp, unless it is further ahead than `ahead_ms_max`.
    pub(crate) fn observe(&self, timestamp: u64, wall_ms: u64, ahead_ms_max: u64) -> Result<(), ClockError> {
        let ahead_ms = HybridClock::wall_ms(timestamp).saturating_sub(wall_ms);
        if ahead_ms > ahead_ms_max {
            return Err(ClockError { ahead_ms, ahead_ms_max });
        }
        self.continue_after(timestamp);
        Ok(())
    }

    /// The next timestamp.
    pub(crate) fn next(&self, wall_ms: u64) -> u64 {
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            let next = HybridClock::following(last, wall_ms);
            match self.last.compare_exchange_weak(last, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return next,
                Err(current) => last = current,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_never_share_a_timestamp() {
        let clock = VersionClock::new();
        let give = || (0..10_000).map(|n| clock.next(n / 100)).collect::<Vec<_>>();
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
    fn follows_others_but_not_too_far() {
        let clock = VersionClock::new();
        assert!(clock.observe(HybridClock::at_wall_ms(1_100), 1_000, 99).is_err());
        clock.observe(HybridClock::at_wall_ms(1_100), 1_000, 100).expect("inside the bound");
        assert!(!clock.is_after_all(HybridClock::at_wall_ms(1_100)));
        assert!(clock.is_after_all(HybridClock::at_wall_ms(1_100) + 1));
        assert_eq!(clock.next(1_000), HybridClock::at_wall_ms(1_100) + 1);
    }

    #[test]
    fn goes_on_where_the_store_ended() {
        let clock = VersionClock::new();
        clock.continue_after(1 << 40);
        assert_eq!(clock.next(1), (1 << 40) + 1);
    }
}
