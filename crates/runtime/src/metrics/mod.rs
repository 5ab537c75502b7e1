//! What event loops count.
//!
//! - `histogram`: durations in buckets of powers of two
//! - `loop_metrics`: the figures of one event loop, written by it alone
//! - `tail`: how slow the slowest requests are, lately

mod histogram;
mod loop_metrics;
mod tail;

pub use histogram::HistogramSum;
pub use loop_metrics::{CommandKind, LoopMetrics, Operation, Sums, Taken};
pub use tail::Tail;

use std::sync::Arc;

/// The figures of all event loops of a node.
#[derive(Debug)]
pub struct Metrics {
    /// By the number of the event loop.
    pub loops: Vec<Arc<LoopMetrics>>,
}

impl Metrics {
    /// Metrics for so many event loops.
    pub fn new(loops: usize) -> Metrics {
        Metrics { loops: (0..loops).map(|_| Arc::new(LoopMetrics::new())).collect() }
    }
}
