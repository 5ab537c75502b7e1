use std::sync::{Arc, Weak};

use super::snapshot::Lease;
use super::{Inner, View};
use crate::memtable::{Memtable, Spare};
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

impl Retired {
    pub(super) fn lease(&mut self, view: &View) -> Arc<Lease> {
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

    /// Gives the oldest snapshots up until what the others keep fits. (What those keep until their owners drop them, is
    /// none of the others' fault.)
    fn give_up_oldest(&mut self, pinned_bytes_max: u64) {
        if self.memtables.iter().map(|memtable| memtable.used_bytes()).sum::<u64>() <= pinned_bytes_max {
            return;
        }
        self.leases.retain(|lease| lease.strong_count() > 0);
        let living = self.leases.iter().filter_map(Weak::upgrade).filter(|lease| !lease.is_given_up());
        let living: Vec<Arc<Lease>> = living.collect();
        for (index, oldest) in living.iter().enumerate() {
            let kept = |memtable: &&Arc<Memtable>| living[index..].iter().any(|lease| lease.keeps(memtable));
            let pinned_bytes = self.memtables.iter().filter(kept).map(|memtable| memtable.used_bytes()).sum();
            if pinned_bytes <= pinned_bytes_max {
                return;
            }
            oldest.give_up(pinned_bytes);
        }
    }

    /// Takes out what has no other owner.
    fn take_unused(&mut self) -> (Vec<Arc<Memtable>>, Vec<Arc<Table>>) {
        let memtables = self.memtables.extract_if(.., |memtable| Arc::strong_count(memtable) == 1).collect();
        let tables = self.tables.extract_if(.., |table| Arc::strong_count(table) == 1).collect();
        (memtables, tables)
    }
}

impl Inner {
    /// Whether anything waits for its last user.
    pub(crate) fn has_retired(&self) -> bool {
        let retired = self.upkeep.retired.lock();
        !retired.memtables.is_empty() || !retired.tables.is_empty()
    }

    /// Frees what nothing uses; gives up the oldest snapshots while flushed memtables that only snapshots hold take more than
    /// the memtables' share of the budget. A single snapshot holds no more than that.
    pub(super) fn collect_retired(&self) {
        let unused = {
            let mut retired = self.upkeep.retired.lock();
            let unused = retired.take_unused();
            retired.give_up_oldest(self.budget.memtables_bytes());
            unused
        };
        // Outside of the lock: frees memory and removes files.
        let (memtables, tables) = unused;
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
    use crate::{Background, Durability, Engine, Options, WriteBatch};
    use ladoga_model::{Stamp, Version};
    use std::path::Path;

    #[test]
    fn the_end_of_a_snapshot_wakes_the_background_only_for_what_it_kept() {
        let (env, _, _) = ladoga_env::sim::env(1);
        let options = Options {
            background: Background::Manual,
            reserve_bytes: Some(0),
            ..Options::new(16 << 20, Durability::Never)
        };
        let engine = Engine::open(env, Path::new("/data"), options).expect("a new store");
        let mut batch = WriteBatch::new();
        batch.put(b"key", Stamp::new(Version { timestamp: 1, node: 1 }), b"value");
        engine.write_group(&[batch]).expect("room");
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
        let (env, _, _) = ladoga_env::sim::env(1);
        let options = Options {
            background: Background::Manual,
            memtable_bytes: Some(8 << 10),
            reserve_bytes: Some(0),
            ..Options::new(16 << 20, Durability::Never)
        };
        let engine = Engine::open(env, Path::new("/data"), options).expect("a new store");
        let inner = &engine.inner;
        let mut key = 0_u64;
        while inner.reads.view.load().sealed.len() < 2 {
            key += 1;
            let mut batch = WriteBatch::new();
            let stamp = Stamp { version: Version { timestamp: key, node: 1 }, ..Stamp::default() };
            batch.put(&key.to_be_bytes(), stamp, &[7; 500]);
            engine.write_group(&[batch]).expect("room");
        }
        for left in [1, 0] {
            assert!(inner.flush_step().expect("a sound disk"));
            assert_eq!(inner.reads.view.load().sealed.len(), left);
            assert!(inner.upkeep.retired.lock().memtables.is_empty(), "{left} left");
            assert!(inner.writes.spare.lock().is_some(), "its memory is the next one's");
        }
    }
}
