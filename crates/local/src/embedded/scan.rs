use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ladoga_env::{Turn, Worker, WorkerHandle, Workers};
use ladoga_storage::{Error, Range, Snapshot};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use super::commit::CommitShared;
use crate::store::{CellChange, CellObserver};

/// Cells in one notification.
const CHANGES_MAX: usize = 1_024;
/// After how long a scan that did not work out is tried again; twice as long after each, up to the second.
const RETRY_MS_MIN: u64 = 1_000;
const RETRY_MS_MAX: u64 = 60_000;
/// The longest pause if a block is damaged.
const RETRY_DAMAGED_MS_MAX: u64 = 3_600_000;

/// A worker that notifies an observer of every stored cell, each time it is asked to.
#[derive(Default)]
pub(super) struct Scan {
    wish: Arc<Mutex<Wish>>,
    worker: OnceLock<Arc<dyn WorkerHandle>>,
}

#[derive(Default)]
struct Wish {
    is_wanted: bool,
    stops: bool,
}

impl Scan {
    /// Begins for the first time.
    pub(super) fn start(
        &self,
        queue: Arc<CommitShared>,
        observer: Arc<dyn CellObserver>,
        workers: &dyn Workers,
    ) -> io::Result<()> {
        self.again();
        let wish = Arc::clone(&self.wish);
        let scanner = Scanner { wish, queue, observer, under_way: None, pause_ms: RETRY_MS_MIN };
        let worker = workers.start("scan", Box::new(scanner))?;
        assert!(self.worker.set(worker).is_ok(), "it begins for the first time once");
        Ok(())
    }

    /// Begins anew.
    pub(super) fn again(&self) {
        self.wish.lock().is_wanted = true;
        self.wake();
    }

    /// Breaks off.
    pub(super) fn stop(&self) {
        self.wish.lock().stops = true;
        self.wake();
        if self.worker.get().is_some_and(|worker| !worker.join()) {
            tracing::error!("the thread that scans panicked");
        }
    }

    fn wake(&self) {
        if let Some(worker) = self.worker.get() {
            worker.wake();
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Scanner {
    wish: Arc<Mutex<Wish>>,
    queue: Arc<CommitShared>,
    observer: Arc<dyn CellObserver>,
    /// The snapshot that is being scanned, and the rest of its range.
    under_way: Option<(Range, Snapshot)>,
    pause_ms: u64,
}

impl Worker for Scanner {
    fn turn(&mut self) -> Turn {
        if self.wish.lock().stops {
            return Turn::Over;
        }
        let Some((range, _)) = &mut self.under_way else { return self.begin() };
        // The next scan has the observer begin anew, whatever a panic left of this one.
        match catch_unwind(AssertUnwindSafe(|| tell(range, &*self.observer))) {
            Ok(Ok(true)) => Turn::Again,
            Ok(Ok(false)) => {
                self.under_way = None;
                self.observer.scan_completed();
                self.pause_ms = RETRY_MS_MIN;
                Turn::Again
            }
            Ok(Err(Error::Closed)) => Turn::Over,
            Ok(Err(error)) => self.try_again_later(&error.to_string(), error.is_corruption()),
            Err(_) => self.try_again_later("it panicked", false),
        }
    }
}

impl Scanner {
    fn begin(&mut self) -> Turn {
        if !std::mem::take(&mut self.wish.lock().is_wanted) {
            return Turn::Wait;
        }
        let Some(snapshot) = self.queue.begin_anew() else { return Turn::Over };
        self.under_way = Some((snapshot.range(b"", None), snapshot));
        Turn::Again
    }

    fn try_again_later(&mut self, why: &str, is_damaged: bool) -> Turn {
        let pause_ms = self.pause_ms;
        tracing::warn!("anti-entropy cannot start; next attempt in {pause_ms} ms: {why}");
        // Or else the next one would have less memory.
        self.under_way = None;
        self.wish.lock().is_wanted = true;
        self.pause_ms = next_pause_ms(pause_ms, is_damaged);
        Turn::WaitFor(Duration::from_millis(pause_ms))
    }
}

/// The pause before the attempt after the next. A damaged block stays damaged until an operator repairs it.
fn next_pause_ms(pause_ms: u64, is_damaged: bool) -> u64 {
    (pause_ms * 2).min(if is_damaged { RETRY_DAMAGED_MS_MAX } else { RETRY_MS_MAX })
}

/// Tells of the next cells of a range. Answers whether there may be more.
fn tell(range: &mut Range, observer: &dyn CellObserver) -> Result<bool, Error> {
    let mut changes = Vec::with_capacity(CHANGES_MAX);
    while changes.len() < CHANGES_MAX {
        let Some((key, cell)) = range.next_cell()? else { break };
        changes.push(CellChange { key_hash: xxh3_64(&key), old: None, new: cell.mark() });
    }
    observer.replaced(&changes);
    Ok(changes.len() == CHANGES_MAX)
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
