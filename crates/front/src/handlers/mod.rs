//! What a node does with a request. A request is one short chain of calls, in the order in which they happen.
//!
//! - `service`: the way in: which operation, and for what; an answer, now or later
//! - `entity`: reads and deletes an entity
//! - `put`: stores a value that fits into memory
//! - `upload`: stores one that does not
//! - `value`: reads a value from the connection
//! - `range`: streams entities
//! - `profile`: takes a profile of the node
//! - `status`: says how the node is
//! - `cluster`: says how its cluster is, and lets other nodes in

mod cluster;
mod entity;
mod profile;
mod put;
mod range;
mod service;
mod status;
mod upload;
mod value;

pub(crate) use service::{Outcome, Reply, handle};
