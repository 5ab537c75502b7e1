//! What is HTTP about a request and its answer, apart from sockets.
//!
//! - `route`: which operation a method and a path ask for
//! - `profile`: which profile is asked for
//! - `target`: which key and which replicas an operation is about; `query`: parameters of the query, strictly percent-decoded
//! - `change`: what a `POST` does to what is there, and `lifetime`: how long values live
//! - `conditions`: `If-Match` and `If-None-Match`; `etag`: versions as they have them
//! - `refusal`: answers that say no, each with one line of text
//! - `body`: the bodies of answers
//! - `response`: answers that say yes
//! - `range_target`: which entities a range has, and what of them; `accept`: in which format
//! - `changes_target`: which changes are followed; `json_changes`: how they are written
//! - `batch_target`: what a batch asks for; `lines`: lines out of pieces, `batch_line`: what one of them is to do, `batch_answer`: what
//!   it is answered
//! - `backup`: what a backup asks for, and what a checkpoint looks like
//! - `records`: how ranges are written; `json_records`: as lines of JSON; `json`: members of them; `base64`: bytes in them; `framing`: a record
//!   a chunk

mod accept;
mod backup;
mod base64;
mod batch_answer;
mod batch_line;
mod batch_target;
mod body;
mod change;
mod changes_target;
mod conditions;
mod etag;
mod framing;
mod json;
mod json_changes;
mod json_records;
mod lifetime;
mod lines;
mod profile;
mod query;
mod range_target;
mod records;
mod refusal;
mod response;
mod route;
mod target;

pub(crate) use accept::{EVENTS, NDJSON, prefers_ndjson};
pub(crate) use backup::{backup_step, begun_json, log_json};
pub(crate) use batch_answer::{LargeLine, LineAnswer};
pub(crate) use batch_line::{BatchAction, BatchOperation, LINE_BYTES_MAX};
pub(crate) use batch_target::BatchTarget;
pub(crate) use change::{EntityChange, change};
pub(crate) use changes_target::ChangesTarget;
pub(crate) use conditions::{ConditionError, Conditions, ReadVerdict};
pub(crate) use etag::ETag;
pub(crate) use framing::Framing;
pub(crate) use json::put_bytes;
pub(crate) use json_changes::{ChangeLines, JsonChanges};
pub(crate) use lines::{CutLine, LineCutter};
pub(crate) use profile::ProfileTarget;
pub(crate) use range_target::RangeTarget;
pub(crate) use records::Telling;
pub(crate) use refusal::{HEADERS_BYTES_MAX, REQUEST_LINE_BYTES_MAX, Refusal};
pub(crate) use response::{Answer, Field, LIVE, OCTETS, TEXT};
pub(crate) use route::{names, operation};
pub(crate) use target::{EntityTarget, is_verbose, key_to_read};
