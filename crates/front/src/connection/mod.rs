//! A connection to a client, from its first byte to its last.
//!
//! - `core`: what all connections of an event loop share
//! - `ending`: how it ends before or behind its last answer
//! - `guest`: who asks
//! - `link`: its bytes and its state, as all who deal with it share them
//! - `socket`: its bytes, with TLS or without; `tcp`: its system calls; `handshake`: how TLS begins
//! - `drain`: what the other side takes while nothing more can be written; `unread`: what that holds of memory
//! - `upcoming`: what comes next on it; `together`: reads of different connections that come next
//! - `peer`: one that another node has made
//! - `stream`: answers that are too large for memory; `follow`: those that have no end

mod core;
mod drain;
mod ending;
mod follow;
#[cfg(test)]
mod follow_tests;
mod guest;
mod handshake;
mod link;
#[cfg(test)]
mod link_tests;
mod peer;
mod socket;
mod stream;
mod tcp;
mod together;
mod unread;
mod upcoming;

pub use core::Core;
pub(crate) use ending::{Ending, hear_out, yield_once};
pub(crate) use follow::{
    Following, Next, NoPlace, check_follower, stream_permit, wait_for_more, write_changes,
};
pub(crate) use guest::FetchedFile;
pub use handshake::handshakes;
pub(crate) use handshake::shake_hands;
pub use link::Link;
pub(crate) use socket::{Departure, Socket};
pub(crate) use stream::{
    SILENCE_MS_MAX, StreamError, Streamed, flush_unless_displaced, next_piece, wait_for_client, write_all,
    write_counted, write_stream,
};
pub(crate) use unread::Unread;
pub(crate) use upcoming::{NoRequest, Upcoming};
