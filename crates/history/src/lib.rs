//! Whether what clients saw of one key could have happened one operation after the other.
//!
//! - `operation`: what a client asked, from when to when, and what it was told
//! - `register`: what a key does, one operation after the other
//! - `search`: looks for an order; the algorithm of Wing and Gong, with Lowe's memory of what was tried
//!
//! An operation of which nobody knows what became of it may have happened at any time after it began, or never.
#![forbid(unsafe_code)]

mod operation;
mod register;
mod search;

pub use operation::Operation;
pub use register::{Input, Output, Register};
pub use search::{STEPS_MAX, Verdict, check};
