use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use ladoga_env::{OpenMode, sim};
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_storage::{Durability, Error, Options, WriteBatch};
use parking_lot::Condvar;
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::embedded::Embedded;
use crate::store::{LocalStore, Store, SupersededCell};
use ladoga_runtime::Supervisor;

/// More cells than go into one notification.
const CELLS: u64 = 3_000;

/// What the observer was notified of since it began for the last time, as a Merkle tree keeps it: cells added and not removed.
#[derive(Default)]
struct Told {
    begun: usize,
    is_whole: bool,
    cells: HashMap<(u64, Version), i64>,
}

#[derive(Default)]
struct Watcher {
    told: Mutex<Told>,
    changed: Condvar,
    /// Where a scan stops at its first notification.
    stop: Mutex<Option<(SyncSender<()>, Receiver<()>)>>,
}

impl Watcher {
    fn wait_until(&self, mut condition: impl FnMut(&Told) -> bool) {
        self.changed.wait_while(&mut self.told.lock(), |told| !condition(told));
    }
}

impl CellObserver for Watcher {
    fn begins(&self) {
        let mut told = self.told.lock();
        *told = Told { begun: told.begun + 1, ..Told::default() };
        self.changed.notify_all();
    }

    fn superseded(&self, _: &[SupersededCell]) {}

    fn replaced(&self, changes: &[CellChange]) {
        let is_scan = thread::current().name() == Some("scan");
        if is_scan && let Some((reached, goes_on)) = self.stop.lock().take() {
            reached.send(()).expect("a test that waits");
            goes_on.recv().expect("a test that lets it go on");
        }
        let mut told = self.told.lock();
        for CellChange { key_hash, old, new } in changes {
            *told.cells.entry((*key_hash, new.stamp.version)).or_default() += 1;
            if let Some(old) = old {
                *told.cells.entry((*key_hash, old.stamp.version)).or_default() -= 1;
            }
        }
    }

    fn scan_completed(&self) {
        self.told.lock().is_whole = true;
        self.changed.notify_all();
    }
}

fn stamp(timestamp: u64) -> Stamp {
    Stamp::new(Version { timestamp, node: 0 })
}

fn open() -> Arc<Embedded> {
    let (env, _disk, _clock) = sim::env(1);
    let options = Options { memtable_bytes: Some(64 << 10), ..Options::new(16 << 20, Durability::Never) };
    Arc::new(Embedded::open_replica(env, Path::new("/data"), options).expect("a store that opens"))
}

fn write(store: &Embedded, cells: std::ops::Range<u64>) {
    for n in cells {
        let mut batch = WriteBatch::new();
        batch.put(&n.to_le_bytes(), stamp(n + 1), b"value");
        store.engine.write_group(&[batch]).expect("room");
    }
}

#[test]
fn a_scan_whose_snapshot_is_given_up_begins_anew() {
    let store = open();
    write(&store, 0..CELLS);
    let watcher = Arc::<Watcher>::default();
    let ((reached, is_there), (let_go, goes_on)) = (sync_channel(1), sync_channel(1));
    *watcher.stop.lock() = Some((reached, goes_on));
    store.observe(Arc::clone(&watcher) as Arc<dyn CellObserver>).expect("a thread");
    is_there.recv().expect("a scan");
    // The oldest snapshots are given up first, so the scan's goes before the first of these.
    let mut kept = vec![store.engine.snapshot()];
    let mut n = CELLS;
    while !matches!(kept[0].get_cell(b"key"), Err(Error::SnapshotTooOld { .. })) {
        write(&store, n..n + 100);
        n += 100;
        kept.push(store.engine.snapshot());
    }
    drop(kept);
    let_go.send(()).expect("a scan that waits");
    watcher.wait_until(|told| told.begun == 2 && told.is_whole);
    assert_eq!(watcher.told.lock().cells.len() as u64, n);
    store.close().expect("a store that closes");
}

/// The thread was gone, and the trees were never filled.
#[test]
fn a_scan_that_panics_begins_anew() {
    let store = open();
    write(&store, 0..CELLS);
    let watcher = Arc::<Watcher>::default();
    // The receiver is gone, so the first notification panics.
    let ((reached, _), (_, goes_on)) = (sync_channel(1), sync_channel(1));
    *watcher.stop.lock() = Some((reached, goes_on));
    store.observe(Arc::clone(&watcher) as Arc<dyn CellObserver>).expect("a thread");
    watcher.wait_until(|told| told.begun == 2 && told.is_whole);
    assert_eq!(watcher.told.lock().cells.len() as u64, CELLS);
    store.close().expect("a store that closes");
}

#[test]
fn every_cell_is_told_of_once_whatever_is_written_meanwhile() {
    let store = open();
    write(&store, 0..CELLS);
    let watcher = Arc::<Watcher>::default();
    store.observe(Arc::clone(&watcher) as Arc<dyn CellObserver>).expect("a thread");
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let local = store.attach(&Supervisor::default());
        for n in 0..2_000_u64 {
            if n % 100 == 0 {
                store.tell_again();
            }
            let key = (n * 7 % CELLS).to_le_bytes();
            let value = (n % 3 != 0).then_some(Value::Inline(&b"newer"[..]));
            let cell = Cell { stamp: stamp(CELLS + n + 1), value };
            local.apply([(&key[..], cell)]).await.expect("room");
        }
    });
    let mut range = store.engine.snapshot().range(b"", None);
    let mut expected = HashMap::new();
    while let Some((key, cell)) = range.next_cell().expect("a cell") {
        expected.insert((xxh3_64(&key), cell.stamp.version), 1);
    }
    assert_eq!(expected.len() as u64, CELLS);
    let is_expected = |told: &Told| {
        told.cells.iter().filter(|(_, count)| **count != 0).count() == expected.len()
            && expected.iter().all(|(cell, count)| told.cells.get(cell) == Some(count))
    };
    // Of the scans that were asked for meanwhile, one may still begin: so whatever is whole has to be right, and not just one.
    for _ in 0..2 {
        let begun = watcher.told.lock().begun;
        store.tell_again();
        watcher.wait_until(|told| {
            assert!(!told.is_whole || is_expected(told));
            told.begun > begun && told.is_whole
        });
    }
    store.close().expect("a store that closes");
}

#[test]
fn a_write_over_a_damaged_cell_is_taken() {
    let (env, disk, _clock) = sim::env(1);
    let open = || {
        let options = Options::new(16 << 20, Durability::Never);
        Arc::new(
            Embedded::open_replica(env.clone(), Path::new("/data"), options).expect("a store that opens"),
        )
    };
    let store = open();
    write(&store, 0..10);
    store.close().expect("a store that closes");
    drop(store);
    let table = disk.paths().into_iter().find(|path| path.extension().is_some_and(|ending| ending == "sst"));
    let file = env.disk.open(&table.expect("a table"), OpenMode::ReadWrite).expect("the table");
    file.write_all_at(&[0xff; 16], 8).expect("damage");
    let store = open();
    let key = 3_u64.to_le_bytes();
    store.engine.get_cell(&key).expect_err("damaged");
    store.observe(Arc::<Watcher>::default()).expect("a thread");
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let local = store.attach(&Supervisor::default());
        let cell = Cell { stamp: stamp(100), value: Some(Value::Inline(&b"whole"[..])) };
        local.apply([(&key[..], cell)]).await.expect("a write that is taken");
    });
    let found = store.engine.get_cell(&key).expect("a cell that can be read");
    assert_eq!(found.map(|cell| cell.stamp), Some(stamp(100)));
    store.close().expect("a store that closes");
}

/// It was read again each minute, with the whole store before it.
#[test]
fn a_damaged_block_is_tried_once_an_hour_in_the_end_and_what_passes_each_minute() {
    let too_old = Error::SnapshotTooOld { pinned_bytes: 1 };
    let damaged = Error::Corruption {
        path: "table".into(),
        offset: 0,
        what: "block",
        expected: "one checksum".to_owned(),
        found: "another".to_owned(),
    };
    let next = |pause_ms, error: &Error| next_pause_ms(pause_ms, error.is_corruption());
    let after = |pause_ms, error| (0..20).fold(pause_ms, |pause_ms, _| next(pause_ms, error));
    assert_eq!(next(RETRY_MS_MIN, &damaged), 2 * RETRY_MS_MIN);
    assert_eq!(after(RETRY_MS_MIN, &too_old), RETRY_MS_MAX);
    assert_eq!(after(RETRY_MS_MIN, &damaged), RETRY_DAMAGED_MS_MAX);
    assert_eq!(after(RETRY_DAMAGED_MS_MAX, &too_old), RETRY_MS_MAX, "the block is whole again");
}
