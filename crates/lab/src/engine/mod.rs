//! The load generator: threads, each with its own event loop, its own connections and its own histograms.
//!
//! - `worker`: the event loop of one thread
//! - `sending`, `receiving`: how it sends requests and takes answers
//! - `lifecycle`: opens and gives up connections
//! - `connection`: one socket and its requests in flight
//! - `secure`: TLS over that socket
//! - `left`: what has no answer at the end
//! - `pacer`: how long to sleep so as to wake up in time
//! - `alarm_clock`: ends a sleep in time
//! - `timers`: what is due later
//! - `source`: where requests come from
//! - `run`: starts the threads, collects their results

mod alarm_clock;
mod connection;
mod left;
mod lifecycle;
mod pacer;
mod receiving;
mod run;
mod secure;
mod sending;
mod source;
mod timers;
mod worker;

pub(crate) use run::{Crew, Watcher};
pub(crate) use source::{Fixed, Maker, Requests, Source, Station};

/// What all threads have to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    pub(crate) threads: usize,
    /// Of all threads.
    pub(crate) connections: usize,
    /// Batches of requests that may be on their way on one connection.
    pub(crate) pipeline: usize,
    /// How long requests are due.
    pub(crate) duration_ns: u64,
    /// The part of the duration at its beginning that is not counted.
    pub(crate) warmup_ns: u64,
    pub(crate) timeout_ns: u64,
    /// Requests a second, of all threads, in an open loop; none in a closed one.
    pub(crate) rate: Option<f64>,
    pub(crate) ending: Ending,
    /// Write down the latency of whole pipelined batches instead of that of each answer.
    pub(crate) is_batch_latency: bool,
    /// A read that found nothing is no error of its second.
    pub(crate) misses_are_good: bool,
}

/// What happens to requests without an answer when the time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// They are only counted, as wrk has it.
    Cut,
    /// Requests in flight are waited for. Requests that were due and could not be sent may still go out for a moment, and the
    /// rest of them count with the time that they have waited. A run also ends when there are no more requests.
    Drain,
}

/// What was due when the time was over and waits for its connection may still go out for so long.
const GRACE_NS: u64 = 100_000_000;

impl Plan {
    /// From when on nothing is sent.
    fn last_send_ns(&self) -> u64 {
        match (self.ending, self.rate) {
            (Ending::Drain, Some(_)) => self.duration_ns + GRACE_NS,
            _ => self.duration_ns,
        }
    }
}
