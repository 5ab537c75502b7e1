//! The HTTP API, as a client sees it: every row of its table, and what clients do beyond it.
//!
//! - `entity`: values by key
//! - `conditional`: versions as `ETag`s, `If-Match`, `If-None-Match`; `increments`: increments of numbers
//! - `expiry`: values that expire
//! - `fsync`: writes that say when they have to be on disk
//! - `keys`: which bytes a key may have, and how they are written
//! - `values`: how long a value may be
//! - `ranges`: many records, in order, chunk by chunk; `range_options`: which of them, in which order, and as what
//! - `batch`: many operations in one request; `batch_atomic`: all of them, or none
//! - `changes`: what becomes of keys, as it happens; `event_source`: in a real browser
//! - `replicas`: the parameters for the number of copies
//! - `refusals`: well-formed requests that are refused
//! - `lengths`: bodies without a length, with a wrong one, with one too many
//! - `headers`: headers that are too large, and `Expect`
//! - `malformed`: bytes that are no request
//! - `connections`: pipelines, single bytes, requests that break off
//! - `pipelines`: requests behind every kind of answer, cut anywhere; `mixtures`: all kinds, cut at random
//! - `smuggling`: bytes behind a request that are no request
//! - `timeouts`: requests that do not arrive
//! - `node`: the status and the metrics
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod batch;
mod batch_atomic;
mod changes;
mod conditional;
mod connections;
mod entity;
mod event_source;
mod expiry;
mod fsync;
mod headers;
mod increments;
mod keys;
mod lengths;
mod malformed;
mod mixtures;
mod node;
mod pipelines;
mod probes;
mod range_options;
mod ranges;
mod refusals;
mod replicas;
mod smuggling;
mod timeouts;
mod values;
