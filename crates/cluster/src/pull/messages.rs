//! What a pull asks a peer, and what it is answered, as plain values; the driver encodes them and brings answers back.
//! `B` is however the driver holds bytes.

use ladoga_model::{Cell, CellMark};

use crate::failure::Refusal;
use crate::placement::Partition;
use crate::slice::AsOf;

/// What a pull asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullRequest<B> {
    /// The upper hashes of the tree over the cells that both nodes hold.
    Groups(AsOf),
    /// The leaves below some of them.
    Leaves {
        /// Over which cells.
        slice: AsOf,
        /// Which ones, at most [`LEAF_GROUPS_MAX`].
        groups: Vec<u8>,
    },
    /// The keys and versions in some partitions, of cells that both nodes hold, in the order of their keys.
    List {
        /// Over which cells.
        slice: AsOf,
        /// Which partitions, sorted; none named means all.
        partitions: Vec<Partition>,
        /// Only keys behind this one.
        after: Option<B>,
    },
    /// The newest cell of this key, with its value; also from a node whose cells may have been deleted without its knowledge.
    Cell(B),
}

/// How many groups of leaves one message asks for: 64 KiB of hashes.
pub const LEAF_GROUPS_MAX: usize = 32;
/// How many keys one page of a list has.
pub const LIST_KEYS_MAX: usize = 1024;
/// How many bytes of keys one page of a list has; the key that exceeds it is the last.
pub const LIST_BYTES_MAX: usize = 256 << 10;
/// How many records are scanned for one page, so that it does not take long if few of them belong to it.
pub const LIST_SCAN_MAX: usize = 32_768;

/// A key and the version that a node has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyVersion<B> {
    /// The key.
    pub key: B,
    /// A deletion has no more than this.
    pub mark: CellMark,
}

/// The answer to what a pull asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullResponse<B> {
    /// To [`PullRequest::Groups`]: one hash for each group of partitions, without tombstones before `dropped_before`.
    Groups {
        /// At least the time that was asked for.
        dropped_before: u64,
        /// All of them.
        hashes: Vec<u64>,
    },
    /// To [`PullRequest::Leaves`]: the leaves of each group that was asked for, one after another.
    Leaves(Vec<u64>),
    /// To [`PullRequest::List`].
    List {
        /// At most [`LIST_KEYS_MAX`]; none if no scanned record belongs to the page.
        entries: Vec<KeyVersion<B>>,
        /// The last key that was scanned, if there are more after it.
        next: Option<B>,
    },
    /// To [`PullRequest::Cell`]; of a large value there is its length.
    Cell(Option<Cell<B, u64>>),
    /// It does not.
    Refused(Refusal),
}
