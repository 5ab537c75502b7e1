//! Writes on their way to the log. Each event loop has a `lane`, into which it encodes its writes; one `committer`
//! empties all lanes into one group, writes it with one sync, and delivers a `receipt` to each loop, where the
//! `waiters` are. `pace` estimates how long the queue takes, and refuses what would wait for too long.

mod committer;
mod lane;
mod pace;
mod queue;
mod waiters;

pub(super) use lane::{Lane, Receipt};
pub(super) use queue::{CommitQueue, Shared as CommitShared};
pub use waiters::Applied;
pub(super) use waiters::Waiters;
