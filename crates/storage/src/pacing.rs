//! How much writers are slowed down so that flushes and compactions keep up, and when compactions hurry. Pure.

use std::time::Duration;

use crate::options::SEALED_MAX;

/// How far behind the background work is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backlog {
    /// Memtables that wait for their flush.
    pub sealed: usize,
    /// Tables in level 0.
    pub level_0_tables: usize,
    /// How fast the last flush went, in bytes per second; 0 before the first.
    pub flush_bytes_per_s: u64,
}

/// Tables in level 0 from which on writers are slowed down: twice what starts a compaction.
const LEVEL_0_SLOW: usize = 12;
/// Tables in level 0 from which on a compaction does not let everybody go first any more: what one compaction takes, and
/// four flushes before writers are slowed down.
const LEVEL_0_URGENT: usize = 8;
const _: () = assert!(LEVEL_0_URGENT < LEVEL_0_SLOW);
/// Each further table takes this share of the allowed rate.
const LEVEL_0_STEP: f64 = 0.8;
const RATE_BYTES_PER_S: f64 = 128e6;
const RATE_BYTES_PER_S_MIN: f64 = 1e6;
/// A group waits no longer than this, whatever its size.
const DELAY_MAX: Duration = Duration::from_millis(5);

/// Whether writers are about to be slowed down for want of a compaction.
pub(crate) const fn is_urgent(level_0_tables: usize) -> bool {
    level_0_tables >= LEVEL_0_URGENT
}

/// How long a group of `bytes` waits before it is written.
pub(crate) fn delay(backlog: Backlog, bytes: usize) -> Duration {
    let mut rate = f64::INFINITY;
    if backlog.sealed + 1 >= SEALED_MAX && backlog.flush_bytes_per_s > 0 {
        // One more and writers would have to stop; as fast as a flush goes, that moment never comes.
        rate = backlog.flush_bytes_per_s as f64;
    }
    if let Some(over) = backlog.level_0_tables.checked_sub(LEVEL_0_SLOW) {
        rate = rate.min(RATE_BYTES_PER_S * LEVEL_0_STEP.powi(over as i32));
    }
    if rate.is_infinite() {
        return Duration::ZERO;
    }
    Duration::from_secs_f64(bytes as f64 / rate.max(RATE_BYTES_PER_S_MIN)).min(DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_while_the_background_keeps_up() {
        let backlog = Backlog { sealed: 1, level_0_tables: LEVEL_0_SLOW - 1, flush_bytes_per_s: 1 };
        assert_eq!(delay(backlog, 1 << 20), Duration::ZERO);
    }

    #[test]
    fn a_compaction_hurries_before_writers_are_slowed_down_and_not_when_it_has_just_become_due() {
        let slow = |level_0_tables| !delay(Backlog { level_0_tables, ..Backlog::default() }, 1000).is_zero();
        let first_urgent = (0..100).find(|&tables| is_urgent(tables)).expect("a bound");
        let first_slow = (0..100).find(|&tables| slow(tables)).expect("a bound");
        assert!((6..first_slow - 2).contains(&first_urgent), "{first_urgent}, {first_slow}");
    }

    #[test]
    fn the_delay_grows_smoothly_with_the_backlog_and_is_bounded() {
        let at = |level_0_tables| {
            delay(Backlog { sealed: 0, level_0_tables, flush_bytes_per_s: 0 }, 10_000).as_secs_f64()
        };
        for tables in LEVEL_0_SLOW..40 {
            assert!(at(tables + 1) >= at(tables));
            assert!(at(tables + 1) <= at(tables) * 1.3);
        }
        assert_eq!(delay(Backlog { level_0_tables: 100, ..Backlog::default() }, 1 << 30), DELAY_MAX);
    }

    #[test]
    fn writers_go_as_fast_as_the_flush_when_one_more_memtable_would_stop_them() {
        let backlog = Backlog { sealed: SEALED_MAX - 1, level_0_tables: 0, flush_bytes_per_s: 100_000_000 };
        assert_eq!(delay(backlog, 100_000), Duration::from_millis(1));
    }
}
