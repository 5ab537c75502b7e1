//! Sockets: listening, event loops, connections and their time.
//!
//! - `node`: a running node: threads, stages, its end
//! - `listener`: listening sockets, one a loop
//! - `event_loop`: what one thread serves
//! - `acceptor`: which loop gets a connection
//! - `connection`: a connection from its first request to its last word
//! - `link`: the socket, as hyper and everybody else share it
//! - `socket`: its system calls
//! - `read_ahead`: what has arrived and was not used yet
//! - `meter`: how much has arrived
//! - `progress`: who waits for whom, and since when
//! - `sweeper`: ends what waits for too long
//! - `stream`: answers written past hyper

mod acceptor;
mod connection;
mod event_loop;
mod link;
mod listener;
mod meter;
mod node;
mod progress;
mod read_ahead;
mod socket;
mod stream;
mod sweeper;

pub(crate) use event_loop::{Core, EventLoop};
pub(crate) use link::Link;
pub(crate) use stream::{NoPieces, Streamed, Takeover};

pub use listener::ListenError;
pub use node::{Node, StartError, StopError};
