//! What the node counts about itself, as it is told to others.
//!
//! - `text`: the format of Prometheus
//! - `report`: what `/metrics` answers

mod report;
mod text;

pub(crate) use report::report;
