//! Many nodes with the same keys, and the service of one of them.
//!
//! - `wire`: frames, requests, answers
//! - `membership`: the list of nodes
//! - `stability`: up to which time writes have arrived everywhere, and the time that counts
//! - `hints`: writes that are kept for peers that are away
//! - `fences`: what this node has promised to conditional writes
//! - `bounds`: what peers and repair may take of a node
//! - `cluster`: all of that, as the event loops of a node share it
//! - `link`: the connections that this node makes to others
//! - `own`: this node as one of the replicas, on one event loop
//! - `coordinate`: a request that several nodes have to answer; the service of a node of a cluster
//! - `serve`: the connections that other nodes make to this one
//! - `sync`: repair of nodes that missed something
//!
//! `planted` has the bugs that the simulation plants, `simulated` a node for it.
//!
//! Each names only those above it. A write: `coordinate::Replicated::put` → `coordinate::write` → `link` to the others and
//! `own::replica` here → on the others `serve::session` → `serve::requests` → their `own::replica`.
#![forbid(unsafe_code)]

mod bounds;
mod cluster;
mod coordinate;
mod fences;
mod hints;
mod link;
mod membership;
mod own;
mod planted;
mod serve;
#[cfg(feature = "simulation")]
pub mod simulated;
mod stability;
mod sync;
pub mod wire;

pub use ladoga_cluster::NodeList;

pub use cluster::{Cluster, check_files, leave_list};
pub use coordinate::Replicated;
pub use membership::{Membership, MembershipError, MembershipFile, PeerLimits, Provenance};
pub use own::{Bounds, OwnReplica};
pub use serve::{PeerSocket, serve};
pub use sync::start;

/// What the connection of a peer is upgraded to.
pub const UPGRADE: &str = "ladoga-peer/3";
