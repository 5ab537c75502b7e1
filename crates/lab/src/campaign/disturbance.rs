//! The load of other processes on the machine during a run.

use rustix::param::clock_ticks_per_second;

use super::sampler::{cpu_ticks, cpu_us};
use crate::clock::Clock;
use crate::files;
use crate::record::Disturbance;
use crate::stats::busy_ticks;

/// Threads of the kernel that serve interrupts are mostly at work for the packets of the run itself.
const FOR_PACKETS: &str = "(ksoftirqd/";

/// From its start to [`Meter::finish`].
pub(super) struct Meter {
    /// None if it is unknown; then nothing is reported, since its work could not be told from that of others.
    server: Option<u32>,
    clock: Clock,
    begin: Option<BusyTime>,
}

/// Sums, in microseconds.
#[derive(Debug, Clone, Copy)]
struct BusyTime {
    /// As the machine tells it.
    all: f64,
    with_interrupts: f64,
    measured: f64,
    /// As each of the other processes tells it.
    others: f64,
}

impl BusyTime {
    /// What others did since then. Both ways to find it may find too little: only some kernels leave interrupts out of a process's
    /// time as they are left out of `all`, and processes of other containers, or of other users, may not be in `/proc`. The second one may
    /// find too much, but no more than CPUs were busy: the whole life of one that could not be seen is that of its parent when it ends.
    fn others_since(self, begin: BusyTime) -> f64 {
        let measured = self.measured - begin.measured;
        let left = (self.all - begin.all) - measured;
        let most = (self.with_interrupts - begin.with_interrupts) - measured;
        left.max((self.others - begin.others).min(most)).max(0.0)
    }
}

impl Meter {
    pub(super) fn start(server: Option<u32>) -> Self {
        Self { server, clock: Clock::start(), begin: read(server) }
    }

    /// The share of steal is the load generator's to tell.
    pub(super) fn finish(self) -> Disturbance {
        let seconds = self.clock.now_ns() as f64 / 1e9;
        let others = || Some(read(self.server)?.others_since(self.begin?) / 1e6 / seconds);
        Disturbance { other_cores: others(), steal_share: None }
    }
}

fn read(server: Option<u32>) -> Option<BusyTime> {
    let micros = |ticks: u64| ticks as f64 * 1e6 / clock_ticks_per_second() as f64;
    let measured = [server?, std::process::id()];
    let (all, with_interrupts) = busy_ticks()?;
    Some(BusyTime {
        all: micros(all),
        with_interrupts: micros(with_interrupts),
        measured: measured.into_iter().map(cpu_us).sum::<Option<f64>>()?,
        others: micros(ticks_of(&other_processes(measured))),
    })
}

/// `/proc/*/stat` of all but these.
fn other_processes(measured: [u32; 2]) -> Vec<String> {
    let numbers = files::names("/proc".as_ref()).unwrap_or_default().into_iter();
    let others = numbers.filter_map(|name| name.parse().ok()).filter(|pid| !measured.contains(pid));
    // One may be gone by now.
    others.filter_map(|pid| files::read_text(format!("/proc/{pid}/stat").as_ref()).ok()).collect()
}

/// With the children of each that have ended: whatever ends during a run is in the sum before it, if it was there and could be seen, and in
/// its parent's behind it.
fn ticks_of(processes: &[String]) -> u64 {
    let counted = processes.iter().filter(|stat| !stat.contains(FOR_PACKETS));
    counted.filter_map(|stat| cpu_ticks(stat)).map(|(own, children)| own + children).sum()
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

    /// Without interrupts.
    const BEGIN: BusyTime =
        BusyTime { all: 1_000.0, with_interrupts: 1_000.0, measured: 200.0, others: 700.0 };

    /// On kernels that do not measure the time of interrupts, it is in that of the process on top of which they ran. The packets of
    /// the run were subtracted from the work of others.
    #[test]
    fn packets_of_the_run_are_not_subtracted_from_the_work_of_others() {
        let with_interrupts = 1_000.0 + 900.0 + 80.0;
        let interrupts = 100.0;
        let end =
            BusyTime { all: with_interrupts - interrupts, with_interrupts, measured: 1_100.0, others: 780.0 };
        assert_eq!(end.others_since(BEGIN) as u64, 80);
    }

    #[test]
    fn processes_that_cannot_be_seen_are_others_too() {
        let end = BusyTime { all: 2_000.0, with_interrupts: 2_000.0, measured: 1_100.0, others: 705.0 };
        assert_eq!(end.others_since(BEGIN) as u64, 100);
        let fewer = BusyTime { all: 990.0, others: 0.0, ..BEGIN }.others_since(BEGIN);
        assert!((0.0..1e-9).contains(&fewer), "one has ended, and nobody asked for its status: {fewer}");
    }

    /// An hour of it was told as work of the run's time.
    #[test]
    fn the_life_of_a_process_that_could_not_be_seen_is_not_all_of_this_run() {
        let others = |children| ticks_of(&[process("sh", 1, children)]) as f64 * 10_000.0;
        let begin = BusyTime { others: others(0), ..BEGIN };
        let end =
            BusyTime { all: 2_000.0, with_interrupts: 2_030.0, measured: 1_100.0, others: others(360_000) };
        assert_eq!(end.others_since(begin) as u64, 130);
    }

    fn process(name: &str, own: u64, children: u64) -> String {
        format!("12 ({name}) S 1 2 3 4 5 6 7 8 9 10 {own} 0 {children} 0 20 0 4 0 5")
    }

    #[test]
    fn a_process_that_ends_did_its_work_once() {
        let begin = [process("make", 10, 0), process("cc", 30, 0), process("ksoftirqd/0", 7, 0)];
        let end = [process("make", 11, 34), process("ksoftirqd/0", 90, 0)];
        assert_eq!((ticks_of(&begin), ticks_of(&end)), (40, 45));
    }
}
