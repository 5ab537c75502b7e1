use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use ladoga_model::CellMark;
use ladoga_storage::{Cached, Cell, Engine, Error, ReadTier, Snapshot, WriteBatch};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::store::{CellChange, CellObserver, SupersededCell};

/// Writes groups to the engine, one after the other, and tells who observes what they replaced.
pub(super) struct GroupWriter {
    engine: Arc<Engine>,
    observer: OnceLock<Arc<dyn CellObserver>>,
    /// Held for a group, so that what is the newest when it begins is what it replaces. Whether one did not come to its end.
    turn: Mutex<bool>,
}

/// The disk has to be asked.
struct NeedsDisk;

impl GroupWriter {
    pub(super) fn new(engine: Arc<Engine>) -> GroupWriter {
        GroupWriter { engine, observer: OnceLock::new(), turn: Mutex::default() }
    }

    /// Has everything that is written from now on told to an observer.
    pub(super) fn observe(&self, observer: Arc<dyn CellObserver>) {
        assert!(self.observer.set(observer).is_ok(), "there is one observer");
    }

    /// Has the observer begin anew; answers the moment before which it is told of nothing. `None` where there is no
    /// observer, or a write panicked.
    pub(super) fn begin_to_tell(&self) -> Option<Snapshot> {
        let begin = |observer: &Arc<dyn CellObserver>| {
            observer.begins();
            self.engine.snapshot()
        };
        in_turn(&mut self.turn.lock(), || Ok(self.observer.get().map(begin))).ok().flatten()
    }

    /// Writes batches as one group.
    pub(super) fn write(&self, batches: &[WriteBatch]) -> Result<(), Error> {
        in_turn(&mut self.turn.lock(), || {
            let Some(observer) = self.observer.get() else { return self.engine.write_group(batches) };
            let Ok(outcome) =
                GroupOutcome::of(batches, |key| Ok::<_, Infallible>(newest(self.engine.get_cell(key))));
            let written = self.engine.write_group(batches);
            match &written {
                Ok(()) => outcome.tell(&**observer),
                // What is too large for the engine is written in parts, of which those before the one that failed are stored.
                Err(_) => observer.replaced(&self.stored_of(batches, &outcome.changes)),
            }
            written
        })
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
            let new = newest(self.engine.get_cell(key))?;
            let is_newer = old.is_none_or(|old| old.stamp.version < new.stamp.version);
            is_newer.then_some(CellChange { key_hash, old, new })
        });
        stored.collect()
    }

    /// The same, where it takes no waiting: for the disk, for space in memory, or for somebody else's group. False, with
    /// nothing done, where it does.
    pub(super) fn try_write(&self, batches: &[WriteBatch]) -> Result<bool, Error> {
        let Some(mut turn) = self.turn.try_lock() else { return Ok(false) };
        in_turn(&mut turn, || {
            let Some(observer) = self.observer.get() else { return self.engine.try_write_group(batches) };
            let outcome = GroupOutcome::of(batches, |key| self.newest_in_memory(key));
            let Ok(outcome) = outcome else { return Ok(false) };
            let is_written = self.engine.try_write_group(batches)?;
            if is_written {
                outcome.tell(&**observer);
            }
            Ok(is_written)
        })
    }

    fn newest_in_memory(&self, key: &[u8]) -> Result<Option<CellMark>, NeedsDisk> {
        match self.engine.get_cell_cached(key, ReadTier::Memory) {
            Ok(Cached::NeedsDisk(_)) => Err(NeedsDisk),
            Ok(Cached::Found(cell)) => Ok(newest(Ok(Some(cell)))),
            Ok(Cached::Absent) => Ok(None),
            Err(error) => Ok(newest(Err(error))),
        }
    }
}

/// Fails where a write before it panicked: nobody knows what of that is in the log, and what in memory.
fn in_turn<T>(is_broken: &mut bool, write: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    if std::mem::replace(is_broken, true) {
        return Err(Error::Poisoned { reason: "a write panicked".to_owned() });
    }
    let outcome = write();
    *is_broken = false;
    outcome
}

/// What becomes of the cells of a group.
#[derive(Default)]
struct GroupOutcome {
    changes: Vec<CellChange>,
    superseded: Vec<SupersededCell>,
}

impl GroupOutcome {
    /// What batches are going to replace, where `newest` says what is the newest of a key.
    fn of<E>(
        batches: &[WriteBatch],
        newest: impl Fn(&[u8]) -> Result<Option<CellMark>, E>,
    ) -> Result<GroupOutcome, E> {
        let mut written: HashMap<u64, CellMark> = HashMap::new();
        let mut outcome = GroupOutcome::default();
        for (key, stamp, is_tombstone) in batches.iter().flat_map(WriteBatch::cells) {
            let key_hash = xxh3_64(key);
            let old = match written.get(&key_hash) {
                Some(mark) => Some(*mark),
                None => newest(key)?,
            };
            let is_tombstone = is_tombstone && stamp.expires_at_ms == 0;
            let (new, version) = (CellMark { stamp, is_tombstone }, stamp.version);
            match old.map(|old| old.stamp.version) {
                Some(newest) if newest > version => {
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

    fn tell(&self, observer: &dyn CellObserver) {
        observer.replaced(&self.changes);
        if !self.superseded.is_empty() {
            observer.superseded(&self.superseded);
        }
    }
}

/// What was found as the newest of a key. What is damaged counts as none: to refuse the write would leave the key damaged
/// for good, and fail all that is written with it. The tree then differs from those of others in one partition, which
/// costs that this one is compared each time.
fn newest(found: Result<Option<Cell>, Error>) -> Option<CellMark> {
    let cell = found.unwrap_or_else(|error| {
        tracing::error!(%error, "the value that a write replaces cannot be read");
        None
    });
    cell.map(|cell| cell.mark())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ladoga_env::sim;
    use ladoga_model::{Stamp, Version};
    use ladoga_storage::{Background, Durability, Options};

    use super::*;

    #[derive(Default)]
    struct Watcher(Mutex<Vec<CellChange>>, Mutex<Vec<SupersededCell>>);

    impl CellObserver for Watcher {
        fn begins(&self) {}

        fn replaced(&self, changes: &[CellChange]) {
            self.0.lock().extend_from_slice(changes);
        }

        fn superseded(&self, cells: &[SupersededCell]) {
            self.1.lock().extend_from_slice(cells);
        }

        fn scan_completed(&self) {}
    }

    fn mark(timestamp: u64) -> CellMark {
        CellMark { stamp: Stamp::new(Version { timestamp, node: 0 }), is_tombstone: false }
    }

    fn put(timestamp: u64) -> [WriteBatch; 1] {
        let mut batch = WriteBatch::new();
        batch.put(b"key", mark(timestamp).stamp, b"value");
        [batch]
    }

    #[test]
    fn what_is_replaced_is_looked_up_on_the_disk_only_by_who_may_wait() {
        let (env, disk, _clock) = sim::env(1);
        let options =
            Options { background: Background::Manual, ..Options::new(16 << 20, Durability::EverySecond) };
        let open =
            || Arc::new(Engine::open(env.clone(), Path::new("/data"), options.clone()).expect("a store"));
        let engine = open();
        engine.write_group(&put(1)).expect("a write");
        engine.close().expect("what was written is in a table");
        drop(engine);
        disk.set_cached(false);
        let writer = GroupWriter::new(open());
        let watcher = Arc::<Watcher>::default();
        writer.observe(Arc::clone(&watcher) as Arc<dyn CellObserver>);
        assert_eq!(writer.try_write(&put(2)).ok(), Some(false), "memory does not know what it replaces");
        assert!(watcher.0.lock().is_empty(), "nothing was done");
        writer.write(&put(3)).expect("a write");
        assert_eq!(writer.try_write(&put(4)).ok(), Some(true));
        assert!(watcher.1.lock().is_empty(), "nothing newer was there");
        assert_eq!(writer.try_write(&put(2)).ok(), Some(true), "an older one replaces nothing");
        assert_eq!(writer.try_write(&put(4)).ok(), Some(true), "what is there already does not either");
        let told: Vec<_> = watcher.0.lock().iter().map(|change| (change.old, change.new)).collect();
        assert_eq!(told, [(Some(mark(1)), mark(3)), (Some(mark(3)), mark(4))]);
        let [version, newest] = [2, 4].map(|timestamp| mark(timestamp).stamp.version);
        assert_eq!(*watcher.1.lock(), [SupersededCell { key_hash: xxh3_64(b"key"), version, newest }]);
    }

    /// The tree of a node lacked what a group had stored before the disk was full: each comparison with a peer found it to differ,
    /// until the node was restarted.
    #[test]
    fn what_a_group_stored_before_it_failed_is_told() {
        let (env, disk, _clock) = sim::env(1);
        let options = Options {
            background: Background::Manual,
            memtable_bytes: Some(64 << 10),
            reserve_bytes: Some(0),
            ..Options::new(16 << 20, Durability::Always)
        };
        let engine = Arc::new(Engine::open(env, Path::new("/data"), options).expect("a store"));
        let writer = GroupWriter::new(Arc::clone(&engine));
        let watcher = Arc::<Watcher>::default();
        writer.observe(Arc::clone(&watcher) as Arc<dyn CellObserver>);
        let batch = |key: &[u8], timestamps: &[u64]| {
            let mut batch = WriteBatch::new();
            for &timestamp in timestamps {
                batch.put(key, mark(timestamp).stamp, &[7; 14 << 10]);
            }
            batch
        };
        writer.write(&[batch(b"front", &[2])]).expect("a write");
        let group =
            [batch(b"front", &[3]), batch(b"older", &[1]), batch(b"front", &[4]), batch(b"back", &[5])];
        let used = disk.paths().into_iter().map(|path| disk.file_len(path).expect("a file")).sum::<u64>();
        disk.set_capacity(used);
        let error = writer.write(&group).expect_err("a full disk");
        assert!(error.is_disk_full(), "{error}");
        let stored = |key| engine.get_cell(key).expect("a read").map(|cell| cell.mark());
        assert_eq!(
            (stored(b"front"), stored(b"older"), stored(b"back")),
            (Some(mark(3)), Some(mark(1)), None)
        );
        let mut told: HashMap<u64, CellMark> = HashMap::new();
        for change in watcher.0.lock().iter() {
            assert_eq!(
                told.insert(change.key_hash, change.new),
                change.old,
                "each takes the place of the last"
            );
        }
        assert_eq!(told, HashMap::from([(xxh3_64(b"front"), mark(3)), (xxh3_64(b"older"), mark(1))]));
    }

    #[test]
    fn one_group_is_written_at_a_time() {
        let (env, _disk, _clock) = sim::env(1);
        let engine = Engine::open(env, Path::new("/data"), Options::new(16 << 20, Durability::EverySecond));
        let writer = GroupWriter::new(Arc::new(engine.expect("a store")));
        let turn = writer.turn.lock();
        assert_eq!(writer.try_write(&put(1)).ok(), Some(false));
        drop(turn);
        assert_eq!(writer.try_write(&put(1)).ok(), Some(true));
    }
}
