//! Writes on their way to the log. Each event loop has a `write_queue`, into which it encodes its writes, and in which they are
//! waited for. Once it has done what its turn brought, it commits them itself (`inline`) where that takes no waiting. Where it
//! does, one `committer` empties all write queues into one group, writes it with one sync, and delivers the result to each loop. Both write by the `writer`, one group at a
//! time: `passing` has cells pass a gate, `update` decides what is decided by what is there, `batches` encodes it.
//! `unit_cost` estimates how long the queue takes, and refuses what would wait for too long. The `inbox` is how
//! what other threads have for an event loop reaches it.

mod batches;
mod committer;
mod inbox;
mod inline;
mod passing;
mod queue;
mod shared;
mod unit_cost;
mod update;
mod write_queue;
mod writer;

pub(super) use inbox::Inbox;
pub(super) use inline::{CommitTrigger, InlineCommitter};
pub(super) use queue::CommitQueue;
pub(super) use shared::CommitShared;
pub(super) use update::{Decision, Update};
pub use write_queue::Applied;
pub(super) use write_queue::{Waiters, WriteQueue};
