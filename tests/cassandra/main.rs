//! A door to real nodes of Cassandra, as a client sees it.
//!
//! What is the same as on a node with a store of its own is tested by the tests of `tests/http` and some of `tests/resp`, on one node of Cassandra and each with
//! a keyspace of its own: `tests/support/engine.rs`. Where they differ, they say so, by `differs_on_cassandra`.
//!
//! - `quorum`: three nodes, of which one is killed, frozen, or all are
//! - `dead_nodes`: three nodes, of which one or two are dead at a bad moment
//! - `datacenters`: one of two has the keys
//! - `doors`: what is particular about a door: large values, ranges over all buckets, several doors
//! - `buckets`: doors that count other ones than those before them
//! - `cql`: to Cassandra without a door
//! - `copy`: all records into Cassandra, and out of it
//! - `access`: passwords, rights, TLS and a quota of Cassandra
//! - `starting`: what is said if a door cannot start
//! - `room`: a disk that is full
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod access;
#[path = "../http/batch.rs"]
mod batch;
#[path = "../resp/both_doors.rs"]
mod both_doors;
mod buckets;
#[path = "../resp/client.rs"]
#[expect(dead_code, reason = "the tests of the protocol of Redis use the rest")]
mod client;
#[path = "../http/conditional.rs"]
mod conditional;
mod copy;
mod cql;
mod datacenters;
mod dead_nodes;
mod doors;
#[path = "../http/entity.rs"]
mod entity;
#[path = "../http/expiry.rs"]
mod expiry;
#[path = "../http/increments.rs"]
mod increments;
mod quorum;
#[path = "../http/range_options.rs"]
mod range_options;
#[path = "../http/ranges.rs"]
mod ranges;
mod room;
#[path = "../disk/small_disk.rs"]
mod small_disk;
mod starting;
#[path = "../http/values.rs"]
mod values;
