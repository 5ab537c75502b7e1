//! The load generator for programs that make their own requests: one thread, an open loop or a closed one.
//!
//! In an open loop request `i` is due at `start + i / rate`, whether the server keeps up or not, and its latency counts
//! from then. What a slow answer delays is part of the latency, and so is what never got an answer or could not even be
//! sent: no coordinated omission.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::engine::{Crew, Ending, Maker, Plan, Requests, Source, Station, Watcher};
use crate::error::{LabError, Outcome};
use crate::http::Batch;
pub use crate::http::Method;
use crate::stats::{self, Class, Latencies, Second};

/// How fast requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Open loop: this many a second, whatever the server does.
    PerSecond(f64),
    /// Closed loop: the next one when an answer is there. For throughput only.
    Closed,
}

/// Where requests go, how fast, for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drive {
    /// Of the server.
    pub address: SocketAddr,
    /// Kept open; one that breaks is opened again.
    pub connections: usize,
    /// How many requests may be on their way on one connection.
    pub pipeline: usize,
    /// How fast.
    pub pace: Pace,
    /// Sent at full pace, not counted.
    pub warmup: Duration,
    /// How long requests are due after the warm-up.
    pub duration: Duration,
    /// An answer that takes longer is given up, and its connection with it.
    pub timeout: Duration,
}

/// Appends the next request. False if there are no more, which ends the run.
pub type NextRequest = Box<dyn FnMut(&mut Vec<u8>) -> bool + Send>;

/// Sends what `next` makes until the time is over or there is no more, and then waits for the missing answers. The error is
/// complete in itself, for a person to read.
pub fn run(drive: &Drive, next: NextRequest) -> Result<Measured, String> {
    let measured = measure(drive, next).map_err(|error| error.to_string())?;
    if measured.answered == 0 {
        return Err(format!("{} did not answer a single request", drive.address));
    }
    Ok(measured)
}

fn measure(drive: &Drive, next: NextRequest) -> Outcome<Measured> {
    if drive.connections == 0 || drive.pipeline == 0 {
        return Err(LabError::Usage(
            "a load needs at least one connection, and a pipeline of one".to_owned(),
        ));
    }
    let warmup_ns = drive.warmup.as_nanos() as u64;
    let plan = Plan {
        threads: 1,
        connections: drive.connections,
        pipeline: drive.pipeline,
        duration_ns: warmup_ns + drive.duration.as_nanos() as u64,
        warmup_ns,
        timeout_ns: drive.timeout.as_nanos() as u64,
        rate: match drive.pace {
            Pace::PerSecond(rate) => Some(rate),
            Pace::Closed => None,
        },
        ending: Ending::Drain,
        is_batch_latency: false,
        misses_are_good: false,
    };
    let maker = Box::new(OwnRequests { address: drive.address, next });
    let mut crew = Crew::muster(plan, vec![maker], &Arc::new(AtomicBool::new(false)))?;
    crew.wait_ready()?;
    let outcome = crew.go(&mut Unwatched)?;
    crew.dismiss();
    Ok(Measured::new(plan, outcome))
}

struct OwnRequests {
    address: SocketAddr,
    next: NextRequest,
}

impl Maker for OwnRequests {
    fn make(self: Box<Self>) -> Outcome<Station> {
        let address = self.address;
        Ok(Station { address, tls: None, source: Source::made(self), afterwards: Box::new(|| {}) })
    }
}

impl Requests for OwnRequests {
    fn next(&mut self, _connection: usize, out: &mut Vec<u8>) -> Outcome<Option<Batch>> {
        let start = out.len();
        if (self.next)(out) {
            return Ok(Some(Batch::single(&out[start..])));
        }
        out.truncate(start);
        Ok(None)
    }
}

/// Nobody watches the seconds.
struct Unwatched;

impl Watcher for Unwatched {
    fn second(&mut self, _second: &Second, _latencies: &Histogram<u64>) {}
}

/// What a run found. Everything is of the requests that became due after the warm-up, if it does not say otherwise.
#[derive(Debug)]
pub struct Measured {
    outcome: stats::RunOutcome,
    /// From the end of the warm-up to the end of the schedule.
    pub elapsed: Duration,
    /// Requests that were sent in that time, whenever they were due; good answers and answers with 503 that came in it.
    pub sent_in_time: u64,
    /// See [`Measured::sent_in_time`].
    pub good_in_time: u64,
    /// See [`Measured::sent_in_time`].
    pub busy_in_time: u64,
    /// Of the whole run, warm-up included.
    answered: u64,
    /// What the generator's thread used, warm-up included.
    pub generator_cpu: Duration,
}

impl Measured {
    fn new(plan: Plan, outcome: stats::RunOutcome) -> Self {
        let counted_ns = outcome.elapsed_ns.min(plan.duration_ns).saturating_sub(plan.warmup_ns);
        Self {
            elapsed: Duration::from_nanos(counted_ns.max(1)),
            sent_in_time: outcome.in_time.sent,
            good_in_time: outcome.in_time.good,
            busy_in_time: outcome.in_time.busy,
            answered: outcome.complete,
            generator_cpu: Duration::from_nanos(outcome.cpu_ns),
            outcome,
        }
    }

    /// A count of the measured time, per second.
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.elapsed.as_secs_f64()
    }

    /// Every request that was due, those without an answer included: for them it is how long they had waited in vain.
    pub fn all(&self) -> Figures {
        Figures(self.outcome.latencies.all())
    }

    /// Requests of a method with a good answer.
    pub fn good(&self, method: Method) -> Figures {
        Figures(self.outcome.latencies.sum(|class, own| class == Class::Success && own == method))
    }

    /// Requests with an answer of this status, which is not one of 2xx.
    pub fn status(&self, status: u16) -> Figures {
        Figures(self.outcome.latencies.of(Class::Status(status)))
    }

    /// Requests without a good answer, and connections that could not be made.
    pub fn bad(&self) -> u64 {
        self.outcome.latencies.count(|class| class != Class::Success) + self.outcome.errors.connect
    }

    /// Requests that were due, and not even sent when the time was over.
    pub fn unsent(&self) -> u64 {
        self.outcome.count(Class::Unsent)
    }

    /// How late requests were sent that could have been sent in time, in milliseconds: the generator's own fault.
    pub fn lateness_ms(&self, percentile: f64) -> f64 {
        milliseconds(&self.outcome.lateness, percentile)
    }
}

/// The latencies of some of the requests.
#[derive(Debug)]
pub struct Figures(Latencies);

impl Figures {
    /// How many requests they are of.
    pub fn count(&self) -> u64 {
        self.0.corrected.len()
    }

    /// A percentile from when requests were due, in milliseconds; NaN if there were none.
    pub fn from_due_ms(&self, percentile: f64) -> f64 {
        milliseconds(&self.0.corrected, percentile)
    }

    /// A percentile from when requests were sent, in milliseconds; NaN if there were none.
    pub fn from_sent_ms(&self, percentile: f64) -> f64 {
        milliseconds(&self.0.uncorrected, percentile)
    }
}

fn milliseconds(histogram: &Histogram<u64>, percentile: f64) -> f64 {
    if histogram.is_empty() { f64::NAN } else { histogram.value_at_percentile(percentile) as f64 / 1e6 }
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
