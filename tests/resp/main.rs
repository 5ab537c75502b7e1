//! The protocol of Redis, as its clients see it.
//!
//! - `client`: a connection, down to single bytes
//! - `commands`: what each command does; `both_doors`: that HTTP sees the same
//! - `connections`: pipelines, single bytes, floods, what is no request, the end of a node
//! - `values`: values that are not held in memory
//! - `transactions`: `MULTI` to `EXEC`, and keys that are watched
//! - `oracle`: the same commands to Redis and to a node get the same replies
//! - `tools`: what comes with Redis
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod both_doors;
mod client;
mod commands;
mod connections;
mod oracle;
mod tools;
mod transactions;
mod values;
