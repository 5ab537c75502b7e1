//! What the node counts about itself.
//!
//! - `histogram`: durations in buckets of powers of two
//! - `loop_metrics`: the figures of one event loop, written by it alone
//! - `tail`: how slow the slowest requests are, lately
//! - `text`: the format of Prometheus
//! - `report`: what `/metrics` answers

mod histogram;
mod loop_metrics;
mod report;
mod tail;
mod text;

pub(crate) use loop_metrics::{LoopMetrics, Operation, Taken};
pub(crate) use report::report;
pub(crate) use tail::Tail;

use std::sync::Arc;

/// The figures of a node.
pub(crate) struct Metrics {
    pub(crate) loops: Vec<Arc<LoopMetrics>>,
}

impl Metrics {
    pub(crate) fn new(loops: usize) -> Metrics {
        Metrics { loops: (0..loops).map(|_| Arc::new(LoopMetrics::new())).collect() }
    }
}
