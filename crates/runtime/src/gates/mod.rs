//! What clients share fairly: the room for values on their way in, and the places of uploads and of streams.
//!
//! - `address`: whom a share belongs to
//! - `rate`: how fast the other side makes progress while it is waited for
//! - `share`: who is let in, and who gives way; decides, and does nothing
//! - `gate`: the same for tasks of several threads

mod address;
mod gate;
mod rate;
mod share;
#[cfg(test)]
mod share_tests;

pub use address::Address;
pub use gate::{Displaced, Gate, OverCapacity, Permit};
