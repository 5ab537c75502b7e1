//! The server: HTTP API, event loops, replication, the store behind them.
//!
//! - `node`: a running node, put together from the rest
//! - `server`: event loops and what arrives on them; `connection`: a connection to a client; `serve`: from its first
//!   request to its last word
//! - `http`: what is HTTP about a request and its answer
//! - `door`: what HTTP goes by; `handlers`: parse, ask the service, answer
//! - `store`: the narrow interface to the store, and the service of a node on its own
//! - `embedded`: the engine behind it
//! - `peers`: other nodes; `coordinate`: the service of a node of a cluster
//! - `metrics`: the figures of the node, as they are told
//! - `profiling`: profiles of this process, taken on threads of their own
//! - `versions`: the hybrid clock of a node
//!
//! A write: connection → route → parse → admission → version → commit → acknowledge. A read: connection → route →
//! parse → memory, or else the disk → answer. Nothing blocks an event loop.
#![forbid(unsafe_code)]

mod config;
mod connection;
mod coordinate;
mod door;
pub mod embedded;
mod handlers;
mod http;
mod metrics;
mod node;
pub mod peers;
mod profiling;
mod serve;
mod server;
pub mod store;
mod versions;

pub use config::Config;
pub use ladoga_runtime::{Panicked, Vital};
pub use node::{Node, StopError};
pub use server::{Limits, ListenError, StartError};
