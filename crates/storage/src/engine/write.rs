use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use ladoga_env::Rng;
use ladoga_model::Durability;
use parking_lot::MutexGuard;

use super::{Inner, View};
use crate::batch::{WriteBatch, records, size};
use crate::error::Error;
use crate::health::WriteState;
use crate::memtable::{MemtableWriter, worst_bytes};
use crate::options::{Options, SEALED_MAX};
use crate::pacing::{Backlog, delay};
use crate::wal::WalWriter;

/// Writers wait no less at a time: a sleep takes 50 µs longer than it should, which is fifty times what a small group owes.
const PAUSE_MIN: Duration = Duration::from_micros(250);

/// What only the thread that writes touches.
pub(super) struct Writer {
    pub wal: WalWriter,
    pub memtable: MemtableWriter,
    /// How much of the memtable stays empty when it is sealed.
    pub flush_early_bytes: usize,
    /// The sequence of the next group.
    pub next_sequence: u64,
    /// The pause that the groups written so far have not made yet.
    pub owed: Duration,
}

/// By how much the next memtable is flushed before it is full.
pub(super) fn flush_early_bytes(rng: &dyn Rng, options: &Options) -> usize {
    let most = options.budget().memtable_bytes as u64 * options.flush_early_percent / 100;
    if most == 0 { 0 } else { rng.below(most) as usize }
}

/// Whether the memtable and its segment have room for a group of this size.
fn has_room(writer: &Writer, records: usize, bytes: usize) -> bool {
    writer.wal.has_room(bytes) && writer.memtable.has_room(records, bytes)
}

/// Whether a memtable is as full as it is to become.
fn is_early_enough(writer: &Writer, records: usize, bytes: usize) -> bool {
    let Writer { memtable, flush_early_bytes, .. } = writer;
    *flush_early_bytes > 0
        && !memtable.table().is_empty()
        && !memtable.has_room(records, bytes + flush_early_bytes)
}

impl Inner {
    pub(super) fn durability(&self) -> Durability {
        self.options.durability
    }

    pub(super) fn group_bytes_max(&self) -> usize {
        self.budget.memtable_bytes / 2
    }

    /// How much a group takes, and how much it may, of a fresh segment or a fresh memtable; `None` if it fits into both.
    pub(super) fn excess(&self, records: usize, bytes: usize) -> Option<(usize, usize)> {
        let of_segment = (bytes, self.group_bytes_max());
        let of_memtable = (worst_bytes(records, bytes), self.budget.memtable_bytes * 3 / 4);
        [of_segment, of_memtable].into_iter().find(|(bytes, bytes_max)| bytes > bytes_max)
    }

    /// Writes batches in their order, in as few groups as they fit into. Answers how many of them are stored, and why no more are.
    pub(super) fn write_in_parts(
        &self,
        batches: &[WriteBatch],
        durability: Durability,
    ) -> (usize, Result<(), Error>) {
        let (records, bytes) = size(batches);
        if batches.len() > 1 && self.excess(records, bytes).is_some() {
            let (front, back) = batches.split_at(batches.len() / 2);
            let (stored, written) = self.write_in_parts(front, durability);
            if written.is_err() {
                return (stored, written);
            }
            let (of_back, written) = self.write_in_parts(back, durability);
            return (stored + of_back, written);
        }
        let written = self.write_group(batches, durability);
        (if written.is_ok() { batches.len() } else { 0 }, written)
    }

    /// Batches that fit into a group, or a single one.
    fn write_group(&self, batches: &[WriteBatch], durability: Durability) -> Result<(), Error> {
        let (records, bytes) = size(batches);
        if records == 0 {
            return if durability == Durability::Always { self.sync_log() } else { Ok(()) };
        }
        if let ([_], Some((bytes, bytes_max))) = (batches, self.excess(records, bytes)) {
            let (records, bytes, bytes_max) = (records as u64, bytes as u64, bytes_max as u64);
            return Err(Error::BatchTooLarge { records, bytes, bytes_max });
        }
        self.admit(batches)?;
        let mut writer = self.writes.writer.lock();
        self.or_poison(|| {
            self.pace(&mut writer, bytes);
            self.make_room(&mut writer, records, bytes)?;
            let sequence = self.append_to_log(&mut writer, batches, durability)?;
            self.apply(&mut writer, sequence, batches);
            Ok(())
        })
    }

    /// As one group, if that takes no waiting but for the sync of a group that is to be synced. Otherwise it does nothing
    /// and answers false.
    pub(super) fn try_write_group(
        &self,
        batches: &[WriteBatch],
        durability: Durability,
    ) -> Result<bool, Error> {
        let (records, bytes) = size(batches);
        if records == 0 {
            return Ok(durability != Durability::Always);
        }
        Ok(self.try_write_made((records, bytes), durability, || batches)?.is_some())
    }

    /// The same with batches that are made once nothing is in the way. They have at most so many records and bytes.
    pub(super) fn try_write_made<B: AsRef<[WriteBatch]>>(
        &self,
        (records_max, bytes_max): (usize, usize),
        durability: Durability,
        make: impl FnOnce() -> B,
    ) -> Result<Option<B>, Error> {
        let Some(mut writer) = self.writes.writer.try_lock() else { return Ok(None) };
        let owed = writer.owed + self.delay(bytes_max);
        if owed >= PAUSE_MIN {
            return Ok(None);
        }
        let is_open = self.health.state() == WriteState::Open && !self.closed.load(Ordering::Relaxed);
        if !is_open || self.is_to_rotate(&writer, records_max, bytes_max) {
            return Ok(None);
        }
        writer.owed = owed;
        self.or_poison(|| {
            let made = make();
            // Or else a panic would drop the last references to large values that the log may name already, before it poisons.
            let _freezes = self.shared.blobs.freeze_on_panic();
            let batches = made.as_ref();
            let (records, bytes) = size(batches);
            assert!(records <= records_max && bytes <= bytes_max, "no more is made than there is room for");
            if records > 0 {
                let sequence = self.append_to_log(&mut writer, batches, durability)?;
                self.apply(&mut writer, sequence, batches);
            } else {
                self.sync_what_is_seen(&mut writer, durability)?;
            }
            Ok(Some(made))
        })
    }

    fn admit(&self, batches: &[WriteBatch]) -> Result<(), Error> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        let has_puts = batches.iter().any(WriteBatch::has_puts);
        let admitted = self.health.admit(has_puts, self.budget.reserve_bytes);
        if matches!(admitted, Err(Error::DiskFull { .. })) {
            // Checked on the way, so that puts are taken again even if nothing else looks.
            self.observe_space();
            let puts = batches.iter().filter(|batch| batch.has_puts()).count();
            return self.shared.blobs.admit_puts(puts as u64);
        }
        admitted
    }

    /// Refuses writes from now on. No blob file is removed any more either: the last write may be in the log, although nothing
    /// in memory names its blobs.
    pub(super) fn poison(&self, error: &Error) -> Error {
        self.shared.blobs.freeze();
        self.health.poison(error)
    }

    /// Runs a step that must not stop in its middle. After a panic it is unknown which of it is in the log and which in memory,
    /// so writes are refused from then on and the memtable is not flushed: the log has every acknowledged write.
    fn or_poison<T>(&self, work: impl FnOnce() -> T) -> T {
        // Readers go on: they see what was published, which a panic does not change.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            self.poison(&Error::WritePanicked);
            resume_unwind(panic)
        })
    }

    /// Fails once the store is poisoned.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        self.health.admit(false, 0)
    }

    /// Slows writers down while the background is behind, so that they need not be stopped.
    fn pace(&self, writer: &mut Writer, bytes: usize) {
        writer.owed += self.delay(bytes);
        if writer.owed < PAUSE_MIN {
            return;
        }
        let started = self.env.clock.monotonic_ns();
        self.env.clock.sleep(writer.owed);
        let waited_ns = self.env.clock.monotonic_ns() - started;
        writer.owed = writer.owed.saturating_sub(Duration::from_nanos(waited_ns));
        self.shared.counters.slowed_ns.add(waited_ns);
    }

    fn delay(&self, bytes: usize) -> Duration {
        let memtables = self.memtables();
        let view = self.reads.view.load();
        let backlog = Backlog {
            memtables,
            // Those that compactions have set aside stay there, whatever writers wait for.
            level_0_tables: view.levels.level(0).len().saturating_sub(self.background.damage.count()),
            flush_bytes_per_s: self.background.flush_time.flush_bytes_per_s(),
        };
        drop(view);
        delay(backlog, bytes)
    }

    /// Memtables that wait for their flush, and as a fraction the one that is being filled.
    pub(super) fn memtables(&self) -> f64 {
        let view = self.reads.view.load();
        view.sealed.len() as f64 + view.active.used_bytes() as f64 / self.budget.memtable_bytes as f64
    }

    fn make_room(
        &self,
        writer: &mut MutexGuard<'_, Writer>,
        records: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        if !self.is_to_rotate(writer, records, bytes) {
            return Ok(());
        }
        let has_room = has_room(writer, records, bytes);
        match self.rotate(writer, bytes) {
            // What is due and not necessary needs room on the disk, or a descriptor, which the write itself does not.
            Err(error) if has_room && error.may_pass() => Ok(()),
            rotated => rotated,
        }
    }

    /// Whether a group of this size goes into the next memtable.
    fn is_to_rotate(&self, writer: &Writer, records: usize, bytes: usize) -> bool {
        if !has_room(writer, records, bytes) {
            return true;
        }
        // Rotating early to free space must never make a writer wait.
        let is_due = self.is_heavy(writer) || is_early_enough(writer, records, bytes);
        is_due && !self.has_too_many_sealed()
    }

    /// Whether the memtable replaces so much outside of it (blob files, records that its tombstones hide) that keeping it until
    /// it is full would leave too much dead space on the disk.
    fn is_heavy(&self, writer: &Writer) -> bool {
        let table = writer.memtable.table();
        let (blob_bytes, tombstones) = (table.blob_bytes(), table.tombstones());
        if blob_bytes == 0 && tombstones == 0 {
            return false;
        }
        let hidden = tombstones.saturating_mul(self.background.mean_record_bytes());
        blob_bytes.saturating_add(hidden) > self.budget.level_1_bytes
    }

    /// Seals the memtable and its segment, and begins the next ones, for a group of `bytes` bytes of batches.
    pub(super) fn rotate(&self, writer: &mut MutexGuard<'_, Writer>, bytes: usize) -> Result<(), Error> {
        self.wait_for_flush(writer)?;
        let next = self.begin_segment(writer.next_sequence, bytes)?;
        let (spare, seed) = (self.writes.spare.lock().take(), self.env.rng.next_u64());
        let memtable = match spare.filter(|spare| spare.capacity() == self.budget.memtable_bytes) {
            Some(spare) => MemtableWriter::within(spare, next.number(), seed),
            None => MemtableWriter::new(self.budget.memtable_bytes, next.number(), seed),
        };
        if writer.memtable.table().is_empty() {
            // The group is larger than the segment. No group has synced its header, and a log has no gaps.
            writer.wal.sync().map_err(|error| self.poison(&error))?;
        }
        let sealed = std::mem::replace(&mut writer.memtable, memtable);
        writer.flush_early_bytes = flush_early_bytes(&*self.env.rng, &self.options);
        sealed.table().seal(writer.next_sequence);
        let wal = std::mem::replace(&mut writer.wal, next);
        if let Some(kept) = &self.upkeep.kept_log {
            kept.ends_at(wal.number(), wal.end_offset());
        }
        if self.writes.durable.load(Ordering::Acquire) + 1 < writer.next_sequence {
            self.writes.unsynced.lock().insert(wal.number(), (wal.path().clone(), wal.file()));
        }
        self.reads.publish(|view| View {
            active: writer.memtable.table().clone(),
            sealed: std::iter::once(sealed.table().clone()).chain(view.sealed.iter().cloned()).collect(),
            levels: view.levels.clone(),
        });
        self.background.flush_time.rotated(sealed.table().used_bytes(), self.env.clock.monotonic_ns());
        self.background.wake();
        Ok(())
    }

    /// A full disk is a state, not a failure of the operation that met it first. If there is room by now, or if something else than
    /// bytes has run out, the error of that operation says more.
    pub(super) fn out_of_room(&self, error: Error) -> Error {
        if matches!(error, Error::Io { kind: std::io::ErrorKind::StorageFull, .. }) {
            self.observe_space();
            if let Err(full @ Error::DiskFull { .. }) = self.health.admit(true, self.budget.reserve_bytes) {
                return full;
            }
        }
        self.health.tell("a write", &error);
        error
    }

    pub(super) fn has_too_many_sealed(&self) -> bool {
        self.reads.view.load().sealed.len() >= SEALED_MAX
    }

    /// Waits until a sealed memtable is flushed, if as many wait as may.
    fn wait_for_flush(&self, writer: &mut MutexGuard<'_, Writer>) -> Result<(), Error> {
        if !self.has_too_many_sealed() {
            return Ok(());
        }
        let started = self.env.clock.monotonic_ns();
        let put_off = self.background.flush_failures.put_off();
        while self.has_too_many_sealed() {
            if self.background.is_manual() {
                self.flush_one()?;
                continue;
            }
            self.check_writable()?;
            // On a full disk, flushes go on in the reserve: there is room for this write until there is none for them.
            if let Some(error) = self.background.flush_failures.put_off_since(put_off) {
                return Err(self.out_of_room(error));
            }
            if self.closed.load(Ordering::Relaxed) {
                return Err(Error::Closed);
            }
            self.background.wake();
            self.background.wait_for_progress(writer);
        }
        self.shared.counters.stalls.record(self.env.clock.monotonic_ns() - started);
        Ok(())
    }

    fn append_to_log(
        &self,
        writer: &mut Writer,
        batches: &[WriteBatch],
        durability: Durability,
    ) -> Result<u64, Error> {
        // What was admitted may have waited here until the store was closed or poisoned.
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Closed);
        }
        self.check_writable()?;
        let sequence = writer.next_sequence;
        let durable = self.writes.durable.load(Ordering::Acquire);
        let written = match writer.wal.append(sequence, durable, batches) {
            Ok(written) => written,
            // The next group goes to the same place, so nothing of this one can be taken for a part of the log.
            Err(error) if error.is_disk_full() => return Err(self.out_of_room(error)),
            Err(error) => return Err(self.poison(&error)),
        };
        // The sequence is used up even if the sync fails: the file has the group.
        writer.next_sequence = sequence + 1;
        let counters = &self.shared.counters;
        counters.wal_bytes.add(written);
        match durability {
            Durability::Always => self.sync_group(writer, sequence)?,
            Durability::EverySecond => self.writes.due.store(sequence, Ordering::Release),
            Durability::Never => {}
        }
        counters.write_groups.add(1);
        Ok(sequence)
    }

    /// Shows a group to readers.
    fn apply(&self, writer: &mut Writer, sequence: u64, batches: &[WriteBatch]) {
        for batch in batches {
            writer.memtable.keep_blobs(batch.blobs());
            for record in records(batch.bytes()) {
                let record = record.expect("a batch holds what it was given");
                writer.memtable.insert(sequence, &record).expect("room was made for the group");
            }
            self.shared.counters.write_records.add(batch.len() as u64);
        }
        self.writes.visible.store(sequence, Ordering::Release);
    }

    pub(super) fn seal(&self) -> Result<(), Error> {
        let mut writer = self.writes.writer.lock();
        self.check_writable()?;
        if writer.memtable.table().is_empty() {
            return Ok(());
        }
        self.or_poison(|| self.rotate(&mut writer, 0))
    }
}
