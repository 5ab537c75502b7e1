//! Real nodes of Cassandra on this machine, for tests and to try.
//!
//! - `jars`: Cassandra itself, from Maven Central, kept between runs; the Java that runs it
//! - `yaml`: what a node is configured with; `options`: what its Java is started with
//! - `network`: addresses of this machine that no other nodes have
//! - `node`: a process that is started, frozen, killed and started again; `nodes`: several of them
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "a development tool starts processes and waits for them; env::Disk and env::Clock are for the store"
)]

mod jars;
mod network;
mod node;
mod nodes;
mod options;
mod yaml;

pub use jars::Installed;
pub use node::Node;
pub use nodes::Nodes;
pub use yaml::{CommitLogSync, Login, Room, Setup};
