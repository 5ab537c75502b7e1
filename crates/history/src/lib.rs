//! Checks whether what clients saw of one key could have happened one operation after the other (linearizability).
//!
//! - `register`: operations on a key and their answers, and what they do one after the other
//! - `search`: looks for an order; the algorithm of Wing and Gong, with Lowe's memory of what was tried
//!
//! An operation with an unknown outcome may have happened at any time after it began, or never.
#![forbid(unsafe_code)]

mod register;
mod search;

pub use register::{Input, Operation, Output, Register};
pub use search::{STEPS_MAX, Verdict, Violation, check};
