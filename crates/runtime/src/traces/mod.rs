//! Spans of the requests whose traces are recorded.
//!
//! - `span`: what is recorded of a span
//! - `queue`: where spans come out, in batches
//! - `record`: which requests are recorded, and the bounded way to whoever exports the spans

mod queue;
mod record;
mod span;

pub use queue::SpanQueue;
pub use record::{Sampling, SpanFigures, Traces};
pub use span::{AttributeValue, Attributes, OpenSpan, Span, SpanFacts, SpanKind};
