//! What a node does with a request. A request is one short chain of calls, in the order in which they happen.
//!
//! - `service`: the way in: which operation, and for what
//! - `admit`: whether who asks may; `audited`: what the audit log has of it
//! - `call`: a request and what it needs to be served; an answer, now or later
//! - `rounded`: tells that more replicas were waited for than were asked for
//! - `entity`: reads and deletes an entity, adds to a number, changes when a value expires
//! - `put`: stores a value that fits into memory
//! - `upload`: stores one that does not
//! - `value`: reads a value from the connection
//! - `answered`: who is told of one that is answered; `slow_request`: what the log has of one that took long
//! - `traced_request`: the span of one whose trace is recorded
//! - `range`: streams entities; `changes`: tells what becomes of them
//! - `batch`: many operations in one request
//! - `backup`: checkpoints, for backups

mod admit;
mod answered;
mod audited;
mod backup;
mod batch;
mod call;
mod changes;
mod entity;
mod put;
mod range;
mod rounded;
mod service;
mod slow_request;
mod traced_request;
mod upload;
mod value;

pub(crate) use answered::{tell_answered, tell_last};
pub(crate) use audited::Audited;
pub(crate) use call::{Outcome, Reply};
pub(crate) use service::handle;
pub(crate) use slow_request::{announced_bytes, known_bytes};
