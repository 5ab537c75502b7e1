//! Clusters of real processes on this machine: what a request with `ack` and `from` promises while nodes are stopped,
//! killed, frozen and restarted.
//!
//! - `cluster`: nodes that are started together
//! - `replicas`: which nodes have a copy, and which have to answer
//! - `outages`: nodes that are down, frozen or back
//! - `networks`: networks that are cut, one way and both ways
//! - `hints`: writes that are kept for nodes that are away
//! - `history`: what concurrent clients see of one key
//! - `ranges`: the entities of all nodes
//! - `starting`: the first requests of a cluster; `waiting`: requests that come before they can be answered
//! - `recovery`: nodes that lost their disk; `restored`: nodes with an older state of their directory
//! - `identity`: nodes with a directory of another, or one that was copied or moved; `directories`: how that is done
//! - `twin`: nodes as which a second process runs
//! - `values`: values that do not fit into memory; `streams`: what becomes of those that break off
//! - `expiry`: values that live for a while; `fsync`: writes that say when they have to be on disk
//! - `conditional`: writes that depend on what is there; `shared_key`: many of them for one key through all nodes
//! - `adding`: clients that add to one number
//! - `contended`: many of them on one key, while nodes are killed, frozen and cut off; `register`: beside plain ones
//! - `batches`: many operations in one request; `copy`: all records into a cluster, and out of it
//! - `clocks`: nodes whose wall clocks are wrong
//! - `membership`: nodes that were started with different lists; `relisted`: a list that is changed
//! - `pipelines`: requests behind ranges of the whole cluster, cut anywhere
//! - `protocol`: bytes that are no protocol; `greedy`: peers that want more than their share
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod adding;
mod batches;
mod changes;
mod clocks;
mod cluster;
mod conditional;
mod contended;
mod copy;
mod directories;
mod expiry;
mod fsync;
mod greedy;
mod hints;
mod history;
mod identity;
mod membership;
mod networks;
mod outages;
mod pipelines;
mod probes;
mod protocol;
mod ranges;
mod recovery;
mod register;
mod relisted;
mod replicas;
mod restored;
mod shared_key;
mod starting;
mod streams;
mod twin;
mod values;
mod waiting;
