//! The process has as many files open as it may have: nothing is lost by that, and nothing given up.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use ladoga_env::sim::{self, Fault, Operation, PowerCut, SimClock, SimDisk};
use ladoga_model::{Stamp, Version};

use super::Engine;
use super::flush_failures::{FLUSH_FAILURES_APART, FLUSH_FAILURES_MAX};
use crate::{Background, Durability, Error, Options, WriteBatch, WriteState};

/// Longer than anything takes that does not hang.
const DEADLINE: Duration = Duration::from_secs(90);

fn store(background: Background) -> (Engine, SimDisk) {
    let (store, disk, _clock) = store_and_clock(background);
    (store, disk)
}

fn store_and_clock(background: Background) -> (Engine, SimDisk, SimClock) {
    let (env, disk, clock) = sim::env(1);
    (Engine::open(env, Path::new("/data"), options(background)).expect("a new store"), disk, clock)
}

fn options(background: Background) -> Options {
    Options { background, memtable_bytes: Some(4 << 10), ..Options::new(16 << 20, Durability::Always) }
}

fn put(engine: &Engine, number: u64) -> Result<(), Error> {
    let mut batch = WriteBatch::new();
    let stamp = Stamp::new(Version { timestamp: number + 1, node: 0 });
    batch.put(format!("key-{number}").as_bytes(), stamp, &[b'v'; 100]);
    engine.write_group(&[batch])
}

fn count(disk: &SimDisk, part: &str) -> usize {
    disk.paths().iter().filter(|path| path.to_string_lossy().contains(part)).count()
}

/// Permissions that were changed for a moment refused all writes until a restart.
#[test]
fn flushes_that_fail_end_writes_only_once_they_have_failed_for_seconds() {
    let (engine, disk, clock) = store_and_clock(Background::Manual);
    put(&engine, 0).expect("a write");
    engine.seal().expect("a memtable to flush");
    let fault = || Fault::io().on(Operation::Create).on_path("tables").sticky();
    disk.fail_operation(0, fault());
    for _ in 0..100 {
        engine.inner.flush_step().expect_err("a disk that fails");
    }
    disk.clear_faults();
    assert_eq!(engine.write_state(), WriteState::Open);
    assert!(engine.inner.flush_step().expect("a flush"));

    put(&engine, 1).expect("a write");
    engine.seal().expect("a memtable to flush");
    disk.fail_operation(0, fault());
    for _ in 1..FLUSH_FAILURES_MAX {
        engine.inner.flush_step().expect_err("a disk that fails");
        assert_eq!(engine.write_state(), WriteState::Open);
        clock.advance(FLUSH_FAILURES_APART);
    }
    engine.inner.flush_step().expect_err("a disk that fails");
    assert_eq!(engine.write_state(), WriteState::Poisoned);
}

/// Ten of them refused all writes until a restart.
#[test]
fn flushes_without_a_descriptor_are_tried_again_for_as_long_as_it_takes() {
    let (engine, disk, clock) = store_and_clock(Background::Manual);
    put(&engine, 0).expect("a write");
    engine.seal().expect("a memtable to flush");
    for operation in [Operation::Create, Operation::SyncDir] {
        disk.fail_operation(0, Fault::too_many_files().on(operation).on_path("tables").sticky());
        for _ in 0..=FLUSH_FAILURES_MAX {
            assert!(engine.inner.flush_step().is_err_and(|error| error.is_out_of_descriptors()));
            clock.advance(FLUSH_FAILURES_APART);
        }
        disk.clear_faults();
        assert_eq!(engine.write_state(), WriteState::Open);
        assert_eq!(count(&disk, ".sst"), 0, "what attempts leave adds up");
    }
    assert!(engine.inner.flush_step().expect("a flush"));
    assert!(engine.get(b"key-0").expect("a read").is_some());
}

/// The new one was not named yet, and its failure taken for one of the log.
#[test]
fn a_manifest_that_cannot_be_replaced_goes_on() {
    let (engine, disk) = store(Background::Manual);
    let faults = [
        Fault::too_many_files().on(Operation::Create).on_path("manifest-"),
        Fault::too_many_files().on(Operation::Create).on_path("CURRENT.new"),
        Fault::storage_full().on(Operation::Rename).on_path("CURRENT.new"),
    ];
    for fault in faults {
        let tried = disk.faults_hit();
        disk.fail_operation(0, fault.sticky());
        for number in 0..200 {
            put(&engine, number).expect("a write");
            engine.seal().expect("a memtable to flush");
            assert!(engine.step().expect("a flush"));
        }
        assert!(disk.faults_hit() > tried, "the manifest is not long enough yet");
        disk.clear_faults();
        assert_eq!(engine.write_state(), WriteState::Open);
        assert_eq!(
            (count(&disk, "manifest-"), count(&disk, "CURRENT")),
            (1, 1),
            "what attempts leave adds up"
        );
    }
    engine.close().expect("a store that closes");
}

/// It refused all writes until a restart. A crash may bring back the old one: nothing goes into either before it is sure which it is.
#[test]
fn a_manifest_whose_name_cannot_be_synced_is_synced_before_the_next_edit() {
    for crashes in [true, false] {
        let (env, disk, _clock) = sim::env(1);
        let open = || Engine::open(env.clone(), Path::new("/data"), options(Background::Manual));
        let engine = open().expect("a new store");
        let mut numbers = 0..200;
        // Directories cannot be synced any more behind some of its syncs.
        let mut flush = |synced: Option<u64>| {
            put(&engine, numbers.next().expect("a manifest that becomes long")).expect("a write");
            engine.seal().expect("a memtable to flush");
            if let Some(synced) = synced {
                let fault = Fault::too_many_files().on(Operation::SyncDir);
                disk.fail_operation(synced, fault.sticky());
            }
            let flushed = engine.step();
            disk.clear_faults();
            flushed
        };
        // Behind that of the tables and that of the new manifest there is that of `CURRENT`, if there is one.
        while disk.faults_hit() == 0 {
            assert!(flush(Some(2)).expect("a flush"));
        }
        for synced in [0, 1] {
            assert!(flush(Some(synced)).is_err_and(|error| error.is_out_of_descriptors()));
            assert_eq!((engine.write_state(), count(&disk, "manifest-")), (WriteState::Open, 2));
        }
        if crashes {
            disk.power_cut(PowerCut::LoseAll);
        } else {
            assert!(flush(None).expect("a flush"));
            assert_eq!(count(&disk, "manifest-"), 1);
        }
        let written = numbers.start;
        drop(engine);
        disk.power_on();
        let engine = open().expect("a store");
        for number in 0..written {
            assert!(engine.get(format!("key-{number}").as_bytes()).expect("a read").is_some(), "{number}");
        }
    }
}

/// They waited for a flush that did not come.
#[test]
fn writers_do_not_wait_for_descriptors_and_go_on_once_there_are_some() {
    let (engine, disk) = store(Background::Threads);
    let (done, when_done) = channel();
    std::thread::spawn(move || {
        disk.fail_operation(0, Fault::too_many_files().on(Operation::Create).on_path(".sst").sticky());
        let mut numbers = 0..;
        let refused = numbers.find_map(|number| put(&engine, number).err()).expect("no end of numbers");
        disk.clear_faults();
        let written = numbers.next().expect("no end of numbers");
        // Until the next attempt of the flush each is refused at once.
        while put(&engine, written).is_err() {
            std::thread::yield_now();
        }
        let found = engine.get(format!("key-{written}").as_bytes()).expect("a read");
        engine.close().expect("a store that closes");
        done.send((refused, found.is_some())).expect("a test that waits");
    });
    let (refused, is_there) = when_done.recv_timeout(DEADLINE).expect("a write that ends");
    assert!(refused.is_out_of_descriptors(), "{refused}");
    assert!(is_there);
}

/// It waited for a flush that did not come.
#[test]
fn who_asks_for_a_flush_is_told_that_it_failed() {
    let (engine, disk) = store(Background::Threads);
    let (done, when_done) = channel();
    std::thread::spawn(move || {
        put(&engine, 0).expect("a write");
        disk.fail_operation(0, Fault::io().on(Operation::Create).on_path(".sst").sticky());
        let failed = engine.checkpoint(Path::new("/copy")).map(|_| ());
        let state = engine.write_state();
        disk.clear_faults();
        engine.close().expect("a store that closes");
        done.send((failed, state)).expect("a test that waits");
    });
    let (failed, state) = when_done.recv_timeout(DEADLINE).expect("an answer");
    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    assert_eq!(state, WriteState::Open);
}
