use crate::{Clock, Priority};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One moment for the whole process, so that what two clocks answer can be compared.
static START: LazyLock<Instant> = LazyLock::new(now);

/// The system's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealClock;

impl RealClock {
    /// A clock; all of them tell the same time.
    pub fn new() -> Self {
        Self
    }
}

impl Clock for RealClock {
    fn wall_ms(&self) -> u64 {
        since_1970().as_millis() as u64
    }

    fn wall_us(&self) -> u64 {
        since_1970().as_micros() as u64
    }

    fn monotonic_ns(&self) -> u64 {
        // `START` first: were it initialised after `now`, the first answer would be before it.
        let start = *START;
        now().duration_since(start).as_nanos() as u64
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn lower_thread_priority(&self, priority: Priority) {
        match priority {
            Priority::Lower => super::syscall::lower_thread_priority(5),
            // If that is refused, the thread gets a lower priority at least.
            Priority::Lowest => _ = super::syscall::run_thread_when_idle(),
        }
    }

    fn serve_first(&self) {
        super::cores::serve_first();
    }

    fn make_way(&self) {
        super::cores::make_way(self.monotonic_ns());
    }

    fn has_core_to_spare(&self) -> bool {
        super::cores::has_core_to_spare(self.monotonic_ns())
    }
}

fn since_1970() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    let now = SystemTime::now();
    // A clock before 1970 reads as 0: wrong, as the machine's clock is.
    now.duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    Instant::now()
}

#[cfg(test)]
#[path = "../../../../tests/support/skip.rs"]
#[expect(dead_code, clippy::disallowed_methods, reason = "a list of its own, beside what is tested")]
mod skip;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_moves_with_sleep_and_the_wall_clock_is_in_this_century() {
        let clock = RealClock::new();
        let before = clock.monotonic_ns();
        clock.sleep(Duration::from_millis(2));
        assert!(clock.monotonic_ns() - before >= 2_000_000);
        assert!(clock.wall_ms() > 1_600_000_000_000);
    }

    #[test]
    fn the_lowest_priority_counts_as_nobody() {
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("a line");
            let behind_name = stat.rsplit(") ").next().expect("fields").to_owned();
            // The 41st field, of which the name is the second.
            behind_name.split(' ').nth(38).map(str::to_owned)
        };
        let lowered = std::thread::spawn(move || {
            RealClock::new().lower_thread_priority(Priority::Lowest);
            (policy(), crate::real::syscall::run_thread_when_idle())
        });
        let (policy, is_permitted) = lowered.join().expect("no panic");
        if !is_permitted {
            return skip::skip("the system refuses SCHED_IDLE");
        }
        assert_eq!(policy.as_deref(), Some("5"), "SCHED_IDLE");
    }
}
