use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ladoga_model::CellMark;
use ladoga_storage::{Error, Snapshot};
use parking_lot::{Condvar, Mutex};
use xxhash_rust::xxh3::xxh3_64;

use super::commit::CommitShared;
use super::threads;
use crate::store::{CellChange, CellObserver};

/// Cells that are told of at once.
const CHANGES_MAX: usize = 1_024;
/// After how long a scan that did not work out is tried again; twice as long after each, up to the second.
const RETRY_MS_MIN: u64 = 1_000;
const RETRY_MS_MAX: u64 = 60_000;
/// The same where a block is damaged.
const RETRY_DAMAGED_MS_MAX: u64 = 3_600_000;

/// A thread that tells an observer of every cell that is there, whenever that is wished for.
#[derive(Default)]
pub(super) struct Scan {
    wish: Arc<Wish>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Wish {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_wanted: bool,
    stops: bool,
}

impl Scan {
    /// Begins for the first time.
    pub(super) fn start(&self, queue: Arc<CommitShared>, observer: Arc<dyn CellObserver>) -> io::Result<()> {
        self.again();
        let wish = Arc::clone(&self.wish);
        let scan = move || scan_whenever_wanted(&wish, &queue, &*observer);
        *self.thread.lock() = Some(threads::spawn("scan", Box::new(scan))?);
        Ok(())
    }

    /// Begins anew.
    pub(super) fn again(&self) {
        self.wish.state.lock().is_wanted = true;
        self.wish.changed.notify_all();
    }

    /// Breaks off.
    pub(super) fn stop(&self) {
        self.wish.state.lock().stops = true;
        self.wish.changed.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that scans panicked");
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Wish {
    /// Waits until a scan is wanted; `false` where the thread is to end.
    fn is_granted(&self) -> bool {
        let mut state = self.state.lock();
        while !state.is_wanted && !state.stops {
            self.changed.wait(&mut state);
        }
        state.is_wanted = false;
        !state.stops
    }

    /// Waits before the next attempt.
    fn pause(&self, pause_ms: u64) {
        let mut state = self.state.lock();
        state.is_wanted = true;
        let stops = |state: &mut State| !state.stops;
        self.changed.wait_while_for(&mut state, stops, Duration::from_millis(pause_ms));
    }

    fn stops(&self) -> bool {
        self.state.lock().stops
    }
}

fn scan_whenever_wanted(wish: &Wish, queue: &CommitShared, observer: &dyn CellObserver) {
    let mut pause_ms = RETRY_MS_MIN;
    while wish.is_granted() {
        let Some(snapshot) = queue.begin_anew() else { return };
        // The next scan has the observer begin anew, whatever a panic left of this one.
        let scanned = catch_unwind(AssertUnwindSafe(|| scan(&snapshot, observer, wish)));
        let (why, is_damaged) = match scanned {
            Ok(Ok(())) => {
                observer.is_whole();
                pause_ms = RETRY_MS_MIN;
                continue;
            }
            Ok(Err(Error::Closed)) => return,
            Ok(Err(error)) => (error.to_string(), error.is_corruption()),
            Err(_) => ("it panicked".to_owned(), false),
        };
        tracing::warn!("there is no anti-entropy yet, the next attempt is in {pause_ms} ms: {why}");
        // Or else the next one would have less memory.
        drop(snapshot);
        wish.pause(pause_ms);
        pause_ms = next_pause_ms(pause_ms, is_damaged);
    }
}

/// The pause before the attempt after the next. A damaged block stays one until somebody does something about it.
fn next_pause_ms(pause_ms: u64, is_damaged: bool) -> u64 {
    (pause_ms * 2).min(if is_damaged { RETRY_DAMAGED_MS_MAX } else { RETRY_MS_MAX })
}

fn scan(snapshot: &Snapshot, observer: &dyn CellObserver, wish: &Wish) -> Result<(), Error> {
    let mut range = snapshot.range(b"", None);
    let mut changes = Vec::with_capacity(CHANGES_MAX);
    while let Some((key, cell)) = range.next_cell()? {
        let new = CellMark { stamp: cell.stamp, is_tombstone: cell.value.is_none() };
        changes.push(CellChange { key_hash: xxh3_64(&key), old: None, new });
        if changes.len() == CHANGES_MAX {
            observer.replaced(&changes);
            changes.clear();
            if wish.stops() {
                return Err(Error::Closed);
            }
        }
    }
    observer.replaced(&changes);
    Ok(())
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
