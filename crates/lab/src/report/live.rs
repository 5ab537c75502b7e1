use std::io::{IsTerminal, Write};

use hdrhistogram::Histogram;

use crate::cli::{format_metric, format_time_us};
use crate::engine::Watcher;
use crate::stats::Second;

/// One line on a terminal that follows the run, and that is gone when the result is printed. It is drawn on standard
/// error, and only where standard output is a terminal too: then nobody reads it but a person.
pub(crate) struct Live {
    is_on: bool,
    seconds: u64,
}

impl Live {
    /// For a run of so many seconds.
    pub(crate) fn new(seconds: u64) -> Self {
        Self { is_on: std::io::stdout().is_terminal() && std::io::stderr().is_terminal(), seconds }
    }

    pub(crate) fn clear(&self) {
        if self.is_on {
            eprint!("\r\x1b[2K");
        }
    }
}

impl Watcher for Live {
    fn second(&mut self, second: &Second, _latencies: &Histogram<u64>) {
        if self.is_on {
            eprint!("\r\x1b[2K{}", line(second, self.seconds));
            let _ = std::io::stderr().flush(); // A terminal that is gone needs no live view.
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
            completed: 1500,
            errors: 3,
            percentiles_ns: Some([1_000_000, 2_000_000, 3_000_000, 4_000_000]),
        };
        assert_eq!(line(&second, 10), "  1.50k/s  p50 1.00ms  p99 2.00ms  p99.9 3.00ms  errors 3  7 s left");
        let silent = Second { percentiles_ns: None, completed: 0, ..second };
        assert_eq!(line(&silent, 3), "  0.00/s  nothing completed  errors 3  0 s left");
    }
}
