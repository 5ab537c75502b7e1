use ladoga_runtime::LineLimit;

use super::asked::{About, WaitTimes};

/// Lines that one event loop writes within a second.
const LINES_PER_SECOND_MAX: u32 = 10;

/// A request that took long.
#[derive(Debug)]
pub(crate) struct SlowRequest<'s> {
    /// The method, or the command of Redis.
    pub(crate) method: &'s str,
    /// The path; for a command of Redis, `redis`.
    pub(crate) route: &'s str,
    pub(crate) about: About,
    pub(crate) status: &'s str,
    /// How long the bodies are, as far as it is known.
    pub(crate) received_bytes: Option<u64>,
    pub(crate) sent_bytes: Option<u64>,
    pub(crate) total_ns: u64,
    /// What it has waited for, as far as it is known.
    pub(crate) waits: Option<WaitTimes>,
    /// What it did in the rest of the time.
    pub(crate) rest: &'static str,
}

/// The slow requests of one event loop, as the log has them.
#[derive(Debug)]
pub(crate) struct SlowLog {
    slow_ns: u64,
    lines: LineLimit,
}

impl SlowLog {
    /// Of requests that take at least so long; `None` for none of them.
    pub(crate) fn new(slow_ms: Option<u64>) -> SlowLog {
        let slow_ns = slow_ms.map_or(u64::MAX, |slow_ms| slow_ms.saturating_mul(1_000_000));
        SlowLog { slow_ns, lines: LineLimit::new(LINES_PER_SECOND_MAX) }
    }

    /// Whether a request that took so long belongs into the log.
    #[inline]
    pub(crate) const fn is_slow(&self, duration_ns: u64) -> bool {
        duration_ns >= self.slow_ns
    }

    /// Has the log tell of a request, unless it has too many lines of this second.
    #[cold]
    pub(crate) fn tell(&self, now_ns: u64, request: &SlowRequest<'_>) {
        self.time_passes(now_ns);
        if !self.lines.admit(now_ns) {
            return;
        }
        let SlowRequest { method, route, about, status, total_ns, waits, .. } = request;
        let rest_ns =
            |waits: &WaitTimes| total_ns.saturating_sub(waits.ready_ns + waits.admission_ns + waits.body_ns);
        let waited_ms = |of: fn(&WaitTimes) -> u64| waits.as_ref().map(of).map(ms);
        tracing::warn!(
            method,
            route,
            key = %about,
            key_bytes = about.bytes(),
            status,
            received_bytes = request.received_bytes,
            sent_bytes = request.sent_bytes,
            total_ms = ms(*total_ns),
            ready_ms = waited_ms(|waits| waits.ready_ns),
            admission_ms = waited_ms(|waits| waits.admission_ns),
            body_ms = waited_ms(|waits| waits.body_ns),
            rest_ms = waits.as_ref().map(rest_ns).map(ms),
            rest = request.rest,
            "slow request"
        );
    }

    /// Says how many lines were left out, once there may be others again.
    pub(crate) fn time_passes(&self, now_ns: u64) {
        if let Some(left_out) = self.lines.take_left_out(now_ns) {
            tracing::warn!(left_out, "slow requests that the log has no lines for");
        }
    }
}

/// To a tenth of a millisecond, which is as much as the time of a slow request says.
fn ms(duration_ns: u64) -> f64 {
    (duration_ns / 100_000) as f64 / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_as_long_as_the_bound_is_slow() {
        let log = SlowLog::new(Some(5));
        assert!(!log.is_slow(4_999_999) && log.is_slow(5_000_000));
        assert!(SlowLog::new(Some(0)).is_slow(0), "every request");
        assert!(!SlowLog::new(None).is_slow(u64::MAX - 1), "none");
    }

    #[test]
    fn times_have_one_digit_behind_the_point() {
        assert_eq!(ms(1_234_567_890).to_string(), "1234.5");
    }
}
