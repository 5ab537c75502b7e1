//! Writes on their way to the log. Each event loop has a `write_queue`, into which it encodes its writes. Where that takes no
//! waiting it commits them itself (`inline`). Where it does, one `committer` empties all write queues into one group, writes it
//! with one sync, and delivers a `receipt` to each loop, where the `waiters` are. Both write by the `writer`, one group at a
//! time. `unit_cost` estimates how long the queue takes, and refuses what would wait for too long. The `inbox` is how
//! what other threads have for an event loop reaches it.

mod committer;
mod inbox;
mod inline;
mod queue;
mod unit_cost;
mod waiters;
mod write_queue;
mod writer;

pub(super) use inbox::Inbox;
pub(super) use inline::InlineCommitter;
pub(super) use queue::{CommitQueue, Shared as CommitShared};
pub use waiters::Applied;
pub(super) use waiters::Waiters;
pub(super) use write_queue::WriteQueue;
