use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ladoga_env::Disk;
use parking_lot::Mutex;

use crate::error::Error;
use crate::health::Health;
use crate::kept_log::{KeptLog, RoomLimits};
use crate::paths;
use crate::stats::Counters;

/// Counts the references to each blob file, and removes a file with its last reference.
///
/// Tables, memtables, batches and readers hold references. A new table takes its own before the memtable or table that it was
/// made from releases its.
pub(crate) struct BlobRegistry {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    counts: Mutex<BTreeMap<u64, u64>>,
    /// Files without a reference.
    dead: Mutex<Vec<u64>>,
    health: Arc<Health>,
    /// Bytes that stay free on the disk.
    reserve_bytes: u64,
    /// Once set, no file is removed any more: the process is ending, or it is unknown what is on disk.
    frozen: AtomicBool,
    /// Whether it was logged that the system does not say how much space is free.
    is_unmeasured: AtomicBool,
    counters: Arc<Counters>,
    /// What is removed first if the disk becomes full.
    kept_log: OnceLock<Arc<KeptLog>>,
}

/// Log is kept as long as so many times the reserve is free.
const FREE_FOR_LOG: u64 = 2;

impl BlobRegistry {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        reserve_bytes: u64,
        counters: Arc<Counters>,
    ) -> Arc<BlobRegistry> {
        Arc::new(BlobRegistry {
            disk,
            dir,
            counts: Mutex::default(),
            dead: Mutex::default(),
            health: Arc::default(),
            reserve_bytes,
            frozen: AtomicBool::new(false),
            is_unmeasured: AtomicBool::new(false),
            counters,
            kept_log: OnceLock::new(),
        })
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    pub(crate) fn path(&self, number: u64) -> PathBuf {
        paths::blob(&self.dir, number)
    }

    /// From now on, this log is removed before a write is refused for lack of space.
    pub(crate) fn may_remove(&self, log: &Arc<KeptLog>) {
        log.sizes().set_all_unused_but(|large| self.is_referred(large));
        _ = self.kept_log.set(Arc::clone(log));
    }

    /// Removes all of it, so that a full disk has room; false if there is none.
    pub(crate) fn remove_kept_log(&self) -> bool {
        self.kept_log.get().is_some_and(|kept| kept.remove_all())
    }

    /// The health of the store.
    pub(crate) fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Notes how much space is free on the disk. `None` if the system does not say.
    pub(crate) fn observe_space(&self) -> Option<u64> {
        self.make_room(0)
    }

    /// Does so, and removes log that is kept, the oldest first, if less is free than is wanted, or than it has to leave anyway.
    pub(crate) fn make_room(&self, wanted_bytes: u64) -> Option<u64> {
        let found = self.disk.free_bytes(&self.dir).map_err(Error::io("measure", &self.dir));
        let warn = |error: &Error| {
            // This looks four times a second. A lack of descriptors is reported by whoever needs one.
            if !error.is_out_of_descriptors() && !self.is_unmeasured.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "could not read the free space of the disk");
            }
        };
        let mut free_bytes = found.inspect_err(warn).ok()?;
        if let Some(kept) = self.kept_log.get() {
            let wanted_bytes = wanted_bytes.max(self.reserve_bytes.saturating_mul(FREE_FOR_LOG));
            let limits = RoomLimits { reserve_bytes: self.reserve_bytes, wanted_bytes };
            free_bytes = kept.make_room(free_bytes, limits, &|| self.disk.free_bytes(&self.dir).ok());
        }
        self.is_unmeasured.store(false, Ordering::Relaxed);
        self.health.observe_free(free_bytes, self.reserve_bytes);
        Some(free_bytes)
    }

    /// Whether so many more bytes fit above the reserve. Kept log counts as room: it is removed before a write is refused. A large value
    /// that lives does not.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        let free_bytes = self.health.free_bytes();
        let is_measured = free_bytes > 0;
        !is_measured || self.with_kept_log(free_bytes) >= self.reserve_bytes.saturating_add(bytes)
    }

    /// What is free once all log is removed that is kept: it goes, the oldest first, as the disk fills up.
    pub(crate) fn with_kept_log(&self, free_bytes: u64) -> u64 {
        free_bytes.saturating_add(self.kept_log.get().map_or(0, |kept| kept.room_bytes()))
    }

    /// Whether a file may grow. What large values took of the reserve would be missing to flushes and compactions, which
    /// are what makes room.
    pub(crate) fn admit_growth(&self) -> Result<(), Error> {
        self.observe_space();
        self.admit_puts(1)
    }

    /// Whether so many puts are taken. Those that a full disk refuses are counted.
    pub(crate) fn admit_puts(&self, puts: u64) -> Result<(), Error> {
        let admitted = self.health.admit(true, self.reserve_bytes);
        if matches!(admitted, Err(Error::DiskFull { .. })) {
            self.count_refused_full(puts);
        }
        admitted
    }

    /// Logs that a large value found no room, if nobody knows.
    pub(super) fn tell_lack_of_room(&self, error: &Error) {
        if error.is_disk_full() {
            self.health.tell("a large value", error);
        }
    }

    /// So many puts were refused because the disk is full.
    pub(crate) fn count_refused_full(&self, puts: u64) {
        self.counters.refused_full.add(puts);
    }

    /// Makes the names of all files so far durable. A failed sync poisons the store: it covered the names of other threads'
    /// files too, and the kernel may report success to their own sync.
    pub(crate) fn sync_names(&self) -> Result<(), Error> {
        let dir = paths::blobs_dir(&self.dir);
        if let Err(error) = self.disk.sync_dir(&dir).map_err(Error::io("sync directory", dir)) {
            // If the directory could not be opened, nothing was synced.
            if error.is_out_of_descriptors() {
                return Err(error);
            }
            self.freeze();
            return Err(self.health.poison(&error));
        }
        self.health.admit(false, 0)
    }

    /// One more reference to a file.
    pub(crate) fn refer(self: &Arc<Self>, number: u64) -> BlobRef {
        *self.counts.lock().entry(number).or_insert(0) += 1;
        BlobRef { registry: self.clone(), number }
    }

    /// Whether anybody refers to the file.
    pub(crate) fn is_referred(&self, number: u64) -> bool {
        self.counts.lock().contains_key(&number)
    }

    /// Counts a read that did not get the bytes that were written.
    pub(crate) fn count_failed_read(&self, error: &Error) {
        self.counters.count_failed_read(error);
    }

    pub(crate) fn freeze(&self) {
        self.frozen.store(true, Ordering::SeqCst);
    }

    /// Freezes if it is dropped by a panic: before what was there when it was made.
    pub(crate) const fn freeze_on_panic(&self) -> FreezeOnPanic<'_> {
        FreezeOnPanic(self)
    }

    pub(crate) fn live(&self) -> u64 {
        self.counts.lock().len() as u64
    }

    fn release(&self, number: u64) {
        let mut counts = self.counts.lock();
        let count = counts.get_mut(&number).expect("a reference was counted when it was made");
        *count -= 1;
        if *count > 0 {
            return;
        }
        counts.remove(&number);
        // The last reference may be dropped on an event loop, which must not wait for a disk.
        self.dead.lock().push(number);
    }

    /// Removes the files without a reference. Called by the background.
    pub(crate) fn remove_dead(&self) {
        let dead = std::mem::take(&mut *self.dead.lock());
        // Asked behind the list: what the log may name although its write failed gets there after the freeze.
        if self.frozen.load(Ordering::SeqCst) {
            return;
        }
        for number in dead {
            // What cannot be removed now is found as an orphan at the next open.
            if let Err(error) = self.disk.remove(&self.path(number)) {
                tracing::warn!(number, %error, "could not remove an unused blob file");
            } else if let Some(kept) = self.kept_log.get() {
                kept.sizes().set_unused(number);
            }
        }
    }
}

pub(crate) struct FreezeOnPanic<'r>(&'r BlobRegistry);

impl Drop for FreezeOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.freeze();
        }
    }
}

/// One reference to a blob file.
pub(crate) struct BlobRef {
    registry: Arc<BlobRegistry>,
    number: u64,
}

impl BlobRef {
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn registry(&self) -> &Arc<BlobRegistry> {
        &self.registry
    }
}

impl Clone for BlobRef {
    fn clone(&self) -> BlobRef {
        self.registry.refer(self.number)
    }
}

impl std::fmt::Debug for BlobRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlobRef({})", self.number)
    }
}

impl Drop for BlobRef {
    fn drop(&mut self) {
        self.registry.release(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;
    use std::thread;
    use std::time::Duration;

    use ladoga_env::sim;
    use ladoga_model::{Stamp, Version};

    use super::*;
    use crate::{Background, Durability, Engine, Options, WriteBatch};

    /// A store, and a batch with a large value that is not written yet.
    fn unwritten() -> (sim::SimDisk, Engine, WriteBatch) {
        let (env, disk, _) = sim::env(1);
        let options =
            Options { background: Background::Manual, ..Options::new(16 << 20, Durability::Always) };
        let engine = Engine::open(env, Path::new("/data"), options).expect("a new store");
        let mut writer = engine.create_blob().expect("room");
        writer.write(&vec![7; 300_000]).expect("room");
        let mut batch = WriteBatch::new();
        let stamp = Stamp::new(Version { timestamp: 1, node: 0 });
        batch.put_blob(b"key", stamp, writer.finish().expect("room"));
        (disk, engine, batch)
    }

    fn files(disk: &sim::SimDisk) -> usize {
        disk.paths().iter().filter(|path| path.starts_with("/data/blobs")).count()
    }

    /// The log may name it: the group was in the file, and its sync failed.
    #[test]
    fn what_dies_after_the_freeze_stays_whatever_the_thread_that_removes_has_begun() {
        let (disk, _engine, batch) = unwritten();
        let blobs = batch.blobs()[0].registry();
        thread::scope(|scope| {
            let mut dead = blobs.dead.lock();
            scope.spawn(|| blobs.remove_dead());
            // It comes as far as it can without the list.
            thread::sleep(Duration::from_millis(50));
            blobs.freeze();
            dead.extend(batch.blobs().iter().map(BlobRef::number));
        });
        assert_eq!(files(&disk), 1);
    }

    /// Looks for what is dead as soon as it is dropped.
    struct Made(Vec<WriteBatch>, Arc<BlobRegistry>);

    impl AsRef<[WriteBatch]> for Made {
        fn as_ref(&self) -> &[WriteBatch] {
            &self.0
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            self.0.clear();
            self.1.remove_dead();
        }
    }

    #[test]
    fn what_a_panic_of_a_write_drops_stays() {
        let (disk, engine, batch) = unwritten();
        let blobs = batch.blobs()[0].registry().clone();
        let write = || engine.try_write_made((0, 0), Durability::Always, || Made(vec![batch], blobs));
        assert!(catch_unwind(AssertUnwindSafe(|| write().is_ok())).is_err(), "there is no room for it");
        assert_eq!(files(&disk), 1);
    }
}
