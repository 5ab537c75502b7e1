//! Backups: copies of a node, or of the nodes of a cluster, in a directory that holds each file once.
//!
//! - `listing`: what a node says that its checkpoint consists of
//! - `repository`: the directory: its files by content, and the manifests of backups, each written last
//! - `take`: how a checkpoint gets into it: what is there already is not read again, and nothing unverified gets in
//! - `view`: a backup as a data directory that can only be read, so that the engine's own code checks and reads it
//! - `verify`, `prune`: whether everything is as it was written; what is not needed any more
//! - `origin`: whose a backup is, since several nodes and clusters may share a repository
//! - `restore`: a data directory from a backup: the same files, or the newest cells of all nodes
//! - `log`: what was written since a backup, for a restore to a point in time; `log_position`: where a backup ends in it; `moment`: how
//!   a point in time is written
//! - `slots`: directories for checkpoints, which are emptied and never removed
//!
//! Everything is a function of a [`Disk`](ladoga_env::Disk) and of a [`Source`], so that tests can crash it at every step.
#![forbid(unsafe_code)]

mod error;
mod listing;
mod log;
mod log_position;
mod merged;
mod moment;
mod origin;
mod prune;
mod repository;
mod restore;
mod slots;
mod take;
#[cfg(test)]
mod test_tables;
mod verify;
mod view;

pub use error::Error;
pub use listing::{Listed, Listing, Tag};
pub use log::{
    AheadOfTime, Chain, LogListing, LogSource, Member, RestoredAt, Shipped, Span, StoredLarge, StoredSegment,
    restore_at,
};
pub use log_position::{ChainName, LogPosition};
pub use merged::{MergedCells, NodeCells};
pub use moment::{ms_of_text, text_of_ms};
pub use prune::{Pruned, prune};
pub use repository::{Backup, Missing, NodeBackup, Repository, StoredFile, StoredName, Writing};
pub use restore::{Restored, restore_cells, restore_files};
pub use slots::{empty_slot, slot_files};
pub use take::{Source, Taken};
pub use verify::{Verified, verify};

/// How far something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done.
    pub done_bytes: u64,
    /// Of so many.
    pub total_bytes: u64,
}

/// Bytes that are read from a file, or from a node, at a time.
pub const PIECE_BYTES_MAX: usize = 256 << 10;
