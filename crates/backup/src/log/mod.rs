//! Logs: what was written between two backups, for a restore to a point in time.
//!
//! - `chain`: segments of a node's log that follow each other without a gap, and up to when they have everything
//! - `ship`: how segments get into the repository; `large`: the values that they name and do not hold
//! - `span`: to which points in time one can restore
//! - `replay`: a data directory of a backup and what was written after it, up to a point in time

mod chain;
mod large;
mod replay;
mod ship;
mod span;

pub use chain::{Chain, StoredLarge, StoredSegment};
pub(crate) use chain::{files_of, large_path, segment_path};
pub(crate) use large::check_large;
pub use replay::{AheadOfTime, RestoredAt, restore_at};
pub use ship::{LogListing, LogSource, Member, Shipped};
pub use span::Span;
