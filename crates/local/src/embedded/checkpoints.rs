//! Copies of the store for backups: made at one moment, by hard links, and kept until who fetches one says that it has all, leaves it
//! alone for too long, or the node is started again.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use ladoga_backup::{Listing, PIECE_BYTES_MAX, empty_slot};
use ladoga_env::{Clock, Disk, Env, OpenMode, Replacement, Rng, Turn, Worker, WorkerHandle, Workers};
use ladoga_service::Begun;
use ladoga_storage::{Copied, Engine, StoreFile};
use parking_lot::Mutex;

use super::{out_of_descriptors, read_error, store_name, write_error};
use crate::store::{BackupAnswer, BackupStep, Error, StoreError};

/// How many there may be at a time: each keeps files that compactions have replaced.
const CHECKPOINTS_MAX: usize = 4;
/// After how long one that nobody reads is released.
const LEASE_NS: u64 = 60 * 1_000_000_000;
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The folder of them in the data directory, and those in it; a restore uses one of them.
const FOLDER: &str = "checkpoints";
const SLOTS: [&str; CHECKPOINTS_MAX + 1] = ["0", "1", "2", "3", "restoring"];
/// By which backups tell this store from others.
const STORE_FILE: &str = "store";
/// The file of a checkpoint that says what is in it.
const LISTING: &str = "listing";

/// The checkpoints of a store. All of it may wait for the disk.
pub(super) struct Checkpoints {
    pub(super) engine: Arc<Engine>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    workers: Arc<dyn Workers>,
    dir: PathBuf,
    /// Never locked during I/O.
    slots: Arc<Mutex<Slots>>,
    /// What this store is called, once that was asked for. Locked while it is made or read: those who ask first may come together.
    store: Mutex<Option<u128>>,
    /// Who releases what is left alone; from the first one on.
    reaper: OnceLock<Arc<dyn WorkerHandle>>,
}

#[derive(Default)]
struct Slots {
    slots: [Slot; CHECKPOINTS_MAX],
    is_closed: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Slot {
    #[default]
    Free,
    /// It is being filled, or emptied.
    Busy,
    /// Whoever has the id may read it.
    Held { id: u64, used_ns: u64 },
}

impl Slots {
    fn find(&self, wanted: u64) -> Option<usize> {
        self.slots.iter().position(|slot| matches!(slot, Slot::Held { id, .. } if *id == wanted))
    }

    /// After how many seconds the first one is released, if nobody reads it until then.
    fn first_release_s(&self, now_ns: u64) -> Option<u64> {
        let used_ns = self.slots.iter().filter_map(|slot| match slot {
            Slot::Held { used_ns, .. } => Some(*used_ns),
            Slot::Free | Slot::Busy => None,
        });
        // It is released when more than its time is over.
        let left_ns = |used_ns: u64| (used_ns + LEASE_NS + 1).saturating_sub(now_ns);
        used_ns.min().map(|used_ns| left_ns(used_ns).div_ceil(1_000_000_000))
    }

    /// Takes one that nobody has used since then.
    fn take_unused(&mut self, since_ns: u64) -> Option<usize> {
        let is_unused = |slot: &Slot| matches!(slot, Slot::Held { used_ns, .. } if *used_ns < since_ns);
        let index = self.slots.iter().position(is_unused)?;
        self.slots[index] = Slot::Busy;
        Some(index)
    }
}

impl Checkpoints {
    /// None yet: those that an earlier process left are removed.
    pub(super) fn new(env: &Env, dir: &Path, engine: &Arc<Engine>) -> Checkpoints {
        let dir = dir.join(FOLDER);
        for slot in SLOTS {
            remove(&*env.disk, &dir.join(slot));
        }
        Checkpoints {
            engine: Arc::clone(engine),
            disk: Arc::clone(&env.disk),
            clock: Arc::clone(&env.clock),
            rng: Arc::clone(&env.rng),
            workers: Arc::clone(&env.workers),
            dir,
            slots: Arc::default(),
            store: Mutex::default(),
            reaper: OnceLock::new(),
        }
    }

    pub(super) fn step(&self, step: BackupStep) -> Result<BackupAnswer, Error> {
        match step {
            BackupStep::Begin => self.begin().map(BackupAnswer::Begun),
            BackupStep::Read { id, file, offset, bytes_max } => {
                self.read(id, &file, offset, bytes_max).map(BackupAnswer::Bytes)
            }
            BackupStep::Log { after } => self.log(after).map(BackupAnswer::Log),
            BackupStep::ReadLog { file, offset, bytes_max } => {
                self.read_log(&file, offset, bytes_max).map(BackupAnswer::Bytes)
            }
            BackupStep::End { id } => self.end(id).map(|()| BackupAnswer::Ended),
        }
    }

    fn begin(&self) -> Result<Begun, Error> {
        self.start_reaper()?;
        release_unused(&*self.disk, &self.dir, &self.slots, self.clock.monotonic_ns());
        let index = {
            let mut slots = self.slots.lock();
            let free = slots.slots.iter().position(|slot| *slot == Slot::Free);
            let wait_s = slots.first_release_s(self.clock.monotonic_ns());
            let taken = Error::CheckpointsTaken { checkpoints_max: CHECKPOINTS_MAX, wait_s };
            let index = free.ok_or(taken)?;
            slots.slots[index] = Slot::Busy;
            index
        };
        // Whatever becomes of it, a panic too, the slot is not lost.
        let mut filling = Filling { checkpoints: self, index, held: Slot::Free };
        let begun = self.fill(&self.dir.join(SLOTS[index]))?;
        filling.held = Slot::Held { id: begun.id, used_ns: self.clock.monotonic_ns() };
        Ok(begun)
    }

    fn fill(&self, slot: &Path) -> Result<Begun, Error> {
        let failed = |error: ladoga_backup::Error| {
            let reason = format!("no checkpoint could be made: {error}");
            let full = error.is_disk_full();
            Error::from(if full { StoreError::NoRoom { reason } } else { StoreError::Failed { reason } })
        };
        empty_slot(&*self.disk, slot).map_err(failed)?;
        let made = self.engine.checkpoint_within_log(slot);
        let Copied { tables, end_sequence, dropped_before } = made.map_err(|error| {
            // A file of the store that is gone: no waiting brings it back.
            if error.is_corruption() { read_error(&error) } else { write_error(&error) }
        })?;
        let taken_ms = self.clock.wall_ms();
        let store = self.store().map_err(|error| failed(error.into()))?;
        let listing = Listing::of(&*self.disk, slot, store, tables).map_err(failed)?.encode();
        Replacement::of(&*self.disk, &slot.join(LISTING), &listing)
            .map_err(|error| failed(ladoga_backup::Error::from(error)))?;
        let id = self.rng.next_u64();
        let log = self.engine.keeps_log().then_some((store, end_sequence));
        let listing_bytes = listing.len() as u64;
        Ok(Begun { id, listing_bytes, taken_ms, dropped_before, cut: None, log })
    }

    /// What this store is called, as long as its directory is no copy.
    pub(super) fn store(&self) -> Result<u128, ladoga_storage::Error> {
        let mut known = self.store.lock();
        if let Some(store) = *known {
            return Ok(store);
        }
        let store = store_name::read_or_make(&*self.disk, &*self.rng, &self.dir.join(STORE_FILE))?;
        *known = Some(store);
        Ok(store)
    }

    fn read(&self, id: u64, name: &str, offset: u64, bytes_max: u64) -> Result<Bytes, Error> {
        let index = {
            let mut slots = self.slots.lock();
            let index = slots.find(id).ok_or(Error::NoCheckpoint { what: "checkpoint" })?;
            slots.slots[index] = Slot::Held { id, used_ns: self.clock.monotonic_ns() };
            index
        };
        let slot = self.dir.join(SLOTS[index]);
        let no_file = Error::NoCheckpoint { what: "file in the checkpoint" };
        let path = match StoreFile::parse(name) {
            Some(file) => slot.join(file.path()),
            None if name == LISTING => slot.join(LISTING),
            None => return Err(no_file),
        };
        read_piece(&*self.disk, &path, (offset, bytes_max), no_file)
    }

    fn end(&self, id: u64) -> Result<(), Error> {
        let index = {
            let mut slots = self.slots.lock();
            let index = slots.find(id).ok_or(Error::NoCheckpoint { what: "checkpoint" })?;
            slots.slots[index] = Slot::Busy;
            index
        };
        free(&*self.disk, &self.dir, &self.slots, index);
        Ok(())
    }

    fn start_reaper(&self) -> Result<(), Error> {
        if self.reaper.get().is_some() {
            return Ok(());
        }
        let reaper = Reaper {
            disk: Arc::clone(&self.disk),
            clock: Arc::clone(&self.clock),
            dir: self.dir.clone(),
            slots: Arc::clone(&self.slots),
        };
        let started = self.workers.start("checkpoints", Box::new(reaper)).map_err(|error| {
            Error::from(StoreError::Failed { reason: format!("cannot start a thread: {error}") })
        })?;
        if let Err(second) = self.reaper.set(started) {
            // Another request was faster. One too many does no harm, and ends with the store.
            drop(second);
        }
        Ok(())
    }

    /// Ends who releases them. What is held is removed at the next start.
    pub(super) fn close(&self) {
        self.slots.lock().is_closed = true;
        if let Some(reaper) = self.reaper.get() {
            reaper.wake();
            if !reaper.join() {
                tracing::error!("the thread that releases checkpoints panicked");
            }
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.close();
    }
}

/// A slot that is being filled: emptied again unless that works out.
struct Filling<'c> {
    checkpoints: &'c Checkpoints,
    index: usize,
    held: Slot,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        let Checkpoints { disk, dir, slots, .. } = self.checkpoints;
        if self.held == Slot::Free {
            free(&**disk, dir, slots, self.index);
        } else {
            slots.lock().slots[self.index] = self.held;
        }
    }
}

/// Releases what nobody has used for too long.
struct Reaper {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    slots: Arc<Mutex<Slots>>,
}

impl Worker for Reaper {
    fn turn(&mut self) -> Turn {
        if self.slots.lock().is_closed {
            return Turn::Over;
        }
        release_unused(&*self.disk, &self.dir, &self.slots, self.clock.monotonic_ns());
        Turn::WaitFor(LOOK_EVERY)
    }
}

fn release_unused(disk: &dyn Disk, dir: &Path, slots: &Mutex<Slots>, now_ns: u64) {
    loop {
        let Some(index) = slots.lock().take_unused(now_ns.saturating_sub(LEASE_NS)) else { return };
        tracing::warn!("released a checkpoint that no backup has read for a minute");
        free(disk, dir, slots, index);
    }
}

/// Bytes of a file from `offset` on; none at its end. Who is answered that it is unreadable may give it up, so only a disk that does
/// not give the bytes is told so.
pub(super) fn read_piece(
    disk: &dyn Disk,
    path: &Path,
    (offset, bytes_max): (u64, u64),
    no_file: Error,
) -> Result<Bytes, Error> {
    let read = || {
        let file = disk.open(path, OpenMode::Read)?;
        let left = file.len()?.saturating_sub(offset);
        let mut bytes = vec![0; left.min(bytes_max).min(PIECE_BYTES_MAX as u64) as usize];
        if !bytes.is_empty() {
            file.read_exact_at(&mut bytes, offset)?;
        }
        Ok(Bytes::from(bytes))
    };
    let is_shorter = |error: &std::io::Error| error.kind() == ErrorKind::UnexpectedEof;
    // A segment that is kept is made shorter once, maybe between the two.
    let read = read().or_else(|error| if is_shorter(&error) { read() } else { Err(error) });
    read.map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            return no_file;
        }
        if ladoga_env::is_out_of_descriptors(error.raw_os_error()) {
            return out_of_descriptors().into();
        }
        let reason = format!("reading {} failed: {error}", path.display());
        StoreError::Unreadable { reason }.into()
    })
}

/// Empties a slot that is busy, and makes it free.
fn free(disk: &dyn Disk, dir: &Path, slots: &Mutex<Slots>, index: usize) {
    remove(disk, &dir.join(SLOTS[index]));
    slots.lock().slots[index] = Slot::Free;
}

fn remove(disk: &dyn Disk, slot: &Path) {
    // What cannot be removed now is removed before the next one is made in its place, or at the next start.
    if let Err(error) = empty_slot(disk, slot) {
        tracing::warn!(%error, "could not remove a checkpoint");
    }
}
