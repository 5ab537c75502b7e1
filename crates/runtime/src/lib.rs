//! What all parts of a running node share: stores, replication and connections alike.
//!
//! - `supervisor`: tasks and threads that a node cannot do without
//! - `loop_context`: clock, metrics and shutdown of one event loop
//! - `gates`: bounds that are shared fairly: who is admitted, who gives way, who is refused
//! - `hot`: the keys and prefixes that clients ask for most
//! - `line_limit`: how many lines a second a log has of what strangers do
//! - `keepalive`: when the connection of a peer counts as dead
//! - `one_shot`: an answer for one task of an event loop
//! - `metrics`: the figures of event loops, each written by its own thread
//! - `traces`: spans of the requests whose traces are recorded, on their way to whoever exports them
//!
//! It stands below the stores, so that a store can start supervised tasks; and apart from `service`, which needs no
//! clock and no threads.
#![forbid(unsafe_code)]

mod gates;
mod hot;
mod keepalive;
mod line_limit;
mod loop_context;
mod metrics;
mod one_shot;
mod supervisor;
mod traces;

pub use gates::{Address, Displaced, Gate, HEALTHY_BYTES_PER_SECOND, OverCapacity, Permit};
pub use hot::{AccessKind, HotKeys, HotList, HotName, HotReport};
pub use keepalive::KEEP_ALIVE;
pub use line_limit::LineLimit;
pub use loop_context::{LoopContext, SCRATCH_BYTES};
pub use metrics::{
    CommandKind, HistogramSum, LoopMetrics, Metrics, Operation, Sums, Tail, Taken, open_connections,
};
pub use one_shot::OneShot;
pub use supervisor::{Panicked, Supervisor};
pub use traces::{
    AttributeValue, Attributes, OpenSpan, Sampling, Span, SpanFacts, SpanFigures, SpanKind, SpanQueue, Traces,
};
