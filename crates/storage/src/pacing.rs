//! How much writers are slowed down so that flushes and compactions keep up, and when compactions hurry. Pure.

use std::time::Duration;

use crate::options::SEALED_MAX;

/// How far behind the background work is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backlog {
    /// Memtables that wait for their flush, and as a fraction the one that is being filled.
    pub memtables: f64,
    /// Tables in level 0.
    pub level_0_tables: usize,
    /// How fast the last flush went, in bytes per second; 0 before the first.
    pub flush_bytes_per_s: u64,
}

/// Memtables from which on writers are slowed down: one is being flushed, and the next one is half full.
const MEMTABLES_SLOW: f64 = 1.5;
/// The number of memtables at which writers go as fast as the last flush did: under load it stays near this.
const MEMTABLES_SETTLED: f64 = 2.0;
/// Each further one takes this share of the allowed rate: flushes may get slower by that much within one of them.
const MEMTABLE_STEP: f64 = 0.25;
// Behind that are two steps before writers have to stop.
const _: () = assert!(SEALED_MAX == 3);
/// Tables in level 0 from which on writers are slowed down: three times what starts a compaction.
const LEVEL_0_SLOW: usize = 12;
/// Tables in level 0 from which on a compaction no longer runs at the lowest priority if it does not keep up there: as many as
/// one compaction takes, four flushes before writers are slowed down.
const LEVEL_0_URGENT: usize = 8;
const _: () = assert!(LEVEL_0_URGENT < LEVEL_0_SLOW);
/// Flushes in a row without a compaction that made level 0 short: it does not keep up.
const FLUSHES_URGENT: u32 = 4;
/// No flush for so many times the usual time between two: what made level 0 grow is over.
const PAUSE_INTERVALS: u64 = 3;
/// Level 0 has been long for so long: at the lowest priority compactions do not get on at all.
const LONG_MAX: Duration = Duration::from_secs(20);
/// Each further table takes this share of [`RATE_BYTES_PER_S`].
const LEVEL_0_STEP: f64 = 0.8;
/// What a disk is taken to be good for as long as nothing is known.
const RATE_BYTES_PER_S: f64 = 128e6;
const RATE_BYTES_PER_S_MIN: f64 = 1e6;
/// A group waits no longer than this, whatever its size. A disk that takes less than a group in that time has writers stop.
const DELAY_MAX: Duration = Duration::from_millis(50);

/// What level 0 has been through: tells whether writers are about to be slowed down because compaction is behind. Merely being
/// long is not that: after a bulk load level 0 gets short at the lowest priority as well, and nobody feels it.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    tables: usize,
    /// Since when there are [`LEVEL_0_URGENT`] tables or more.
    long_since_ns: Option<u64>,
    /// Flushes in a row, with no pause between them.
    flushes: u32,
    last_flush_ns: u64,
    /// The usual time between two of them; 0 before the second.
    interval_ns: u64,
}

impl Growth {
    /// Level 0 has so many tables now.
    pub(crate) fn observe(&mut self, tables: usize, now_ns: u64) {
        if tables > self.tables {
            self.flushed(now_ns);
        } else if tables < self.tables && tables < LEVEL_0_URGENT {
            self.flushes = 0;
        }
        self.tables = tables;
        self.long_since_ns = (tables >= LEVEL_0_URGENT).then(|| self.long_since_ns.unwrap_or(now_ns));
    }

    /// Whether compactions are to hurry.
    pub(crate) fn is_urgent(&self, now_ns: u64) -> bool {
        self.long_since_ns.is_some_and(|since_ns| {
            let grows = self.flushes >= FLUSHES_URGENT && !self.is_paused(now_ns);
            grows || now_ns.saturating_sub(since_ns) >= LONG_MAX.as_nanos() as u64
        })
    }

    fn flushed(&mut self, now_ns: u64) {
        let interval_ns = now_ns.saturating_sub(self.last_flush_ns);
        if self.flushes == 0 || self.is_paused(now_ns) {
            (self.flushes, self.interval_ns) = (1, 0);
        } else {
            let is_second = self.flushes == 1;
            self.flushes += 1;
            self.interval_ns = if is_second { interval_ns } else { (3 * self.interval_ns + interval_ns) / 4 };
        }
        self.last_flush_ns = now_ns;
    }

    const fn is_paused(&self, now_ns: u64) -> bool {
        self.flushes > 1 && now_ns.saturating_sub(self.last_flush_ns) > PAUSE_INTERVALS * self.interval_ns
    }
}

/// How long a group of `bytes` waits before it is written.
pub(crate) fn delay(backlog: Backlog, bytes: usize) -> Duration {
    let mut rate = f64::INFINITY;
    if backlog.memtables > MEMTABLES_SLOW {
        let flush_rate = match backlog.flush_bytes_per_s {
            0 => RATE_BYTES_PER_S,
            measured => measured as f64,
        };
        rate = flush_rate * MEMTABLE_STEP.powf(backlog.memtables - MEMTABLES_SETTLED);
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
        let backlog =
            Backlog { memtables: MEMTABLES_SLOW, level_0_tables: LEVEL_0_SLOW - 1, flush_bytes_per_s: 1 };
        assert_eq!(delay(backlog, 1 << 20), Duration::ZERO);
    }

    const SECOND_NS: u64 = 1_000_000_000;

    /// Level 0 after so many flushes, with as long between any two, and when the last one was.
    fn grown(flushes: usize, interval_ns: u64) -> (Growth, u64) {
        let mut growth = Growth::default();
        for flush in 1..=flushes {
            growth.observe(flush, flush as u64 * interval_ns);
        }
        (growth, flushes as u64 * interval_ns)
    }

    #[test]
    fn a_compaction_hurries_before_writers_are_slowed_down_and_not_when_it_has_just_become_due() {
        let slow = |level_0_tables| !delay(Backlog { level_0_tables, ..Backlog::default() }, 1000).is_zero();
        let is_urgent = |tables| {
            let (growth, now_ns) = grown(tables, SECOND_NS);
            growth.is_urgent(now_ns)
        };
        let first_urgent = (0..100).find(|&tables| is_urgent(tables)).expect("a bound");
        let first_slow = (0..100).find(|&tables| slow(tables)).expect("a bound");
        assert!((6..first_slow - 2).contains(&first_urgent), "{first_urgent}, {first_slow}");
        assert!((first_urgent..100).all(is_urgent), "it hurries for as long as level 0 grows");
    }

    #[test]
    fn nothing_hurries_after_a_bulk_load_unless_level_0_grows_again_or_stays_long() {
        let (mut growth, mut now_ns) = grown(15, SECOND_NS / 4);
        assert!(growth.is_urgent(now_ns + SECOND_NS / 2), "the next flush is not late");
        assert!(!growth.is_urgent(now_ns + SECOND_NS));
        for tables in [16, 17, 18, 19] {
            assert!(!growth.is_urgent(now_ns + SECOND_NS), "{tables}");
            now_ns += 2 * SECOND_NS;
            growth.observe(tables, now_ns);
        }
        assert!(growth.is_urgent(now_ns + 5 * SECOND_NS), "four more, however slowly");
        growth.observe(11, now_ns + SECOND_NS);
        assert!(growth.is_urgent(now_ns + SECOND_NS), "it is still long");
        growth.observe(7, now_ns + SECOND_NS);
        growth.observe(8, now_ns + 2 * SECOND_NS);
        assert!(!growth.is_urgent(now_ns + 2 * SECOND_NS), "a compaction keeps up");
        assert!(!growth.is_urgent(now_ns + 21 * SECOND_NS));
        assert!(growth.is_urgent(now_ns + 22 * SECOND_NS), "none has got on");
    }

    #[test]
    fn flushes_that_get_slower_and_faster_are_no_pause() {
        let (mut growth, mut now_ns) = (Growth::default(), 0);
        for tables in 1..100 {
            now_ns += [3, 8, 5, 6][tables % 4] * SECOND_NS / 10;
            assert_eq!(growth.is_urgent(now_ns), tables > LEVEL_0_URGENT, "{tables}");
            growth.observe(tables, now_ns);
        }
    }

    #[test]
    fn the_delay_grows_smoothly_with_the_backlog_and_is_bounded() {
        let at =
            |level_0_tables| delay(Backlog { level_0_tables, ..Backlog::default() }, 10_000).as_secs_f64();
        for tables in LEVEL_0_SLOW..40 {
            assert!(at(tables + 1) >= at(tables));
            assert!(at(tables + 1) <= at(tables) * 1.3);
        }
        assert_eq!(delay(Backlog { level_0_tables: 100, ..Backlog::default() }, 1 << 30), DELAY_MAX);
    }

    #[test]
    fn writers_go_as_fast_as_the_flush_with_one_memtable_behind_the_one_that_is_flushed() {
        let backlog =
            Backlog { memtables: MEMTABLES_SETTLED, level_0_tables: 0, flush_bytes_per_s: 100_000_000 };
        assert_eq!(delay(backlog, 100_000), Duration::from_millis(1));
        let slower = Backlog { memtables: MEMTABLES_SETTLED + 1.0, ..backlog };
        assert_eq!(delay(slower, 100_000), Duration::from_millis(4));
    }

    /// Writers who want to write without end, in groups of this size, with flushes whose rates come from `rates`. The most
    /// memtables that there ever are.
    fn most_memtables(group_bytes: f64, mut rates: impl FnMut() -> f64) -> f64 {
        const MEMTABLE_BYTES: f64 = 16e6;
        const LOG_BYTES_PER_S: f64 = 1e9;
        let (mut backlog_bytes, mut most, mut last_rate) = (0.0_f64, 0.0_f64, 0.0);
        let (mut rate, mut left_bytes) = (rates(), MEMTABLE_BYTES);
        for _ in 0..(2e9 / group_bytes) as u64 {
            let backlog = Backlog {
                memtables: backlog_bytes / MEMTABLE_BYTES,
                level_0_tables: 0,
                flush_bytes_per_s: last_rate as u64,
            };
            let mut seconds =
                delay(backlog, group_bytes as usize).as_secs_f64() + group_bytes / LOG_BYTES_PER_S;
            while backlog_bytes >= MEMTABLE_BYTES && seconds * rate >= left_bytes {
                seconds -= left_bytes / rate;
                backlog_bytes -= MEMTABLE_BYTES;
                (last_rate, rate, left_bytes) = (rate, rates(), MEMTABLE_BYTES);
            }
            if backlog_bytes >= MEMTABLE_BYTES {
                left_bytes -= seconds * rate;
            }
            backlog_bytes += group_bytes;
            most = most.max(backlog_bytes / MEMTABLE_BYTES);
        }
        most
    }

    #[test]
    fn writers_do_not_have_to_stop_where_flushes_go_faster_and_slower() {
        let mut seed = 7_u64;
        let mut rates = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // From 70 to 280 MB/s.
            140e6 * 4_f64.powf((seed >> 33) as f64 / f64::from(1_u32 << 31) - 0.5)
        };
        for group_bytes in [3e3, 64e3, 1e6] {
            let most = most_memtables(group_bytes, &mut rates);
            assert!(most > MEMTABLES_SETTLED, "{group_bytes} bytes a group are slowed down: {most}");
            assert!(most < SEALED_MAX as f64 + 1.0, "{group_bytes} bytes a group: {most}");
        }
    }
}
