use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::placement::{PARTITIONS, Partition};

/// From this many entries on, an array is smaller than a map.
const SPARSE_MAX: usize = PARTITIONS / 4;
/// What an entry of a map takes, its share of nodes that are not full included.
const FEW_BYTES: usize = 20;

/// Hashes by the number of nodes that cells are for, counted from 0.
#[derive(Debug, Clone)]
pub(crate) struct LeavesByClass(Vec<Leaves>);

impl LeavesByClass {
    /// Empty leaves, for cells that are for up to so many nodes.
    pub(crate) fn of(nodes: usize) -> LeavesByClass {
        LeavesByClass(vec![Leaves::default(); nodes])
    }

    pub(crate) fn toggle(&mut self, class: usize, partition: Partition, hash: u64) {
        self.0[class].toggle(partition, hash);
    }

    pub(crate) fn toggle_all(&mut self, other: &LeavesByClass) {
        self.0.iter_mut().zip(&other.0).for_each(|(leaves, other)| leaves.toggle_all(other));
    }

    /// All of them, with their class.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Leaves)> {
        self.0.iter().enumerate()
    }

    /// What they take of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Leaves::bytes).sum()
    }
}

/// Hashes by partition, of the cells that are for the same number of nodes.
#[derive(Debug, Clone)]
pub(crate) enum Leaves {
    Few(BTreeMap<u16, u64>),
    Many(Vec<u64>),
}

impl Default for Leaves {
    fn default() -> Leaves {
        Leaves::Few(BTreeMap::new())
    }
}

impl Leaves {
    pub(crate) fn toggle(&mut self, partition: Partition, hash: u64) {
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
    pub(crate) fn each_in(&self, partitions: RangeInclusive<u16>, mut visit: impl FnMut(Partition, u64)) {
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

    pub(crate) fn toggle_all(&mut self, other: &Leaves) {
        other.each_in(0..=u16::MAX, |partition, hash| self.toggle(partition, hash));
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Leaves::Few(leaves) if leaves.is_empty())
    }

    /// What they take of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Leaves::Few(leaves) => leaves.len() * FEW_BYTES,
            Leaves::Many(leaves) => leaves.len() * size_of::<u64>(),
        }
    }
}
