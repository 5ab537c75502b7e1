//! The performance lab: a load generator that takes the command lines and the scripts of wrk and wrk2.
//!
//! - `bench`: the command, from its arguments to its exit code
//! - `cli`: what a person types
//! - `engine`: threads, sockets, event loops
//! - `schedule`: when each request of an open loop is due
//! - `http`: where a request ends, and what an answer was
//! - `script`: wrk's Lua interface
//! - `workload`: built-in workloads
//! - `stats`: what a run found
//! - `slo`, `knee`: bounds, and the highest rate that holds them
//! - `report`: text, JSON, histogram log, live view
#![forbid(unsafe_code)]

mod bench;
mod cli;
mod clock;
mod engine;
mod error;
mod files;
mod http;
mod knee;
mod report;
mod schedule;
mod script;
mod slo;
mod stats;
mod workload;

pub use bench::bench;
pub use cli::Options as BenchArguments;
