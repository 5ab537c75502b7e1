//! Hash trees over what two nodes both hold, kept up to date by writes.
//!
//! ```text
//! hash(cell) = xxh3(xxh3(key), timestamp, node)
//! leaf       = xor of the hashes of a partition's newest cells        group = xxh3 of 256 leaves
//! ```
//!
//! Replicas apply the same writes at different moments, so trees over everything would never be equal while clients write. They
//! are compared as of a timestamp in the past instead: what a write changes is kept by the window of time that its version is
//! in, and a window is folded into the rest long after its end. Tombstones that every node has are left out, because each node
//! drops them when it likes; for that, the tombstones in the leaves are also kept by window. So are values that expire, by the
//! window in which they end: the hash of a cell is the same before and after its time is over, and whether or not a replica
//! still has its bytes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ladoga_model::{CellMark, Version};
use xxhash_rust::xxh3::xxh3_64;

use crate::deletions::DeletionWindows;
use crate::leaves::{Leaves, LeavesByClass};
use crate::nodes::NodeId;
use crate::placement::{Partition, Placement};
use crate::slice::AsOf;
use crate::window::{next_window, window_start};

/// Windows that are kept apart; older ones are folded. Trees are compared as of a moment that all nodes have closed,
/// which lags by a minute and by what their clocks are apart.
const WINDOWS_MAX: usize = 8;
/// Windows that stay apart however little memory there is.
const WINDOWS_MIN: usize = 2;
/// Of which window deletions are that are in no leaf any more.
const DROPPED: u64 = 0;

/// What the versions of one window change.
#[derive(Debug, Clone)]
struct Change {
    leaves: LeavesByClass,
    /// Those of them that are deleted or expire, by the window of that, or by the start of its span.
    deletions: BTreeMap<u64, LeavesByClass>,
}

/// A cell that comes or goes.
#[derive(Clone, Copy)]
struct Toggle {
    partition: Partition,
    hash: u64,
    /// The number of nodes that it is for, counted from 0.
    class: usize,
    /// Where it is kept beside, if it is a tombstone or expires.
    span: Option<u64>,
}

impl Change {
    fn of(nodes: usize) -> Change {
        Change { leaves: LeavesByClass::of(nodes), deletions: BTreeMap::new() }
    }

    fn add(&mut self, toggle: Toggle, nodes: usize) {
        let Toggle { partition, hash, class, span } = toggle;
        self.leaves.toggle(class, partition, hash);
        if let Some(span) = span {
            let deletions = self.deletions.entry(span).or_insert_with(|| LeavesByClass::of(nodes));
            deletions.toggle(class, partition, hash);
        }
    }

    fn bytes(&self) -> usize {
        self.leaves.bytes() + self.deletions.values().map(LeavesByClass::bytes).sum::<usize>()
    }
}

/// The hash tree of a node's cells.
#[derive(Debug)]
pub struct MerkleTree {
    placement: Arc<Placement>,
    me: NodeId,
    nodes: usize,
    /// What it may take of memory, but for the window of now.
    bytes_max: usize,
    /// Everything in versions before `folded_before`, by the number of nodes that cells are for, counted from 0.
    folded: LeavesByClass,
    folded_before: u64,
    /// The deletions of that.
    deletions: DeletionWindows,
    /// What later versions change, by the start of their window.
    windows: BTreeMap<u64, Change>,
    /// Deletions before this are in no leaf any more.
    dropped_before: u64,
}

impl MerkleTree {
    /// The tree of a node that has nothing.
    pub fn new(placement: Arc<Placement>, nodes: usize, me: NodeId, bytes_max: usize) -> MerkleTree {
        MerkleTree {
            placement,
            me,
            nodes,
            bytes_max,
            folded: LeavesByClass::of(nodes),
            folded_before: 0,
            deletions: DeletionWindows::default(),
            windows: BTreeMap::new(),
            dropped_before: 0,
        }
    }

    /// The same without any cell: to be filled anew. No span of deletions will have times on both sides of `boundary`.
    #[must_use]
    pub fn emptied(&self, boundary: u64) -> MerkleTree {
        MerkleTree {
            deletions: DeletionWindows::apart_at(window_start(boundary)),
            dropped_before: self.dropped_before,
            ..MerkleTree::new(Arc::clone(&self.placement), self.nodes, self.me, self.bytes_max)
        }
    }

    /// A cell replaced another, or none. Called once for each cell that is written and is then the newest of its key, in any
    /// order of keys; and for each cell of a snapshot, if the calls for writes begin with that snapshot.
    pub fn replaced(&mut self, key_hash: u64, old: Option<CellMark>, new: CellMark) {
        debug_assert!(old.is_none_or(|old| old.stamp.version < new.stamp.version));
        self.toggle(key_hash, (old, Some(new)), new.stamp.version.timestamp);
    }

    /// The same without what expires: the bug that the simulation plants.
    #[cfg(feature = "simulation")]
    pub fn replaced_without_expiring(&mut self, key_hash: u64, old: Option<CellMark>, new: CellMark) {
        let lasting = |mark: &CellMark| mark.stamp.expires_at_ms == 0;
        self.toggle(key_hash, (old.filter(lasting), Some(new).filter(lasting)), new.stamp.version.timestamp);
    }

    fn toggle(&mut self, key_hash: u64, (old, new): (Option<CellMark>, Option<CellMark>), timestamp: u64) {
        let window = window_start(timestamp);
        let [old, new] = [old, new].map(|mark| mark.map(|mark| self.toggle_of(key_hash, mark)));
        if window < self.folded_before {
            let mut change = Change::of(self.nodes);
            old.into_iter().chain(new).for_each(|toggle| change.add(toggle, self.nodes));
            return self.fold_in(&change);
        }
        let windows = self.windows.len();
        let nodes = self.nodes;
        let change = self.windows.entry(window).or_insert_with(|| Change::of(nodes));
        old.into_iter().chain(new).for_each(|toggle| change.add(toggle, nodes));
        if self.windows.len() > windows {
            self.fold();
        }
    }

    /// Whether this node may hold a cell of this partition.
    pub fn may_hold(&self, partition: Partition, cell: CellMark) -> bool {
        self.placement.holds(partition, self.me, cell)
    }

    /// Leaves out what was deleted before this timestamp, because every node has it. If a span has such deletions and later
    /// ones, all of its deletions stay.
    pub fn drop_before(&mut self, timestamp: u64) {
        let before = self.deletions.start_of(window_start(timestamp));
        self.dropped_before = self.dropped_before.max(before);
        for leaves in self.deletions.take_before(self.dropped_before) {
            self.folded.toggle_all(&leaves);
        }
    }

    /// What was deleted before this timestamp is left out.
    pub const fn dropped_before(&self) -> u64 {
        self.dropped_before
    }

    /// Whether a span has deletions from before this timestamp and later ones. To compare without the earlier ones, the tree
    /// has to be filled anew: see [`MerkleTree::emptied`].
    pub fn cuts(&self, timestamp: u64) -> bool {
        self.deletions.cuts(timestamp)
    }

    /// What it takes of memory, about.
    pub fn bytes(&self) -> usize {
        let windows: usize = self.windows.values().map(Change::bytes).sum();
        self.folded.bytes() + self.deletions.bytes() + windows
    }

    /// The earliest timestamp as of which the tree can be compared.
    pub const fn earliest(&self) -> u64 {
        self.folded_before
    }

    /// Whether a slice can be compared: it is not too late, it needs no deletions that are left out here, and the deletions
    /// that it leaves out can be separated from the others.
    pub(crate) fn has(&self, slice: AsOf) -> bool {
        let is_in_time = slice.before >= self.folded_before;
        is_in_time && slice.dropped_before >= self.dropped_before && !self.cuts(slice.dropped_before)
    }

    /// How many leaves a slice has for each partition.
    pub(crate) fn leaves_of(&self, slice: AsOf) -> usize {
        self.by_class(slice).count() + self.left_out(slice).count()
    }

    /// All leaves of a slice, with the number of nodes that their cells are for, counted from 0.
    fn by_class(&self, slice: AsOf) -> impl Iterator<Item = (usize, &Leaves)> {
        let windows = self.windows.range(..slice.before).map(|(_, change)| &change.leaves);
        std::iter::once(&self.folded).chain(windows).flat_map(LeavesByClass::iter)
    }

    /// The deletions among them that a slice does not have.
    fn left_out(&self, slice: AsOf) -> impl Iterator<Item = (usize, &Leaves)> {
        let windows = self.windows.range(..slice.before);
        let deletions = windows.flat_map(move |(_, change)| change.deletions.range(..slice.dropped_before));
        let all = self.deletions.before(slice.dropped_before).chain(deletions.map(|(_, leaves)| leaves));
        all.flat_map(LeavesByClass::iter).filter(|(_, leaves)| !leaves.is_empty())
    }

    /// Visits hashes in some partitions, of the cells that both this node and `peer` hold: their sum by XOR is the leaf of
    /// the partition.
    pub(crate) fn visit_shared(
        &self,
        slice: AsOf,
        peer: NodeId,
        partitions: RangeInclusive<u16>,
        mut visit: impl FnMut(Partition, u64),
    ) {
        let first = *partitions.start();
        // Looked up once for each partition that has anything; most ranges of a small store have nothing.
        let mut classes = Vec::new();
        // What is left out is there twice, and so not at all.
        for (class, leaves) in self.by_class(slice).chain(self.left_out(slice)) {
            leaves.each_in(partitions.clone(), |partition, hash| {
                if classes.is_empty() {
                    classes.resize(partitions.len(), None);
                }
                let least = &mut classes[usize::from(partition.0 - first)];
                if class >= *least.get_or_insert_with(|| self.first_class(partition, peer)) {
                    visit(partition, hash);
                }
            });
        }
    }

    /// The least number of nodes, counted from 0, that cells of a partition are for if both nodes hold them.
    fn first_class(&self, partition: Partition, peer: NodeId) -> usize {
        let list = self.placement.preference_list(partition);
        list.iter().rposition(|&node| node == self.me || node == peer).unwrap_or(0)
    }

    /// Folds the oldest windows while there are more than are kept apart, or than there is memory for.
    fn fold(&mut self) {
        let is_too_much = |tree: &MerkleTree| {
            let windows = tree.windows.len();
            windows > WINDOWS_MAX || (windows > WINDOWS_MIN && tree.bytes() > tree.bytes_max)
        };
        while is_too_much(self) {
            let Some((window, change)) = self.windows.pop_first() else { return };
            self.fold_in(&change);
            self.folded_before = next_window(window);
            self.deletions.over_before(self.folded_before);
        }
    }

    fn fold_in(&mut self, change: &Change) {
        self.folded.toggle_all(&change.leaves);
        for (&window, deletions) in &change.deletions {
            if window < self.dropped_before {
                self.folded.toggle_all(deletions);
            } else {
                self.deletions.toggle_all(window, deletions);
            }
        }
    }

    fn toggle_of(&self, key_hash: u64, mark: CellMark) -> Toggle {
        let version = mark.stamp.version;
        let copies = match mark.stamp.copies {
            _ if mark.is_tombstone => self.nodes,
            0 => self.nodes,
            copies => usize::from(copies).min(self.nodes),
        };
        let span = mark.deleted_at().map(|deleted_at| {
            let window = window_start(deleted_at);
            if window < self.dropped_before { DROPPED } else { self.deletions.start_of(window) }
        });
        let (partition, hash) = (Partition::of_hash(key_hash), cell_hash(key_hash, version));
        Toggle { partition, hash, class: copies - 1, span }
    }
}

fn cell_hash(key_hash: u64, version: Version) -> u64 {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&key_hash.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.timestamp.to_le_bytes());
    bytes[16..].copy_from_slice(&version.node.to_le_bytes());
    xxh3_64(&bytes)
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
