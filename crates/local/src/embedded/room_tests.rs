//! What a disk has no room for.

use std::path::Path;

use ladoga_env::Disk;
use ladoga_env::sim;
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_storage::{BLOB_BYTES_MIN, Background, Durability};
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::store::{LocalStore, WriteKind};

const RESERVE_BYTES: u64 = 1 << 20;

/// All of it was taken up to where the disk was full, and values that would have fitted failed beside it.
#[test]
fn a_value_that_the_disk_has_no_room_for_is_refused_before_it_is_sent() {
    let (env, disk, _clock) = sim::env(1);
    let dir = Path::new("/data");
    let options = Options {
        background: Background::Manual,
        reserve_bytes: Some(RESERVE_BYTES),
        ..Options::new(16 << 20, Durability::Always)
    };
    let store = Arc::new(Embedded::open_replica(env, dir, options).expect("a store that opens"));
    let used_bytes = (1 << 40) - disk.free_bytes(dir).expect("free bytes");
    disk.set_capacity(used_bytes + RESERVE_BYTES + 2 * BLOB_BYTES_MIN);
    store.engine.step().expect("a look at the disk");
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let local = store.attach(&Supervisor::default());
        let admit = |bytes| local.admit(WriteKind::Put, bytes);
        admit(2 * BLOB_BYTES_MIN).expect("it fits");
        let refused = admit(2 * BLOB_BYTES_MIN + 1);
        assert!(matches!(refused, Err(StoreError::NoRoom { .. })), "{refused:?}");
        assert!(local.has_room(), "for others");
    });
    assert_eq!(store.engine.statistics().refused_full, 1);
}

/// Who waits for room looks often. Each look was counted.
#[test]
fn a_look_for_room_is_no_write_that_is_refused() {
    let (env, ..) = sim::env(1);
    let options = Options { background: Background::Manual, ..Options::new(16 << 20, Durability::Always) };
    let store =
        Arc::new(Embedded::open_replica(env, Path::new("/data"), options).expect("a store that opens"));
    let refused = || {
        let metrics = store.metrics();
        let of_queue = metrics.iter().filter(|metric| metric.name == "ladoga_commit_queue_refused_total");
        format!("{:?}", of_queue.map(|metric| &metric.series).collect::<Vec<_>>())
    };
    let none = refused();
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let local = store.attach(&Supervisor::default());
        let value = vec![0; BLOB_BYTES_MIN as usize - 1];
        let stamp = Stamp::new(Version { timestamp: 1, node: 0 });
        let mut waiting = Vec::new();
        while local.has_room() {
            let cell = Cell { stamp, value: Some(Value::Inline(&value[..])) };
            waiting.push(local.apply([(&b"key"[..], cell)]));
            assert!(waiting.len() < 1_000, "nothing is written meanwhile");
        }
        assert!(!local.has_room() && refused() == none);
        local.admit(WriteKind::Put, 0).expect_err("no room");
        assert!(refused() != none);
    });
}
