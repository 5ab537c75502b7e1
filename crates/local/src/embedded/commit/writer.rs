use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use ladoga_model::CellMark;
use ladoga_storage::{Cached, Cell, Durability, Engine, Error, ReadTier, Snapshot, WriteBatch};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use super::super::feed::Feed;
use super::super::read_error;
use super::batches::batch_bytes_max;
use super::group_outcome::{GroupOutcome, Unreadable};
use super::passing::{self, Passed};
use super::update::{Decided, KnownCell, NewestCells, Update, Verdict};
use crate::store::{CellChange, CellGate, CellObserver, StoreError};

/// How many batches of a group are stored, and why no more are.
type StoredBatches = (usize, Result<(), Error>);

/// Writes groups to the engine, one after the other, and tells who observes what they replaced. In the same turn, cells pass
/// the gate and updates are decided, so that nothing comes between.
pub(super) struct GroupWriter {
    engine: Arc<Engine>,
    observer: OnceLock<Arc<dyn CellObserver>>,
    gate: OnceLock<Arc<dyn CellGate>>,
    feed: OnceLock<Arc<Feed>>,
    batch_bytes_max: usize,
    /// Held while a group is written: what is the newest cell at its beginning is what the group replaces. True if a write
    /// panicked while it was held.
    turn: Mutex<bool>,
}

/// What is to be written at once.
#[derive(Default)]
pub(super) struct WriteGroup {
    /// First the puts, then the deletes, which a full disk still takes.
    pub(super) batches: Vec<WriteBatch>,
    /// Where the deletes begin.
    pub(super) puts: usize,
    /// Decided after all of them.
    pub(super) updates: Vec<Update>,
}

/// The outcome of a group.
pub(super) struct WrittenGroup {
    pub(super) outcome: Result<(), Error>,
    /// Of the deletes, and of updates that depend on nothing else in the group.
    pub(super) of_deletes: Result<(), Error>,
    /// Up to which of the cells that came the puts are stored, and up to which the deletes.
    pub(super) puts_stored: usize,
    pub(super) deletes_stored: usize,
    /// Cells that did not pass as they came.
    pub(super) passed: Vec<Passed>,
    /// Of each update.
    pub(super) verdicts: Vec<Verdict>,
}

/// The disk has to be asked.
struct NeedsDisk;

impl GroupWriter {
    pub(super) fn new(engine: Arc<Engine>) -> GroupWriter {
        GroupWriter {
            batch_bytes_max: batch_bytes_max(engine.group_bytes_max()),
            engine,
            observer: OnceLock::new(),
            gate: OnceLock::new(),
            feed: OnceLock::new(),
            turn: Mutex::default(),
        }
    }

    /// Notifies an observer of everything that is written from now on.
    pub(super) fn observe(&self, observer: Arc<dyn CellObserver>) {
        assert!(self.observer.set(observer).is_ok(), "there is one observer");
    }

    /// Checks everything that is written from now on at this gate.
    pub(super) fn gate(&self, gate: Arc<dyn CellGate>) {
        assert!(self.gate.set(gate).is_ok(), "there is one gate");
    }

    /// Tells this feed of everything that is written from now on.
    pub(super) fn feed(&self, feed: Arc<Feed>) {
        assert!(self.feed.set(feed).is_ok(), "there is one feed");
    }

    /// Whether an observer is notified of what is written.
    pub(super) fn is_observed(&self) -> bool {
        self.observer.get().is_some()
    }

    /// Has a feed begin, or move on. It does neither if a write panicked: nothing is written any more.
    pub(super) fn begin_to_follow(&self, feed: &Feed) {
        let begun = in_turn(&mut self.turn.lock(), || {
            feed.begin();
            Ok(())
        });
        if let Err(error) = begun {
            tracing::debug!(%error, "nobody can follow what is written");
        }
    }

    /// Restarts the observer, and answers a snapshot of that moment: the observer is not notified of what is in it. `None` if
    /// there is no observer, or a write panicked.
    pub(super) fn begin_to_tell(&self) -> Option<Snapshot> {
        let begin = |observer: &Arc<dyn CellObserver>| {
            observer.begins();
            self.engine.snapshot()
        };
        in_turn(&mut self.turn.lock(), || Ok(self.observer.get().map(begin))).ok().flatten()
    }

    /// Writes a group. May wait for the disk.
    pub(super) fn write(&self, group: WriteGroup, durability: Durability) -> Result<WrittenGroup, Error> {
        in_turn(&mut self.turn.lock(), || {
            let WriteGroup { mut batches, puts, updates } = group;
            let passed = self.gate.get().map_or_else(Vec::new, |gate| passing::pass(&**gate, &mut batches));
            let Decided { free, bound, mut verdicts } = self.decide(updates, &batches);
            let plain_end = batches.len();
            batches.extend(free);
            let deletes_end = batches.len();
            batches.extend(bound);
            let ((stored, outcome), became_newest) = self.write_told(&batches, durability);
            let first = stored.clamp(puts, deletes_end);
            let (more, of_deletes) = match &outcome {
                // A disk that has no room for a group may have some for its deletes alone.
                Err(error) if error.is_disk_full() => {
                    self.write_told(&batches[first..deletes_end], durability).0
                }
                outcome => (0, outcome.clone()),
            };
            let deletes_stored = first + more;
            if outcome.is_err() {
                let (free, bound) = (deletes_stored.checked_sub(plain_end), stored.checked_sub(deletes_end));
                verdicts.iter_mut().for_each(|verdict| verdict.note_stored(free, bound));
            }
            self.tell_feed(&batches, became_newest.as_ref().filter(|_| outcome.is_ok()));
            let [puts_stored, deletes_stored] = [stored.min(puts), deletes_stored.min(plain_end)]
                .map(|end| passing::cells_before(batches[..end].iter().map(WriteBatch::len).sum(), &passed));
            Ok(WrittenGroup { outcome, of_deletes, puts_stored, deletes_stored, passed, verdicts })
        })
    }

    /// A group was written, and which of its cells became the newest of their keys, if that is observed; or nobody knows: it failed, and
    /// a part of it may have been written, or what it replaces cannot be read.
    fn tell_feed(&self, batches: &[WriteBatch], became_newest: Option<&Vec<bool>>) {
        match (self.feed.get(), became_newest) {
            (Some(feed), Some(became_newest)) => feed.committed(batches, became_newest),
            (Some(feed), None) => feed.lost_track(),
            (None, _) => {}
        }
    }

    /// Decides updates that follow these writes.
    fn decide(&self, updates: Vec<Update>, batches: &[WriteBatch]) -> Decided {
        if updates.is_empty() {
            return Decided::default();
        }
        let find = |key: &[u8]| Ok::<_, Infallible>(newest_cell(self.engine.get_cell(key)));
        let Ok(mut newest) = NewestCells::look_up(&updates, find);
        newest.take_note_of(batches);
        newest.decide(updates, self.batch_bytes_max)
    }

    /// Writes a group. Answers how many of the batches are stored and the outcome, and which of the cells became the newest of their
    /// keys, if that is observed; none if that is not known.
    fn write_told(
        &self,
        batches: &[WriteBatch],
        durability: Durability,
    ) -> (StoredBatches, Option<Vec<bool>>) {
        let write = || self.engine.write_in_parts(batches, durability);
        let Some(observer) = self.observer.get() else { return (write(), Some(Vec::new())) };
        let Ok(outcome) =
            GroupOutcome::of(batches, |key| Ok::<_, Infallible>(newest(self.engine.get_cell(key))));
        let written = write();
        match &written {
            (_, Ok(())) => outcome.tell(&**observer),
            // What is too large for the engine is written in parts, of which those before the one that failed are stored. Who wrote
            // those asks what they met; of the others nothing is told, since each time that is told counts as a commit.
            (stored, Err(_)) => {
                observer.replaced(&self.stored_of(batches, &outcome.changes));
                let cells = batches[..*stored].iter().map(WriteBatch::len).sum();
                outcome.tell_superseded(cells, &**observer);
            }
        }
        (written, outcome.known_newest().cloned())
    }

    /// What is newer in the engine than before these batches, of which a part may be stored: one change a key at most.
    fn stored_of(&self, batches: &[WriteBatch], changes: &[CellChange]) -> Vec<CellChange> {
        let mut before: HashMap<u64, Option<CellMark>> = HashMap::new();
        for change in changes {
            before.entry(change.key_hash).or_insert(change.old);
        }
        let stored = batches.iter().flat_map(WriteBatch::cells).filter_map(|(key, ..)| {
            let key_hash = xxh3_64(key);
            let old = before.remove(&key_hash)?;
            let new = newest(self.engine.get_cell(key)).ok()??;
            let is_newer = old.is_none_or(|old| old.stamp.version < new.stamp.version);
            is_newer.then_some(CellChange { key_hash, old, new })
        });
        stored.collect()
    }

    /// Writes batches as one group, if that takes no waiting for memory, for another group, or for the disk, but for the sync of a
    /// durability that asks for one. Answers the cells
    /// that did not pass the gate as they came; or `None`, with nothing done, if it takes waiting, or if cells do not pass that
    /// an observer is to be notified of.
    pub(super) fn try_write(
        &self,
        batches: &mut [WriteBatch],
        durability: Durability,
    ) -> Result<Option<Vec<Passed>>, Error> {
        let Some(mut turn) = self.turn.try_lock() else { return Ok(None) };
        let closed = self.gate.get().filter(|gate| !passing::is_open(&***gate, batches));
        in_turn(&mut turn, || match (self.observer.get(), closed) {
            (Some(_), Some(_)) => Ok(None),
            (Some(observer), None) => {
                Ok(self.try_write_told((batches, durability), &**observer)?.then(Vec::new))
            }
            (None, closed) => self.try_write_passing((batches, durability), closed.map(|gate| &**gate)),
        })
    }

    fn try_write_told(
        &self,
        (batches, durability): (&[WriteBatch], Durability),
        observer: &dyn CellObserver,
    ) -> Result<bool, Error> {
        let outcome = GroupOutcome::of(batches, |key| self.newest_in_memory(key));
        let Ok(outcome) = outcome else { return Ok(false) };
        let written = self.engine.try_write_group_as(batches, durability);
        match &written {
            Ok(true) => {
                outcome.tell(observer);
                self.tell_feed(batches, outcome.known_newest());
            }
            Ok(false) => {}
            Err(_) => self.tell_feed(batches, None),
        }
        written
    }

    fn try_write_passing(
        &self,
        (batches, durability): (&mut [WriteBatch], Durability),
        closed: Option<&dyn CellGate>,
    ) -> Result<Option<Vec<Passed>>, Error> {
        let mut passed = Vec::new();
        let written = match closed {
            None => self.engine.try_write_group_as(batches, durability),
            Some(gate) => {
                let records = batches.iter().map(WriteBatch::len).sum();
                let bytes = batches.iter().map(WriteBatch::encoded_bytes).sum();
                // Not before it is sure that they are written now: who waits is told of a new version with the outcome alone.
                let made = self.engine.try_write_made((records, bytes), durability, || {
                    passed = passing::pass(gate, batches);
                    &*batches
                });
                made.map(|made| made.is_some())
            }
        };
        match &written {
            Ok(false) => return Ok(None),
            written => self.tell_feed(batches, written.is_ok().then_some(&Vec::new())),
        }
        written.map(|_| Some(passed))
    }

    /// Decides updates and writes the result, if that takes no waiting. Then it empties `updates` and answers the verdicts;
    /// otherwise it answers `None` and changes nothing.
    pub(super) fn try_update(
        &self,
        updates: &mut Vec<Update>,
        durability: Durability,
    ) -> Result<Option<Vec<Verdict>>, Error> {
        let Some(mut turn) = self.turn.try_lock() else { return Ok(None) };
        in_turn(&mut turn, || {
            let find = |key: &[u8]| match self.engine.get_cell_cached(key, ReadTier::Memory) {
                Ok(Cached::NeedsDisk(_)) => Err(NeedsDisk),
                Ok(Cached::Found(cell)) => Ok(newest_cell(Ok(Some(cell)))),
                Ok(Cached::Absent) => Ok(Ok(None)),
                Err(error) => Ok(newest_cell(Err(error))),
            };
            let Ok(mut newest) = NewestCells::look_up(updates, find) else { return Ok(None) };
            let cells_max = updates.iter().map(Update::cells_max).sum();
            let room = (cells_max, updates.iter().map(Update::bytes_max).sum());
            let (mut verdicts, mut outcome) = (Vec::new(), GroupOutcome::default());
            let made = self.engine.try_write_made(room, durability, || {
                let Decided { mut free, bound, verdicts: decided } =
                    newest.decide(std::mem::take(updates), self.batch_bytes_max);
                free.extend(bound);
                verdicts = decided;
                if self.observer.get().is_some() {
                    let Ok(made) = GroupOutcome::of(&free, |key| Ok::<_, Infallible>(Ok(newest.before(key))));
                    outcome = made;
                }
                free
            });
            let made = made.inspect_err(|_| self.tell_feed(&[], None))?;
            let Some(made) = made else { return Ok(None) };
            if let Some(observer) = self.observer.get() {
                outcome.tell(&**observer);
            }
            self.tell_feed(&made, outcome.known_newest());
            Ok(Some(verdicts))
        })
    }

    fn newest_in_memory(&self, key: &[u8]) -> Result<Result<Option<CellMark>, Unreadable>, NeedsDisk> {
        match self.engine.get_cell_cached(key, ReadTier::Memory) {
            Ok(Cached::NeedsDisk(_)) => Err(NeedsDisk),
            Ok(Cached::Found(cell)) => Ok(newest(Ok(Some(cell)))),
            Ok(Cached::Absent) => Ok(Ok(None)),
            Err(error) => Ok(newest(Err(error))),
        }
    }
}

/// Fails if an earlier write panicked: then it is unknown which of its cells are in the log and which in memory.
fn in_turn<T>(is_broken: &mut bool, write: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    if std::mem::replace(is_broken, true) {
        return Err(Error::Poisoned { reason: "a write panicked".to_owned() });
    }
    let outcome = write();
    *is_broken = false;
    outcome
}

/// The newest cell of a key, as far as it can be read. If it is damaged it counts as absent: refusing the write would leave the
/// key damaged for ever, and fail every write of the same group. The Merkle tree then differs from the other replicas' in one
/// partition, which is compared in every sync round. Who follows changes reads the tables: what is written may be older than what they
/// were told.
fn newest(found: Result<Option<Cell>, Error>) -> Result<Option<CellMark>, Unreadable> {
    let cell = found.map_err(|error| {
        tracing::error!(%error, "the value that a write replaces cannot be read");
        Unreadable
    })?;
    Ok(cell.map(|cell| cell.mark()))
}

/// What was found as the newest of a key, as an update goes by it.
fn newest_cell(found: Result<Option<Cell>, Error>) -> Result<Option<KnownCell>, StoreError> {
    let cell = found.map_err(|error| read_error(&error))?;
    Ok(cell.map(|cell| cell.map_large(|blob| blob.to_name_again())))
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
