//! What nodes have made durable, and whether they have it when they start.

use std::collections::{BTreeMap, BTreeSet};

use ladoga_model::{CellMark, Version};

use super::Checker;
use crate::values::Key;
use crate::written::{CheckedCell, value_of};

/// What is on the disk of a machine, for as long as that is there.
#[derive(Debug, Default)]
pub(super) struct OneDisk {
    /// The newest version of each key that was made durable.
    newest: BTreeMap<Key, Version>,
    /// What may be gone one day, whether or not it was made durable: deletions, and what expires.
    passing: BTreeSet<(Key, Version)>,
}

impl Checker {
    /// A node loses its disk.
    pub(crate) fn lost_disk(&mut self, node: usize) {
        for (version, written) in &mut self.versions {
            let is_known = |(other, held): (usize, &BTreeMap<Key, Version>)| {
                other != node && held.get(&written.key).is_some_and(|held| held >= version)
            };
            let is_own = written.machine == Some(node);
            written.is_orphan |= is_own && !self.durable.iter().enumerate().any(is_known);
        }
        self.disks[node] = OneDisk::default();
    }

    /// A node makes a cell durable, at this place of the key's preference list.
    pub(crate) fn applied(&mut self, node: usize, place: usize, key: &Key, cell: &CheckedCell) {
        let version = cell.stamp.version;
        if let Some(written) = self.versions.get_mut(&version) {
            written.is_orphan &= written.machine == Some(node);
        }
        let Some(written) = self.versions.get(&version).cloned() else {
            return self.check(false, || format!("node {node} has {version:?}, which nobody wrote"));
        };
        let value = value_of(cell);
        let is_same = written.is_in(key, cell);
        self.check(is_same, || format!("node {node} has {cell:?}, but {written:?} was written"));
        let has_lost = value.is_none() && written.value.is_some();
        self.check(!has_lost || written.may_be_nothing(self.wall_ms()), || {
            format!("node {node} has {version:?} without its value, before that expires")
        });
        self.large_stored += u64::from(value.is_some_and(|value| crate::is_large(value)));
        let is_copy = !cell.mark().is_tombstone;
        // Or nodes that join would be among those that it is for.
        self.check(!is_copy || cell.stamp.copies > 0, || {
            format!("{version:?} does not say for how many nodes it is, expected {}", written.copies)
        });
        let is_for_it = place < written.copies || self.lists.may_be_anywhere(&written);
        self.check(!is_copy || is_for_it, || {
            format!("node {node} at place {place} has a copy of {version:?}, which is for {}", written.copies)
        });
        self.note_durable(node, key, version);
    }

    /// A node had this version of a key when it decided about it, and what it had then is as durable as what it answers. It may have
    /// it from before a power cut that came between the sync and the answer, of which nobody was told.
    pub(crate) fn found(&mut self, node: usize, key: &Key, version: Version) {
        if self.versions.contains_key(&version) {
            self.note_durable(node, key, version);
        }
    }

    /// Whether a node ever had a key.
    pub(crate) fn ever_held(&self, node: usize, key: &Key) -> bool {
        self.durable[node].contains_key(key)
    }

    fn note_durable(&mut self, node: usize, key: &Key, version: Version) {
        for held in [&mut self.durable[node], &mut self.disks[node].newest] {
            let newest = held.entry(key.clone()).or_default();
            *newest = version.max(*newest);
        }
    }

    /// A node is about to make a cell durable, and nobody may be told whether it did.
    pub(crate) fn begins(&mut self, node: usize, key: &Key, cell: &CheckedCell) {
        self.seen(key, cell);
        if cell.mark().deleted_at().is_some() {
            self.disks[node].passing.insert((key.clone(), cell.stamp.version));
        }
    }

    /// A node starts, and has these cells: however its last process ended, what it made durable is among them.
    pub(crate) fn starts(&mut self, node: usize, cells: &BTreeMap<Key, CellMark>) {
        let OneDisk { newest, passing } = &self.disks[node];
        let now_ms = self.wall_ms();
        let lost = newest.iter().find(|&(key, &version)| {
            let later = passing.range((key.clone(), version)..).take_while(|(other, _)| other == key);
            let may_be_gone = |(_, version): &(Key, Version)| {
                self.versions.get(version).is_some_and(|written| written.may_be_nothing(now_ms))
            };
            match cells.get(key) {
                // What is older was hidden, and does not come back.
                Some(cell) => cell.stamp.version < version,
                None => !later.into_iter().any(may_be_gone),
            }
        });
        if let Some((key, version)) = lost {
            let (found, key) = (cells.get(key).map(|cell| cell.stamp.version), key.escape_ascii());
            self.breaks(format!(
                "{node} made {version:?} of {key} durable, and has {found:?} when it starts"
            ));
        }
    }
}
