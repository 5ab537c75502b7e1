//! Hash trees over what two nodes both hold, kept up to date by writes.
//!
//! ```text
//! hash(cell) = xxh3(xxh3(key), timestamp, node)
//! leaf       = xor of the hashes of a partition's newest cells        group = xxh3 of 256 leaves
//! ```
//!
//! Replicas apply the same writes at different moments, so trees over everything would never be equal while anybody
//! writes. They are compared as of a timestamp in the past instead: what a write changes is kept by the window of time
//! that its version is in, and a window is folded into the rest long after its end. Tombstones that everybody has are left
//! out, because each node drops them when it likes; for that, those that are in the leaves are also kept by window.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ladoga_model::{HybridClock, Stamp, Version};
use xxhash_rust::xxh3::xxh3_64;

use crate::cell::Cell;
use crate::messages::Slice;
use crate::nodes::NodeId;
use crate::pair::{PairLeaves, PairScan};
use crate::placement::{PARTITIONS, Partition, Placement};

/// How long a window is. Timestamps at which trees are compared are multiples of it.
pub const WINDOW_MS: u64 = 30_000;
/// Windows that are kept apart; older ones are folded. Trees are compared as of a moment that all nodes have closed,
/// which lags by a minute and by what their clocks are apart.
const WINDOWS_MAX: usize = 8;
/// From this many entries on, an array is smaller than a map.
const SPARSE_MAX: usize = PARTITIONS / 4;

/// The start of the window that a timestamp is in.
pub(crate) const fn window_start(timestamp: u64) -> u64 {
    let wall_ms = HybridClock::wall_ms(timestamp);
    HybridClock::at_wall_ms(wall_ms - wall_ms % WINDOW_MS)
}

/// What the tree needs to know of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellMark {
    /// Its version, and for how many nodes it is.
    pub stamp: Stamp,
    /// Whether it is a deletion.
    pub is_tombstone: bool,
}

/// Hashes by partition, of the cells that are for the same number of nodes.
#[derive(Debug, Clone)]
enum Leaves {
    Few(BTreeMap<u16, u64>),
    Many(Vec<u64>),
}

impl Default for Leaves {
    fn default() -> Leaves {
        Leaves::Few(BTreeMap::new())
    }
}

impl Leaves {
    fn toggle(&mut self, partition: Partition, hash: u64) {
        match self {
            Leaves::Many(leaves) => leaves[partition.index()] ^= hash,
            Leaves::Few(leaves) => {
                *leaves.entry(partition.0).or_default() ^= hash;
                if leaves.len() > SPARSE_MAX {
                    let mut many = vec![0; PARTITIONS];
                    leaves.iter().for_each(|(&partition, hash)| many[usize::from(partition)] = *hash);
                    *self = Leaves::Many(many);
                }
            }
        }
    }

    /// Visits those of some partitions.
    fn each_in(&self, partitions: RangeInclusive<u16>, mut visit: impl FnMut(Partition, u64)) {
        match self {
            Leaves::Few(leaves) => {
                leaves.range(partitions).for_each(|(&partition, &hash)| visit(Partition(partition), hash));
            }
            Leaves::Many(leaves) => {
                let hashes = &leaves[usize::from(*partitions.start())..];
                partitions.zip(hashes).for_each(|(partition, &hash)| visit(Partition(partition), hash));
            }
        }
    }

    fn toggle_all(&mut self, other: &Leaves) {
        other.each_in(0..=u16::MAX, |partition, hash| self.toggle(partition, hash));
    }
}

/// What the versions of one window change.
#[derive(Debug, Clone)]
struct Change {
    /// By the number of nodes that cells are for, counted from 0.
    leaves: Vec<Leaves>,
    /// Tombstones that come and go, by the window that they are of.
    tombstones: BTreeMap<u64, Leaves>,
}

impl Change {
    fn of(nodes: usize) -> Change {
        Change { leaves: vec![Leaves::default(); nodes], tombstones: BTreeMap::new() }
    }
}

/// The hash tree of a node's cells.
#[derive(Debug)]
pub struct HashTree {
    placement: Arc<Placement>,
    me: NodeId,
    nodes: usize,
    /// Everything in versions before `folded_before`.
    folded: Change,
    folded_before: u64,
    /// What later versions change, by the start of their window.
    windows: BTreeMap<u64, Change>,
    /// Tombstones before this are in no leaf any more.
    dropped_before: u64,
}

impl HashTree {
    /// The tree of a node that has nothing.
    pub fn new(placement: Arc<Placement>, nodes: usize, me: NodeId) -> HashTree {
        HashTree {
            placement,
            me,
            nodes,
            folded: Change::of(nodes),
            folded_before: 0,
            windows: BTreeMap::new(),
            dropped_before: 0,
        }
    }

    /// A cell took the place of another, or of none. Called once for each cell that is written and is the newest of its
    /// key then, in any order of keys; and for each cell of a snapshot, where the calls for writes begin with that
    /// snapshot.
    pub fn replaced(&mut self, key_hash: u64, old: Option<CellMark>, new: CellMark) {
        debug_assert!(old.is_none_or(|old| old.stamp.version < new.stamp.version));
        let partition = Partition::of_hash(key_hash);
        let window = window_start(new.stamp.version.timestamp);
        if window >= self.folded_before {
            let nodes = self.nodes;
            let change = self.windows.entry(window).or_insert_with(|| Change::of(nodes));
            for mark in old.into_iter().chain([new]) {
                mark_in(change, partition, key_hash, mark, nodes);
            }
            self.fold();
        } else {
            let mut change = Change::of(self.nodes);
            for mark in old.into_iter().chain([new]) {
                mark_in(&mut change, partition, key_hash, mark, self.nodes);
            }
            self.fold_in(&change);
        }
    }

    /// Whether this node may hold a cell of this partition.
    pub fn may_hold<V>(&self, partition: Partition, cell: &Cell<V>) -> bool {
        cell.belongs_on(self.placement.position(partition, self.me))
    }

    /// Leaves tombstones before this timestamp out: every node has them.
    pub fn drop_before(&mut self, timestamp: u64) {
        self.dropped_before = self.dropped_before.max(window_start(timestamp));
        let kept = self.folded.tombstones.split_off(&self.dropped_before);
        let dropped = std::mem::replace(&mut self.folded.tombstones, kept);
        for leaves in dropped.values() {
            self.folded.leaves[self.nodes - 1].toggle_all(leaves);
        }
    }

    /// Tombstones before this timestamp are left out.
    pub const fn dropped_before(&self) -> u64 {
        self.dropped_before
    }

    /// The earliest timestamp as of which the tree can be compared.
    pub const fn earliest(&self) -> u64 {
        self.folded_before
    }

    /// Whether a slice can be compared: it is not too late, and it has no tombstones that are left out.
    pub(crate) const fn has(&self, slice: Slice) -> bool {
        slice.before >= self.folded_before && slice.dropped_before >= self.dropped_before
    }

    /// The leaves over the cells that both this node and `peer` hold, all at once: see [`PairScan`]. `None` where it is
    /// too late for this slice, or the slice has tombstones that are left out here.
    pub fn pair(&self, peer: NodeId, slice: Slice) -> Option<PairLeaves> {
        let mut scan = PairScan::of_all(peer, slice);
        while scan.step(self)? {}
        Some(scan.finish())
    }

    /// How many leaves a slice has for each partition.
    pub(crate) fn leaves_of(&self, slice: Slice) -> usize {
        let of =
            |change: &Change| change.leaves.len() + change.tombstones.range(..slice.dropped_before).count();
        self.changes(slice).map(of).sum()
    }

    fn changes(&self, slice: Slice) -> impl Iterator<Item = &Change> {
        std::iter::once(&self.folded).chain(self.windows.range(..slice.before).map(|(_, change)| change))
    }

    /// Adds the hashes of some partitions.
    pub(crate) fn add(&self, scan: &mut PairScan, partitions: RangeInclusive<u16>) {
        let first = *partitions.start();
        // Looked up once for each partition that has anything.
        let mut classes = vec![None; partitions.len()];
        let (peer, all) = (scan.peer, &mut scan.pair.leaves);
        for change in self.changes(scan.slice) {
            for (class, leaves) in change.leaves.iter().enumerate() {
                leaves.each_in(partitions.clone(), |partition, hash| {
                    let least = &mut classes[usize::from(partition.0 - first)];
                    if class >= *least.get_or_insert_with(|| self.first_class(partition, peer)) {
                        all[partition.index()] ^= hash;
                    }
                });
            }
            // Deletions are for all nodes.
            for leaves in change.tombstones.range(..scan.slice.dropped_before).map(|(_, leaves)| leaves) {
                leaves.each_in(partitions.clone(), |partition, hash| all[partition.index()] ^= hash);
            }
        }
    }

    /// The least number of nodes, counted from 0, that cells of a partition are for if both nodes hold them.
    fn first_class(&self, partition: Partition, peer: NodeId) -> usize {
        let list = self.placement.preference_list(partition);
        list.iter().rposition(|&node| node == self.me || node == peer).unwrap_or(0)
    }

    fn fold(&mut self) {
        while self.windows.len() > WINDOWS_MAX {
            let Some((window, change)) = self.windows.pop_first() else { return };
            self.fold_in(&change);
            self.folded_before = next_window(window);
        }
    }

    fn fold_in(&mut self, change: &Change) {
        for (folded, leaves) in self.folded.leaves.iter_mut().zip(&change.leaves) {
            folded.toggle_all(leaves);
        }
        for (&window, tombstones) in &change.tombstones {
            if window < self.dropped_before {
                self.folded.leaves[self.nodes - 1].toggle_all(tombstones);
            } else {
                self.folded.tombstones.entry(window).or_default().toggle_all(tombstones);
            }
        }
    }
}

fn mark_in(change: &mut Change, partition: Partition, key_hash: u64, mark: CellMark, nodes: usize) {
    let version = mark.stamp.version;
    let hash = cell_hash(key_hash, version);
    let copies = match mark.stamp.copies {
        _ if mark.is_tombstone => nodes,
        0 => nodes,
        copies => usize::from(copies).min(nodes),
    };
    change.leaves[copies - 1].toggle(partition, hash);
    if mark.is_tombstone {
        change.tombstones.entry(window_start(version.timestamp)).or_default().toggle(partition, hash);
    }
}

const fn next_window(window: u64) -> u64 {
    window + HybridClock::at_wall_ms(WINDOW_MS)
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
