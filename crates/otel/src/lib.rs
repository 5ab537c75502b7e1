//! Exports spans of recorded traces to a collector, by OTLP over HTTP, on a thread of its own. The encoding and what is tried again are
//! the crates' of OpenTelemetry.
//!
//! - `convert`: spans as these crates have them
//! - `client`: their requests, by the client that backups in buckets use
//! - `exporter`: the thread
#![forbid(unsafe_code)]

mod client;
mod convert;
mod exporter;

pub use client::ExportTls;
pub use exporter::{ExportSettings, Exporter, StartError};
