//! Writes on their way to the log. Each event loop encodes its writes into its `write_queue`, where their requests wait. At the
//! end of a turn the loop commits them itself (`inline`) if that takes no waiting. Otherwise the `committer` thread empties all
//! write queues into one group, writes it with one sync, and delivers the result to each loop. All write through the `writer`,
//! one group at a time: `passing` checks cells at the gate, `update` takes decisions that depend on what is stored, `batches`
//! encodes the group, `group_outcome` tells observers what it replaced. `unit_cost` estimates how long the queue takes, so that
//! what would wait too long is refused. The `inbox` is how other threads hand results to an event loop.
//!
//! Writes that ask for another durability than the store's are queued apart. What asks for less is a group of its own, which is
//! not synced. What asks for more is written as any other, waits in `unsynced`, and is answered after a sync by the `syncer`, for
//! which nobody else waits.

mod batches;
mod committer;
mod group_outcome;
mod inbox;
mod inline;
mod passing;
mod queue;
mod shared;
mod syncer;
mod unit_cost;
mod unsynced;
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
