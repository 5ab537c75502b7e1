//! Requests that several nodes have to answer: the machines of `ladoga_cluster`, driven.
//!
//! - `replicated`: the service of a node of a cluster
//! - `plan`: which nodes have to answer
//! - `alone`: writes that one node of a cluster has to answer alone
//! - `write`: a value that fits into memory, or a deletion
//! - `read`: a cell, and what it takes to keep its replicas alike
//! - `conditional`: what depends on what is there: a pure function of the newest cell
//! - `change`: such a function, carried out; `propose`: one ballot of it, `proposing`: what it waits for
//! - `forward`: has another node carry it out, while several are asked for the key; `forwarded`: what another node forwarded
//! - `fenced`: reads and writes that promises to one are in the way of
//! - `spread`: a value that does not fit into memory, to many nodes at once
//! - `target`: uploads such a value to one node; `handoff`: brings it to one that a hint is for
//! - `fetch`: reads it from one; `remote_pieces`: as a peer streams it; `held_pieces`: goes on at another one if that fails
//! - `take`: takes such a value over from one, for good
//! - `merge`: the entities of all nodes; `sources`: which nodes that has them from; `merged_value`: a large value among them
//! - `backup`: what a checkpoint and the log of this node are to those of the others
//! - `obstacles`: why a request would not be served now
//! - `standing`: what a request counts on until it is decided
//! - `starting`: waits for nodes that are starting
//! - `failures`: why a replica did not answer, as `ladoga_cluster` names it

mod alone;
mod backup;
mod change;
mod conditional;
mod failures;
mod fenced;
mod fetch;
mod forward;
mod forwarded;
mod handoff;
mod held_pieces;
mod merge;
mod merged_value;
mod obstacles;
mod plan;
mod propose;
mod proposing;
mod read;
mod remote_pieces;
mod replicated;
mod sources;
mod spread;
mod standing;
mod starting;
mod take;
mod target;
mod write;

pub(crate) use fenced::take_over;
pub(crate) use forwarded::decide_forwarded;
pub(crate) use handoff::{HandedOff, hand_off};
pub(crate) use remote_pieces::behind;
pub use replicated::Replicated;
pub(crate) use take::{ASK_AGAIN_AFTER_MS, NotTaken, take_large};
