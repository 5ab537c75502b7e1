//! A connection to a client, from its first byte to its last.
//!
//! - `core`: what all connections of an event loop share; `builders`: how hyper is to speak HTTP
//! - `link`: the socket, as hyper and everybody else share it
//! - `socket`: its system calls
//! - `read_ahead`: what has arrived and was not used yet
//! - `meter`: how much has arrived
//! - `progress`: who waits for whom, and since when
//! - `stream`: answers written past hyper

mod builders;
mod core;
mod link;
mod meter;
mod progress;
mod read_ahead;
mod socket;
mod stream;

pub use core::Core;
pub use link::Link;
pub(crate) use link::LinkIo;
pub(crate) use progress::Overdue;
pub(crate) use stream::{StreamError, Streamed, Takeover, write_all, write_stream};
