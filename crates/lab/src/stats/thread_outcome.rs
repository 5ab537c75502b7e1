use hdrhistogram::Histogram;

use super::answers::Answers;
use super::connection_error::ConnectionError;
use super::latencies::{add, ns_histogram};
use super::unanswered::Unanswered;

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

/// What was sent and what came in the time that counts, from the end of the warm-up to the end of the schedule: what
/// rates are made of. A request that was due in that time may be answered after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InTime {
    pub(crate) sent: u64,
    /// Answers with a status of 2xx.
    pub(crate) good: u64,
    /// Answers with 503.
    pub(crate) busy: u64,
}

impl InTime {
    pub(crate) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.good += other.good;
        self.busy += other.busy;
    }
}

/// What one thread found. A warm-up is in none of the latencies, but in all other counts.
#[derive(Debug)]
pub(crate) struct ThreadOutcome {
    pub(crate) latencies: Answers,
    /// How late requests were sent that could have been sent in time: the generator's own fault.
    pub(crate) lateness: Histogram<u64>,
    pub(crate) in_time: InTime,
    /// Rates, in requests a second.
    pub(crate) samples: Vec<u64>,
    pub(crate) complete: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: Errors,
    /// Why the last attempt to connect failed.
    pub(crate) connect_error: Option<ConnectionError>,
    /// Why the last answer that could not be read was not.
    pub(crate) read_error: Option<ConnectionError>,
    pub(crate) cpu_ns: u64,
    pub(crate) elapsed_ns: u64,
    /// Due by the end, and without an answer; none in a closed loop.
    pub(crate) unanswered: u64,
    pub(crate) left: Unanswered,
}

impl ThreadOutcome {
    pub(crate) fn new() -> Self {
        Self {
            latencies: Answers::new(),
            lateness: ns_histogram(),
            in_time: InTime::default(),
            samples: Vec::with_capacity(1024),
            complete: 0,
            bytes: 0,
            errors: Errors::default(),
            connect_error: None,
            read_error: None,
            cpu_ns: 0,
            elapsed_ns: 0,
            unanswered: 0,
            left: Unanswered::new(),
        }
    }

    /// In a closed loop one of the two latencies was written down.
    pub(super) fn complete_latencies(&mut self, is_open_loop: bool) {
        if !is_open_loop {
            for latencies in self.latencies.each() {
                add(&mut latencies.uncorrected, &latencies.corrected);
            }
        }
    }

    /// What a thread had found when it did not end: what it is waiting for is not known.
    pub(crate) fn given_up(mut self: Box<Self>, is_open_loop: bool, elapsed_ns: u64) -> Box<Self> {
        if self.samples.is_empty() && elapsed_ns > 0 {
            self.samples.push((self.complete as f64 * 1e9 / elapsed_ns as f64) as u64);
        }
        self.complete_latencies(is_open_loop);
        self.elapsed_ns = elapsed_ns;
        self
    }
}
