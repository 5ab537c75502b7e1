//! Writes on their way to the log. Each event loop has a `lane`, into which it encodes its writes. Where that takes no
//! waiting it commits them itself (`inline`). Where it does, one `committer` empties all lanes into one group, writes it
//! with one sync, and delivers a `receipt` to each loop, where the `waiters` are. Both write by the `writer`, one group at a
//! time. `pace` estimates how long the queue takes, and refuses what would wait for too long. The `inbox` is how
//! what other threads have for an event loop reaches it.

mod committer;
mod inbox;
mod inline;
mod lane;
mod pace;
mod queue;
mod waiters;
mod writer;

pub(super) use inbox::Inbox;
pub(super) use inline::Inline;
pub(super) use lane::Lane;
pub(super) use queue::{CommitQueue, Shared as CommitShared};
pub use waiters::Applied;
pub(super) use waiters::Waiters;
