//! The protocol of Redis, as its clients see it.
//!
//! - `client`: a connection, down to single bytes
//! - `commands`: what each command does; `both_doors`: that HTTP sees the same
//! - `connections`: pipelines, single bytes, floods, what is no request, the end of a node
//! - `values`: values that are not held in memory
//! - `order`: pipelines of commands of all kinds take effect in their order
//! - `transactions`: `MULTI` to `EXEC`, and keys that are watched; `atomic`: on a node on its own, all or nothing
//! - `cluster`: the same commands on a cluster
//! - `flush`: everything is deleted, if that is allowed
//! - `hostile`: what costs a node more than it should
//! - `held`: what a transaction holds until it is answered is counted
//! - `many_keys`: one request for more keys than memory has room for
//! - `oracle`: the same commands to Redis and to a node get the same replies
//! - `suite`: Redis's own suite of tests, but for what is listed; `suite_report`: what it says
//! - `unread`: clients that hold what others need
//! - `tools`: what comes with Redis; `clients`: libraries, with what they say by themselves
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod atomic;
mod both_doors;
mod client;
mod clients;
mod cluster;
mod commands;
mod connections;
mod flush;
mod held;
mod hostile;
mod many_keys;
mod oracle;
mod order;
mod suite;
mod suite_report;
mod tools;
mod transactions;
mod unread;
mod values;
