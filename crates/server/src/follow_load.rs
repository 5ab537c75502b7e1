use ladoga_env::real::{MachineTimes, machine_times, thread_times};
use ladoga_runtime::open_connections;

use super::balance::{Balance, Usage};
use super::event_loop::EventLoop;
use super::protocol::Protocol;

/// How often a loop looks at what it uses, at most.
const LOOK_NS: u64 = 200_000_000;
/// A tick of the system's clock, as it tells the times of the machine (`USER_HZ` is 100).
const TICK_NS: f64 = 1e7;

/// An event loop's part in having as many of them serve as the load asks for.
pub(super) struct FollowLoad {
    index: usize,
    looked_ns: u64,
    /// The first loop decides for all.
    decides: Option<(Balance, Option<Reading>)>,
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
        let decides = (index == 0).then(|| (Balance::new(loops), None));
        FollowLoad { index, looked_ns: 0, decides }
    }

    /// Looks at what this loop uses; has its connections go where loops serve, if these have become more or fewer.
    pub(super) fn look<P: Protocol>(&mut self, event_loop: &EventLoop<P>) {
        let (now_ns, shares) = (event_loop.context.clock.monotonic_ns(), &event_loop.shared.shares);
        if now_ns.saturating_sub(self.looked_ns) < LOOK_NS {
            return;
        }
        self.looked_ns = now_ns;
        let (Some(own), Some(machine)) = (thread_times(), machine_times()) else {
            // A system that does not tell has all of them serve.
            return shares.let_serve(event_loop.shared.metrics.loops.len());
        };
        shares.tell(self.index, (own.cpu_ns, own.wait_ns));
        if let Some((balance, before)) = &mut self.decides {
            let (cpu_ns, wait_ns) = shares.sums_ns();
            let now = Reading { at_ns: now_ns, cpu_ns, wait_ns, machine };
            if let Some(before) = before.replace(now) {
                shares.let_serve(balance.after(usage(&before, &now)));
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
