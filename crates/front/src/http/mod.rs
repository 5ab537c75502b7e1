//! What is HTTP about a request and its answer, apart from sockets.
//!
//! - `route`: which operation a method and a path ask for
//! - `profile`: which profile is asked for
//! - `target`: which key and which replicas an operation is about; parameters of the query, strictly percent-decoded
//! - `change`: what a `POST` does to what is there, and `lifetime`: how long values live
//! - `conditions`: `If-Match` and `If-None-Match`; `etag`: versions as they have them
//! - `refusal`: answers that say no, each with one line of text
//! - `body`: the bodies of answers
//! - `response`: answers that say yes
//! - `wire`: how ranges are written

mod body;
mod change;
mod conditions;
mod etag;
mod lifetime;
mod profile;
mod refusal;
mod response;
mod route;
mod target;
mod wire;

pub(crate) use change::{EntityChange, change};
pub(crate) use conditions::{ConditionError, Conditions, ReadVerdict};
pub(crate) use etag::ETag;
pub(crate) use profile::ProfileTarget;
pub(crate) use refusal::{HEADERS_BYTES_MAX, REQUEST_LINE_BYTES_MAX, Refusal};
pub(crate) use response::{Answer, OCTETS, TEXT};
pub(crate) use route::operation;
pub(crate) use target::{EntityTarget, RangeTarget, is_verbose};
pub(crate) use wire::{CHUNKED_RECORDS, LAST_CHUNK, PLAIN_RECORDS};
