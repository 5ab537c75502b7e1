use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use ladoga_cluster::{Fences, NoPromise, Refusal};
use ladoga_env::{Disk, Env, Turn, Worker, WorkerHandle};
use ladoga_local::store::{CellChange, CellGate, Passage};
use ladoga_model::Version;
use ladoga_runtime::Supervisor;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::lifted::LiftedFences;
use super::log::{self, FenceLog};
use super::record::FenceRecord;
use crate::planted::{Bug, has, is_let_through};
use crate::stability::Latest;

/// When what nobody waits for is written.
const WRITE_MS: u64 = 1_000;

/// The promises of this node: in force from the moment in which they are decided, and given once they are durable.
///
/// What changes them is decided in the turn in which groups are written, as the gate is asked; what only ends them may come
/// at any time.
pub(crate) struct FenceKeeper {
    state: Mutex<State>,
    /// No promise is newer; 0 if there are none. So the gate needs one look at this if nothing is promised.
    newest: AtomicU64,
    /// Says that many promises were lifted by cells that may not be on the disk.
    many_lifted: Notify,
    closes: AtomicBool,
    worker: OnceLock<Arc<dyn WorkerHandle>>,
    /// Whether the file could not be written the last time.
    has_failed: AtomicBool,
    pub(crate) figures: Figures,
}

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) promises: AtomicU64,
    pub(crate) accepts: AtomicU64,
    /// Those among them that something newer had come in the place of.
    pub(crate) overtaken: AtomicU64,
    /// Ballots that had to wait for the end of an older promise.
    pub(crate) waited: AtomicU64,
    /// Ballots and cells that came too late.
    pub(crate) outbid: AtomicU64,
    /// Cells that were kept out.
    pub(crate) kept_out: AtomicU64,
}

struct State {
    fences: Fences,
    /// Those that ended by cells that may not be on the disk.
    lifted: LiftedFences,
    /// What is not written yet, in the order in which it happened.
    records: Vec<FenceRecord>,
    /// The promises that are not known to be durable, in this order too: those that are being written, and those among the records.
    decided: Vec<Arc<DecidedFence>>,
}

/// A promise that was decided, and is not given yet. Whoever asks for it again meanwhile shares what becomes of it.
#[derive(Debug)]
struct DecidedFence {
    key_hash: u64,
    ballot: Version,
    /// Whether it is durable; `None` while that is not known.
    is_durable: Latest<Option<bool>>,
}

/// A promise that may be given to the peer who asked for it once it is durable; `None` if it is already.
#[derive(Debug, Clone)]
pub(crate) struct Fence(Option<Arc<DecidedFence>>);

impl State {
    fn decide(&mut self, key_hash: u64, ballot: Version) -> Result<Fence, NoPromise> {
        if !self.lifted.has_room_for(key_hash) {
            return Err(NoPromise::Full);
        }
        self.fences.promise(key_hash, ballot)?;
        self.records.push(FenceRecord::Promise(key_hash, ballot));
        let decided = Arc::new(DecidedFence { key_hash, ballot, is_durable: Latest::default() });
        self.decided.push(Arc::clone(&decided));
        Ok(Fence(Some(decided)))
    }

    /// The last time that a promise was decided, unless that is durable.
    fn decided(&self, key_hash: u64, ballot: Version) -> Option<&Arc<DecidedFence>> {
        self.decided.iter().rev().find(|decided| (decided.key_hash, decided.ballot) == (key_hash, ballot))
    }

    fn release(&mut self, key_hash: u64, ballot: Version) {
        if self.fences.release(key_hash, ballot) {
            self.records.push(FenceRecord::Release(key_hash, ballot));
        }
    }
}

impl FenceKeeper {
    /// Opens the file below `dir`, and begins. What was promised is in force.
    pub(crate) fn start(env: &Env, dir: &Path, supervisor: &Supervisor) -> io::Result<Arc<FenceKeeper>> {
        let (keeper, worker) = FenceKeeper::open(&env.disk, dir)?;
        let worker = supervisor.start(&*env.workers, "fences", worker)?;
        keeper.worker.get_or_init(|| worker);
        Ok(keeper)
    }

    fn open(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<(Arc<FenceKeeper>, FenceWorker)> {
        let (log, mut fences) = FenceLog::open(disk, dir)?;
        if has(Bug::ForgottenFence) {
            fences = Fences::default();
        }
        let newest = fences.iter().map(|(_, fence)| fence.timestamp).max().unwrap_or(0);
        let keeper = Arc::new(FenceKeeper {
            state: Mutex::new(State {
                fences,
                lifted: LiftedFences::default(),
                records: Vec::new(),
                decided: Vec::new(),
            }),
            newest: AtomicU64::new(newest),
            many_lifted: Notify::new(),
            closes: AtomicBool::new(false),
            worker: OnceLock::new(),
            has_failed: AtomicBool::new(false),
            figures: Figures::default(),
        });
        let worker = FenceWorker { keeper: Arc::downgrade(&keeper), log };
        Ok((keeper, worker))
    }

    /// Removes what another node has promised from a directory that becomes this node's.
    pub(crate) fn forget(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        log::remove(disk, dir)
    }

    /// Promises that no cell of the key that is older is taken from now on; or promises it again, if that is the newest
    /// promise. Called while groups are written. The promise may be given to the peer once it is
    /// [durable](FenceKeeper::durable).
    pub(crate) fn promise(&self, key_hash: u64, ballot: Version) -> Result<Fence, NoPromise> {
        let mut state = self.state.lock();
        let fence = if state.fences.is_newest(key_hash, ballot) {
            Fence(state.decided(key_hash, ballot).cloned())
        } else {
            state.decide(key_hash, ballot)?
        };
        self.newest.fetch_max(ballot.timestamp, Ordering::AcqRel);
        drop(state);
        self.wake();
        Ok(fence)
    }

    /// Waits until a promise is durable. It is void if it cannot be made so.
    pub(crate) async fn durable(&self, fence: Fence) -> Result<(), Refusal> {
        if let Fence(Some(decided)) = fence {
            decided.is_durable.until(|is_durable| is_durable.is_some()).await;
            if decided.is_durable.get() != Some(true) {
                return Err(Refusal::StoreFailed);
            }
        }
        self.figures.promises.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The first so many of the promises that were decided are durable, or void because they could not be made so. Not by those who wait
    /// for them: others may have been promised the same again by then.
    fn note_written(&self, decided: usize, is_durable: bool) {
        let mut state = self.state.lock();
        let written: Vec<_> = state.decided.drain(..decided).collect();
        for fence in written.iter().filter(|_| !is_durable) {
            // Not what was decided once more, after it was released.
            if state.decided(fence.key_hash, fence.ballot).is_none() {
                state.release(fence.key_hash, fence.ballot);
            }
        }
        self.note_ended(&state);
        drop(state);
        written.iter().for_each(|fence| fence.is_durable.change(|known| *known = Some(is_durable)));
    }

    /// A coordinator gave up, and its cell is nowhere: its promise is void.
    pub(crate) fn release(&self, key_hash: u64, ballot: Version) {
        self.end(|state| state.release(key_hash, ballot));
    }

    /// Whatever is older than this timestamp has arrived everywhere.
    pub(crate) fn void_before(&self, timestamp: u64) {
        self.end(|state| {
            state.lifted.forget_before(timestamp);
            if state.fences.void_before(timestamp) {
                state.records.push(FenceRecord::Void(timestamp));
            }
        });
    }

    /// These are the newest cells of their keys by now, and need no promises up to their versions. That is not written, because the
    /// cells may not be on the disk: those that are there are told of again when the node starts.
    pub(crate) fn lift(&self, changes: &[CellChange]) {
        self.end(|state| {
            for CellChange { key_hash, old, new } in changes {
                let (had, by) = (old.map(|old| old.stamp.version), new.stamp.version);
                let Some(lifted) = state.fences.newest_up_to(*key_hash, by) else { continue };
                state.fences.replace(*key_hash, had, by);
                state.lifted.add(*key_hash, lifted);
            }
            if state.lifted.many().is_some() {
                self.many_lifted.notify_one();
            }
        });
    }

    /// Waits until many promises were lifted. Once the store has been synced, they may be [forgotten](FenceKeeper::forget_lifted).
    pub(crate) async fn many_lifted(&self) -> u64 {
        loop {
            let notified = self.many_lifted.notified();
            if let Some(lift) = self.state.lock().lifted.many() {
                return lift;
            }
            notified.await;
        }
    }

    /// The store has been synced since: nothing depends on those promises any more.
    pub(crate) fn forget_lifted(&self, lift: u64) {
        self.state.lock().lifted.forget_up_to(lift);
    }

    /// Ends promises, if there are any.
    fn end(&self, end: impl FnOnce(&mut State)) {
        if self.newest.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.state.lock();
        end(&mut state);
        self.note_ended(&state);
    }

    fn note_ended(&self, state: &State) {
        if state.fences.is_empty() {
            self.newest.store(0, Ordering::Release);
        }
    }

    /// Whether this is the newest promise for the key. In the turn in which groups are written.
    pub(crate) fn is_newest(&self, key_hash: u64, ballot: Version) -> bool {
        self.state.lock().fences.is_newest(key_hash, ballot)
    }

    /// Whether this was the newest promise for the key until something newer came in the place of what it `had`, which `newest` is or
    /// came after. In the turn in which groups are written.
    pub(crate) fn is_overtaken(
        &self,
        (key_hash, ballot): (u64, Version),
        had: Option<Version>,
        newest: Option<Version>,
    ) -> bool {
        newest.is_some_and(|newest| self.state.lock().fences.is_overtaken(key_hash, ballot, had, newest))
    }

    /// The newest promise for the key.
    pub(crate) fn newest(&self, key_hash: u64) -> Option<Version> {
        if self.newest.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.state.lock().fences.newest(key_hash)
    }

    /// Whether a promise keeps a version of the key out now.
    pub(crate) fn keeps_out(&self, key_hash: u64, version: Version) -> bool {
        !self.is_open_to(version.timestamp) && self.state.lock().fences.refusing(key_hash, version).is_some()
    }

    /// No promise is newer; 0 if there are none.
    pub(crate) fn newest_timestamp(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// How many promises there are.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().fences.len()
    }

    /// Whether promises cannot be written, so that none are given.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        if let Some(worker) = self.worker.get() {
            worker.wake();
        }
    }

    /// Writes what there is, and ends.
    pub(crate) fn close(&self) {
        self.closes.store(true, Ordering::Release);
        self.wake();
        if let Some(worker) = self.worker.get() {
            // Whether it panicked, the node was told.
            worker.join();
        }
    }
}

impl CellGate for FenceKeeper {
    fn is_open_to(&self, timestamp: u64) -> bool {
        timestamp > self.newest.load(Ordering::Acquire)
    }

    fn pass(&self, key_hash: u64, version: Version) -> Passage {
        match self.state.lock().fences.refusing(key_hash, version) {
            Some(_) if has(Bug::RepairThroughFence) && is_let_through(key_hash, version) => Passage::Open,
            Some(fence) => {
                self.figures.kept_out.fetch_add(1, Ordering::Relaxed);
                Passage::Fenced(fence)
            }
            None => Passage::Open,
        }
    }
}

impl Drop for FenceKeeper {
    fn drop(&mut self) {
        // It finds that there is nothing left to keep. (It may be the one who drops this, and is not waited for.)
        self.wake();
    }
}

struct FenceWorker {
    keeper: Weak<FenceKeeper>,
    log: FenceLog,
}

impl Worker for FenceWorker {
    fn turn(&mut self) -> Turn {
        let Some(keeper) = self.keeper.upgrade() else { return Turn::Over };
        let closes = keeper.closes.load(Ordering::Acquire);
        self.write(&keeper);
        if closes { Turn::Over } else { Turn::WaitFor(Duration::from_millis(WRITE_MS)) }
    }
}

impl FenceWorker {
    /// Writes what has happened since the last time: with one sync, if promises are among it.
    fn write(&mut self, keeper: &FenceKeeper) {
        let mut state = keeper.state.lock();
        let records = std::mem::take(&mut state.records);
        if records.is_empty() {
            return;
        }
        let decided = state.decided.len();
        // All that stands now: what happened before is among it. (Of many that were lifted, most go soon.)
        let is_anew = self.log.is_to_be_written_anew(state.fences.len() + state.lifted.len() / 4);
        let standing = || state.fences.iter().chain(state.lifted.iter()).collect();
        let standing: Option<Vec<_>> = is_anew.then(standing);
        drop(state);
        let written = match standing {
            Some(standing) => self.log.write_anew(standing.into_iter()),
            None => self.log.append(&records, decided > 0),
        };
        let had_failed = keeper.has_failed.swap(written.is_err(), Ordering::Relaxed);
        match &written {
            Ok(()) if had_failed => tracing::warn!("promises to conditional writes can be stored again"),
            Err(error) if !had_failed => {
                tracing::warn!("cannot store promises to conditional writes, and gives none: {error}");
            }
            Ok(()) | Err(_) => {}
        }
        keeper.note_written(decided, written.is_ok());
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
