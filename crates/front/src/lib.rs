//! The ways in to the service. Each parses, calls one function of [`ladoga_service::KeyValue`], and answers.
//!
//! - `http`: the HTTP part of a request and its answer
//! - `connection`: a connection to a client
//! - `admin`: requests of operators and other nodes: status, metrics, profiles, the cluster
//! - `auth`: who may do what
//! - `door`: what the requests of an event loop share
//! - `handlers`: parse, ask the service, answer
//! - `traced`: requests whose traces are recorded
//! - `slow`: the log of slow requests
//! - `serve`: a connection from its first request to its last word
//! - `resp`: the same for the protocol of Redis
//! - `entrances`: both, on one event loop
//! - `fuzzing`: decoders, for fuzz targets
#![forbid(unsafe_code)]

mod admin;
mod auth;
mod connection;
mod door;
mod entrances;
pub mod fuzzing;
mod handlers;
mod http;
mod resp;
mod serve;
mod slow;
mod traced;

pub use auth::{Access, Audit, AuditLog, Guard, Hosts};
pub use connection::{Core, Link, handshakes};
pub use door::{ClusterDoor, Door, Opening};
pub use entrances::{Client, Entrances};
pub use resp::{Cursors, RespDoor, RespSettings};
