use std::collections::HashMap;

use bytes::Bytes;
use ladoga_model::{Cell, CellMark, Stamp};
use ladoga_storage::{FinishedBlob, WriteBatch};

use super::batches::{add_cell, open_batch};
use super::inbox::{Outcome, WaitingWrite};
use crate::store::{NewestCell, StoreError};

/// A decision about a key that is taken when it is committed.
pub(in super::super) struct Update {
    key: Bytes,
    decide: Box<Decide>,
    cell_bytes_max: usize,
}

type Decide = dyn FnOnce(Option<NewestCell>) -> Decision + Send;

/// What is decided about a key.
pub(in super::super) enum Decision {
    /// It keeps the cell that it has.
    Keep,
    /// It gets this one.
    Write(Cell<Bytes, FinishedBlob>),
    /// It keeps the value, or the deletion, that it has, under this stamp.
    Stamp(Stamp),
}

/// A cell, with what its value is to be written again by.
pub(super) type KnownCell = Cell<Bytes, FinishedBlob>;

impl Update {
    /// An update whose value has at most so many bytes in memory.
    pub(in super::super) fn new(
        key: &[u8],
        value_bytes_max: u64,
        decide: impl FnOnce(Option<NewestCell>) -> Decision + Send + 'static,
    ) -> Update {
        Update {
            cell_bytes_max: WriteBatch::cell_bytes_max(key.len(), value_bytes_max as usize),
            key: Bytes::copy_from_slice(key),
            decide: Box::new(decide),
        }
    }

    /// The most that it takes in the log.
    pub(super) const fn cell_bytes_max(&self) -> usize {
        self.cell_bytes_max
    }
}

/// The newest cells of the keys that updates are about, kept up to date while the group is decided.
pub(super) struct NewestCells(HashMap<Bytes, Known>);

struct Known {
    cell: Result<Option<KnownCell>, StoreError>,
    /// What it was before the group.
    before: Option<CellMark>,
    /// Whether the group has a cell of the key.
    is_in_group: bool,
}

impl NewestCells {
    /// Looks up what is stored before the group.
    pub(super) fn look_up<E>(
        updates: &[Update],
        find: impl Fn(&[u8]) -> Result<Result<Option<KnownCell>, StoreError>, E>,
    ) -> Result<NewestCells, E> {
        let mut cells = HashMap::with_capacity(updates.len());
        for Update { key, .. } in updates {
            if !cells.contains_key(key) {
                let cell = find(key)?;
                let before = cell.as_ref().ok().and_then(|cell| cell.as_ref().map(Cell::mark));
                cells.insert(key.clone(), Known { cell, before, is_in_group: false });
            }
        }
        Ok(NewestCells(cells))
    }

    /// Applies what the group writes before its updates.
    pub(super) fn take_note_of(&mut self, batches: &[WriteBatch]) {
        for (key, cell) in batches.iter().flat_map(WriteBatch::cells_to_name_again) {
            let Some(known) = self.0.get_mut(key) else { continue };
            known.is_in_group = true;
            if let Ok(newest) = &mut known.cell
                && newest.as_ref().is_none_or(|newest| newest.stamp.version < cell.stamp.version)
            {
                *newest = Some(cell.map_inline(Bytes::copy_from_slice));
            }
        }
    }

    /// What the newest cell of a key was before the group.
    pub(super) fn before(&self, key: &[u8]) -> Option<CellMark> {
        self.0.get(key).and_then(|known| known.before)
    }

    /// Decides, one update after the other.
    pub(super) fn decide(&mut self, updates: Vec<Update>, batch_bytes_max: usize) -> Decided {
        let mut decided = Decided::default();
        for Update { key, decide, cell_bytes_max } in updates {
            let known = self.0.get_mut(&key).expect("each was looked up");
            let newest = match &mut known.cell {
                Ok(newest) => newest,
                Err(error) => {
                    decided.verdicts.push(Verdict::Undecided(error.clone()));
                    continue;
                }
            };
            let is_free = !known.is_in_group;
            let cell = match decide(newest.clone().map(as_newest)) {
                Decision::Write(cell) => cell,
                Decision::Stamp(stamp) => {
                    Cell { stamp, ..newest.clone().expect("what is there gets another stamp") }
                }
                Decision::Keep => {
                    decided.verdicts.push(if is_free { Verdict::Free } else { Verdict::Bound });
                    continue;
                }
            };
            let replaced = newest.as_ref().map(|newest| newest.stamp.version);
            assert!(replaced < Some(cell.stamp.version), "an update is newer than what it replaces");
            known.is_in_group = true;
            *newest = Some(cell.clone());
            let is_free = is_free && cell.value.is_none();
            let batches = if is_free { &mut decided.free } else { &mut decided.bound };
            let bytes = add_cell(open_batch(batches, batch_bytes_max), &key, cell);
            assert!(bytes <= cell_bytes_max, "an update comes to no more than it said");
            decided.verdicts.push(if is_free { Verdict::Free } else { Verdict::Bound });
        }
        decided
    }
}

/// What an update goes by.
fn as_newest(cell: KnownCell) -> NewestCell {
    cell.map_large(|blob| blob.value_bytes())
}

/// What updates came to.
#[derive(Default)]
pub(super) struct Decided {
    /// Deletions that were decided by nothing in their group: a full disk still takes them.
    pub(super) free: Vec<WriteBatch>,
    /// All other cells.
    pub(super) bound: Vec<WriteBatch>,
    /// Of each update, in their order.
    pub(super) verdicts: Vec<Verdict>,
}

/// What the answer to an update depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// On nothing else in its group: it was decided by what was stored before, and needs no more room than a deletion.
    Free,
    /// On its group.
    Bound,
    /// The newest cell cannot be read.
    Undecided(StoreError),
}

/// The answers that differ from the outcome of the group: `outcome` is the group's, `of_deletes` the outcome of deletions and
/// of what depends on nothing else in the group.
pub(super) fn exceptions<'v>(
    waiting: &[WaitingWrite],
    verdicts: impl Iterator<Item = &'v Verdict>,
    outcome: &Outcome,
    of_deletes: &Outcome,
) -> Vec<(u32, Outcome)> {
    let of_one = |verdict: &Verdict| match verdict {
        Verdict::Free if of_deletes != outcome => Some(of_deletes.clone()),
        Verdict::Free | Verdict::Bound => None,
        Verdict::Undecided(error) => Some(Err(error.clone())),
    };
    let each = waiting.iter().zip(verdicts);
    each.filter_map(|(waiting, verdict)| Some((waiting.waiter, of_one(verdict)?))).collect()
}
