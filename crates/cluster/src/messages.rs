//! What nodes say to each other, as plain values; the driver encodes them, numbers requests, and brings answers back.
//!
//! A connection begins with a [`Hello`] each way. After that, either side asks [`Request`]s and is given a [`Response`]
//! or a [`Refusal`] for each, in any order. `B` is however the driver holds bytes.

use ladoga_model::{Stamp, Version};

use crate::cell::Cell;
use crate::failure::Refusal;
use crate::nodes::{Difference, NodeId, NodeList};
use crate::placement::Partition;
use crate::read::ReadAnswer;
use crate::settle::Statement;
use ladoga_model::CellMark;

/// The version of what nodes say to each other; nodes of different versions do not speak.
pub const PROTOCOL_VERSION: u16 = 1;

/// The first thing that each side of a connection says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`] of the sender.
    pub protocol: u16,
    /// Who the sender is, in its own list.
    pub node: NodeId,
    /// The nodes that it was started with.
    pub nodes: NodeList,
    /// What it says about itself.
    pub statement: Statement,
}

/// Why a peer is not spoken to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// It speaks another version.
    #[error("the peer speaks version {found} of the protocol between nodes, expected {PROTOCOL_VERSION}")]
    Protocol {
        /// Which one.
        found: u16,
    },
    /// It was started with other nodes.
    #[error("the peer was started with another list of nodes: {0}")]
    Nodes(Difference),
    /// It is not the node that was called, or says that it is this one.
    #[error("the peer says that it is {found}, expected {expected}")]
    Node {
        /// Who it says it is.
        found: String,
        /// Who it should be.
        expected: String,
    },
}

impl Hello {
    /// Whether a peer with this hello belongs to the cluster of `nodes`. `expected` is the node that was called; none
    /// where the peer called.
    pub fn check(&self, me: NodeId, nodes: &NodeList, expected: Option<NodeId>) -> Result<(), HelloError> {
        if self.protocol != PROTOCOL_VERSION {
            return Err(HelloError::Protocol { found: self.protocol });
        }
        if let Some(difference) = nodes.difference(&self.nodes) {
            return Err(HelloError::Nodes(difference));
        }
        let is_expected = expected.is_none_or(|expected| expected == self.node);
        if !is_expected || self.node == me || self.node.index() >= nodes.len() {
            let expected =
                expected.map_or_else(|| "another node of the list".to_owned(), |id| id.to_string());
            return Err(HelloError::Node { found: self.node.to_string(), expected });
        }
        Ok(())
    }
}

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

/// Where a cell that is to be written comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client's write, from its coordinator.
    Client,
    /// A hint that was kept for this replica.
    Hint,
    /// A read that found this replica stale.
    Repair,
    /// Anti-entropy.
    Exchange,
}

/// Which cells two nodes compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Only versions before this timestamp; `u64::MAX` for all.
    pub before: u64,
    /// No tombstones before this timestamp: everyone has them, so some may have dropped them.
    pub dropped_before: u64,
}

impl Slice {
    /// Whether a cell belongs to it.
    pub const fn has(&self, cell: CellMark) -> bool {
        let timestamp = cell.stamp.version.timestamp;
        timestamp < self.before && !(cell.is_tombstone && timestamp < self.dropped_before)
    }
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
    Groups(Slice),
    /// The leaves below some of them.
    Leaves {
        /// Over which cells.
        slice: Slice,
        /// Which ones, at most [`LEAF_GROUPS_MAX`].
        groups: Vec<u8>,
    },
    /// The keys and versions in some partitions, of cells that both nodes hold, in the order of their keys.
    List {
        /// Over which cells.
        slice: Slice,
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
pub struct Listed<B> {
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
        entries: Vec<Listed<B>>,
        /// The key that was looked at last, where there are more behind it.
        next: Option<B>,
    },
    /// It does not.
    Refused(Refusal),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(nodes: &NodeList, node: u16) -> Hello {
        Hello {
            protocol: PROTOCOL_VERSION,
            node: NodeId(node),
            nodes: nodes.clone(),
            statement: Statement::default(),
        }
    }

    #[test]
    fn peers_with_the_same_list_speak() {
        let nodes = NodeList::first(["a", "b"]).expect("a list");
        assert_eq!(hello(&nodes, 1).check(NodeId(0), &nodes, None), Ok(()));
        assert_eq!(hello(&nodes, 1).check(NodeId(0), &nodes, Some(NodeId(1))), Ok(()));
    }

    #[test]
    fn a_mismatch_names_the_difference() {
        let nodes = NodeList::first(["a", "b"]).expect("a list");
        let others = NodeList::first(["a", "c"]).expect("a list");
        let text = |result: Result<(), HelloError>| result.expect_err("it is refused").to_string();
        assert_eq!(
            text(hello(&others, 1).check(NodeId(0), &nodes, None)),
            "the peer was started with another list of nodes: it lacks b; it has c in addition"
        );
        let newer = Hello { protocol: 2, ..hello(&nodes, 1) };
        assert_eq!(
            text(newer.check(NodeId(0), &nodes, None)),
            "the peer speaks version 2 of the protocol between nodes, expected 1"
        );
        let me = text(hello(&nodes, 0).check(NodeId(0), &nodes, None));
        assert_eq!(me, "the peer says that it is node 0, expected another node of the list");
        assert!(hello(&nodes, 7).check(NodeId(0), &nodes, None).is_err());
    }
}
