use std::ops::Range;

use hdrhistogram::Histogram;

use super::latencies::{add, ns_histogram};

/// A connection that owes more requests than this has them recorded in groups, so that the end of a run takes no time.
const RECORDS_MAX: u64 = 1000;

/// A shorter silence is no sign of anything: any machine is held up for some milliseconds now and then.
const SILENCE_NS_MIN: u64 = 100_000_000;

/// Requests that were due and had no answer when the run ended; in a closed loop those that were on their way.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// How long they had waited since they were due: no latency was shorter than that.
    pub(crate) waited: Histogram<u64>,
    /// Of each connection that has some: how long it was silent, and how many there are.
    silences: Vec<(u64, u64)>,
}

impl Unanswered {
    /// The silence of a connection whose requests or attempts to connect failed since its last answer.
    pub(crate) const FAILED_NS: u64 = u64::MAX;

    pub(crate) fn new() -> Self {
        Self { waited: ns_histogram(), silences: Vec::new() }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        add(&mut self.waited, &other.waited);
        self.silences.extend_from_slice(&other.silences);
    }

    /// Requests that were due at one time.
    pub(crate) fn waited_for(&mut self, waited_ns: u64, count: u64) {
        self.waited.saturating_record_n(waited_ns, count);
    }

    /// Requests that were due one after the other. A group counts with the wait of its last one, which is the shortest.
    pub(crate) fn waited_for_turns(&mut self, turns: Range<u64>, waited_ns: impl Fn(u64) -> u64) {
        let step = (turns.end - turns.start).div_ceil(RECORDS_MAX).max(1);
        let mut begin = turns.start;
        while begin < turns.end {
            let end = (begin + step).min(turns.end);
            self.waited_for(waited_ns(end - 1), end - begin);
            begin = end;
        }
    }

    /// What a connection owes, and how long it was silent.
    pub(crate) fn owed(&mut self, silent_ns: u64, count: u64) {
        if count > 0 {
            self.silences.push((silent_ns, count));
        }
    }

    /// Those of connections that were silent for longer than any answer took: the server hangs or is gone, and a longer run
    /// would not have got the answers either. A request that is on its way when the clock stops is no error.
    pub(super) fn lost(&self, slowest_answer_ns: u64) -> u64 {
        let limit_ns = slowest_answer_ns.max(SILENCE_NS_MIN);
        let lost = self.silences.iter().filter(|(silent_ns, _)| *silent_ns > limit_ns);
        lost.map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_is_on_its_way_is_not_lost_and_what_hangs_is() {
        let mut unanswered = Unanswered::new();
        unanswered.owed(3 * MS, 1);
        unanswered.owed(2_400 * MS, 2_000);
        unanswered.owed(Unanswered::FAILED_NS, 400);
        unanswered.owed(0, 0);
        assert_eq!(unanswered.lost(8 * MS), 2_400);
        assert_eq!(unanswered.lost(2_500 * MS), 400, "answers take as long here");
        unanswered.owed(90 * MS, 20);
        assert_eq!(unanswered.lost(0), 2_400, "it may only have been held up");
    }

    #[test]
    fn many_turns_are_recorded_in_groups() {
        let mut unanswered = Unanswered::new();
        unanswered.waited_for_turns(5..5, |_| unreachable!("nothing is owed"));
        unanswered.waited_for_turns(1_000..1_000_000_000, |turn| 1_000_000_000 - turn);
        assert_eq!(unanswered.waited.len(), 999_999_000);
        let median = unanswered.waited.value_at_percentile(50.0) as f64;
        assert!((median / 5e8 - 1.0).abs() < 0.005, "{median}");
        let mut few = Unanswered::new();
        few.waited_for_turns(0..3, |turn| 3 - turn);
        assert_eq!((few.waited.min(), few.waited.max(), few.waited.len()), (1, 3, 3));
    }
}
