//! Clusters of real processes on this machine: what a request with `ack` and `from` promises while nodes are stopped,
//! killed, frozen and restarted.
//!
//! - `cluster`: nodes that are started together
//! - `replicas`: who has a copy, and who has to answer
//! - `outages`: nodes that are down, frozen or back
//! - `networks`: networks that are cut, one way and both ways
//! - `hints`: what is kept for nodes that are away
//! - `history`: what concurrent clients see of one key
//! - `ranges`: the entities of all nodes
//! - `recovery`: nodes that lost their disk
//! - `values`: values that do not fit into memory; `streams`: what becomes of those that break off
//! - `membership`: nodes that were started with different lists
//! - `protocol`: bytes that are no protocol
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod cluster;
mod hints;
mod history;
mod membership;
mod networks;
mod outages;
mod protocol;
mod ranges;
mod recovery;
mod replicas;
mod streams;
mod values;
