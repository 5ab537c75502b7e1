//! The files by which a node knows who may do what.
//!
//! - `store`: the file of tokens, read and replaced as a whole
//! - `watched`: the file of a running node, read anew
//! - `open`: what a node is started with

mod open;
mod store;
mod watched;

pub(crate) use open::{check, open};
pub(crate) use store::TokenStore;
