//! Bounds that clients share fairly: memory for values that are being received, and the number of uploads and streams.
//!
//! - `address`: whom a share belongs to
//! - `rate`: how fast a client makes progress while the node waits for it
//! - `candidates`: which of those who may have to give way do
//! - `share`: decides who is admitted and who gives way; pure
//! - `gate`: the same for tasks of several threads

mod address;
mod candidates;
mod gate;
mod rate;
mod share;
#[cfg(test)]
mod share_tests;

pub use address::Address;
pub use gate::{Displaced, Gate, OverCapacity, Permit};
pub use share::HEALTHY_BYTES_PER_SECOND;
