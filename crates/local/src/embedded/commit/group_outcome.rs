use std::collections::HashMap;

use ladoga_model::CellMark;
use ladoga_storage::WriteBatch;
use xxhash_rust::xxh3::xxh3_64;

use crate::store::{CellChange, CellObserver, SupersededCell};

/// What becomes of the cells of a group.
#[derive(Default)]
pub(super) struct GroupOutcome {
    pub(super) changes: Vec<CellChange>,
    superseded: Vec<SupersededCell>,
    /// Of each of those, its number in all batches.
    superseded_numbers: Vec<usize>,
    /// Of each cell, by its number in all batches, whether it is one of the changes.
    became_newest: Vec<bool>,
    /// What one of the cells replaces could not be read: it counts as a change, and may be older.
    is_blind: bool,
}

/// The newest cell of a key cannot be read.
pub(super) struct Unreadable;

impl GroupOutcome {
    /// What the batches replace, if `newest` finds the newest cell of a key.
    pub(super) fn of<E>(
        batches: &[WriteBatch],
        newest: impl Fn(&[u8]) -> Result<Result<Option<CellMark>, Unreadable>, E>,
    ) -> Result<GroupOutcome, E> {
        let mut written: HashMap<u64, CellMark> = HashMap::new();
        let mut outcome = GroupOutcome::default();
        for (key, cell) in batches.iter().flat_map(WriteBatch::cells) {
            let key_hash = xxh3_64(key);
            let old = match written.get(&key_hash) {
                Some(mark) => Some(*mark),
                None => newest(key)?.unwrap_or_else(|Unreadable| {
                    outcome.is_blind = true;
                    None
                }),
            };
            let (new, version) = (cell.mark(), cell.stamp.version);
            let is_newest = old.is_none_or(|old| old.stamp.version < version);
            outcome.became_newest.push(is_newest);
            match old.map(|old| old.stamp.version) {
                Some(newest) if newest > version => {
                    outcome.superseded_numbers.push(outcome.became_newest.len() - 1);
                    outcome.superseded.push(SupersededCell { key_hash, version, newest });
                }
                // It is there already.
                Some(known) if known == version => {}
                _ => {
                    written.insert(key_hash, new);
                    outcome.changes.push(CellChange { key_hash, old, new });
                }
            }
        }
        Ok(outcome)
    }

    /// Which of the cells became the newest of their keys; none if that is not known of all.
    pub(super) fn known_newest(&self) -> Option<&Vec<bool>> {
        Some(&self.became_newest).filter(|_| !self.is_blind)
    }

    pub(super) fn tell(&self, observer: &dyn CellObserver) {
        observer.replaced(&self.changes);
        self.tell_superseded(usize::MAX, observer);
    }

    /// Tells which of the first so many cells met something newer.
    pub(super) fn tell_superseded(&self, cells: usize, observer: &dyn CellObserver) {
        let end = self.superseded_numbers.partition_point(|number| *number < cells);
        if end > 0 {
            observer.superseded(&self.superseded[..end]);
        }
    }
}
