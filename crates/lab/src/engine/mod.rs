//! The load generator: threads, each with its own event loop, its own connections and its own histograms.
//!
//! - `worker`: the event loop of one thread
//! - `lifecycle`: how it opens connections and gives them up
//! - `connection`: one socket and the request that is on its way there
//! - `pacer`: how long to sleep so as to wake up in time
//! - `alarm_clock`: ends a sleep in time
//! - `timers`: what is to be done later
//! - `source`: where requests come from
//! - `run`: starts the threads, collects what they found

mod alarm_clock;
mod connection;
mod lifecycle;
mod pacer;
mod run;
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
    pub(crate) duration_ns: u64,
    pub(crate) timeout_ns: u64,
    /// Requests a second, of all threads, in an open loop; none in a closed one.
    pub(crate) rate: Option<f64>,
    /// Write down the latency of whole pipelined batches instead of that of each answer.
    pub(crate) is_batch_latency: bool,
}
