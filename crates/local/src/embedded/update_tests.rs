use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use ladoga_env::sim::{self, SimDisk};
use ladoga_model::{Cell, CellMark, Stamp, Value, Version};
use ladoga_storage::{BLOB_BYTES_MIN, Background, Durability};
use parking_lot::Mutex;
use tokio::runtime::{Builder, LocalOptions};
use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::store::{
    CellChange, FencedCell, LocalStore, NewCell, NewestCell, Passage, SupersededCell, Upload, WriteKind,
};

const KEY: &[u8] = b"key";
const DURABILITIES: [Durability; 2] = [Durability::Always, Durability::Never];

fn options(durability: Durability) -> Options {
    Options { background: Background::Manual, ..Options::new(16 << 20, durability) }
}

fn open(durability: Durability) -> (Arc<Embedded>, SimDisk) {
    let (env, disk, _clock) = sim::env(1);
    let store = Embedded::open_replica(env, Path::new("/data"), options(durability));
    (Arc::new(store.expect("a store that opens")), disk)
}

/// Runs on an event loop of the store.
fn on_a_loop<T>(store: &Arc<Embedded>, work: impl AsyncFnOnce(Local) -> T) -> T {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async { work(store.attach(&Supervisor::default())).await })
}

fn version(timestamp: u64) -> Version {
    Version { timestamp, node: 0 }
}

fn value(newest: Option<&NewestCell>) -> Option<u64> {
    match newest?.value.as_ref()? {
        Value::Inline(bytes) => Some(u64::from_le_bytes(bytes[..].try_into().expect("a number"))),
        Value::Large(bytes) => Some(*bytes),
    }
}

fn cell(timestamp: u64, number: u64) -> NewCell<Local> {
    let value = Some(Value::Inline(Bytes::copy_from_slice(&number.to_le_bytes())));
    Cell { stamp: Stamp::new(version(timestamp)), value }
}

/// Adds one to what is there, in a version after it; answers the sum.
fn add_one(newest: Option<NewestCell>) -> (Option<NewCell<Local>>, u64) {
    let sum = value(newest.as_ref()).unwrap_or(0) + 1;
    let last = newest.map_or(0, |newest| newest.stamp.version.timestamp);
    (Some(cell(last + 1, sum)), sum)
}

fn only_look(newest: Option<NewestCell>) -> (Option<NewCell<Local>>, Option<NewestCell>) {
    (None, newest)
}

/// Queued at once.
fn apply(local: &Local, key: &[u8], timestamp: u64, number: u64) -> Applied {
    let bytes = number.to_le_bytes();
    let stamp = Stamp::new(version(timestamp));
    local.apply([(key, Cell { stamp, value: Some(Value::Inline(&bytes[..])) })])
}

#[test]
fn updates_of_a_key_share_a_sync_and_see_each_other() {
    for durability in DURABILITIES {
        let (store, _disk) = open(durability);
        let sums = on_a_loop(&store, async |local| {
            let plain = local.apply([(KEY, Cell { stamp: Stamp::new(version(7)), value: None })]);
            let updates: Vec<_> = (0..64).map(|_| local.update(KEY, 8, add_one)).collect();
            plain.await.expect("a write");
            let mut sums = Vec::new();
            for update in updates {
                sums.push(update.await.expect("an update"));
            }
            let found = local.get_cell(KEY).wait().await.expect("it can be read").expect("it is there");
            assert_eq!(found.stamp.version, version(7 + 64));
            sums
        });
        assert_eq!(sums, (1..=64).collect::<Vec<_>>());
        let groups = store.engine.statistics().write_groups;
        assert!(groups <= 2, "{groups} groups with {durability:?}");
        store.close().expect("a store that closes");
    }
}

#[test]
fn what_is_decided_by_nothing_is_answered_and_nothing_is_written() {
    for durability in DURABILITIES {
        let (store, _disk) = open(durability);
        on_a_loop(&store, async |local| {
            assert_eq!(local.update(KEY, 8, only_look).await, Ok(None));
            apply(&local, KEY, 3, 9).await.expect("a write");
            let before = store.engine.statistics().write_records;
            let seen = local.update(KEY, 8, only_look).await.expect("an answer");
            assert_eq!(
                seen.map(|seen| (seen.stamp.version, value(Some(&seen)))),
                Some((version(3), Some(9)))
            );
            assert_eq!(store.engine.statistics().write_records, before);
        });
        store.close().expect("a store that closes");
    }
}

#[test]
fn what_memory_does_not_have_is_read_before_it_is_decided() {
    for durability in DURABILITIES {
        let (store, disk) = open(durability);
        on_a_loop(&store, async |local| apply(&local, KEY, 3, 9).await.expect("a write"));
        store.close().expect("what was written is in a table");
        drop(store);
        let (env, _, _) = sim::env(2);
        let env = Env { disk: Arc::new(disk.clone()), ..env };
        let store = Embedded::open_replica(env, Path::new("/data"), options(durability));
        let store = Arc::new(store.expect("a store that opens"));
        disk.set_cached(false);
        assert_eq!(on_a_loop(&store, async |local| local.update(KEY, 8, add_one).await), Ok(10));
        store.close().expect("a store that closes");
    }
}

#[test]
fn a_key_that_cannot_be_read_fails_alone() {
    let (store, disk) = open(Durability::Never);
    on_a_loop(&store, async |local| apply(&local, KEY, 3, 9).await.expect("a write"));
    store.close().expect("what was written is in a table");
    drop(store);
    let table = disk.paths().into_iter().find(|path| path.extension().is_some_and(|ending| ending == "sst"));
    let (env, _, _) = sim::env(2);
    let env = Env { disk: Arc::new(disk), ..env };
    let file = env.disk.open(&table.expect("a table"), ladoga_env::OpenMode::ReadWrite).expect("the table");
    file.write_all_at(&[0xff; 16], 8).expect("damage");
    let store = Embedded::open_replica(env, Path::new("/data"), options(Durability::Never));
    let store = Arc::new(store.expect("a store that opens"));
    on_a_loop(&store, async |local| {
        let [damaged, other] = [KEY, b"other"].map(|key| local.update(key, 8, add_one));
        assert!(matches!(damaged.await, Err(StoreError::Unreadable { .. })));
        assert_eq!(other.await, Ok(1));
    });
    store.close().expect("a store that closes");
}

#[test]
fn after_a_panic_of_a_decision_nobody_is_told_of_success() {
    for durability in DURABILITIES {
        let (store, _disk) = open(durability);
        on_a_loop(&store, async |local| {
            let plain = apply(&local, b"before", 3, 9).await;
            let panics = |_: Option<NewestCell>| -> (Option<NewCell<Local>>, ()) { panic!("on purpose") };
            let failed = local.update(KEY, 8, panics);
            let with_it = local.update(KEY, 8, add_one);
            assert_eq!(plain, Ok(None));
            assert!(matches!(failed.await, Err(StoreError::Failed { .. })));
            assert!(matches!(with_it.await, Err(StoreError::Failed { .. })));
            let behind = apply(&local, b"behind", 4, 9).await;
            assert!(matches!(behind, Err(StoreError::Failed { .. })));
            assert!(matches!(local.admit(WriteKind::Put, 8), Err(StoreError::Failed { .. })));
        });
        assert!(store.failure().is_some());
        store.close().expect_err("it panicked");
    }
}

#[test]
fn a_full_disk_takes_what_deletes_and_depends_on_nothing_that_it_does_not_take() {
    let (store, disk) = open(Durability::Always);
    on_a_loop(&store, async |local| {
        for key in [KEY, b"replaced"] {
            apply(&local, key, 3, 9).await.expect("a write");
        }
        disk.set_capacity(disk_used(&disk) + 2_048);
        // Looks how much room there is.
        let upload = local.upload().await.expect("an upload");
        let observed = upload.write(Bytes::from(vec![7; 2 << 20])).await.err();
        assert!(matches!(observed, Some(StoreError::NoRoom { .. })), "{observed:?}");
        let delete = |newest: Option<NewestCell>| {
            let stamp = Stamp::new(version(newest.map_or(0, |newest| newest.stamp.version.timestamp) + 1));
            (Some(NewCell::<Local>::tombstone(stamp)), stamp.version)
        };
        let put = apply(&local, b"replaced", 5, 9);
        let [free, bound] = [KEY, b"replaced"].map(|key| local.update(key, 0, delete));
        let look = local.update(b"nothing", 0, only_look);
        let put = put.await;
        assert!(matches!(put, Err(StoreError::NoRoom { .. })), "{put:?}");
        assert_eq!(free.await, Ok(version(4)));
        assert_eq!(look.await, Ok(None));
        assert!(matches!(bound.await, Err(StoreError::NoRoom { .. })), "it saw a put that is not there");
        let found = local.get_cell(b"replaced").wait().await.expect("it can be read").expect("it is there");
        assert_eq!(found.stamp.version, version(3));
        disk.set_capacity(None);
    });
    store.close().expect("a store that closes");
}

fn disk_used(disk: &SimDisk) -> u64 {
    use ladoga_env::Disk;
    (1 << 40) - disk.free_bytes(Path::new("/data")).expect("free bytes")
}

#[test]
fn a_large_value_may_take_the_place_of_another_and_goes_away_if_it_does_not() {
    for durability in DURABILITIES {
        let (store, disk) = open(durability);
        let blobs =
            || disk.paths().iter().filter(|path| path.extension().is_some_and(|e| e == "blob")).count();
        on_a_loop(&store, async |local| {
            let mut finished = Vec::new();
            for _ in 0..2 {
                let upload = local.upload().await.expect("an upload");
                let upload =
                    upload.write(Bytes::from(vec![7; BLOB_BYTES_MIN as usize])).await.expect("a piece");
                finished.push(upload.finish().await.expect("a value"));
            }
            let put_if_absent = |blob| {
                move |newest: Option<NewestCell>| {
                    let found = value(newest.as_ref());
                    let stamp = Stamp::new(version(1));
                    let cell = found.is_none().then_some(Cell { stamp, value: Some(Value::Large(blob)) });
                    (cell, found)
                }
            };
            let mut finished = finished.into_iter().map(|blob| local.update(KEY, 0, put_if_absent(blob)));
            let [first, second] = [finished.next(), finished.next()].map(|update| update.expect("two"));
            assert_eq!(first.await, Ok(None));
            assert_eq!(second.await, Ok(Some(BLOB_BYTES_MIN)));
        });
        store.engine.step().expect("dead files are removed");
        assert_eq!(blobs(), 1, "{durability:?}");
        store.close().expect("a store that closes");
    }
}

/// Notifications of what replaced what.
#[derive(Default)]
struct Told {
    changes: Mutex<Vec<(Option<CellMark>, CellMark)>>,
    /// Set once it has been notified of all that was there before.
    has_all: OnceLock<()>,
}

impl CellObserver for Told {
    fn begins(&self) {}

    fn replaced(&self, changes: &[CellChange]) {
        self.changes.lock().extend(changes.iter().map(|change| (change.old, change.new)));
    }

    fn superseded(&self, _: &[SupersededCell]) {}

    fn scan_completed(&self) {
        let _ = self.has_all.set(());
    }
}

#[test]
fn who_observes_is_told_of_updates() {
    for durability in DURABILITIES {
        let (store, _disk) = open(durability);
        let told = Arc::<Told>::default();
        store.observe(Arc::clone(&told) as Arc<dyn CellObserver>).expect("a thread");
        told.has_all.wait();
        on_a_loop(&store, async |local| {
            let plain = apply(&local, KEY, 5, 1);
            let updates = [local.update(KEY, 8, add_one), local.update(KEY, 8, add_one)];
            plain.await.expect("a write");
            for update in updates {
                update.await.expect("an update");
            }
        });
        let mark = |timestamp| CellMark { stamp: Stamp::new(version(timestamp)), is_tombstone: false };
        let mut told = std::mem::take(&mut *told.changes.lock());
        told.sort_by_key(|(_, new)| new.stamp.version);
        let expected = [(None, mark(5)), (Some(mark(5)), mark(6)), (Some(mark(6)), mark(7))];
        assert_eq!(told, expected, "{durability:?}");
        store.close().expect("a store that closes");
    }
}

/// Fences off what is older than the promise for its key.
#[derive(Default)]
struct Promise(AtomicU64);

impl CellGate for Promise {
    fn is_open_to(&self, timestamp: u64) -> bool {
        timestamp >= self.0.load(Ordering::Relaxed)
    }

    fn pass(&self, key_hash: u64, cell: Version) -> Passage {
        let fence = self.0.load(Ordering::Relaxed);
        let is_open = key_hash != xxh3_64(KEY) || cell.timestamp >= fence;
        if is_open { Passage::Open } else { Passage::Fenced(version(fence)) }
    }
}

#[test]
fn cells_that_a_promise_fences_off_are_left_out_and_all_others_are_written() {
    for durability in DURABILITIES {
        let (store, _disk) = open(durability);
        let promise = Arc::<Promise>::default();
        store.gate(Arc::clone(&promise) as Arc<dyn CellGate>);
        on_a_loop(&store, async |local| {
            promise.0.store(10, Ordering::Relaxed);
            let stamp = |timestamp| Stamp::new(version(timestamp));
            let cells = [(&b"a"[..], 3), (KEY, 9), (&b"b"[..], 3), (KEY, 8), (KEY, 11)];
            let cells = cells.map(|(key, timestamp)| {
                (key, Cell { stamp: stamp(timestamp), value: Some(Value::Inline(&b"v"[..])) })
            });
            let alone = local.apply([(&b"c"[..], Cell { stamp: stamp(4), value: None })]);
            let together = local.apply(cells);
            let later = local.apply([(KEY, Cell { stamp: stamp(7), value: None })]);
            assert_eq!(alone.await, Ok(None));
            let fenced = |cells: &[usize]| {
                Err(StoreError::Fenced(
                    cells.iter().map(|&cell| FencedCell { cell, fence: version(10) }).collect(),
                ))
            };
            assert_eq!(together.await, fenced(&[1, 3]));
            assert_eq!(later.await, fenced(&[0]));
            for (key, timestamp) in [(&b"a"[..], 3), (b"b", 3), (b"c", 4), (KEY, 11)] {
                let found = local.get_cell(key).wait().await.expect("it can be read").expect("it is there");
                assert_eq!(found.stamp, stamp(timestamp));
            }
        });
        store.close().expect("a store that closes");
    }
}

/// An update makes a promise on one event loop while another loop writes. What was stored when the promise was made must stay
/// the newest of all older cells.
#[test]
fn once_a_promise_is_made_nothing_older_is_written_on_any_loop() {
    for durability in DURABILITIES {
        let (store, _disk) = open(durability);
        let promise = Arc::<Promise>::default();
        store.gate(Arc::clone(&promise) as Arc<dyn CellGate>);
        let (clock, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                on_a_loop(&store, async |local| {
                    let (mut written, mut fenced) = (0, 0);
                    while !is_over.load(Ordering::Relaxed) || written == 0 || fenced == 0 {
                        let timestamp = clock.fetch_add(1, Ordering::Relaxed);
                        if timestamp % 16 == 0 {
                            thread::yield_now();
                        }
                        match apply(&local, KEY, timestamp, timestamp).await {
                            Ok(_) => written += 1,
                            Err(StoreError::Fenced(_)) => fenced += 1,
                            Err(error) => panic!("{error}"),
                        }
                        if is_over.load(Ordering::Relaxed) && fenced == 0 {
                            // None was in the way by itself: so one that is older than the promise comes now.
                            let fence = promise.0.load(Ordering::Relaxed);
                            let late = apply(&local, KEY, fence - 1, 0).await;
                            assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
                            fenced += 1;
                        }
                    }
                });
            });
            on_a_loop(&store, async |local| {
                for _ in 0..300 {
                    let ballot = clock.fetch_add(1, Ordering::Relaxed);
                    let promising = Arc::clone(&promise);
                    let promised = local.update(KEY, 8, move |newest| {
                        promising.0.fetch_max(ballot, Ordering::Relaxed);
                        (None, newest.map(|newest| newest.stamp.version))
                    });
                    let seen = promised.await.expect("an answer");
                    let again =
                        local.update(KEY, 8, move |newest| (None, newest.map(|newest| newest.stamp.version)));
                    let now = again.await.expect("an answer");
                    assert!(now == seen || now > Some(version(ballot)), "{seen:?}, {ballot}, {now:?}");
                }
            });
            is_over.store(true, Ordering::Relaxed);
            writer.join().expect("a writer");
        });
        store.close().expect("a store that closes");
    }
}
