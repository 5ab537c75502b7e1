//! A connection to a client, from its first byte to its last.
//!
//! - `core`: what all connections of an event loop share
//! - `link`: its bytes and its state, as all who deal with it share them
//! - `socket`: its system calls
//! - `stream`: answers that are too large for memory

mod core;
mod link;
mod socket;
mod stream;

pub use core::Core;
pub use link::Link;
pub(crate) use link::NoRequest;
pub(crate) use socket::Socket;
pub(crate) use stream::{SILENCE_MS_MAX, StreamError, Streamed, write_all, write_stream};
