use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ladoga_env::Priority;
use ladoga_model::Version;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Inner;
use super::damage::Damage;
use super::flush_failures::{Failed, FlushFailures};
use super::flush_time::FlushTime;
use super::given_up::GivenUp;
use super::looks::Looks;
use super::still_dead::StillDead;
use super::write::Writer;
use crate::error::Error;
use crate::health::WriteState;
use crate::levels::Levels;
use crate::options::Background;
use crate::pacing::Growth;
use crate::paths::{LOCK, identity};

/// How often the background looks for work that is not announced: space on the disk, snapshots that were dropped.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// What the threads in the background share.
pub(crate) struct BackgroundWork {
    mode: Background,
    /// Counts wake-ups, so that none is missed between looking for work and going to sleep.
    wakes: Mutex<u64>,
    woken: Condvar,
    stopped: Condvar,
    progress: Condvar,
    stop: AtomicBool,
    pub(super) flush_time: FlushTime,
    pub(super) flush_failures: FlushFailures,
    mean_record_bytes: AtomicU64,
    level_0_tables: AtomicUsize,
    growth: Mutex<Growth>,
    /// Whether writers are about to be slowed down because compaction is behind.
    is_compaction_urgent: AtomicBool,
    pub(super) damage: Damage,
    pub(super) given_up: GivenUp,
    pub(super) still_dead: StillDead,
    /// Tables that were trimmed, and up to which version.
    trimmed: Mutex<BTreeMap<u64, Version>>,
    /// The segment and the tombstones of the memtable, and since when those are all.
    deletes_seen: Mutex<((u64, u64), u64)>,
}

/// How a thread goes about its work. Compactions and the writing of flushes have one of each, as a thread's priority can only be
/// lowered. The two that compact never do so at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Runs at the lowest priority. If others keep all cores busy, it makes hardly any progress.
    Patient,
    /// Runs below normal priority. Where it compacts, it goes on with what the patient thread began.
    Hurried,
}

impl Pace {
    pub(super) const fn priority(self) -> Priority {
        match self {
            Pace::Patient => Priority::Lowest,
            Pace::Hurried => Priority::Lower,
        }
    }

    fn is_due(self, background: &BackgroundWork) -> bool {
        background.is_compaction_urgent.load(Ordering::Relaxed) == (self == Pace::Hurried)
    }
}

impl BackgroundWork {
    pub(super) fn new(mode: Background, memtable_bytes: usize) -> BackgroundWork {
        BackgroundWork {
            mode,
            wakes: Mutex::new(0),
            woken: Condvar::new(),
            stopped: Condvar::new(),
            progress: Condvar::new(),
            stop: AtomicBool::new(false),
            flush_time: FlushTime::new(memtable_bytes),
            flush_failures: FlushFailures::default(),
            mean_record_bytes: AtomicU64::new(0),
            level_0_tables: AtomicUsize::new(0),
            growth: Mutex::default(),
            is_compaction_urgent: AtomicBool::new(false),
            damage: Damage::default(),
            given_up: GivenUp::default(),
            still_dead: StillDead::default(),
            trimmed: Mutex::default(),
            deletes_seen: Mutex::default(),
        }
    }

    pub(super) fn is_manual(&self) -> bool {
        self.mode == Background::Manual
    }

    /// Says that there may be work.
    pub(crate) fn wake(&self) {
        *self.wakes.lock() += 1;
        self.woken.notify_all();
    }

    #[cfg(test)]
    pub(super) fn wakes(&self) -> u64 {
        *self.wakes.lock()
    }

    /// Waits for the next wake-up after `seen`, or `timeout`; the answer is the last one.
    pub(super) fn wait(&self, seen: u64, timeout: Duration) -> u64 {
        let mut wakes = self.wakes.lock();
        if *wakes == seen && !self.stop.load(Ordering::SeqCst) {
            self.woken.wait_for(&mut wakes, timeout);
        }
        *wakes
    }

    /// Waits that long, however often it is woken: whoever waits for what has failed would have it tried at once, again and again.
    pub(super) fn pause(&self, pause: Duration) {
        let mut wakes = self.wakes.lock();
        if !self.stop.load(Ordering::SeqCst) {
            self.stopped.wait_for(&mut wakes, pause);
        }
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake();
        self.stopped.notify_all();
        self.progressed();
    }

    /// Has writers look who wait for a flush.
    pub(super) fn progressed(&self) {
        self.progress.notify_all();
    }

    pub(super) const fn stopping(&self) -> &AtomicBool {
        &self.stop
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Waits, without the writer's lock, until a flush ended or a tick went by.
    pub(super) fn wait_for_progress(&self, writer: &mut MutexGuard<'_, Writer>) {
        self.progress.wait_for(writer, TICK);
    }

    /// Whether a flush may take its time, with so many memtables, the one that is being filled included.
    pub(super) fn has_time_to_flush(&self, memtables: f64) -> bool {
        !self.is_stopping() && self.flush_time.is_enough(memtables, self.growth.lock().bytes_per_s())
    }

    /// Notes how large records are, and how many tables wait for a compaction.
    pub(super) fn observe(&self, levels: &Levels, now_ns: u64) {
        let (mut bytes, mut records) = (0, 0);
        for (_, table) in levels.iter() {
            bytes += table.meta().disk_bytes();
            records += table.meta().records - table.meta().tombstones;
        }
        self.mean_record_bytes.store(bytes.checked_div(records).unwrap_or(0), Ordering::Relaxed);
        self.level_0_tables.store(levels.level(0).len(), Ordering::Relaxed);
        self.observe_growth(now_ns);
    }

    /// Notes how fast writers are: the memtable that is being filled has so many bytes.
    pub(super) fn observe_writes(&self, filled_bytes: u64, now_ns: u64) {
        let written = self.flush_time.sealed_bytes() + filled_bytes;
        self.growth.lock().observe_written(written, now_ns);
        self.observe_growth(now_ns);
    }

    /// Notes whether compactions are to hurry, now that time has gone by or level 0 has changed.
    fn observe_growth(&self, now_ns: u64) {
        // Before the look at the tables: who has looked and then waits for it would take an old number for a flush.
        let mut growth = self.growth.lock();
        // Those that compactions have set aside stay there, however they hurry.
        let tables = self.level_0_tables.load(Ordering::Relaxed).saturating_sub(self.damage.count());
        growth.observe(tables, now_ns);
        self.is_compaction_urgent.store(growth.is_urgent(now_ns), Ordering::Relaxed);
    }

    pub(super) fn mean_record_bytes(&self) -> u64 {
        self.mean_record_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn trimmed(&self) -> BTreeMap<u64, Version> {
        self.trimmed.lock().clone()
    }

    /// Notes tables that were trimmed, and forgets those that are gone.
    pub(super) fn note_trimmed(&self, tables: &[u64], up_to: Version, levels: &Levels) {
        let mut trimmed = self.trimmed.lock();
        trimmed.extend(tables.iter().map(|&table| (table, up_to)));
        let living: BTreeSet<u64> = levels.iter().map(|(_, table)| table.meta().number).collect();
        trimmed.retain(|table, _| living.contains(table));
    }
}

impl Inner {
    /// Refuses writes once the directory was removed, or another one is in its place: the open log would still take them, but no
    /// restart would find it, and new files would come among those of others. Errors that do not say so say nothing about the open files.
    pub(super) fn observe_directory(&self) {
        let path = self.dir.join(LOCK);
        match identity(&*self.env.disk, &path) {
            Ok(file) if file == self.lock_file => {}
            Ok(_) => {
                self.poison(&Error::Replaced { path });
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                self.poison(&Error::Gone { path });
            }
            Err(_) => {}
        }
    }

    /// One step for the thread that flushes: a memtable, or the segment for the next.
    pub(super) fn flush_step(&self) -> Result<bool, Error> {
        if self.health.state() == WriteState::Poisoned {
            self.collect_retired();
            return Ok(false);
        }
        let flushed = if self.is_flush_due() { self.flush_one() } else { Ok(false) };
        match &flushed {
            Ok(true) => self.background.wake(),
            Ok(false) => {}
            Err(error) => self.flush_failed(error),
        }
        // A writer is either before its look at the view, or waits already.
        drop(self.writes.writer.lock());
        self.background.progressed();
        // After each flush: under full load one flush follows the other, and no other thread frees what they leave.
        self.collect_retired();
        if flushed? {
            return Ok(true);
        }
        self.prepare_segment()?;
        self.flush_deletes()
    }

    /// On a full disk, deletes are what makes room: they do not wait in memory until it is full, but only until for a tick no
    /// more of them came.
    fn flush_deletes(&self) -> Result<bool, Error> {
        if self.health.state() != WriteState::DiskFull {
            return Ok(false);
        }
        let now = {
            let active = &self.reads.view.load().active;
            (active.wal_number(), active.tombstones())
        };
        let now_ns = self.env.clock.monotonic_ns();
        let mut seen = self.background.deletes_seen.lock();
        if seen.0 != now {
            *seen = (now, now_ns);
        }
        if now.1 == 0 || now_ns - seen.1 < TICK.as_nanos() as u64 {
            return Ok(false);
        }
        drop(seen);
        let mut writer = self.writes.writer.lock();
        // Meanwhile writers may have done so, and one more would wait for this thread.
        if writer.memtable.table().is_empty() || self.has_too_many_sealed() {
            return Ok(true);
        }
        self.rotate(&mut writer, 0).map(|()| true)
    }

    /// The log keeps what could not be flushed, so a failure is tried again, but not for ever: writers wait for it.
    fn flush_failed(&self, error: &Error) {
        self.shared.counters.background_failures.add(1);
        let failed = self.background.flush_failures.note(error, self.env.clock.monotonic_ns());
        if error.is_disk_full() {
            // Not every bound on space shows in what is free.
            self.remove_kept_log();
        }
        if failed == Failed::PutOff {
            self.observe_space();
        }
        if failed != Failed::Again {
            self.health.tell("a flush", error);
        }
        if failed == Failed::ForGood {
            self.poison(error);
        }
    }

    pub(super) fn compact_step(&self, pace: Pace) -> Result<bool, Error> {
        self.observe_directory();
        if self.health.state() == WriteState::Poisoned {
            return Ok(false);
        }
        if pace == Pace::Patient {
            match self.flush_patiently() {
                Ok(false) => {}
                Err(error) => {
                    self.flush_failed(&error);
                    return Err(error);
                }
                done => return done,
            }
        }
        if !pace.is_due(&self.background) {
            return Ok(false);
        }
        let looks = Looks::default();
        let is_to_pause = || {
            // With many records, and with each: the other thread goes on with it.
            looks.is_due() && self.look_around(pace) || !pace.is_due(&self.background)
        };
        let result = self.compact_one(&is_to_pause);
        if let Err(error) = &result
            && !matches!(error, Error::Closed)
        {
            self.shared.counters.background_failures.add(1);
            // Not every bound on space shows in what is free. One that a compaction has of its own says nothing about the disk.
            if error.is_disk_full() && !matches!(error, Error::DiskFull { .. }) {
                self.remove_kept_log();
            }
            self.health.tell("a compaction", error);
        }
        if matches!(result, Ok(true)) {
            // Inputs can go: their space is what a full disk waits for.
            self.background.wake();
        }
        result
    }

    /// Looks at what goes on beside a compaction. Answers whether it is to pause.
    fn look_around(&self, pace: Pace) -> bool {
        match pace {
            Pace::Hurried => {
                self.observe_writes();
                false
            }
            Pace::Patient => {
                self.env.clock.make_way();
                self.is_patient_flush_due()
            }
        }
    }

    /// Notes how fast writers are, and what follows from that.
    pub(super) fn observe_writes(&self) {
        let filled = self.reads.view.load().active.used_bytes();
        self.background.observe_writes(filled, self.env.clock.monotonic_ns());
    }

    /// Removes log that is kept and older than it has to be.
    pub(super) fn remove_old_log(&self) {
        if let Some(kept) = &self.upkeep.kept_log {
            kept.remove_old();
        }
    }

    /// One step of everything, for callers that do the background work themselves.
    pub(super) fn step(&self) -> Result<bool, Error> {
        self.observe_directory();
        self.remove_old_log();
        self.observe_space();
        let worked = self.flush_one().and_then(|flushed| Ok(flushed || self.compact_one(&|| false)?));
        self.collect_retired();
        worked
    }
}
