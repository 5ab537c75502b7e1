//! What nodes say to each other, as plain values; the driver encodes them, numbers requests, and brings answers back.
//!
//! Either side asks [`Request`]s and is given a [`Response`] for each, in any order. `B` is however the driver holds bytes.

use ladoga_model::{Stamp, Version};

use crate::cell::{Cell, Origin};
use crate::failure::Refusal;
use crate::placement::Partition;
use crate::read::ReadAnswer;
use crate::slice::AsOf;
use crate::statement::Statement;

/// How much of a cell a read wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// All of it.
    Value,
    /// Its version, and whether it is a value.
    Digest,
    /// All of it, for anti-entropy: also of a node whose cells may have been deleted without its knowing.
    Pulled,
}

/// What one node asks another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<B> {
    /// The newest cell of a key.
    Read {
        /// The key.
        key: B,
        /// How much of it.
        want: Want,
    },
    /// Make this cell durable.
    Write {
        /// The key.
        key: B,
        /// The cell; never a digest.
        cell: Cell<B>,
        /// Where it is from.
        origin: Origin,
    },
    /// What does the sender say about itself; answered with the same.
    Statement(Statement),
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
}

/// How many groups of leaves one message asks for: 64 KiB of hashes.
pub const LEAF_GROUPS_MAX: usize = 32;
/// How many keys one page of a list has.
pub const LIST_KEYS_MAX: usize = 1024;
/// How many bytes of keys one page of a list has; the key that exceeds it is the last.
pub const LIST_BYTES_MAX: usize = 256 << 10;
/// How many records are looked at for one page, so that it does not take long where few of them belong to it.
pub const LIST_SCAN_MAX: usize = 32_768;

/// A key and the version that a node has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyVersion<B> {
    /// The key.
    pub key: B,
    /// Version, expiry, copies.
    pub stamp: Stamp,
    /// Whether it is a deletion: then this is all of it.
    pub is_tombstone: bool,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response<B> {
    /// To a read.
    Read(ReadAnswer<B>),
    /// To a write: it is durable.
    Written {
        /// The version that this replica had already, if that one is newer. A coordinator whose clock is behind learns
        /// it from a quorum, and writes again with a newer version of its own: else the write that was acknowledged
        /// last would lose to one before it.
        newer: Option<Version>,
    },
    /// To a statement.
    Statement(Statement),
    /// To [`Request::Groups`]: one hash for each group of partitions, without tombstones before `dropped_before`.
    Groups {
        /// At least what was asked for.
        dropped_before: u64,
        /// All of them.
        hashes: Vec<u64>,
    },
    /// To [`Request::Leaves`]: the leaves of each group that was asked for, one after another.
    Leaves(Vec<u64>),
    /// To [`Request::List`].
    List {
        /// At most [`LIST_KEYS_MAX`]; none where few belong to it.
        entries: Vec<KeyVersion<B>>,
        /// The key that was looked at last, where there are more behind it.
        next: Option<B>,
    },
    /// It does not.
    Refused(Refusal),
}
