//! The leaves that two nodes compare, computed in small steps.
//!
//! ```text
//! calls := of_all|of_groups step* finish       a step for as long as there is more, with anything else between two
//! ```
//!
//! A node may write between two steps. Each leaf is consistent at one moment, and a later write looks to the leaves that were
//! computed before it as if it had come after all steps. So a write can disturb the comparison only if it is older than the
//! slice. Only repairs are, and what they bring is compared again in the next sync round.

use xxhash_rust::xxh3::xxh3_64;

use crate::nodes::NodeId;
use crate::placement::{PARTITIONS, Partition};
use crate::slice::AsOf;
use crate::tree::MerkleTree;

/// Partitions of a group, and groups.
pub(crate) const GROUP: usize = 256;
const _: () = assert!(GROUP * GROUP == PARTITIONS);
static EMPTY: [u64; GROUP] = [0; GROUP];
/// Leaves that a step looks at: some tens of microseconds.
pub const SCAN_LEAVES_MAX: usize = 16_384;

/// The leaves that two nodes compare, as far as they are put together.
#[derive(Debug)]
pub struct MerkleDiff {
    peer: NodeId,
    slice: AsOf,
    pair: PairLeaves,
    /// The groups to compute, and the index of the next one.
    groups: Vec<u8>,
    at: usize,
    /// How many of its partitions have been.
    done: usize,
    /// Most groups of a small store are.
    hash_of_empty: u64,
}

impl MerkleDiff {
    /// Of all partitions.
    pub fn of_all(peer: NodeId, slice: AsOf) -> MerkleDiff {
        MerkleDiff::of_groups(peer, slice, (0..=u8::MAX).collect())
    }

    /// Of the partitions of some groups.
    pub fn of_groups(peer: NodeId, slice: AsOf, groups: Vec<u8>) -> MerkleDiff {
        let pair = PairLeaves { leaves: vec![None; GROUP], hashes: vec![0; GROUP] };
        MerkleDiff { peer, slice, pair, groups, at: 0, done: 0, hash_of_empty: hash(&EMPTY) }
    }

    /// Computes [`SCAN_LEAVES_MAX`] leaves or fewer. Answers whether there are more; `None` if it is too late for the slice, or
    /// the slice has tombstones that are left out of the tree.
    pub fn step(&mut self, tree: &MerkleTree) -> Option<bool> {
        if !tree.has(self.slice) {
            return None;
        }
        let mut left = (SCAN_LEAVES_MAX / tree.leaves_of(self.slice)).max(1);
        while left > 0
            && let Some(&group) = self.groups.get(self.at)
        {
            let count = left.min(GROUP - self.done);
            let first = u16::from(group) * GROUP as u16 + self.done as u16;
            let partitions = first..=first + (count - 1) as u16;
            let leaves = &mut self.pair.leaves[usize::from(group)];
            tree.visit_shared(self.slice, self.peer, partitions, |partition, hash| {
                leaves.get_or_insert_with(|| Box::new(EMPTY))[partition.index() % GROUP] ^= hash;
            });
            left -= count;
            self.done += count;
            if self.done == GROUP {
                // A cell that was added and removed again leaves zeros.
                drop(leaves.take_if(|leaves| **leaves == EMPTY));
                self.pair.hashes[usize::from(group)] =
                    leaves.as_deref().map_or(self.hash_of_empty, |leaves| hash(leaves));
                (self.at, self.done) = (self.at + 1, 0);
            }
        }
        Some(self.at < self.groups.len())
    }

    /// All leaves.
    ///
    /// # Panics
    /// If the last step answered that there are more.
    pub fn finish(self) -> PairLeaves {
        assert_eq!(self.at, self.groups.len(), "there are more to look at");
        self.pair
    }
}

impl MerkleTree {
    /// The leaves over the cells that both this node and `peer` hold, all at once: see [`MerkleDiff`]. `None` if it is too late
    /// for this slice, or the slice has tombstones that are left out here.
    pub fn pair(&self, peer: NodeId, slice: AsOf) -> Option<PairLeaves> {
        let mut scan = MerkleDiff::of_all(peer, slice);
        while scan.step(self)? {}
        Some(scan.finish())
    }
}

fn hash(leaves: &[u64]) -> u64 {
    let mut bytes = [0; GROUP * size_of::<u64>()];
    for (bytes, leaf) in bytes.chunks_exact_mut(size_of::<u64>()).zip(leaves) {
        bytes.copy_from_slice(&leaf.to_le_bytes());
    }
    xxh3_64(&bytes)
}

/// The leaves that two nodes compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairLeaves {
    /// By group; none if all of them are zero, as they are of most groups of a small store.
    leaves: Vec<Option<Box<[u64; GROUP]>>>,
    /// By group.
    hashes: Vec<u64>,
}

impl PairLeaves {
    /// A hash for each group of partitions.
    pub fn groups(&self) -> &[u64] {
        &self.hashes
    }

    /// The leaves of a group.
    pub fn group(&self, group: u8) -> &[u64] {
        self.leaves[usize::from(group)].as_deref().unwrap_or(&EMPTY)
    }

    /// Which groups differ from a peer's hashes; `None` if these are not one for each group.
    pub fn differing_groups(&self, theirs: &[u64]) -> Option<Vec<u8>> {
        let pairs = (0..=u8::MAX).zip(self.hashes.iter().zip(theirs));
        let differing = pairs.filter(|(_, (ours, theirs))| ours != theirs).map(|(group, _)| group);
        (theirs.len() == self.hashes.len()).then(|| differing.collect())
    }

    /// Which partitions of these groups differ from a peer's leaves; `None` if these are not as many as there are.
    pub fn differing_partitions(&self, groups: &[u8], theirs: &[u64]) -> Option<Vec<Partition>> {
        if theirs.len() != groups.len() * GROUP {
            return None;
        }
        let mut differing = Vec::new();
        for (&group, theirs) in groups.iter().zip(theirs.chunks(GROUP)) {
            let pairs = self.group(group).iter().zip(theirs).enumerate();
            differing.extend(
                pairs
                    .filter(|(_, (ours, theirs))| ours != theirs)
                    .map(|(leaf, _)| Partition(u16::from(group) * GROUP as u16 + leaf as u16)),
            );
        }
        Some(differing)
    }
}
