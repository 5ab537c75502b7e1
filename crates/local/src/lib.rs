//! The store of one node, as event loops reach it, and the service of a node on its own.
//!
//! - `store`: the narrow interface to a store: point read, apply versioned cells, stream a range, statistics
//! - `embedded`: the engine behind it
//! - `one_node`: the service of a node that answers alone; the one local write; `one_write`: one that is under
//!   way; `admission`: how a node admits its own writes
//! - `fuzzing`: what fuzzers call
//! - `distinct_keys`: the keys of writes that happen all or none
//! - `versions`: the hybrid clock that they get their versions from; `lone_versions`: how they and decisions inside the commit
//!   come in one order
#![forbid(unsafe_code)]

mod admission;
mod distinct_keys;
pub mod embedded;
pub mod fuzzing;
mod lone_versions;
mod one_node;
mod one_write;
pub mod store;
mod versions;

pub use admission::{Admission, StampOfUpdate};
pub use lone_versions::LoneVersions;
pub use one_node::OneNode;
pub use versions::VersionClock;
