use super::*;
use crate::engine::Ending;

/// What it was told, in its order.
#[derive(Default)]
struct Told(Vec<&'static str>);

impl Watcher for Told {
    fn second(&mut self, _second: &Second, _latencies: &Histogram<u64>) {
        self.0.push("second");
    }

    fn interval(&mut self, _number: u64, _latencies: &Histogram<u64>) {
        self.0.push("interval");
    }

    fn ended(&mut self) {
        self.0.push("ended");
    }
}

/// Whoever waited for the end of the run was kept until the intervals of its last three seconds had been added up.
#[test]
fn a_run_ends_before_what_was_held_is_added_up() {
    let ((events_in, events), (intervals_in, intervals)) = (channel(), channel());
    let plan = Plan {
        threads: 2,
        connections: 2,
        pipeline: 1,
        duration_ns: 1_000_000_000,
        warmup_ns: 0,
        timeout_ns: 2_000_000_000,
        rate: None,
        ending: Ending::Cut,
        is_batch_latency: false,
        misses_are_good: false,
    };
    for _ in 0..plan.threads {
        let mut last = Interval::new();
        (last.answered, last.is_last) = (1, true);
        intervals_in.send(Box::new(last)).unwrap();
        events_in.send(Event::Done(Ok(Box::new(ThreadOutcome::new())))).unwrap();
    }
    let (clock, stop) = (Clock::start(), Arc::default());
    let (starts, returns, lent, threads) = (vec![], vec![], vec![], vec![]);
    let mut crew = Crew { plan, clock, stop, events, intervals, starts, returns, lent, threads };
    let mut told = Told::default();
    crew.go(&mut told).unwrap();
    assert_eq!(told.0, ["ended", "interval", "second"]);
}
