//! The load of other processes on the machine during a run.

use rustix::param::clock_ticks_per_second;

use super::sampler::cpu_us;
use crate::clock::Clock;
use crate::record::Disturbance;
use crate::stats::busy_ticks;

/// From its start to [`Meter::finish`].
pub(super) struct Meter {
    /// None if it is unknown; then nothing is reported, since its work could not be told from that of others.
    server: Option<u32>,
    clock: Clock,
    begin: Option<BusyTime>,
}

/// Sums, in microseconds.
struct BusyTime {
    all: f64,
    measured: f64,
}

impl Meter {
    pub(super) fn start(server: Option<u32>) -> Self {
        Self { server, clock: Clock::start(), begin: read(server) }
    }

    /// The share of steal is the load generator's to tell.
    pub(super) fn finish(self) -> Disturbance {
        let seconds = self.clock.now_ns() as f64 / 1e9;
        let others = || {
            let (begin, end) = (self.begin?, read(self.server)?);
            let busy_us = (end.all - begin.all) - (end.measured - begin.measured);
            Some(busy_us.max(0.0) / 1e6 / seconds)
        };
        Disturbance { other_cores: others(), steal_share: None }
    }
}

fn read(server: Option<u32>) -> Option<BusyTime> {
    let all = busy_ticks()? as f64 * 1e6 / clock_ticks_per_second() as f64;
    Some(BusyTime { all, measured: cpu_us(server?)? + cpu_us(std::process::id())? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_the_measured_is_none_of_others() {
        let meter = Meter::start(Some(std::process::id()));
        let found = meter.finish();
        assert!(found.other_cores.is_some_and(|cores| cores >= 0.0), "{found:?}");
        assert_eq!(Meter::start(None).finish().other_cores, None);
    }
}
