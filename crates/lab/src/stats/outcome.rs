use hdrhistogram::Histogram;

use super::answers::Answers;
use super::class::Class;
use super::connection_error::ConnectionError;
use super::due::{Due, on_their_way};
use super::failures::Failures;
use super::interval::Second;
use super::latencies::{Latencies, add, ns_histogram};
use super::samples::Samples;
use super::thread_outcome::{Errors, InTime, ThreadOutcome};
use super::unanswered::Unanswered;

/// A thread that used this part of a core may have had too little time to keep its schedule.
const BUSY_SHARE: f64 = 0.95;
/// Requests that went out later than this, at the 99th percentile, were held up by the generator.
const LATE_NS: u64 = 1_000_000;
/// This much steal disturbs every figure of a run.
const STEAL_SHARE: f64 = 0.02;

/// What limited a result besides the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    /// A thread had no CPU left: this share of a core.
    Cpu(f64),
    /// Requests went out late: the 99th percentile of the lateness, in nanoseconds.
    Late(u64),
    /// The host gave this share of the machine's time to others.
    Steal(f64),
}

/// What a whole run found.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    pub(crate) latencies: Answers,
    pub(crate) lateness: Histogram<u64>,
    pub(crate) in_time: InTime,
    pub(crate) samples: Samples,
    pub(crate) complete: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: Errors,
    /// Why the last attempt of some thread to connect failed.
    pub(crate) connect_error: Option<ConnectionError>,
    /// Why the last answer of some thread could not be read.
    pub(crate) read_error: Option<ConnectionError>,
    pub(crate) elapsed_ns: u64,
    /// Due by the end, and without an answer; none in a closed loop.
    pub(crate) unanswered: u64,
    pub(crate) left: Unanswered,
    /// Of each thread, as a share of a core.
    pub(crate) cpu_shares: Vec<f64>,
    pub(crate) cpu_ns: u64,
    pub(crate) steal_share: Option<f64>,
    pub(crate) seconds: Vec<Second>,
    /// Requests a second; none in a closed loop.
    pub(crate) rate: Option<f64>,
    pub(crate) is_interrupted: bool,
    /// Threads that did not end when they were stopped.
    pub(crate) threads_given_up: usize,
}

impl RunOutcome {
    /// An outcome in which nothing happened yet.
    pub(crate) fn new(rate: Option<f64>) -> Self {
        Self {
            latencies: Answers::new(),
            lateness: ns_histogram(),
            in_time: InTime::default(),
            samples: Samples::default(),
            complete: 0,
            bytes: 0,
            errors: Errors::default(),
            connect_error: None,
            read_error: None,
            elapsed_ns: 0,
            unanswered: 0,
            left: Unanswered::new(),
            cpu_shares: Vec::new(),
            cpu_ns: 0,
            steal_share: None,
            seconds: Vec::new(),
            rate,
            is_interrupted: false,
            threads_given_up: 0,
        }
    }

    /// Puts the threads together.
    pub(crate) fn of_threads(
        rate: Option<f64>,
        threads: impl IntoIterator<Item = Box<ThreadOutcome>>,
    ) -> Self {
        let mut whole = Self::new(rate);
        let mut samples = Vec::new();
        for thread in threads {
            whole.latencies.add(&thread.latencies);
            add(&mut whole.lateness, &thread.lateness);
            whole.in_time.add(thread.in_time);
            samples.extend(thread.samples);
            whole.complete += thread.complete;
            whole.bytes += thread.bytes;
            whole.errors.add(&thread.errors);
            whole.connect_error = thread.connect_error.or(whole.connect_error);
            whole.read_error = thread.read_error.or(whole.read_error);
            whole.elapsed_ns = whole.elapsed_ns.max(thread.elapsed_ns);
            whole.unanswered += thread.unanswered;
            whole.left.add(&thread.left);
            whole.cpu_shares.push(thread.cpu_ns as f64 / thread.elapsed_ns.max(1) as f64);
            whole.cpu_ns += thread.cpu_ns;
        }
        whole.samples = Samples::new(samples);
        whole
    }

    pub(crate) fn count(&self, class: Class) -> u64 {
        self.latencies.count(|own| own == class)
    }

    /// Requests that were answered, and those that were waited for in vain. One whose connection broke has no latency, as in wrk: a
    /// server that refuses at once is not fast.
    pub(crate) fn all(&self) -> Latencies {
        self.latencies.sum(|class, _| class.has_latency())
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.over_time(self.complete)
    }

    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.over_time(self.bytes)
    }

    fn over_time(&self, count: u64) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { count as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Requests without an answer that count as errors.
    pub(crate) fn lost(&self) -> u64 {
        self.left.lost(self.answered().uncorrected.max())
    }

    /// Requests that were answered, whatever the answers say.
    pub(crate) fn answered(&self) -> Latencies {
        self.latencies.sum(|class, _| class.is_answer())
    }

    /// What was due in an open loop, and how much of it was not kept.
    pub(crate) fn due(&self) -> Due {
        let on_their_way = on_their_way(&self.answered().uncorrected, self.complete, self.elapsed_ns);
        Due {
            answered: self.complete,
            failed: self.latencies.count(|class| !class.is_answer()),
            unanswered: self.unanswered,
            behind: self.unanswered.saturating_sub(on_their_way),
        }
    }

    pub(crate) fn failures(&self, misses_are_good: bool) -> Failures {
        Failures::of(self.latencies.counts(), self.errors.connect, self.lost(), misses_are_good)
    }

    /// A request without an answer has waited at least for so long, also if its connection broke.
    pub(crate) fn all_that_was_due(&self) -> Histogram<u64> {
        let mut due = self.latencies.all().corrected;
        add(&mut due, &self.left.waited);
        due
    }

    /// What limited the result besides the server.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        let mut limits = Vec::new();
        let busiest = self.cpu_shares.iter().copied().fold(0.0, f64::max);
        if busiest >= BUSY_SHARE {
            limits.push(Limit::Cpu(busiest));
        }
        if !self.lateness.is_empty() {
            let late = self.lateness.value_at_percentile(99.0);
            if late >= LATE_NS {
                limits.push(Limit::Late(late));
            }
        }
        if let Some(share) = self.steal_share.filter(|share| *share >= STEAL_SHARE) {
            limits.push(Limit::Steal(share));
        }
        limits
    }
}
