//! The connections that this node makes to others.
//!
//! - `peers`: all of them, as one event loop reaches them; `expiring`: requests that end in time
//! - `peer_link`, `drive`, `dial`: the connection of an event loop to a peer, made when it is needed
//! - `ask`: one question; `stream`: many of one thing; `error`: why a peer did not answer
//! - `traced`: spans of requests whose traces are recorded

mod ask;
mod dial;
mod drive;
mod error;
mod expiring;
mod peer_link;
mod peers;
mod stream;
mod traced;

pub(crate) use error::PeerError;
pub(crate) use expiring::{Expires, Place};
pub(crate) use peer_link::{PeerLink, Waiter};
pub(crate) use peers::Peers;
pub(crate) use stream::RemoteStream;
