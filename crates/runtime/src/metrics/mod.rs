//! What event loops count.
//!
//! - `histogram`: durations in buckets of powers of two
//! - `kinds`: by which kinds some of the figures are told apart
//! - `loop_metrics`: the figures of one event loop, written by it alone
//! - `operation`: what requests ask for
//! - `tail`: how slow the slowest requests are, lately

mod histogram;
mod kinds;
mod loop_metrics;
mod operation;
mod tail;

pub use histogram::HistogramSum;
pub use kinds::{CommandKind, Taken};
pub use loop_metrics::{LoopMetrics, Sums, open_connections};
pub use operation::Operation;
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
        Metrics { loops: (0..loops).map(|number| Arc::new(LoopMetrics::new(number))).collect() }
    }
}
