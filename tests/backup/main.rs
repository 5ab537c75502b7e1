//! Backups of running nodes, by the commands that people use, and what is made of them.
//!
//! - `steps`: the commands
//! - `one_node`: a node on its own: what comes back, what is copied twice, what is refused
//! - `point`: points in time, by the log that a node keeps
//! - `cluster_point`: points in time of a cluster, by the logs of its nodes
//! - `damaged`: flipped bits are named, and go nowhere
//! - `killed`: commands and nodes that are killed in the middle
//! - `requests`: the path `/v0/backup`, and who may use it
//! - `s3`: backups in a bucket; `s3_server`: a real server for it
//! - `shared`: several nodes in one repository
//! - `clusters`: from three nodes to one, and to five; nodes that are missing
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../cluster/cluster.rs"]
#[expect(dead_code, reason = "every test crate uses its part")]
mod cluster;
#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod cluster_point;
mod clusters;
mod damaged;
mod killed;
mod one_node;
mod point;
mod requests;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod s3_server;
mod shared;
mod steps;
