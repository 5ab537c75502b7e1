//! How fast a node repairs itself: as fast as possible without clients noticing.
//!
//! ```text
//! calls := new (observe)*        one at the end of each interval of INTERVAL_MS
//! ```
//!
//! A repair begins at the lowest rate, or at a higher one if there are no clients. The clients' tail latency during the repair
//! is compared with a base line, the tail while hardly anything is repaired. As long as it is not longer, the rate rises by a
//! little from interval to interval; otherwise the rate is halved (Chiu and Jain: "Analysis of the Increase and Decrease
//! Algorithms", 1989). The base line changes with the load, so it is measured again from time to time, for a moment at the
//! lowest rate. The rate never falls below the lowest: if clients could stop a repair, they would have one copy less for as
//! long as they are busy.
//! as they are busy.

/// How long an interval is.
pub const PACE_INTERVAL_MS: u64 = 250;
/// The highest rate, in cells a second, which is reached if clients do not notice.
pub const PACE_CELLS_PER_SECOND_MAX: u64 = 40_000;
/// Their bytes.
pub const PACE_BYTES_PER_SECOND_MAX: u64 = 128 << 20;

/// Levels are parts of the highest rate, in a thousand.
const LEVEL_MAX: u64 = 1000;
/// What repair has whatever the foreground does: 4,000 cells a second. A cell is paid for twice, one after the other: by
/// the peer that lists it, and by the node that takes it over. So a million take under nine minutes.
const LEVEL_MIN: u64 = 100;
/// What is added in an interval that went well: 23 seconds from the lowest to the highest. Tails of a quarter of a second
/// are uncertain, so that too much is noticed late.
const LEVEL_STEP: u64 = 10;

/// Requests that it takes to measure a tail.
const REQUESTS_MIN: u64 = 50;
/// For at most this many intervals it waits for that many requests.
const INTERVALS_MAX: u32 = 8;
/// By how much a tail may be longer than the base line: a fifth, and as much as it varies by itself.
const TOLERANCE_PERCENT: u64 = 20;
const TOLERANCE_US: u64 = 200;
/// During a repair, the base line is measured once in so many observations; and for how many.
const PROBE_EVERY: u32 = 32;
/// The first of those still sees requests from before.
const PROBE_LASTS: u32 = 2;
/// After so many observations in a row without repairs, a repair is over.
const IDLE_OBSERVATIONS: u32 = 8;
/// The weight of the last measurement in the base line, as a divisor.
const BASE_WEIGHT: u64 = 4;
/// The same at the beginning of a repair.
const NEW_BASE_WEIGHT: u64 = 2;

/// What clients saw of the node since the last observation that was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Foreground {
    /// How many requests were answered.
    pub requests: u64,
    /// How long the slowest in a hundred of them took, in microseconds, as far as the node can tell.
    pub tail_us: u64,
}

/// How much may be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceRate {
    /// Cells in a second.
    pub cells_per_second: u64,
    /// Bytes of values in a second.
    pub bytes_per_second: u64,
}

/// Follows the clients' tail latency, and decides how fast repair may go.
#[derive(Debug, Clone)]
pub struct Pacer {
    level: u64,
    /// The tail while there is hardly any repair; none before it was seen.
    base_us: Option<u64>,
    /// Intervals that the observation under way has lasted for.
    waited: u32,
    /// Observations until the rate is the lowest again, in order to see the base line.
    until_probe: u32,
    /// Those for which it still is.
    probing: u32,
    /// Whether nothing was repaired before that.
    is_new: bool,
    /// Observations in a row in which nothing was repaired.
    idle: u32,
}

impl Default for Pacer {
    fn default() -> Pacer {
        Pacer::new()
    }
}

impl Pacer {
    /// Begins by looking at the base line.
    pub const fn new() -> Pacer {
        Pacer {
            level: LEVEL_MIN,
            base_us: None,
            waited: 0,
            until_probe: PROBE_EVERY,
            probing: PROBE_LASTS,
            is_new: true,
            idle: 0,
        }
    }

    /// An interval has ended, in which something was repaired or not. Answers whether the observation was used: an interval
    /// with too few requests is continued.
    pub fn observe(&mut self, repaired: bool, seen: Foreground) -> bool {
        self.waited += 1;
        if seen.requests == 0 && self.waited < INTERVALS_MAX {
            // There are no clients that could be disturbed.
            self.level = (self.level * 2).min(LEVEL_MAX);
            (self.probing, self.until_probe) = (0, PROBE_EVERY);
            return false;
        }
        if seen.requests < REQUESTS_MIN && self.waited < INTERVALS_MAX {
            return false;
        }
        self.waited = 0;
        if seen.requests > 0 {
            self.judge(repaired, seen.tail_us);
        }
        true
    }

    /// How much may be taken over now.
    pub const fn rate(&self) -> PaceRate {
        let level = if self.probing > 0 { LEVEL_MIN } else { self.level };
        PaceRate {
            cells_per_second: PACE_CELLS_PER_SECOND_MAX * level / LEVEL_MAX,
            bytes_per_second: PACE_BYTES_PER_SECOND_MAX * level / LEVEL_MAX,
        }
    }

    /// How long the slowest in a hundred requests take while there is hardly any repair, in microseconds.
    pub const fn base_us(&self) -> Option<u64> {
        self.base_us
    }

    fn judge(&mut self, repaired: bool, tail_us: u64) {
        self.idle = if repaired { 0 } else { self.idle.saturating_add(1) };
        if self.idle > 0 && self.idle < IDLE_OBSERVATIONS {
            // At a low rate, a page of a repair lasts for longer than an interval.
            return;
        }
        if !repaired {
            // Whatever makes it long, it is no repair.
            self.learn(tail_us, BASE_WEIGHT);
            self.level = LEVEL_MIN;
            (self.probing, self.until_probe) = (PROBE_LASTS, PROBE_EVERY);
            self.is_new = true;
            return;
        }
        if self.probing > 0 {
            self.probing -= 1;
            if self.probing == 0 {
                // The repair itself may be what clients wait for: a node that lost its disk answers no reads.
                self.learn(tail_us, if self.is_new { NEW_BASE_WEIGHT } else { BASE_WEIGHT });
                (self.is_new, self.until_probe) = (false, PROBE_EVERY);
            }
            return;
        }
        self.until_probe -= 1;
        if self.until_probe == 0 || self.base_us.is_none() {
            self.probing = PROBE_LASTS;
        }
        self.level = if tail_us > self.limit_us() {
            (self.level / 2).max(LEVEL_MIN)
        } else {
            (self.level + LEVEL_STEP).min(LEVEL_MAX)
        };
    }

    fn limit_us(&self) -> u64 {
        let base_us = self.base_us.unwrap_or(0);
        base_us.saturating_add(base_us.saturating_mul(TOLERANCE_PERCENT) / 100).saturating_add(TOLERANCE_US)
    }

    fn learn(&mut self, tail_us: u64, weight: u64) {
        self.base_us =
            Some(self.base_us.map_or(tail_us, |base_us| base_us - base_us / weight + tail_us / weight));
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
