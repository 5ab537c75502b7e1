use std::collections::HashMap;

use bytes::Bytes;
use ladoga_model::{Cell, CellMark, Stamp, Value};
use ladoga_service::{NUMBER_BYTES_MAX, parse_number};
use ladoga_storage::{FinishedBlob, WriteBatch};

use super::batches::{add_cell, open_batch};
use super::inbox::{Outcome, WaitingWrite};
use crate::store::{NewestCell, StoreError};

/// A decision about a key, or several, that is taken when it is committed.
pub(in super::super) struct Update {
    subject: Subject,
    /// Whether it is decided by the bytes of a value, however long, or writes them again.
    needs_value: bool,
    cells_max: usize,
    bytes_max: usize,
}

enum Subject {
    One(Bytes, Box<Decide>),
    /// Several keys, all different, whose cells are written all or none: they come into one batch.
    Together(Vec<Bytes>, Box<DecideTogether>),
}

type Decide = dyn FnOnce(Option<NewestCell>) -> Decision + Send;
type DecideTogether = dyn FnOnce(Vec<Option<NewestCell>>) -> Vec<(usize, KnownCell)> + Send;

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
    /// An update whose value has at most so many bytes in memory. Of a value that is too long for a number it may learn the length alone,
    /// as of a large one.
    pub(in super::super) fn new(
        key: &[u8],
        value_bytes_max: u64,
        decide: impl FnOnce(Option<NewestCell>) -> Decision + Send + 'static,
    ) -> Update {
        Update {
            cells_max: 1,
            bytes_max: WriteBatch::cell_bytes_max(key.len(), value_bytes_max as usize),
            needs_value: false,
            subject: Subject::One(Bytes::copy_from_slice(key), Box::new(decide)),
        }
    }

    /// The same, and it learns the whole value, if that is in memory.
    pub(in super::super) fn by_value(
        key: &[u8],
        value_bytes_max: u64,
        decide: impl FnOnce(Option<NewestCell>) -> Decision + Send + 'static,
    ) -> Update {
        Update { needs_value: true, ..Update::new(key, value_bytes_max, decide) }
    }

    /// An update of several different keys, which is decided by the newest cell of each, in the order of the keys. It learns of them what
    /// one of a single key does. It comes to at most so many cells and encoded bytes, each cell
    /// with the number of its key, which have to fit into one group.
    pub(in super::super) fn together(
        keys: Vec<Bytes>,
        (cells_max, bytes_max): (usize, usize),
        decide: impl FnOnce(Vec<Option<NewestCell>>) -> Vec<(usize, KnownCell)> + Send + 'static,
    ) -> Update {
        let subject = Subject::Together(keys, Box::new(decide));
        Update { subject, needs_value: false, cells_max, bytes_max }
    }

    /// The most cells that it comes to.
    pub(super) const fn cells_max(&self) -> usize {
        self.cells_max
    }

    /// The most that it takes in the log.
    pub(super) const fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn keys(&self) -> &[Bytes] {
        match &self.subject {
            Subject::One(key, _) => std::slice::from_ref(key),
            Subject::Together(keys, _) => keys,
        }
    }
}

/// The newest cells of the keys that updates are about, kept up to date while the group is decided.
pub(super) struct NewestCells(HashMap<Bytes, Known>);

struct Known {
    cell: Result<Option<Cell<Bytes, NotInline>>, StoreError>,
    /// What it was before the group.
    before: Option<CellMark>,
    /// Whether the group has a cell of the key.
    is_in_group: bool,
}

/// A value that is not in memory.
#[derive(Clone)]
enum NotInline {
    /// In a blob, named again for whoever writes it again.
    Blob(FinishedBlob),
    /// As nothing in the group goes by more than its length: it has so many bytes.
    LeftOut(u64),
}

impl NewestCells {
    /// Looks up what is stored before the group. There may be thousands of keys, and each may have a long value: so only those are kept
    /// that an update needs.
    pub(super) fn look_up<E>(
        updates: &[Update],
        find: impl Fn(&[u8]) -> Result<Result<Option<KnownCell>, StoreError>, E>,
    ) -> Result<NewestCells, E> {
        let mut cells = HashMap::with_capacity(updates.len());
        let keys = |whole: bool| {
            let updates = updates.iter().filter(move |update| update.needs_value == whole);
            updates.flat_map(Update::keys).map(move |key| (key, whole))
        };
        for (key, is_whole) in keys(true).chain(keys(false)) {
            if !cells.contains_key(key) {
                let found = find(key)?;
                let before = found.as_ref().ok().and_then(|cell| cell.as_ref().map(Cell::mark));
                let known = |cell: KnownCell| {
                    let cell = cell.map_large(NotInline::Blob);
                    if is_whole { cell } else { without_long_value(cell) }
                };
                let cell = found.map(|cell| cell.map(known));
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
                *newest = Some(cell.map_inline(Bytes::copy_from_slice).map_large(NotInline::Blob));
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
        for Update { subject, bytes_max, .. } in updates {
            let verdict = match subject {
                Subject::One(key, decide) => {
                    self.decide_one(&mut decided, (&key, decide), bytes_max, batch_bytes_max)
                }
                Subject::Together(keys, decide) => {
                    self.decide_together(&mut decided, (&keys, decide), bytes_max)
                }
            };
            decided.verdicts.push(verdict);
        }
        decided
    }

    fn decide_one(
        &mut self,
        decided: &mut Decided,
        (key, decide): (&Bytes, Box<Decide>),
        bytes_max: usize,
        batch_bytes_max: usize,
    ) -> Verdict {
        let known = self.0.get_mut(key).expect("each was looked up");
        let newest = match &known.cell {
            Ok(newest) => newest,
            Err(error) => return Verdict::Undecided(error.clone()),
        };
        let is_free = !known.is_in_group;
        let cell = match decide(newest.clone().map(as_newest)) {
            Decision::Write(cell) => cell,
            Decision::Stamp(stamp) => {
                let newest = newest.clone().expect("what is there gets another stamp");
                Cell { stamp, ..newest.map_large(NotInline::into_blob) }
            }
            Decision::Keep => return decided.verdict(is_free),
        };
        known.replace(&cell);
        let is_free = is_free && cell.value.is_none();
        let batches = if is_free { &mut decided.free } else { &mut decided.bound };
        let bytes = add_cell(open_batch(batches, batch_bytes_max), key, cell);
        assert!(bytes <= bytes_max, "an update comes to no more than it said");
        decided.verdict(is_free)
    }

    fn decide_together(
        &mut self,
        decided: &mut Decided,
        (keys, decide): (&[Bytes], Box<DecideTogether>),
        bytes_max: usize,
    ) -> Verdict {
        let (mut newest, mut is_free) = (Vec::with_capacity(keys.len()), true);
        for key in keys {
            let known = self.0.get(key).expect("each was looked up");
            match &known.cell {
                Ok(cell) => newest.push(cell.clone().map(as_newest)),
                Err(error) => return Verdict::Undecided(error.clone()),
            }
            is_free &= !known.is_in_group;
        }
        let cells = decide(newest);
        if cells.is_empty() {
            return decided.verdict(is_free);
        }
        is_free &= cells.iter().all(|(_, cell)| cell.value.is_none());
        // A batch of its own: a group is cut between batches, never within one.
        let mut batch = WriteBatch::new();
        for (number, cell) in cells {
            let key = &keys[number];
            self.0.get_mut(key).expect("each was looked up").replace(&cell);
            add_cell(&mut batch, key, cell);
        }
        assert!(batch.encoded_bytes() <= bytes_max, "an update comes to no more than it said");
        let batches = if is_free { &mut decided.free } else { &mut decided.bound };
        batches.push(batch);
        decided.verdict(is_free)
    }
}

impl Known {
    /// This cell takes the place of the newest one.
    fn replace(&mut self, cell: &KnownCell) {
        let newest = self.cell.as_mut().expect("what cannot be read is not replaced");
        let replaced = newest.as_ref().map(|newest| newest.stamp.version);
        assert!(replaced < Some(cell.stamp.version), "an update is newer than what it replaces");
        self.is_in_group = true;
        *newest = Some(cell.clone().map_large(NotInline::Blob));
    }
}

impl NotInline {
    fn value_bytes(&self) -> u64 {
        match self {
            NotInline::Blob(blob) => blob.value_bytes(),
            NotInline::LeftOut(bytes) => *bytes,
        }
    }

    fn into_blob(self) -> FinishedBlob {
        match self {
            NotInline::Blob(blob) => blob,
            NotInline::LeftOut(_) => unreachable!("the value of a key with an update that needs it is kept"),
        }
    }
}

/// The same; of a value that is longer than numbers are, with the number that it is nevertheless, or with its length alone.
fn without_long_value(cell: Cell<Bytes, NotInline>) -> Cell<Bytes, NotInline> {
    let short = |value: Value<Bytes, NotInline>| match value {
        Value::Inline(bytes) if bytes.len() > NUMBER_BYTES_MAX => {
            let left_out = || Value::Large(NotInline::LeftOut(bytes.len() as u64));
            let of_zeros_before = |number: i64| Value::Inline(Bytes::from(number.to_string()));
            parse_number(&bytes).map_or_else(left_out, of_zeros_before)
        }
        value => value,
    };
    Cell { stamp: cell.stamp, value: cell.value.map(short) }
}

/// What an update goes by.
fn as_newest(cell: Cell<Bytes, NotInline>) -> NewestCell {
    cell.map_large(|value| value.value_bytes())
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

impl Decided {
    /// Of what was just decided.
    fn verdict(&self, is_free: bool) -> Verdict {
        if is_free { Verdict::Free(self.free.len()) } else { Verdict::Bound(self.bound.len()) }
    }
}

/// What the answer to an update depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// On nothing else in its group: it was decided by what was stored before, and needs no more room than a deletion. What it wrote
    /// is in so many free batches.
    Free(usize),
    /// On its group, up to so many bound batches.
    Bound(usize),
    /// On nothing any more: its group failed, but behind what it depends on.
    Stored,
    /// The newest cell cannot be read.
    Undecided(StoreError),
}

impl Verdict {
    /// Its group failed, but so many of the free batches are stored, and so many of the bound ones; `None` if some are not that come
    /// before those.
    pub(super) fn note_stored(&mut self, free: Option<usize>, bound: Option<usize>) {
        let (needed, stored) = match *self {
            Verdict::Free(needed) => (needed, free),
            Verdict::Bound(needed) => (needed, bound),
            Verdict::Stored | Verdict::Undecided(_) => return,
        };
        if stored.is_some_and(|stored| needed <= stored) {
            *self = Verdict::Stored;
        }
    }
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
        Verdict::Free(_) if of_deletes != outcome => Some(of_deletes.clone()),
        Verdict::Free(_) | Verdict::Bound(_) => None,
        Verdict::Stored => Some(Ok(None)),
        Verdict::Undecided(error) => Some(Err(error.clone())),
    };
    let each = waiting.iter().zip(verdicts);
    each.filter_map(|(waiting, verdict)| Some((waiting.waiter, of_one(verdict)?))).collect()
}
