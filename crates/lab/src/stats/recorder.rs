use std::sync::mpsc::{Receiver, Sender};

use hdrhistogram::Histogram;

use super::class::Class;
use super::interval::{INTERVAL_NS, Interval};
use super::latencies::{Latencies, add, ns_histogram};

/// How often the rate of a thread is sampled; wrk's figure.
const SAMPLE_NS: u64 = 100_000_000;

/// What went wrong on sockets, as wrk counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Errors {
    pub(crate) connect: u64,
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) timeout: u64,
    /// Answers with a status of 400 or more.
    pub(crate) status: u64,
}

impl Errors {
    pub(crate) const fn socket(&self) -> u64 {
        self.connect + self.read + self.write + self.timeout
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.connect += other.connect;
        self.read += other.read;
        self.write += other.write;
        self.timeout += other.timeout;
        self.status += other.status;
    }
}

/// What one thread found.
#[derive(Debug)]
pub(crate) struct ThreadOutcome {
    /// By class.
    pub(crate) latencies: [Latencies; 6],
    /// How late requests were sent that could have been sent in time: the generator's own fault.
    pub(crate) lateness: Histogram<u64>,
    /// Rates, in requests a second.
    pub(crate) samples: Vec<u64>,
    pub(crate) complete: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: Errors,
    pub(crate) cpu_ns: u64,
    pub(crate) elapsed_ns: u64,
    /// Due by the end, and without an answer.
    pub(crate) unanswered: u64,
}

/// Writes down what one thread sees. Nothing here waits, and nothing allocates once the run goes on.
#[derive(Debug)]
pub(crate) struct Recorder {
    outcome: ThreadOutcome,
    /// In a closed loop both latencies are the same, and one of them is enough.
    is_open_loop: bool,
    interval: Box<Interval>,
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
        full: Sender<Box<Interval>>,
        empty: Receiver<Box<Interval>>,
    ) -> Self {
        let outcome = ThreadOutcome {
            latencies: std::array::from_fn(|_| Latencies::new()),
            lateness: ns_histogram(),
            samples: Vec::with_capacity(1024),
            complete: 0,
            bytes: 0,
            errors: Errors::default(),
            cpu_ns: 0,
            elapsed_ns: 0,
            unanswered: 0,
        };
        Self {
            outcome,
            is_open_loop,
            interval: Box::new(Interval::new()),
            interval_end_ns: INTERVAL_NS,
            sample_at_ns: SAMPLE_NS,
            sample_begin_ns: 0,
            sample_complete: 0,
            full,
            empty,
        }
    }

    pub(crate) const fn errors(&mut self) -> &mut Errors {
        &mut self.outcome.errors
    }

    pub(crate) const fn add_bytes(&mut self, bytes: usize) {
        self.outcome.bytes += bytes as u64;
    }

    /// An answer arrived. Its latency is written down apart, where it is wanted.
    pub(crate) fn answered(&mut self, status: u16) {
        self.outcome.complete += 1;
        if status > 399 {
            self.outcome.errors.status += 1;
            self.interval.errors += 1;
        }
    }

    pub(crate) fn latency(&mut self, class: Class, corrected_ns: u64, uncorrected_ns: u64) {
        let latencies = &mut self.outcome.latencies[class as usize];
        latencies.corrected.saturating_record(corrected_ns);
        if self.is_open_loop {
            latencies.uncorrected.saturating_record(uncorrected_ns);
        }
        self.interval.latencies.saturating_record(corrected_ns);
    }

    /// A request that got no answer, after waiting so long.
    pub(crate) fn failed(&mut self, class: Class, corrected_ns: u64, uncorrected_ns: u64) {
        self.interval.errors += 1;
        self.latency(class, corrected_ns, uncorrected_ns);
    }

    pub(crate) fn lateness(&mut self, late_ns: u64) {
        self.outcome.lateness.saturating_record(late_ns);
    }

    /// When [`Recorder::tick`] is due next.
    pub(crate) fn next_tick_ns(&self) -> u64 {
        self.sample_at_ns.min(self.interval_end_ns)
    }

    /// Takes the samples that are due and hands over intervals that are over.
    pub(crate) fn tick(&mut self, elapsed_ns: u64) {
        if elapsed_ns >= self.sample_at_ns {
            self.sample(elapsed_ns);
        }
        while elapsed_ns >= self.interval_end_ns {
            self.hand_over();
            self.interval_end_ns += INTERVAL_NS;
        }
    }

    fn sample(&mut self, elapsed_ns: u64) {
        let (count, over_ns) =
            (self.outcome.complete - self.sample_complete, elapsed_ns - self.sample_begin_ns);
        if over_ns > 0 {
            self.outcome.samples.push((count as f64 * 1e9 / over_ns as f64) as u64);
        }
        self.sample_complete = self.outcome.complete;
        self.sample_begin_ns = elapsed_ns;
        self.sample_at_ns = elapsed_ns - elapsed_ns % SAMPLE_NS + SAMPLE_NS;
    }

    fn hand_over(&mut self) {
        let fresh = self.empty.try_recv().unwrap_or_else(|_| Box::new(Interval::new()));
        let mut over = std::mem::replace(&mut self.interval, fresh);
        over.number = self.interval_end_ns / INTERVAL_NS - 1;
        // Nobody listens any more only where the run is being given up.
        let _ = self.full.send(over);
    }

    /// The end of the run: the rest of the last interval goes out too.
    pub(crate) fn finish(mut self, elapsed_ns: u64, cpu_ns: u64, unanswered: u64) -> ThreadOutcome {
        if self.outcome.samples.is_empty() || elapsed_ns - self.sample_begin_ns >= SAMPLE_NS / 2 {
            self.sample(elapsed_ns);
        }
        self.hand_over();
        if !self.is_open_loop {
            for latencies in &mut self.outcome.latencies {
                add(&mut latencies.uncorrected, &latencies.corrected);
            }
        }
        self.outcome.elapsed_ns = elapsed_ns;
        self.outcome.cpu_ns = cpu_ns;
        self.outcome.unanswered = unanswered;
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn samples_and_intervals_follow_the_clock() {
        let ((full, intervals), (_back, empty)) = (channel(), channel());
        let mut recorder = Recorder::new(true, full, empty);
        for step in 1..=15_u64 {
            for _ in 0..step % 2 * 10 {
                recorder.answered(200);
                recorder.latency(Class::Success, 2_000, 1_000);
            }
            recorder.tick(step * SAMPLE_NS);
        }
        recorder.failed(Class::TimedOut, 5_000, 4_000);
        let outcome = recorder.finish(15 * SAMPLE_NS, 7, 1);
        assert_eq!(outcome.samples.len(), 15);
        assert_eq!((outcome.samples[0], outcome.samples[1]), (100, 0), "an empty sample counts");
        assert_eq!(outcome.complete, 80);
        let counts: Vec<(u64, u64)> = intervals.iter().map(|i| (i.number, i.latencies.len())).collect();
        assert_eq!((counts.len(), counts[0], counts[1], counts[15]), (16, (0, 10), (1, 0), (15, 1)));
        assert_eq!(outcome.latencies[Class::TimedOut as usize].corrected.len(), 1);
    }

    #[test]
    fn a_silence_leaves_empty_intervals_and_no_hole() {
        let ((full, intervals), (_back, empty)) = (channel(), channel());
        let mut recorder = Recorder::new(false, full, empty);
        recorder.tick(3 * INTERVAL_NS + 1);
        drop(recorder);
        assert_eq!(intervals.iter().map(|interval| interval.number).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
