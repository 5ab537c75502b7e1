//! Sockets: listening, event loops, connections and their time.
//!
//! - `node`: a running node: threads, stages, its end
//! - `listener`: listening sockets, one a loop
//! - `event_loop`: what one thread serves
//! - `acceptor`: which loop gets a connection
//! - `connection`: a connection from its first request to its last word
//! - `link`: its bytes and its state, as all who deal with it share them
//! - `socket`: its system calls
//! - `sweeper`: ends what waits for too long
//! - `stream`: answers that are too large for memory

mod acceptor;
mod connection;
mod event_loop;
mod link;
mod listener;
mod node;
mod socket;
mod stream;
mod sweeper;

pub(crate) use event_loop::{Core, EventLoop};
pub(crate) use link::Link;
pub(crate) use stream::{NoPieces, Streamed};

pub use listener::ListenError;
pub use node::{Node, StartError, StopError};
