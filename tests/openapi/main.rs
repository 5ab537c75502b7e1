//! `docs/http-api.yaml` and a running node, compared both ways.
//!
//! - `document`: the description: its operations, parameters and answers
//! - `schema`: whether a value is as a schema says; `pattern`: regular expressions in schemas
//! - `values`: values that a schema permits, and values that it does not
//! - `requests`: requests for an operation, valid ones and others
//! - `answers`: whether an answer is as the description says
//! - `sound`: whether the description is sound in itself
//! - `routes`: the description and the node know the same paths and methods
//! - `operations`: every operation answers as it says, on a node on its own and in a cluster
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod answers;
#[path = "../cluster/cluster.rs"]
#[expect(dead_code, reason = "only a part of it is needed here")]
mod cluster;
mod document;
mod operations;
mod pattern;
mod requests;
mod routes;
mod schema;
mod sound;
mod values;
