//! Up to which time writes have arrived everywhere, and the time by a majority of the nodes.
//!
//! - `arrivals`: both, for those who follow the changes of this node
//! - `cluster_clock`, `cluster_time`: the time
//! - `state`: what nodes report to each other; `writer`: the worker that keeps it on disk
//! - `passes`: what this node pulls from its peers, and when
//! - `past`: which versions this node had, of those that met something newer
//! - `lost_disks`: which nodes lost theirs, for requests that counted on them
//! - `compared`: the Merkle tree over the store, for peers that compare it with theirs
//! - `latest`: a value that changes; `outlook`: what requests may have to wait for

mod arrivals;
mod cluster_clock;
mod cluster_time;
mod compared;
mod latest;
mod lost_disks;
mod outlook;
mod passes;
mod past;
mod state;
mod writer;

pub(crate) use arrivals::ClusterArrivals;
pub(crate) use cluster_clock::ClusterClock;
pub(crate) use latest::Latest;
pub(crate) use lost_disks::DisksLost;
pub(crate) use past::Met;
pub(crate) use state::{Admitted, Stability};
pub(crate) use writer::StabilityWriter;
