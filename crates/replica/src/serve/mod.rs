//! The connections that other nodes make to this one.
//!
//! - `session`: one of them, its bytes and its memory; `dispatch`: what becomes of each request;
//!   `input`: requests out of bytes; `asked`: what is being served
//! - `requests`: what is done for it; `opened`: streams and uploads; `listing`: what there is here
//! - `watch`: those that hold others up

mod asked;
mod dispatch;
mod input;
mod listing;
mod opened;
mod requests;
mod session;
mod watch;

pub use session::{PeerSocket, serve};
