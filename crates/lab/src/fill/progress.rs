use std::io::{self, IsTerminal, Write};

use crate::clock::Clock;
use crate::output::stderr_line;
use crate::units::{format_metric, format_time_us};

const PLAIN_EVERY_NS: u64 = 5_000_000_000;

/// The progress on standard error.
pub(super) struct FillProgress {
    clock: Clock,
    keys: u64,
    is_terminal: bool,
    shown_ns: u64,
}

impl FillProgress {
    pub(super) fn new(keys: u64) -> Self {
        Self { clock: Clock::start(), keys, is_terminal: io::stderr().is_terminal(), shown_ns: 0 }
    }

    pub(super) fn show(&mut self, done: u64) {
        let now = self.clock.now_ns();
        if self.is_terminal {
            _ = write!(io::stderr(), "\r\x1b[2K{}", line(done, self.keys, now)); // A terminal that is gone needs no progress.
        } else if now - self.shown_ns >= PLAIN_EVERY_NS {
            stderr_line(format_args!("{}", line(done, self.keys, now)));
            self.shown_ns = now;
        }
    }

    pub(super) fn clear(&self) {
        if self.is_terminal {
            _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }

    pub(super) fn end(&self, done: u64) {
        self.clear();
        let elapsed_ns = self.clock.now_ns();
        let per_second = format_metric(done as f64 * 1e9 / elapsed_ns.max(1) as f64);
        let elapsed = format_time_us(elapsed_ns as f64 / 1000.0);
        stderr_line(format_args!("filled with {done} of {} keys in {elapsed}, {per_second}/s", self.keys));
    }
}

fn line(done: u64, keys: u64, elapsed_ns: u64) -> String {
    let share = done as f64 * 100.0 / keys as f64;
    let per_second = done as f64 * 1e9 / elapsed_ns.max(1) as f64;
    let left = if done == 0 {
        "no estimate yet".to_owned()
    } else {
        format!("{:.0} s left", ((keys - done) as f64 / per_second).ceil())
    };
    format!("filling: {done} of {keys} keys ({share:.0} %), {}/s, {left}", format_metric(per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_an_estimate() {
        assert_eq!(line(0, 100, 5), "filling: 0 of 100 keys (0 %), 0.00/s, no estimate yet");
        let half = line(50_000, 100_000, 2_000_000_000);
        assert_eq!(half, "filling: 50000 of 100000 keys (50 %), 25.00k/s, 2 s left");
    }
}
