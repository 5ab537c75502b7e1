//! The performance lab: a load generator that takes the command lines and the scripts of wrk and wrk2.
//!
//! - `bench`: the command, from its arguments to its exit code
//! - `cli`: the command line; `units`: numbers with units
//! - `load`: one run of the load generator
//! - [`generator`]: the same for programs that make their own requests
//! - `fill`: writes every key before it is read
//! - `engine`: threads, sockets, event loops
//! - `schedule`: when each request of an open loop is due
//! - `http`: the ends of requests, and the parts of answers
//! - `script`: wrk's Lua interface
//! - `workload`: built-in workloads
//! - `stats`: results of a run
//! - `slo`, `knee`: bounds, and the highest rate that holds them
//! - `output`: standard output and standard error
//! - `scratch`: a directory that is removed afterwards
//! - `report`: text, JSON, histogram log, live view
//! - `campaign`: `ladoga lab run`: a node of its own, run after run
//! - `record`: the content of a report
//! - [`page`]: the report as one HTML file, and what other programs make pages of
//! - `compare`: what changed between two reports
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic if nobody reads: `output` does not")]

mod bench;
mod campaign;
mod cli;
mod clock;
mod compare;
mod engine;
mod error;
mod files;
mod fill;
pub mod generator;
mod http;
mod knee;
mod load;
mod output;
pub mod page;
mod record;
mod report;
mod schedule;
mod scratch;
mod script;
mod slo;
mod stats;
mod stop;
mod units;
mod workload;

pub use bench::bench;
pub use campaign::{LabOptions as LabArguments, lab};
pub use cli::Options as BenchArguments;
pub use files::is_same_file;
pub use stop::SAME_WISH;
