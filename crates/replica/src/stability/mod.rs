//! Up to which time writes have arrived everywhere, and what time it is by a majority of the nodes.
//!
//! - `cluster_clock`, `cluster_time`: what time it is
//! - `state`: what nodes say to each other about time; `writer`: the thread that keeps it on disk
//! - `past`: what this node had of what met something newer
//! - `compared`: the tree over what is here, for peers that compare it with theirs
//! - `latest`: a value that changes; `outlook`: what requests may have to wait for

mod cluster_clock;
mod cluster_time;
mod compared;
mod latest;
mod outlook;
mod past;
mod state;
mod writer;

pub(crate) use cluster_clock::ClusterClock;
pub(crate) use latest::Latest;
pub(crate) use past::{Met, Past};
pub(crate) use state::{Admitted, Stability};
pub(crate) use writer::StabilityWriter;
