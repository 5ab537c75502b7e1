use rustix::time::{ClockId, clock_gettime};

use crate::files;

/// The CPU time of the calling thread so far.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How much of the machine's time its host gave to others, from one moment to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StealMeter {
    begin: Option<Ticks>,
}

/// Of all CPUs since the machine started, in ticks of the system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    steal: u64,
    /// In user space and in the kernel, without interrupts.
    busy: u64,
    all: u64,
}

/// How long all processes together have kept CPUs busy since the machine started, in ticks of the system's clock. Interrupts are left out:
/// they are mostly the network traffic of the run itself, and kernels that measure their time give it to no process. Other kernels
/// count it as time of the process that was interrupted: there, processes have used more than this. The second number is with interrupts:
/// nowhere have they used more than that.
pub(crate) fn busy_ticks() -> Option<(u64, u64)> {
    read().map(|ticks| (ticks.busy, ticks.all - ticks.idle - ticks.steal))
}

impl StealMeter {
    pub(crate) fn start() -> Self {
        Self { begin: read() }
    }

    /// As a share of all CPUs' time; none if the system does not report it.
    pub(crate) fn share(&self) -> Option<f64> {
        let (begin, end) = (self.begin?, read()?);
        let all = end.all.checked_sub(begin.all).filter(|all| *all > 0)?;
        Some(end.steal.saturating_sub(begin.steal) as f64 / all as f64)
    }
}

fn read() -> Option<Ticks> {
    parse(&files::read_text("/proc/stat".as_ref()).ok()?)
}

/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`
fn parse(stat: &str) -> Option<Ticks> {
    let numbers: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    // Guest time is in user time already.
    Some(Ticks {
        steal: *numbers.get(7)?,
        idle: numbers[3] + numbers[4],
        busy: numbers[..3].iter().sum(),
        all: numbers[..8].iter().sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_number() {
        let ticks = parse("cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2\n");
        assert_eq!(ticks, Some(Ticks { idle: 90, steal: 80, busy: 60, all: 360 }));
        assert_eq!(parse("cpu  10 20\n"), None);
        assert_eq!(parse(""), None);
    }

    /// Packets of the run itself were told as the work of other processes.
    #[test]
    fn interrupts_are_the_work_of_no_process() {
        let busy = |stat: &str| parse(stat).map(|ticks| ticks.busy);
        let quiet = busy("cpu  10 20 30 40 50 60 70 80 90 100\n");
        assert_eq!(busy("cpu  10 20 30 40 50 960 1970 80 90 100\n"), quiet);
        assert_eq!(busy("cpu  11 22 33 40 50 60 70 80 90 100\n"), quiet.map(|ticks| ticks + 6));
    }

    #[test]
    fn a_thread_that_works_uses_cpu() {
        let before = thread_cpu_ns();
        // Ends only if the clock advances.
        while thread_cpu_ns() < before + 1000 {
            std::hint::spin_loop();
        }
    }
}
