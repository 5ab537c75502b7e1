//! The store of one node, as event loops reach it, and the service of a node on its own.
//!
//! - `store`: the narrow interface to a store: point read, apply versioned cells, stream a range, statistics
//! - `embedded`: the engine behind it
//! - `one_node`: the service of a node that answers alone; the one local write
//! - `admission`: how a node gives its own writes their versions, and lets them in; `versions`: its hybrid clock
#![forbid(unsafe_code)]

mod admission;
pub mod embedded;
mod one_node;
pub mod store;
mod versions;

pub use admission::Admission;
pub use one_node::OneNode;
pub use versions::VersionClock;
