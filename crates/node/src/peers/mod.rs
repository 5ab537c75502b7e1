//! Other nodes: what this one asks of them, and what they ask of it.
//!
//! - `limits`: who there is, what they may cost
//! - `kept`: the list of nodes in the data directory
//! - `wire`: frames, requests, answers
//! - `cluster`: what is known of each peer; `cluster_clock`, `cluster_time`: what time it is by a majority of the nodes
//! - `own`: this node as one of the replicas, on one event loop
//! - `peers`: all of them, as one event loop reaches them; `ask`: one question; `stream`: many of one thing; `expiring`:
//!   requests that end in time
//! - `link`, `drive`, `dial`: the connection of an event loop to a peer, made when it is needed; `name`: where it is
//! - `keepalive`: connections whose other end is gone
//! - `session`: a connection that a peer made; `input`: requests out of bytes; `asked`: what is being served; `opened`: streams
//!   and uploads; `replica`: what is done for it
//! - `budget`: what all of these may hold of memory; `watch`: those that hold others up
//! - `settled`, `settler`, `durable`: what nodes say to each other about time, and keep on disk
//! - `outlook`: what requests may have to wait for; `statements`: how they say it; `exchange`: anti-entropy
//! - `listing`: what a peer is told of what there is here; `prune`: what was deleted while an older directory was not in use
//! - `pace`: how much of the node all of that may take
//! - `hints`: writes that are kept for peers that are away
//! - `report`: what `/v0/cluster` says; `samples`: what `/metrics` does
//! - `error`: why a peer did not answer

mod ask;
mod asked;
mod budget;
mod cluster;
mod cluster_clock;
mod cluster_time;
mod dial;
mod drive;
mod durable;
mod error;
mod exchange;
mod expiring;
mod hints;
mod input;
mod keepalive;
mod kept;
mod limits;
mod link;
mod listing;
mod name;
mod opened;
mod outlook;
mod own;
mod pace;
#[expect(clippy::module_inception, reason = "peers are what it is about")]
mod peers;
mod prune;
pub(crate) mod replica;
mod report;
mod samples;
mod session;
mod settled;
mod settler;
mod statements;
mod stream;
mod watch;
pub mod wire;

pub use ladoga_cluster::NodeList;

pub use kept::{Kept, KeptError, Provenance, check_files};
pub use limits::{Membership, PeerLimits};

pub(crate) use cluster::Cluster;
pub(crate) use error::PeerError;
pub(crate) use expiring::{Expires, Place};
pub(crate) use keepalive::KEEP_ALIVE;
pub(crate) use link::{PeerLink, Waiter};
pub(crate) use own::OwnReplica;
pub(crate) use pace::Pace;
pub(crate) use peers::Peers;
pub(crate) use report::report;
pub(crate) use session::{PeerSocket, serve};
pub(crate) use settled::Admitted;
pub(crate) use statements::hear;
pub(crate) use stream::RemoteStream;

/// What the connection is upgraded to.
pub(crate) const UPGRADE: &str = "ladoga-peer/3";
