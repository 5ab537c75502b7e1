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
/// A flush is patient while there is time for so many.
const FLUSHES_PATIENT: f64 = 2.0;
/// Flushes in a row without a compaction that made level 0 short: it does not keep up.
const FLUSHES_URGENT: u32 = 4;
/// No flush for so many times the usual time between two: what made level 0 grow is over.
const PAUSE_INTERVALS: u64 = 3;
/// Who writes that part of what is allowed is slowed down by as much.
const SLOWED_SHARE: f64 = 1.0 / 3.0;
/// As it grows, it is not to come to more tables than this before compactions hurry, however slow writers are: reads look into
/// each of them.
const LEVEL_0_MAX: usize = 20;
/// Level 0 has been long for so long and has not become shorter: at the lowest priority compactions do not get on at all.
const LONG_MAX: Duration = Duration::from_secs(20);
/// How fast writers are is counted over so long: a flood that has ended is known to have ended.
const RATE_WINDOW: Duration = Duration::from_millis(100);
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
    rate: WriteRate,
}

/// How fast writers are.
#[derive(Debug, Default)]
struct WriteRate {
    bytes_per_s: f64,
    /// What had been written when it was last counted, and when that was.
    counted: (u64, u64),
}

impl WriteRate {
    fn observe(&mut self, bytes: u64, now_ns: u64) {
        let (bytes_before, counted_ns) = self.counted;
        let passed_ns = now_ns.saturating_sub(counted_ns);
        if passed_ns >= RATE_WINDOW.as_nanos() as u64 {
            self.bytes_per_s = bytes.saturating_sub(bytes_before) as f64 * 1e9 / passed_ns as f64;
            self.counted = (bytes, now_ns);
        }
    }
}

impl Growth {
    /// Level 0 has so many tables now.
    pub(crate) fn observe(&mut self, tables: usize, now_ns: u64) {
        if tables > self.tables {
            self.flushed(now_ns);
        } else if tables < self.tables {
            // A compaction gets on.
            self.long_since_ns = None;
            if tables < LEVEL_0_URGENT {
                self.flushes = 0;
            }
        }
        self.tables = tables;
        self.long_since_ns = (tables >= LEVEL_0_URGENT).then(|| self.long_since_ns.unwrap_or(now_ns));
    }

    /// Whether compactions are to hurry.
    pub(crate) fn is_urgent(&self, now_ns: u64) -> bool {
        self.long_since_ns.is_some_and(|since_ns| {
            let grows = self.flushes >= FLUSHES_URGENT && !self.is_paused(now_ns);
            grows && self.is_near_slowing() || now_ns.saturating_sub(since_ns) >= LONG_MAX.as_nanos() as u64
        })
    }

    /// So many bytes have been written since some moment.
    pub(crate) fn observe_written(&mut self, bytes: u64, now_ns: u64) {
        self.rate.observe(bytes, now_ns);
    }

    pub(crate) const fn bytes_per_s(&self) -> f64 {
        self.rate.bytes_per_s
    }

    /// Whether writers would be slowed down after some more flushes, if they went on as they do now.
    fn is_near_slowing(&self) -> bool {
        let rate = level_0_rate(self.tables + FLUSHES_URGENT as usize);
        self.tables >= LEVEL_0_MAX || self.rate.bytes_per_s > SLOWED_SHARE * rate
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

/// How fast flushes are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlushPace {
    /// What a full memtable has.
    pub memtable_bytes: usize,
    /// How fast a flush is that does not wait for others; 0 if that is not known.
    pub flush_bytes_per_s: u64,
}

impl FlushPace {
    /// Whether there is time for two flushes, one after the other, until writers are slowed down: with so many memtables, the last
    /// full one of which took so long to be filled, and writers that are as fast as this now.
    pub(crate) fn has_time(self, memtables: f64, fill_ns: u64, bytes_per_s: f64) -> bool {
        let memtable_bytes = self.memtable_bytes as f64;
        let fill_s = (fill_ns as f64 / 1e9).min(memtable_bytes / bytes_per_s);
        let flush_s = memtable_bytes / self.flush_bytes_per_s as f64;
        (MEMTABLES_SLOW - memtables) * fill_s > FLUSHES_PATIENT * flush_s
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
    rate = rate.min(level_0_rate(backlog.level_0_tables));
    if rate.is_infinite() {
        return Duration::ZERO;
    }
    Duration::from_secs_f64(bytes as f64 / rate.max(RATE_BYTES_PER_S_MIN)).min(DELAY_MAX)
}

/// How fast writers may go with so many tables in level 0.
fn level_0_rate(tables: usize) -> f64 {
    let over = tables.checked_sub(LEVEL_0_SLOW);
    over.map_or(f64::INFINITY, |over| RATE_BYTES_PER_S * LEVEL_0_STEP.powi(over as i32))
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
    const MEMTABLE: u64 = 16 << 20;

    /// Level 0 after so many flushes of full memtables, with as long between any two, and when the last one was.
    fn grown(flushes: u64, interval_ns: u64) -> (Growth, u64) {
        let mut growth = Growth::default();
        for flush in 1..=flushes {
            growth.observe_written(flush * MEMTABLE, flush * interval_ns);
            growth.observe(flush as usize, flush * interval_ns);
        }
        (growth, flushes * interval_ns)
    }

    fn first_urgent(interval_ns: u64) -> u64 {
        let is_urgent = |tables: u64| {
            let (growth, now_ns) = grown(tables, interval_ns);
            growth.is_urgent(now_ns)
        };
        let first = (0..100).find(|&tables| is_urgent(tables)).expect("a bound");
        assert!((first..100).all(is_urgent), "it hurries for as long as level 0 grows");
        first
    }

    #[test]
    fn a_compaction_hurries_before_writers_are_slowed_down_and_not_when_it_has_just_become_due() {
        let slow = |level_0_tables| !delay(Backlog { level_0_tables, ..Backlog::default() }, 1000).is_zero();
        let first_slow = (0..100).find(|&tables| slow(tables)).expect("a bound");
        let first_urgent = first_urgent(SECOND_NS / 8);
        assert!((6..first_slow as u64 - 2).contains(&first_urgent), "{first_urgent}, {first_slow}");
    }

    #[test]
    fn the_slower_writers_are_the_longer_level_0_may_be() {
        let first = [8, 4, 2, 1].map(|a_second| first_urgent(SECOND_NS / a_second));
        assert!(first.is_sorted() && first[3] >= first[0] + 4, "{first:?}");
        let mut growth = Growth::default();
        let first = (1..100).find(|&tables| {
            growth.observe(tables, tables as u64 * SECOND_NS);
            growth.is_urgent(tables as u64 * SECOND_NS)
        });
        assert_eq!(first, Some(LEVEL_0_MAX), "nearly nothing is written");
    }

    #[test]
    fn nothing_hurries_after_a_bulk_load_unless_level_0_grows_again_or_stays_long() {
        let (mut growth, mut now_ns) = grown(15, SECOND_NS / 4);
        assert!(growth.is_urgent(now_ns + SECOND_NS / 2), "the next flush is not late");
        assert!(!growth.is_urgent(now_ns + SECOND_NS));
        // Its end is known before that.
        growth.observe_written(15 * MEMTABLE + 1000, now_ns + SECOND_NS / 10);
        assert!(!growth.is_urgent(now_ns + SECOND_NS / 10));
        for tables in 16..LEVEL_0_MAX {
            assert!(!growth.is_urgent(now_ns + SECOND_NS), "{tables}");
            now_ns += 2 * SECOND_NS;
            growth.observe_written(tables as u64 * MEMTABLE, now_ns);
            growth.observe(tables, now_ns);
        }
        growth.observe(LEVEL_0_MAX, now_ns + 2 * SECOND_NS);
        assert!(growth.is_urgent(now_ns + 5 * SECOND_NS), "reads pay for each");
        growth.observe(7, now_ns + 5 * SECOND_NS);
        growth.observe(8, now_ns + 6 * SECOND_NS);
        assert!(!growth.is_urgent(now_ns + 6 * SECOND_NS), "a compaction keeps up");
        assert!(!growth.is_urgent(now_ns + 25 * SECOND_NS));
        assert!(growth.is_urgent(now_ns + 26 * SECOND_NS), "none has got on");
        growth.observe(10, now_ns + 26 * SECOND_NS);
        growth.observe(9, now_ns + 27 * SECOND_NS);
        assert!(!growth.is_urgent(now_ns + 27 * SECOND_NS), "one has");
    }

    #[test]
    fn flushes_that_get_slower_and_faster_are_no_pause() {
        let (mut growth, mut now_ns) = (Growth::default(), 0);
        for tables in 1..100 {
            now_ns += [3, 8, 5, 6][tables % 4] * SECOND_NS / 10;
            assert_eq!(growth.is_urgent(now_ns), tables > LEVEL_0_URGENT, "{tables}");
            growth.observe_written(10 * tables as u64 * MEMTABLE, now_ns);
            growth.observe(tables, now_ns);
        }
    }

    #[test]
    fn a_flush_is_patient_while_there_is_time_for_more_of_them_before_writers_are_slowed_down() {
        let pace = FlushPace { memtable_bytes: 16 << 20, flush_bytes_per_s: 160 << 20 };
        let has_time = |memtables, fill_ns, bytes_per_s| pace.has_time(memtables, fill_ns, bytes_per_s);
        assert!(has_time(1.0, SECOND_NS, 0.0) && has_time(1.25, SECOND_NS, 1.0));
        assert!(!has_time(1.35, SECOND_NS, 0.0), "the next one gets full");
        assert!(!has_time(MEMTABLES_SLOW, u64::MAX, 0.0) && !has_time(2.0, u64::MAX, 0.0));
        assert!(!has_time(1.0, SECOND_NS / 4, 0.0), "the last one was full soon");
        assert!(!has_time(1.0, SECOND_NS, 100e6), "this one will be");
        let unknown = FlushPace { flush_bytes_per_s: 0, ..pace };
        assert!(!unknown.has_time(1.0, u64::MAX, 0.0));
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
