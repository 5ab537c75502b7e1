//! What a run found: latencies by class of answer, rates over time, the generator's own condition.

mod answers;
mod class;
mod connection_error;
mod cpu;
mod due;
mod failures;
mod interval;
mod latencies;
mod outcome;
mod recorder;
mod samples;
mod thread_outcome;
mod unanswered;

pub(crate) use class::{Class, ERROR_KINDS, NO_ANSWER};
pub(crate) use connection_error::ConnectionError;
pub(crate) use cpu::{StealMeter, busy_ticks, thread_cpu_ns};
pub(crate) use due::Due;
pub(crate) use failures::Failures;
pub(crate) use interval::{HELD_S, INTERVAL_NS, INTERVALS_HELD, Interval, Over, SECOND_NS, Second, Seconds};
#[cfg(test)]
pub(crate) use latencies::ns_histogram;
pub(crate) use latencies::{Latencies, in_micros};
pub(crate) use outcome::{Limit, RunOutcome};
pub(crate) use recorder::{Lent, Recorder};
pub(crate) use samples::Samples;
pub(crate) use thread_outcome::ThreadOutcome;
pub(crate) use unanswered::Unanswered;
