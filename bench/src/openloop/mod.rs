//! A load generator that keeps to a schedule: request `i` is due at `start + i / rate`, whether the server keeps up or
//! not, and its latency counts from then. What a slow answer delays is part of the latency (no coordinated omission).
//!
//! | module | is |
//! | --- | --- |
//! | [`plan`] | what to send, how fast, for how long |
//! | [`schedule`] | when the n-th request is due, and on which connection |
//! | [`workload`] | the requests themselves |
//! | [`connection`] | one socket: what is on its way on it |
//! | [`driver`] | the loop: release what is due, send, receive, record |
//! | [`report`] | latencies by class of answer, and how well the generator itself kept time |
//!
//! Request `i` belongs to connection `i mod connections`, as in wrk2. A connection has one request on its way (or
//! `pipeline` many); what becomes due meanwhile waits, and the waiting counts.

mod connection;
mod driver;
mod plan;
mod report;
mod schedule;
#[cfg(test)]
mod tests;
mod workload;

pub(crate) use driver::run;
pub(crate) use plan::{Pace, Plan};
pub(crate) use report::{Class, Report};
