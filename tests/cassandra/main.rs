//! A door to real nodes of Cassandra, as a client sees it.
//!
//! What is the same as on a node with a store of its own is tested by the tests of `tests/http`, on one node of Cassandra and each with
//! a keyspace of its own: `tests/support/engine.rs`. Where they differ, they say so, by `differs_on_cassandra`.
//!
//! - `quorum`: three nodes, of which one is killed, frozen, or all are
//! - `doors`: what is particular about a door: large values, ranges over all buckets, several doors
//! - `starting`: what is said if a door cannot start
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

#[path = "../http/batch.rs"]
mod batch;
#[path = "../http/conditional.rs"]
mod conditional;
mod doors;
#[path = "../http/entity.rs"]
mod entity;
#[path = "../http/increments.rs"]
mod increments;
mod quorum;
#[path = "../http/range_options.rs"]
mod range_options;
#[path = "../http/ranges.rs"]
mod ranges;
mod starting;
#[path = "../http/values.rs"]
mod values;
