//! What was seen of a thread in a burst of switches, and what its waits count for.

use crate::cpu::records::Record;
use crate::recorder::Recorder;
use crate::thinning::RawSample;

/// What a ring surely holds, with the records of leaving and coming back.
pub(super) const BURST: u32 = 50;
/// Measured with `examples/overhead.rs`: the stack, both records and the collector's part.
const SWITCH_COST_NS: u64 = 6_000;
/// At most this part of a thread's time goes into watching it.
const BUDGET_DIVISOR: u64 = 66;

pub(super) struct Burst {
    started_ns: u64,
    /// Samples since the burst began.
    taken: u32,
    /// The wait that has begun: when, and its stack.
    open: Option<(u64, u32)>,
    /// A stack whose record of leaving has not come yet.
    leaving: Option<u32>,
    /// Finished waits; their weight is known when the burst and the rest after it have ended.
    finished: Vec<RawSample>,
}

impl Burst {
    pub(super) fn begin(now_ns: u64) -> Self {
        Burst { started_ns: now_ns, taken: 0, open: None, leaving: None, finished: Vec::new() }
    }

    pub(super) fn take(&mut self, thread: u32, record: Record, recorder: &mut Recorder) {
        match record {
            Record::Sample { stack, .. } => {
                self.taken += 1;
                self.leaving = recorder.intern(stack.as_slice());
                recorder.dropped += u64::from(self.leaving.is_none());
            }
            // Taken off the CPU while it could have run: no wait for a lock, but for a core. Not this profile's matter.
            Record::Switch { out: true, preempted: true, .. } => self.leaving = None,
            Record::Switch { at_ns, out: true, .. } => {
                self.open = self.leaving.take().map(|node| (at_ns, node));
            }
            Record::Switch { at_ns, out: false, .. } => self.end_wait(thread, at_ns),
            Record::Lost(count) => {
                recorder.dropped += count;
                self.open = None;
            }
        }
    }

    fn end_wait(&mut self, thread: u32, at_ns: u64) {
        if let Some((since_ns, node)) = self.open.take() {
            let weight = at_ns.saturating_sub(since_ns);
            self.finished.push(RawSample { thread, node, at_ns, weight, count: 1 });
        }
    }

    /// Whether the kernel has stopped by itself.
    fn is_exhausted(&self) -> bool {
        self.taken >= BURST
    }

    /// Whether the kernel has stopped by itself, and the thread was left alone for long enough.
    pub(super) fn has_rested(&self, now_ns: u64) -> bool {
        let rests_until_ns = self.started_ns + u64::from(self.taken) * SWITCH_COST_NS * BUDGET_DIVISOR;
        self.is_exhausted() && now_ns >= rests_until_ns
    }

    /// What still waits has waited until now, if the kernel would have told that it came back.
    pub(super) fn cut(&mut self, thread: u32, now_ns: u64) {
        if !self.is_exhausted() {
            self.end_wait(thread, now_ns);
        }
    }

    /// Hands over the waits. If the kernel has stopped by itself, each also counts for its part of the time since then. All of
    /// them began and ended while the thread was watched, so that together they are never more than the time that has passed.
    pub(super) fn hand_over(self, now_ns: u64, recorder: &mut Recorder) {
        let watched_ns = self.finished.last().map_or(0, |last| last.at_ns.saturating_sub(self.started_ns));
        let scaled = self.is_exhausted() && watched_ns > 0;
        let passed_ns = now_ns.saturating_sub(self.started_ns);
        let factor = if scaled { (passed_ns as f64 / watched_ns as f64).max(1.0) } else { 1.0 };
        for mut sample in self.finished {
            sample.weight = (sample.weight as f64 * factor) as u64;
            sample.count = factor.round() as u64;
            recorder.record(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::RawStack;

    const DRAIN_NS: u64 = 10_000_000;

    /// A thread that runs and waits in turns, from 0 on, watched in one burst and drained every 10 ms until it has rested.
    /// Answers the waits that were handed over, and when.
    fn watched(runs_ns: u64, waits_ns: u64) -> (Vec<RawSample>, u64) {
        let mut recorder = Recorder::default();
        let mut burst = Burst::begin(0);
        let (mut drained_ns, mut at_ns) = (0, 0);
        for switch in 1..=BURST {
            at_ns += runs_ns;
            let mut stack = RawStack::new();
            stack.push(100);
            burst.take(1, Record::Sample { process: 1, thread: 1, at_ns, stack }, &mut recorder);
            burst.take(1, Record::Switch { at_ns, out: true, preempted: false }, &mut recorder);
            if switch < BURST {
                while drained_ns + DRAIN_NS < at_ns + waits_ns {
                    drained_ns += DRAIN_NS;
                    assert!(!burst.has_rested(drained_ns));
                }
                at_ns += waits_ns;
                burst.take(1, Record::Switch { at_ns, out: false, preempted: false }, &mut recorder);
            }
        }
        // The kernel has stopped: nothing is heard of the last wait.
        while drained_ns < at_ns || !burst.has_rested(drained_ns) {
            drained_ns += DRAIN_NS;
        }
        burst.hand_over(drained_ns, &mut recorder);
        (recorder.samples, drained_ns)
    }

    #[test]
    fn waits_count_for_the_rest_too() {
        let (waits, passed_ns) = watched(30_000, 10_000);
        assert_eq!((waits.len(), passed_ns), (49, 20_000_000));
        let sum: u64 = waits.iter().map(|wait| wait.weight).sum();
        assert!(sum.abs_diff(passed_ns / 4) < 100, "{sum}");
        assert!(waits.iter().all(|wait| wait.count == 10), "{waits:?}");
    }

    #[test]
    fn long_waits_do_not_count_for_more_than_they_took() {
        // The last one that is seen ends shortly before the burst does, and long after what was drained before.
        let (waits, passed_ns) = watched(100_000, 100_000_000);
        assert_eq!(waits.len(), 49);
        let sum: u64 = waits.iter().map(|wait| wait.weight).sum();
        assert!(sum <= passed_ns, "{sum} of {passed_ns}");
        let most = waits.iter().map(|wait| wait.weight).max();
        assert!(most.is_some_and(|most| most < 101_000_000), "{most:?}");
    }

    #[test]
    fn a_wait_that_goes_on_at_the_end_counts_until_then() {
        let mut recorder = Recorder::default();
        let mut burst = Burst::begin(0);
        let mut stack = RawStack::new();
        stack.push(100);
        burst.take(1, Record::Sample { process: 1, thread: 1, at_ns: 5, stack }, &mut recorder);
        burst.take(1, Record::Switch { at_ns: 5, out: true, preempted: false }, &mut recorder);
        burst.cut(1, 30);
        burst.hand_over(40, &mut recorder);
        let weights: Vec<u64> = recorder.samples.iter().map(|sample| sample.weight).collect();
        assert_eq!(weights, [25]);
    }
}
