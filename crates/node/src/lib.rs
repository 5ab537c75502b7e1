//! A node put together: configuration → store → service → the ways in; its supervision and its end.
//!
//! A write: `ladoga_server` accepts → `ladoga_front` parses → `KeyValue::put` of `ladoga_local`, or of `ladoga_replica`,
//! which asks replicas → commit → acknowledge. A read: the same as far as `KeyValue::get` → memory, or else the disk →
//! answer. Nothing blocks an event loop.
//!
//! - `node`: a node with a store, on its own or of a cluster; `stateless`: a door to Cassandra
//! - `loops`: what the event loops of either share; `config`: what they are started with
#![forbid(unsafe_code)]

mod config;
mod loops;
mod node;
#[cfg(feature = "cassandra")]
mod stateless;

pub use config::Config;
#[cfg(feature = "cassandra")]
pub use ladoga_cassandra as cassandra;
pub use ladoga_front::{Access, Audit, AuditLog, Guard, Hosts, RespSettings};
pub use ladoga_local::{embedded, store};
pub use ladoga_replica as peers;
pub use ladoga_runtime::{Panicked, Sampling, Supervisor, Traces};
pub use ladoga_server::{Limits, ListenError, Placement, StartError};
pub use node::{Node, StopError};
#[cfg(feature = "cassandra")]
pub use stateless::Stateless;
