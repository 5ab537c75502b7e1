//! What changed between two reports, or between two servers of one report, and what is only noise.
//!
//! - `figures`: the figures that are compared: those of whole runs, by round
//! - `permutation`: the significance test
//! - `profiles`: differences of profiles
//! - `judge`: verdicts over all figures of a comparison
//! - `settings`: other differences, and disturbances
//! - `command`: from reports to text and page
//! - `text`: the text

mod command;
mod figures;
mod judge;
mod permutation;
mod profiles;
mod settings;
mod text;

pub(crate) use command::{Profiles, compare, compare_servers};
pub(crate) use text::print;

/// With so many rounds a change of 5 % is found nine times in ten on a machine whose rounds differ by up to 4 % in the
/// median latency and by 2.5 % in the CPU time, as the simulation in `judge_tests.rs` shows.
pub(crate) const ROUNDS_DEFAULT: u64 = 10;
