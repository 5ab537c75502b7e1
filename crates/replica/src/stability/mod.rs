//! Up to which time writes have arrived everywhere, and what time it is by a majority of the nodes.
//!
//! - `cluster_clock`, `cluster_time`: what time it is
//! - `settled`: what nodes say to each other about time; `settler`: the thread that keeps it on disk
//! - `outlook`: what requests may have to wait for

mod cluster_clock;
mod cluster_time;
mod outlook;
mod settled;
mod settler;

pub(crate) use cluster_clock::ClusterClock;
pub(crate) use settled::{Admitted, Settled};
pub(crate) use settler::Settler;
