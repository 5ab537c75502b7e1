use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use ladoga_env::sim::{self, SimDisk};
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_storage::{BLOB_BYTES_MIN, Background, Durability};
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::store::{LargeValue, LocalStore, NewestCell, StoredCell, Upload};

const KEY: &[u8] = b"key";
const DURABILITIES: [Durability; 2] = [Durability::Always, Durability::Never];

fn open_on(env: Env, durability: Durability) -> Arc<Embedded> {
    let options = Options { background: Background::Manual, ..Options::new(16 << 20, durability) };
    Arc::new(Embedded::open_replica(env, Path::new("/data"), options).expect("a store that opens"))
}

fn open(durability: Durability) -> (Arc<Embedded>, SimDisk) {
    let (env, disk, _clock) = sim::env(1);
    (open_on(env, durability), disk)
}

/// Runs on an event loop of the store.
fn on_a_loop<T>(store: &Arc<Embedded>, work: impl AsyncFnOnce(Local) -> T) -> T {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async { work(store.attach(&Supervisor::default())).await })
}

fn stamp(timestamp: u64, expires_at_ms: u64) -> Stamp {
    Stamp { expires_at_ms, ..Stamp::new(Version { timestamp, node: 0 }) }
}

async fn put(local: &Local, timestamp: u64, value: &[u8]) {
    let cell = Cell { stamp: stamp(timestamp, 0), value: Some(Value::Inline(value)) };
    local.apply([(KEY, cell)]).await.expect("a write");
}

async fn put_large(local: &Local, timestamp: u64, byte: u8) {
    let upload = local.upload().await.expect("an upload");
    let value = Bytes::from(vec![byte; BLOB_BYTES_MIN as usize]);
    let finished = upload.write(value).await.expect("a piece").finish().await.expect("a value");
    let cell = Cell { stamp: stamp(timestamp, 0), value: Some(Value::Large(finished)) };
    local.apply([(KEY, cell)]).await.expect("a write");
}

async fn found(local: &Local) -> StoredCell {
    local.get_cell(KEY).wait().await.expect("it can be read").expect("it is there")
}

async fn is_all(value: Option<Value<Bytes, LargeValue>>, byte: u8) -> bool {
    let Some(Value::Large(large)) = value else { return false };
    let (piece, _) = large.pieces.next().await.expect("it can be read").expect("a piece");
    large.bytes == BLOB_BYTES_MIN && piece.iter().all(|&found| found == byte)
}

fn blobs(disk: &SimDisk) -> usize {
    disk.paths().iter().filter(|path| path.extension().is_some_and(|ending| ending == "blob")).count()
}

fn settle(store: &Embedded) {
    store.engine.seal().expect("room");
    while store.engine.step().expect("a sound disk") {}
}

/// One after what is there, which never expires.
fn for_ever(newest: Option<NewestCell>) -> (Option<Stamp>, Option<Stamp>) {
    let next = newest.map(|newest| stamp(newest.stamp.version.timestamp + 1, 0));
    (next, next)
}

#[test]
fn a_large_value_is_named_again_and_its_file_goes_with_the_last_cell_that_names_it() {
    for durability in DURABILITIES {
        let (store, disk) = open(durability);
        on_a_loop(&store, async |local| {
            put_large(&local, 1, 7).await;
            for round in 2..6 {
                let changed = local.restamp(KEY, move |_| (Some(stamp(round, round * 1_000)), ())).await;
                assert_eq!(changed, Ok(()));
                let cell = found(&local).await;
                assert_eq!(cell.stamp, stamp(round, round * 1_000));
                assert!(is_all(cell.value, 7).await);
                // Each of them in a table of its own, at first.
                if round % 2 == 0 {
                    settle(&store);
                }
                assert_eq!(blobs(&disk), 1, "{durability:?}");
            }
            // In one group with the value that it is about.
            let value = local.upload().await.expect("an upload").write(Bytes::from_static(b"more")).await;
            let value = value.expect("a piece").finish().await.expect("a value");
            let written = local.apply([(KEY, Cell { stamp: stamp(8, 0), value: Some(Value::Large(value)) })]);
            let changed = [local.restamp(KEY, for_ever), local.restamp(KEY, for_ever)];
            written.await.expect("a write");
            let [first, second] = changed;
            assert_eq!(first.await, Ok(Some(stamp(9, 0))));
            assert_eq!(second.await, Ok(Some(stamp(10, 0))));
            assert!(matches!(found(&local).await.value, Some(Value::Large(large)) if large.bytes == 4));
            // Until compactions have dropped what is older.
            for timestamp in 11..30 {
                put(&local, timestamp, b"small").await;
                settle(&store);
            }
        });
        assert_eq!(blobs(&disk), 0, "{durability:?}: nobody names it");
        store.close().expect("a store that closes");
    }
}

#[test]
fn a_large_value_that_was_named_again_is_there_after_a_crash_at_any_time() {
    let settled = [[false, false], [false, true], [true, false], [true, true]];
    for settles in settled {
        let (env, disk, _clock) = sim::env(3);
        let store = open_on(env, Durability::Always);
        on_a_loop(&store, async |local| {
            put_large(&local, 1, 7).await;
            if settles[0] {
                settle(&store);
            }
            let changed = local.restamp(KEY, |_| (Some(stamp(2, 5_000)), ())).await;
            assert_eq!(changed, Ok(()));
            if settles[1] {
                settle(&store);
            }
        });
        disk.power_cut(sim::PowerCut::LoseAll);
        drop(store);
        disk.power_on();
        let (env, _, _) = sim::env(4);
        let store = open_on(Env { disk: Arc::new(disk.clone()), ..env }, Durability::Always);
        on_a_loop(&store, async |local| {
            let cell = found(&local).await;
            assert_eq!(cell.stamp, stamp(2, 5_000), "{settles:?}");
            assert!(is_all(cell.value, 7).await, "{settles:?}");
        });
        settle(&store);
        assert_eq!(blobs(&disk), 1);
        store.close().expect("a store that closes");
    }
}

#[test]
fn what_keeps_its_stamp_is_not_written() {
    for durability in DURABILITIES {
        let (store, _disk) = open(durability);
        on_a_loop(&store, async |local| {
            assert_eq!(local.restamp(KEY, for_ever).await, Ok(None));
            put(&local, 3, b"value").await;
            let before = store.engine.statistics().write_records;
            assert_eq!(local.restamp(KEY, |newest| (None, newest.is_some())).await, Ok(true));
            assert_eq!(store.engine.statistics().write_records, before);
        });
        store.close().expect("a store that closes");
    }
}

/// The room for the value is taken by how long it is when the change is asked for.
#[test]
fn a_value_that_has_become_longer_meanwhile_gets_its_stamp_all_the_same_and_it_is_decided_once() {
    for durability in DURABILITIES {
        let (store, _disk) = open(durability);
        on_a_loop(&store, async |local| {
            let long = vec![9; 100_000];
            put(&local, 3, b"short").await;
            let decided = Arc::<AtomicUsize>::default();
            let counted = Arc::clone(&decided);
            let changed = local.restamp(KEY, move |newest| {
                counted.fetch_add(1, Ordering::SeqCst);
                for_ever(newest)
            });
            let cell = Cell { stamp: stamp(5, 0), value: Some(Value::Inline(&long[..])) };
            let written = local.apply([(KEY, cell)]);
            written.await.expect("a write");
            assert_eq!(changed.await, Ok(Some(stamp(6, 0))));
            assert_eq!(decided.load(Ordering::SeqCst), 1);
            let cell = found(&local).await;
            assert_eq!(cell.stamp, stamp(6, 0));
            assert_eq!(cell.value.map(|value| value.inline_bytes()), Some(100_000));
        });
        store.close().expect("a store that closes");
    }
}
