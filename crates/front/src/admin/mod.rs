//! What operators ask a node for.
//!
//! - `metrics`: what the node, its store and its cluster count
//! - `exposition`: how `/metrics` writes that
//! - `accept`: which of its formats a request prefers

mod accept;
mod exposition;
mod metrics;

pub(crate) use exposition::Exposition;
pub(crate) use metrics::loop_metrics;
