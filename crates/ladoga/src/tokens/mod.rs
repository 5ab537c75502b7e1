//! The files by which a node knows who may do what.
//!
//! - `store`: the file of tokens, read and replaced as a whole
//! - `watch`: what has a running node read it anew
//! - `open`: what a node is started with

mod open;
mod store;
mod watch;

pub(crate) use open::{check, open};
pub(crate) use store::TokenStore;
