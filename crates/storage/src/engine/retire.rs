use std::sync::{Arc, Weak};

use super::snapshot::Lease;
use super::{Inner, View};
use crate::memtable::{Memtable, Spare, bucket_bytes};
use crate::options::SEALED_MAX;
use crate::table::Table;

/// Memtables and tables that are not in the current view, kept until no reader uses them: the background is always the last to
/// release them, so that no reader's thread frees a memtable or removes a file.
#[derive(Default)]
pub(super) struct Retired {
    memtables: Vec<Arc<Memtable>>,
    tables: Vec<Arc<Table>>,
    /// Of the living snapshots, oldest first.
    leases: Vec<Weak<Lease>>,
}

/// What has no other owner.
#[derive(Default)]
struct Unused {
    memtables: Vec<Arc<Memtable>>,
    tables: Vec<Arc<Table>>,
}

impl Retired {
    pub(super) fn lease(&mut self, view: Arc<View>) -> Arc<Lease> {
        let lease = Arc::new(Lease::of(view));
        self.leases.retain(|lease| lease.strong_count() > 0);
        self.leases.push(Arc::downgrade(&lease));
        lease
    }

    pub(super) fn memtable(&mut self, memtable: Arc<Memtable>) {
        self.memtables.push(memtable);
    }

    pub(super) fn table(&mut self, table: Arc<Table>) {
        self.tables.push(table);
    }

    /// Takes out what has no other owner. If the memtables that are left do not fit, the oldest snapshots that keep any of them are
    /// given up until they do: what is read just now of one that is given up counts until its reader lets go of it.
    fn take_unused(&mut self, pinned_bytes_max: u64) -> Unused {
        let mut unused = Unused::default();
        self.move_unused(&mut unused);
        self.leases.retain(|lease| lease.strong_count() > 0);
        let living: Vec<Arc<Lease>> = self.leases.iter().filter_map(Weak::upgrade).collect();
        for oldest in living {
            let pinned_bytes = self.memtables.iter().map(|memtable| memtable.used_bytes()).sum();
            if pinned_bytes <= pinned_bytes_max {
                break;
            }
            if self.memtables.iter().any(|memtable| oldest.keeps(memtable)) {
                oldest.give_up(pinned_bytes);
                self.move_unused(&mut unused);
            }
        }
        unused
    }

    fn move_unused(&mut self, unused: &mut Unused) {
        unused.memtables.extend(self.memtables.extract_if(.., |memtable| Arc::strong_count(memtable) == 1));
        unused.tables.extend(self.tables.extract_if(.., |table| Arc::strong_count(table) == 1));
    }
}

impl Inner {
    /// Whether anything waits for its last user.
    pub(crate) fn has_retired(&self) -> bool {
        let retired = self.upkeep.retired.lock();
        !retired.memtables.is_empty() || !retired.tables.is_empty()
    }

    /// As many that are flushed are kept for snapshots as there may be of others, all full.
    const fn kept_memtables_bytes(&self) -> u64 {
        self.budget.memtables_bytes() + bucket_bytes(self.budget.memtable_bytes) * (SEALED_MAX as u64 + 1)
    }

    /// Frees what nothing uses; gives up the oldest snapshots while flushed memtables that are still read take more than the
    /// memtables' share of the budget, and what finds their records. A single snapshot holds no more than that.
    pub(super) fn collect_retired(&self) {
        let unused = self.upkeep.retired.lock().take_unused(self.kept_memtables_bytes());
        // Outside of the lock: frees memory and removes files.
        let Unused { memtables, tables } = unused;
        memtables.into_iter().for_each(|memtable| self.keep_or_free(memtable));
        drop(tables);
        self.shared.blobs.remove_dead();
    }

    /// What was flushed: before writers go on that waited for it, because the next memtable may be in its memory.
    pub(super) fn let_go(&self, memtable: Arc<Memtable>) {
        if Arc::strong_count(&memtable) == 1 {
            self.keep_or_free(memtable);
        } else {
            self.upkeep.retired.lock().memtable(memtable);
        }
    }

    /// Keeps the memory of a memtable for the next one, if that stays within the memtables' budget: a writer takes the spare
    /// one before it allocates another.
    fn keep_or_free(&self, memtable: Arc<Memtable>) {
        if self.writes.spare.lock().is_some() || self.has_too_many_sealed() {
            return;
        }
        // Outside of the lock, which a writer may be about to take.
        let spare = Spare::of(memtable);
        *self.writes.spare.lock() = spare;
    }
}

#[cfg(test)]
mod tests {
    use crate::options::SEALED_MAX;
    use crate::{Background, Durability, Engine, Error, Options, Range, WriteBatch};
    use ladoga_model::{Stamp, Version};
    use std::path::Path;

    fn store(memtable_bytes: Option<usize>) -> Engine {
        let (env, _, _) = ladoga_env::sim::env(1);
        let options = Options {
            background: Background::Manual,
            memtable_bytes,
            reserve_bytes: Some(0),
            ..Options::new(16 << 20, Durability::Never)
        };
        Engine::open(env, Path::new("/data"), options).expect("a new store")
    }

    fn put(engine: &Engine, key: u64) {
        let mut batch = WriteBatch::new();
        let stamp = Stamp { version: Version { timestamp: key, node: 1 }, ..Stamp::default() };
        batch.put(&key.to_be_bytes(), stamp, &[7; 500]);
        engine.write_group(&[batch]).expect("room");
    }

    /// Begins a range in each of some memtables with so many records, has it rest behind its first record if `rests` says so, and flushes
    /// them.
    fn ranges(engine: &Engine, count: u64, records: u64, rests: impl Fn(u64) -> bool) -> Vec<Range> {
        let begin = |number: u64| {
            (0..records).for_each(|key| put(engine, number * records + key + 1));
            let mut range = engine.snapshot().range(b"", None);
            assert!(range.next().expect("sound").is_some());
            if rests(number) {
                range.rest().expect("sound");
            }
            engine.seal().expect("room");
            assert!(engine.inner.flush_one().expect("a sound disk"));
            engine.inner.collect_retired();
            range
        };
        (0..count).map(begin).collect()
    }

    fn retired_bytes(engine: &Engine) -> u64 {
        engine.inner.upkeep.retired.lock().memtables.iter().map(|memtable| memtable.used_bytes()).sum()
    }

    /// Their clients took a piece now and then: each range kept a memtable, and a node with many of them had several times the memory
    /// that it was given.
    #[test]
    fn ranges_that_rest_let_go_as_soon_as_they_are_given_up() {
        let engine = store(Some(8 << 10));
        let bytes_max = engine.inner.kept_memtables_bytes();
        let mut ranges = ranges(&engine, 24, 8, |_| true);
        assert!(retired_bytes(&engine) <= bytes_max, "{} of {bytes_max} bytes", retired_bytes(&engine));
        let goes_on = |range: &mut Range| match range.next() {
            Ok(next) => next.is_some(),
            Err(Error::SnapshotTooOld { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        let given_up = ranges.iter_mut().position(goes_on).expect("the newest goes on");
        assert!(given_up > 0);
        assert!(ranges[given_up..].iter_mut().all(goes_on), "the oldest go first");
        drop(ranges);
        engine.inner.collect_retired();
        assert!(!engine.inner.has_retired());
    }

    /// What finds the records of a memtable did not count, and takes more than those if they are few.
    #[test]
    fn ranges_keep_no_more_of_memtables_with_few_records() {
        let engine = store(Some(8 << 10));
        let bytes_max = engine.inner.kept_memtables_bytes();
        let _ranges = ranges(&engine, 100, 1, |_| true);
        let bytes = retired_bytes(&engine);
        assert!((bytes_max / 2..=bytes_max).contains(&bytes), "{bytes} of {bytes_max} bytes");
    }

    /// It was given up once they were flushed: with what finds their records, they take a little more than there is for them.
    #[test]
    fn one_snapshot_keeps_as_many_memtables_as_there_may_be() {
        let engine = store(Some(8 << 10));
        let view = || engine.inner.reads.view.load();
        let mut key = 0_u64;
        let mut put_next = || {
            key += 1;
            put(&engine, key);
        };
        while view().sealed.len() < SEALED_MAX {
            put_next();
        }
        let records = view().sealed[0].records();
        (1..records).for_each(|_| put_next());
        assert_eq!(view().active.records(), records, "as full as the others");
        let mut range = engine.snapshot().range(b"", None);
        assert!(range.next().expect("sound").is_some());
        range.rest().expect("sound");
        while !view().sealed.is_empty() {
            assert!(engine.inner.flush_one().expect("a sound disk"));
        }
        engine.seal().expect("room");
        assert!(engine.inner.flush_one().expect("a sound disk"));
        engine.inner.collect_retired();
        assert_eq!(engine.inner.upkeep.retired.lock().memtables.len(), SEALED_MAX + 1);
        assert!(range.next().expect("it is not given up").is_some());
    }

    #[test]
    fn what_is_read_of_a_snapshot_that_is_given_up_counts() {
        let engine = store(Some(8 << 10));
        let bytes_max = engine.inner.kept_memtables_bytes();
        let mut ranges = ranges(&engine, 24, 8, |number| number > 0);
        let reads = |range: &mut Range| range.next().is_ok();
        assert!(retired_bytes(&engine) <= bytes_max, "{} of {bytes_max} bytes", retired_bytes(&engine));
        assert!(!reads(&mut ranges[0]) && reads(&mut ranges[23]));
    }

    #[test]
    fn the_end_of_a_snapshot_wakes_the_background_only_for_what_it_kept() {
        let engine = store(None);
        put(&engine, 1);
        let wakes = || engine.inner.background.wakes();
        let before = wakes();
        drop(engine.snapshot().range(b"", None));
        assert_eq!(wakes(), before);

        let snapshot = engine.snapshot();
        engine.seal().expect("room");
        assert!(engine.inner.flush_one().expect("a sound disk"));
        let before = wakes();
        drop(snapshot);
        assert!(wakes() > before, "it kept a memtable that was flushed");
        engine.inner.collect_retired();
        assert!(!engine.inner.has_retired());
    }

    #[test]
    fn a_flush_lets_go_of_its_memtable_even_if_the_next_one_follows_at_once() {
        let engine = store(Some(8 << 10));
        let inner = &engine.inner;
        let mut key = 0_u64;
        while inner.reads.view.load().sealed.len() < 2 {
            key += 1;
            put(&engine, key);
        }
        for left in [1, 0] {
            assert!(inner.flush_step().expect("a sound disk"));
            assert_eq!(inner.reads.view.load().sealed.len(), left);
            assert!(inner.upkeep.retired.lock().memtables.is_empty(), "{left} left");
            assert!(inner.writes.spare.lock().is_some(), "its memory is the next one's");
        }
    }
}
