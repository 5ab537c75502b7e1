//! How much of everything: full size, as asked for, or tiny.

use std::time::Duration;

use crate::arguments::Arguments;

const SMOKE_RECORDS: u64 = 2_000;
const SMOKE_RUN: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scale {
    /// Everything tiny: the smoke.
    pub(crate) smoke: bool,
    records: Option<u64>,
    seconds: Option<u64>,
    rounds: Option<usize>,
}

impl Scale {
    pub(crate) fn of(arguments: &Arguments, smoke: bool) -> Self {
        Self { smoke, records: arguments.records, seconds: arguments.seconds, rounds: arguments.rounds }
    }

    pub(crate) fn records(&self, full: u64) -> u64 {
        if self.smoke { SMOKE_RECORDS.min(full) } else { self.records.unwrap_or(full) }
    }

    /// The length of a run of our own load generator.
    pub(crate) fn run(&self, full_seconds: u64) -> Duration {
        if self.smoke { SMOKE_RUN } else { Duration::from_secs(self.seconds.unwrap_or(full_seconds)) }
    }

    /// The length of a run of a program that knows whole seconds only.
    pub(crate) fn whole_seconds(&self, full: u64) -> u64 {
        if self.smoke { 1 } else { self.seconds.unwrap_or(full) }
    }

    pub(crate) fn rounds(&self, full: usize) -> usize {
        if self.smoke { 1 } else { self.rounds.unwrap_or(full) }
    }

    /// What is run before the clock counts.
    pub(crate) fn warmup(&self) -> Duration {
        if self.smoke { Duration::from_millis(50) } else { Duration::from_secs(1) }
    }

    /// How long to wait at most for background work to end.
    pub(crate) fn settle(&self) -> Duration {
        if self.smoke { Duration::ZERO } else { Duration::from_mins(3) }
    }
}
