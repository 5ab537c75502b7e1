//! The connections that other nodes make to this one.
//!
//! - `session`: one of them, its bytes and its memory; `dispatch`: which function serves each request; `input`: requests out of
//!   bytes; `asked`: a request in progress
//! - `requests`: the functions; `opened`: streams and uploads; `listing`: lists and hashes of what is stored
//! - `traces`: of which spans requests are parts
//! - `watch`: time-outs of peers that hold others up

mod asked;
mod dispatch;
mod input;
mod listing;
mod opened;
mod requests;
mod session;
mod traces;
mod watch;

pub use session::{PeerSocket, serve};
