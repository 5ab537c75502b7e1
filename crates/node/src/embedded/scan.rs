use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ladoga_cluster::CellMark;
use ladoga_storage::{Error, Snapshot};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::store::{CellChange, CellObserver};

/// Cells that are told of at once.
const CHANGES_MAX: usize = 1_024;

/// A thread that tells an observer of every cell that is there.
#[derive(Default)]
pub(super) struct Scan {
    stops: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Scan {
    /// Begins.
    pub(super) fn start(&self, snapshot: Snapshot, observer: Arc<dyn CellObserver>) {
        let stops = Arc::clone(&self.stops);
        let scan = move || match scan(&snapshot, &*observer, &stops) {
            Ok(()) => observer.is_whole(),
            Err(error) => tracing::warn!("there is no anti-entropy until the node is restarted: {error}"),
        };
        let thread = std::thread::Builder::new().name("scan".to_owned()).spawn(scan);
        *self.thread.lock() = Some(thread.expect("the system has room for the threads of a server"));
    }

    /// Breaks off.
    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Release);
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

fn scan(snapshot: &Snapshot, observer: &dyn CellObserver, stops: &AtomicBool) -> Result<(), Error> {
    let mut range = snapshot.range(b"", None);
    let mut changes = Vec::with_capacity(CHANGES_MAX);
    while let Some((key, cell)) = range.next_cell()? {
        let new = CellMark { stamp: cell.stamp, is_tombstone: cell.value.is_none() };
        changes.push(CellChange { key_hash: xxh3_64(&key), old: None, new });
        if changes.len() == CHANGES_MAX {
            observer.replaced(&changes);
            changes.clear();
            if stops.load(Ordering::Acquire) {
                return Err(Error::Closed);
            }
        }
    }
    observer.replaced(&changes);
    Ok(())
}
