use std::io::{IsTerminal, Write, stderr};

use hdrhistogram::Histogram;

use crate::engine::Watcher;
use crate::stats::{HELD_S, Second};
use crate::units::{format_metric, format_time_us};

/// One line on a terminal that follows the run, and that is gone when the result is printed. It is on standard error:
/// standard output has wrk's text and nothing else.
pub(crate) struct Live {
    is_terminal: bool,
    seconds: u64,
}

impl Live {
    /// For a run of so many milliseconds.
    pub(crate) fn new(duration_ms: u64) -> Self {
        // A terminal that cannot erase a line would keep them all.
        let can_erase = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let is_terminal = stderr().is_terminal() && can_erase;
        Self { is_terminal, seconds: duration_ms.div_ceil(1000) }
    }

    pub(crate) fn clear(&self) {
        if self.is_terminal {
            _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

impl Watcher for Live {
    fn second(&mut self, second: &Second, _latencies: &Histogram<u64>) {
        // After the end, only the rest of an interval comes in which nothing was due.
        if self.is_terminal && second.number < self.seconds {
            // A second is reported once the requests that were due in it have ended.
            let seconds = self.seconds.saturating_sub(HELD_S);
            // A terminal that is gone needs no live view.
            _ = write!(stderr(), "\r\x1b[2K{}", line(second, seconds));
        }
    }
}

fn line(second: &Second, seconds: u64) -> String {
    let latencies = second.percentiles_ns.map_or_else(
        || "nothing completed".to_owned(),
        |ns| {
            let [p50, p99, p999, _] = ns.map(|ns| format_time_us(ns as f64 / 1000.0));
            format!("p50 {p50}  p99 {p99}  p99.9 {p999}")
        },
    );
    let rate = format_metric(second.completed as f64);
    let left = seconds.saturating_sub(second.number + 1);
    format!("  {rate}/s  {latencies}  errors {}  {left} s left", second.errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_a_second_was_like() {
        let second = Second {
            number: 2,
            length_ns: crate::stats::SECOND_NS,
            completed: 1500,
            errors: 3,
            errors_by_kind: [0, 3, 0],
            percentiles_ns: Some([1_000_000, 2_000_000, 3_000_000, 4_000_000]),
        };
        assert_eq!(line(&second, 10), "  1.50k/s  p50 1.00ms  p99 2.00ms  p99.9 3.00ms  errors 3  7 s left");
        let silent = Second { percentiles_ns: None, completed: 0, ..second };
        assert_eq!(line(&silent, 3), "  0.00/s  nothing completed  errors 3  0 s left");
    }
}
