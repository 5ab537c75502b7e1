use ladoga_env::real::{MachineTimes, machine_times, thread_times};
use ladoga_runtime::open_connections;

use super::balance::{Balance, Usage};
use super::event_loop::EventLoop;
use super::protocol::Protocol;

/// How often a loop looks at what it uses, at most.
const LOOK_NS: u64 = 200_000_000;
/// So many looks in a row without times are no more than that.
const MISSED_LOOKS_MAX: u32 = 25;
/// A tick of the system's clock, as it tells the times of the machine (`USER_HZ` is 100).
const TICK_NS: f64 = 1e7;

/// An event loop's part in having as many of them serve as the load asks for.
pub(super) struct FollowLoad {
    index: usize,
    looked_ns: u64,
    /// The first loop decides for all.
    decider: Option<Decider>,
}

/// Decides how many loops serve.
struct Decider {
    loops: usize,
    balance: Balance,
    before: Option<Reading>,
    missed_looks: u32,
    has_warned: bool,
}

/// What there was at a moment.
#[derive(Clone, Copy)]
struct Reading {
    at_ns: u64,
    cpu_ns: u64,
    wait_ns: u64,
    machine: MachineTimes,
}

impl FollowLoad {
    /// Of loop `index` of so many.
    pub(super) fn new(index: usize, loops: usize) -> FollowLoad {
        FollowLoad { index, looked_ns: 0, decider: (index == 0).then(|| Decider::new(loops)) }
    }

    /// Looks at what this loop uses; has its connections go where loops serve, if these have become more or fewer.
    pub(super) fn look<P: Protocol>(&mut self, event_loop: &EventLoop<P>) {
        let (now_ns, shares) = (event_loop.context.clock.monotonic_ns(), &event_loop.shared.shares);
        if now_ns.saturating_sub(self.looked_ns) < LOOK_NS {
            return;
        }
        self.looked_ns = now_ns;
        let times = thread_times().zip(machine_times());
        if let Some((own, _)) = times {
            shares.tell(self.index, (own.cpu_ns, own.wait_ns));
        }
        if let Some(decider) = &mut self.decider {
            let (cpu_ns, wait_ns) = shares.sums_ns();
            let now = times.map(|(_, machine)| Reading { at_ns: now_ns, cpu_ns, wait_ns, machine });
            if let Some(serving) = decider.after(now) {
                shares.let_serve(serving);
            }
        }
        event_loop.connections.ask_to_move(self.surplus(event_loop));
    }

    /// How many connections are to be served by other loops.
    fn surplus<P: Protocol>(&self, event_loop: &EventLoop<P>) -> usize {
        let shared = &event_loop.shared;
        let (own, serving) = (event_loop.context.metrics.connections(), shared.shares.serving());
        let all = open_connections(&shared.metrics.loops);
        let fair = if self.index < serving { all.div_ceil(serving as u64) } else { 0 };
        usize::try_from(own.saturating_sub(fair)).unwrap_or(usize::MAX)
    }
}

impl Decider {
    fn new(loops: usize) -> Decider {
        Decider { loops, balance: Balance::new(loops), before: None, missed_looks: 0, has_warned: false }
    }

    /// So many loops are to serve from now on; None if that stays as it is. A system that does not tell its times has all of them serve;
    /// one that has told them may have no descriptor for them now.
    fn after(&mut self, now: Option<Reading>) -> Option<usize> {
        let Some(now) = now else {
            self.missed_looks += 1;
            let is_passing = self.before.is_some() && self.missed_looks <= MISSED_LOOKS_MAX;
            return (!is_passing).then(|| self.all());
        };
        self.missed_looks = 0;
        let before = self.before.replace(now)?;
        Some(self.balance.after(usage(&before, &now)))
    }

    fn all(&mut self) -> usize {
        if !self.has_warned && self.loops > 1 {
            tracing::warn!("{}", self.why_all());
        }
        self.has_warned = true;
        self.loops
    }

    /// Why all of them serve. What was told for a while is read again, so it needs no other setting.
    fn why_all(&self) -> &'static str {
        if self.before.is_some() {
            return "the system has not told for five seconds how its CPUs are used (/proc/stat, /proc/thread-self/schedstat), \
                    so all event loops serve until it does; if it has no descriptor left, the limit is too low (ulimit -n)";
        }
        "the system does not tell how its CPUs are used (/proc/stat, /proc/thread-self/schedstat), so all event loops serve, \
         however little the load is: --threads says how many there are"
    }
}

fn usage(before: &Reading, now: &Reading) -> Usage {
    let elapsed_ns = now.at_ns.saturating_sub(before.at_ns).max(1) as f64;
    let waited = now.wait_ns.saturating_sub(before.wait_ns) as f64 / elapsed_ns;
    let had = now.cpu_ns.saturating_sub(before.cpu_ns) as f64 / elapsed_ns;
    let idle = now.machine.idle.saturating_sub(before.machine.idle) as f64;
    Usage { wanted: had + waited, waited, spare: idle * TICK_NS / elapsed_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a service whose `/proc` has processes only, nothing followed the load, and connections stayed at the loop where they were.
    #[test]
    fn all_loops_serve_if_the_system_does_not_tell_its_times() {
        let mut decider = Decider::new(4);
        assert_eq!([None, None].map(|now| decider.after(now)), [Some(4), Some(4)]);
        assert!(decider.why_all().starts_with("the system does not tell"), "{}", decider.why_all());
    }

    /// All loops served from one look to the next.
    #[test]
    fn times_that_cannot_be_read_for_once_change_nothing() {
        let idle =
            |at_ns| Some(Reading { at_ns, cpu_ns: 0, wait_ns: 0, machine: MachineTimes { idle: at_ns } });
        let mut decider = Decider::new(4);
        let found = [idle(0), idle(LOOK_NS), None, idle(3 * LOOK_NS)].map(|now| decider.after(now));
        assert_eq!(found, [None, Some(1), None, Some(1)]);
        let missed = (0..=MISSED_LOOKS_MAX).map(|_| decider.after(None)).collect::<Vec<_>>();
        let (last, others) = missed.split_last().expect("several");
        assert!(
            *last == Some(4) && others.iter().all(Option::is_none),
            "one loop is not left alone for ever"
        );
        // It was said to tell nothing, as if it never did.
        assert!(decider.why_all().contains("has not told for five seconds"), "{}", decider.why_all());
    }

    #[test]
    fn usage_is_in_cpus() {
        let machine = |idle| MachineTimes { idle };
        let before = Reading { at_ns: 0, cpu_ns: 5, wait_ns: 7, machine: machine(1_000) };
        // In 200 ms, 100 ms on CPUs and 50 ms of waiting for them, and 30 ticks of 10 ms in which CPUs had nothing to do.
        let now =
            Reading { at_ns: 200_000_000, cpu_ns: 100_000_005, wait_ns: 50_000_007, machine: machine(1_030) };
        assert_eq!(usage(&before, &now), Usage { wanted: 0.75, waited: 0.25, spare: 1.5 });
    }
}
