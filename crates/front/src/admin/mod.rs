//! What operators and other nodes ask a node for, beside its data.
//!
//! - `status`: whether the node serves, and `/metrics`
//! - `probes`: whether it lives, and whether it would serve a request now
//! - `metrics`: what the event loops count
//! - `exposition`: how `/metrics` writes what the node, its store and its cluster count
//! - `accept`: which of its formats a request prefers
//! - `cluster`: the state of the cluster, its repair, and the way in for other nodes
//! - `hot`: the keys and prefixes that clients ask for most
//! - `profile`: profiles of this process; `profiling`: how they are taken, on threads of their own

mod accept;
mod cluster;
mod exposition;
mod hot;
mod metrics;
mod probes;
mod profile;
mod profiling;
mod status;

use exposition::Exposition;
use metrics::{loop_metrics, span_metric};

pub(crate) use cluster::{admit_peer, cluster, repair};
pub(crate) use hot::hot;
pub(crate) use probes::{live, ready};
pub(crate) use profile::profile;
pub(crate) use status::{metrics, status};
