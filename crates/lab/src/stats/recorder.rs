use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use super::class::{Class, NO_ANSWER, error_kind};
use super::connection_error::ConnectionError;
use super::interval::{INTERVAL_NS, INTERVALS_HELD, Interval};
use super::thread_outcome::{Errors, ThreadOutcome};
use crate::error::LabError;
use crate::http::Method;

/// How often the rate of a thread is sampled; wrk's figure.
const SAMPLE_NS: u64 = 100_000_000;

/// Holds a thread's results while it calls a script, which may never return: then another thread takes the results from here.
#[derive(Debug, Default)]
pub(crate) struct Lent(Mutex<Option<Box<ThreadOutcome>>>);

impl Lent {
    pub(crate) fn take(&self) -> Option<Box<ThreadOutcome>> {
        self.put(None)
    }

    fn put(&self, outcome: Option<Box<ThreadOutcome>>) -> Option<Box<ThreadOutcome>> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), outcome)
    }
}

/// Records what one thread sees. Nothing here waits, and nothing but the first request of a kind allocates during the run.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// None while it is lent.
    outcome: Option<Box<ThreadOutcome>>,
    lent: Arc<Lent>,
    /// In a closed loop both latencies are the same, and one of them is enough.
    is_open_loop: bool,
    /// A 404 is no error of its interval.
    misses_are_good: bool,
    /// The time that counts.
    counted_ns: Range<u64>,
    /// The current interval, and before it those that are held for requests that were due in them.
    held: VecDeque<Box<Interval>>,
    interval_end_ns: u64,
    sample_at_ns: u64,
    sample_begin_ns: u64,
    sample_complete: u64,
    full: Sender<Box<Interval>>,
    empty: Receiver<Box<Interval>>,
}

impl Recorder {
    pub(crate) fn new(
        is_open_loop: bool,
        misses_are_good: bool,
        counted_ns: Range<u64>,
        lent: Arc<Lent>,
        full: Sender<Box<Interval>>,
        empty: Receiver<Box<Interval>>,
    ) -> Self {
        Self {
            outcome: Some(Box::new(ThreadOutcome::new())),
            lent,
            is_open_loop,
            misses_are_good,
            counted_ns,
            held: VecDeque::from([Box::new(Interval::new())]),
            interval_end_ns: INTERVAL_NS,
            sample_at_ns: SAMPLE_NS,
            sample_begin_ns: 0,
            sample_complete: 0,
            full,
            empty,
        }
    }

    fn outcome(&mut self) -> &mut ThreadOutcome {
        self.outcome.as_mut().expect("nothing is written down while it is lent")
    }

    /// Calls a script's function, which may never return: while it runs, another thread can take the results.
    pub(crate) fn lend_to<T>(
        &mut self,
        is_scripted: bool,
        call: impl FnOnce() -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        if !is_scripted {
            return call();
        }
        self.lent.put(self.outcome.take());
        let result = call();
        self.outcome = self.lent.take();
        // Otherwise the thread was given up, and is to end.
        if self.outcome.is_some() { result } else { Err(LabError::GivenUp) }
    }

    pub(crate) fn errors(&mut self) -> &mut Errors {
        &mut self.outcome().errors
    }

    pub(crate) fn connect_failed(&mut self, why: ConnectionError) {
        let outcome = self.outcome();
        outcome.errors.connect += 1;
        outcome.connect_error = Some(why);
    }

    pub(crate) fn read_failed(&mut self, why: ConnectionError) {
        let outcome = self.outcome();
        outcome.errors.read += 1;
        outcome.read_error = Some(why);
    }

    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.outcome().bytes += bytes as u64;
    }

    /// A request goes out: so late, although its connection was free. A closed loop is never late.
    pub(crate) fn sent(&mut self, due_ns: u64, now_ns: u64, late_ns: u64) {
        let counts_late = self.is_open_loop && due_ns >= self.counted_ns.start;
        let is_in_time = self.counted_ns.contains(&now_ns);
        let outcome = self.outcome();
        outcome.in_time.sent += u64::from(is_in_time);
        if counts_late {
            outcome.lateness.saturating_record(late_ns);
        }
    }

    /// An answer arrived. Its latency is recorded separately, if that is wanted.
    pub(crate) fn answered(&mut self, status: u16, now_ns: u64) {
        let is_in_time = self.counted_ns.contains(&now_ns);
        let outcome = self.outcome();
        outcome.complete += 1;
        match status {
            200..=299 => outcome.in_time.good += u64::from(is_in_time),
            503 => outcome.in_time.busy += u64::from(is_in_time),
            _ => {}
        }
        let kind = error_kind(status);
        // wrk's figure, which knows of no good misses.
        outcome.errors.status += u64::from(kind.is_some());
        let is_failure = Class::of_status(status).is_failure(self.misses_are_good);
        let interval = self.interval();
        interval.answered += 1;
        if let Some(kind) = kind.filter(|_| is_failure) {
            interval.errors[kind] += 1;
        }
    }

    /// The current one.
    fn interval(&mut self) -> &mut Interval {
        self.held.back_mut().expect("there is always one that goes on")
    }

    /// A request that was due at `due_ns` has ended. One of the warm-up is not written down.
    pub(crate) fn latency(
        &mut self,
        (class, method): (Class, Method),
        due_ns: u64,
        (corrected_ns, uncorrected_ns): (u64, u64),
    ) {
        if due_ns < self.counted_ns.start {
            return;
        }
        let is_open_loop = self.is_open_loop;
        let latencies = self.outcome().latencies.at(class, method);
        latencies.corrected.saturating_record(corrected_ns);
        if is_open_loop {
            latencies.uncorrected.saturating_record(uncorrected_ns);
        }
        if !class.has_latency() {
            return;
        }
        let goes_on = self.interval_end_ns / INTERVAL_NS - 1;
        let ago = goes_on.saturating_sub(due_ns / INTERVAL_NS) as usize;
        let index = self.held.len().saturating_sub(ago + 1);
        self.held[index].latencies.saturating_record(corrected_ns);
    }

    /// An answer to a request that was due at `due_ns`, whose latency is that of another one.
    pub(crate) fn without_latency(&mut self, (class, method): (Class, Method), due_ns: u64) {
        if due_ns >= self.counted_ns.start {
            self.outcome().latencies.count_without_latency(class, method);
        }
    }

    /// A request that got no answer, after waiting so long.
    pub(crate) fn failed(&mut self, kind: (Class, Method), due_ns: u64, latencies_ns: (u64, u64)) {
        self.interval().errors[NO_ANSWER] += 1;
        self.latency(kind, due_ns, latencies_ns);
    }

    /// When [`Recorder::tick`] is due next.
    pub(crate) fn next_tick_ns(&self) -> u64 {
        self.sample_at_ns.min(self.interval_end_ns)
    }

    /// Takes the samples that are due and hands over intervals that have ended.
    pub(crate) fn tick(&mut self, elapsed_ns: u64) {
        if elapsed_ns >= self.sample_at_ns {
            self.sample(elapsed_ns);
        }
        while elapsed_ns >= self.interval_end_ns {
            self.end_interval();
        }
    }

    fn sample(&mut self, elapsed_ns: u64) {
        let complete = self.outcome().complete;
        let (count, over_ns) = (complete - self.sample_complete, elapsed_ns - self.sample_begin_ns);
        if over_ns > 0 {
            self.outcome().samples.push((count as f64 * 1e9 / over_ns as f64) as u64);
        }
        self.sample_complete = complete;
        self.sample_begin_ns = elapsed_ns;
        self.sample_at_ns = elapsed_ns - elapsed_ns % SAMPLE_NS + SAMPLE_NS;
    }

    fn end_interval(&mut self) {
        self.interval().number = self.interval_end_ns / INTERVAL_NS - 1;
        self.interval_end_ns += INTERVAL_NS;
        let fresh = self.empty.try_recv().unwrap_or_else(|_| Box::new(Interval::new()));
        self.held.push_back(fresh);
        if self.held.len() > INTERVALS_HELD {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let Some(over) = self.held.pop_front() else { return };
        // The receiver is gone only if the run is being given up.
        let _ = self.full.send(over);
    }

    /// The end of the run: the rest of the last interval goes out too.
    pub(crate) fn finish(mut self, elapsed_ns: u64, cpu_ns: u64, unanswered: u64) -> Box<ThreadOutcome> {
        if self.outcome().samples.is_empty() || elapsed_ns - self.sample_begin_ns >= SAMPLE_NS / 2 {
            self.sample(elapsed_ns);
        }
        let number = self.interval_end_ns / INTERVAL_NS - 1;
        let length_ns = elapsed_ns.saturating_sub(number * INTERVAL_NS).min(INTERVAL_NS);
        let last = self.interval();
        (last.number, last.length_ns, last.is_last) = (number, length_ns, true);
        let is_open_loop = self.is_open_loop;
        self.outcome().complete_latencies(is_open_loop);
        let mut outcome = self.outcome.take().expect("nothing ends while it is lent");
        outcome.elapsed_ns = elapsed_ns;
        outcome.cpu_ns = cpu_ns;
        outcome.unanswered = unanswered;
        // Last, so that they do not lie there while the thread still has to end.
        while !self.held.is_empty() {
            self.hand_over();
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::stats::{Over, Seconds};

    #[test]
    fn samples_and_intervals_follow_the_clock() {
        let ((full, intervals), (_back, empty)) = (channel(), channel());
        let mut recorder = Recorder::new(true, false, 0..u64::MAX, Arc::default(), full, empty);
        for step in 1..=15_u64 {
            for _ in 0..step % 2 * 10 {
                recorder.answered(200, 0);
                recorder.latency((Class::Success, Method::Get), step * SAMPLE_NS - 1, (2_000, 1_000));
            }
            recorder.tick(step * SAMPLE_NS);
        }
        recorder.failed((Class::TimedOut, Method::Get), 15 * SAMPLE_NS, (5_000, 4_000));
        let outcome = recorder.finish(15 * SAMPLE_NS, 7, 1);
        assert_eq!(outcome.samples.len(), 15);
        assert_eq!((outcome.samples[0], outcome.samples[1]), (100, 0), "an empty sample counts");
        assert_eq!(outcome.complete, 80);
        let counts: Vec<(u64, u64)> = intervals.iter().map(|i| (i.number, i.latencies.len())).collect();
        assert_eq!((counts.len(), counts[0], counts[1], counts[15]), (16, (0, 10), (1, 0), (15, 1)));
        assert_eq!(outcome.latencies.of(Class::TimedOut).corrected.len(), 1);
    }

    /// Requests without an answer were told as answered: a server that broke every connection kept its rate on the page.
    #[test]
    fn what_broke_is_an_error_of_its_interval_and_no_answer() {
        let ((full, intervals), (_back, empty)) = (channel(), channel());
        let mut recorder = Recorder::new(true, false, 0..u64::MAX, Arc::default(), full, empty);
        recorder.answered(503, 0);
        recorder.latency((Class::Status(503), Method::Get), 0, (2_000, 1_000));
        for class in [Class::Broken, Class::TimedOut] {
            recorder.failed((class, Method::Get), 0, (5_000, 4_000));
        }
        recorder.finish(SAMPLE_NS, 0, 0);
        let mut seconds = Seconds::new(1);
        intervals.iter().for_each(|interval| drop(seconds.add(&interval)));
        let over = seconds.finish();
        let Some(Over::Second(second, latencies)) = over.last() else { panic!("a second: {over:?}") };
        assert_eq!((second.completed, second.errors_by_kind), (1, [0, 1, 2]));
        assert_eq!(latencies.len(), 2, "what broke has no latency");
    }

    /// A run in which misses are no errors had a chart with 100 % of them.
    #[test]
    fn a_miss_that_was_asked_for_is_no_error_of_its_interval() {
        for (misses_are_good, wanted) in [(false, [2, 1, 0]), (true, [1, 1, 0])] {
            let ((full, intervals), (_back, empty)) = (channel(), channel());
            let mut recorder = Recorder::new(true, misses_are_good, 0..u64::MAX, Arc::default(), full, empty);
            [200, 404, 400, 503].into_iter().for_each(|status| recorder.answered(status, 0));
            let outcome = recorder.finish(SAMPLE_NS, 0, 0);
            let found: Vec<_> = intervals.iter().map(|i| (i.answered, i.errors)).collect();
            assert_eq!((found, outcome.errors.status), (vec![(4, wanted)], 3), "{misses_are_good}");
        }
    }

    #[test]
    fn a_silence_leaves_empty_intervals_and_no_hole() {
        let ((full, intervals), (_back, empty)) = (channel(), channel());
        let mut recorder = Recorder::new(false, false, 0..u64::MAX, Arc::default(), full, empty);
        recorder.tick(3 * INTERVAL_NS + 1);
        recorder.finish(3 * INTERVAL_NS + 1, 0, 0);
        let found: Vec<_> = intervals.iter().map(|i| (i.number, i.length_ns, i.is_last)).collect();
        let whole = |number: u64| (number, INTERVAL_NS, false);
        assert_eq!(found, [whole(0), whole(1), whole(2), (3, 1, true)]);
    }

    #[test]
    fn a_warm_up_is_not_counted() {
        let ((full, _intervals), (_back, empty)) = (channel(), channel());
        let mut recorder = Recorder::new(true, false, 100..200, Arc::default(), full, empty);
        for (due, now) in [(98, 99), (99, 100), (150, 199), (199, 200)] {
            recorder.sent(due, now, 7);
            recorder.answered(if due == 150 { 503 } else { 200 }, now);
            recorder.latency((Class::Success, Method::Get), due, (now - due, now - due));
        }
        let outcome = recorder.finish(300, 0, 0);
        assert_eq!(outcome.in_time, crate::stats::thread_outcome::InTime { sent: 2, good: 1, busy: 1 });
        assert_eq!((outcome.latencies.all().corrected.len(), outcome.lateness.len()), (2, 2));
    }

    /// The latency is recorded when the request was due, its answer when it came.
    #[test]
    fn what_stood_still_shows_where_it_was() {
        let ((full, intervals), (_back, empty)) = (channel(), channel());
        let mut recorder = Recorder::new(true, false, 0..u64::MAX, Arc::default(), full, empty);
        let held = INTERVALS_HELD as u64;
        for now in 1..=held + 5 {
            recorder.tick(now * INTERVAL_NS);
        }
        let ended_at = (held + 5) * INTERVAL_NS;
        for due in [0, 7 * INTERVAL_NS, ended_at] {
            recorder.answered(200, ended_at);
            recorder.latency((Class::Success, Method::Get), due, (ended_at - due, 1_000));
        }
        recorder.finish(ended_at, 0, 0);
        let found: Vec<(u64, u64, u64)> = intervals
            .iter()
            .map(|interval| (interval.number, interval.latencies.len(), interval.answered))
            .filter(|found| found.1 + found.2 > 0)
            .collect();
        assert_eq!(
            found,
            [(6, 1, 0), (7, 1, 0), (held + 5, 1, 3)],
            "the first waited for too long to be held"
        );
    }

    #[test]
    fn what_is_lent_can_be_taken_once_and_is_given_back_otherwise() {
        let ((full, _intervals), (_back, empty)) = (channel(), channel());
        let lent = Arc::new(Lent::default());
        let mut recorder = Recorder::new(false, false, 0..u64::MAX, Arc::clone(&lent), full, empty);
        recorder.answered(200, 0);
        assert!(lent.take().is_none(), "the thread has it");
        assert!(recorder.lend_to(true, || Ok(())).is_ok());
        assert!(recorder.lend_to(false, || Ok(lent.take().is_none())).is_ok_and(|is_kept| is_kept));
        recorder.answered(404, 0);
        recorder.latency((Class::NOT_FOUND, Method::Get), 0, (2_000, 1_000));
        let mut taken = None;
        let given_back = recorder.lend_to(true, || {
            taken = lent.take();
            Ok(())
        });
        assert!(matches!(given_back, Err(LabError::GivenUp)));
        let outcome = taken.expect("what was lent").given_up(false, SAMPLE_NS);
        assert_eq!((outcome.complete, outcome.errors.status, outcome.samples[..].to_vec()), (2, 1, vec![20]));
        assert_eq!(outcome.latencies.of(Class::NOT_FOUND).uncorrected.len(), 1);
    }
}
