//! The server: HTTP API, event loops, admission, the commit queue.
//!
//! - `server`: sockets, event loops, connections and their time
//! - `http`: what is HTTP about a request and its answer
//! - `handlers`: what the node does with a request
//! - `store`: the narrow interface to the store
//! - `embedded`: the engine behind it
//! - `peers`: other nodes; `coordinate`: a request that several nodes have to answer
//! - `metrics`: what the node counts about itself
//! - `profiling`: profiles of this process, taken on threads of their own
//! - `versions`: the hybrid clock of the node; `cluster_time`: what time it is by a majority of the nodes
//! - `fair`: bounds that are shared fairly: who is let in, who gives way, who is refused
//! - `vital`: what must not panic
//!
//! A write: connection → route → parse → admission → version → commit → acknowledge. A read: connection → route →
//! parse → memory, or else the disk → answer. Nothing blocks an event loop.
#![forbid(unsafe_code)]

mod cluster_time;
mod config;
mod coordinate;
pub mod embedded;
mod fair;
mod handlers;
mod http;
mod metrics;
pub mod peers;
mod profiling;
mod server;
pub mod store;
mod versions;
mod vital;

pub use config::{Config, Limits};
pub use server::{ListenError, Node, StartError, StopError};
pub use vital::{Panicked, Vital};
