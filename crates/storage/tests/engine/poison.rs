//! What a store does after its log or manifest could not be written: nothing, until it is opened again.

use ladoga_env::sim::{Fault, Operation, PowerCut};
use ladoga_env::{Disk, OpenMode};
use ladoga_storage::{Durability, Engine, Error, LOCK, WriteState};

use crate::support::{Machine, Model, Write, settle, tiny_options, write};

fn open(durability: Durability) -> (Machine, Engine) {
    let machine = Machine::new(3, tiny_options(durability));
    let engine = machine.open().unwrap();
    (machine, engine)
}

fn is_poisoned<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Poisoned { .. }))
}

#[test]
fn a_failed_sync_of_the_log_is_never_tried_again() {
    for durability in [Durability::Always, Durability::EverySecond, Durability::Never] {
        let (machine, engine) = open(durability);
        write(&engine, &[Write::put("a", 1, 10)]).unwrap();
        machine.disk.fail_operation(0, Fault::io().on(Operation::Sync).on_path("wal"));
        match durability {
            Durability::Always => assert!(is_poisoned(&write(&engine, &[Write::put("b", 2, 10)]))),
            _ => assert!(is_poisoned(&engine.sync())),
        }
        assert_eq!(engine.write_state(), WriteState::Poisoned);
        let syncs = machine.disk.operations_of(Operation::Sync);
        assert!(is_poisoned(&engine.sync()), "the second would say that all is well");
        assert!(is_poisoned(&write(&engine, &[Write::put("c", 3, 10)])));
        assert!(is_poisoned(&engine.seal()));
        assert!(engine.close().is_err());
        drop(engine);
        assert_eq!(machine.disk.operations_of(Operation::Sync), syncs);
    }
}

#[test]
fn another_directory_in_the_place_of_a_store_is_found_however_early_it_comes() {
    let (machine, engine) = open(Durability::Always);
    write(&engine, &[Write::put("a", 1, 10)]).unwrap();
    let (other, lock) = (machine.dir.join("other"), machine.dir.join(LOCK));
    drop(machine.disk.open(&other, OpenMode::CreateNew).unwrap());
    machine.disk.rename(&other, &lock).unwrap();
    // The first step of all.
    let _ = engine.step();
    assert_eq!(engine.write_state(), WriteState::Poisoned);
    assert!(is_poisoned(&write(&engine, &[Write::put("b", 2, 10)])));
}

#[test]
fn a_poisoned_store_leaves_the_disk_alone() {
    let (machine, engine) = open(Durability::Always);
    let mut model = Model::default();
    for n in 0..60 {
        let writes =
            [Write::put(format!("key-{n}"), n + 1, 200), Write::blob(format!("blob-{n}"), n + 1, 100)];
        write(&engine, &writes).unwrap();
        model.apply(&writes);
    }
    assert!(engine.statistics().sealed_memtables > 0);
    machine.disk.fail_operation(0, Fault::io().on(Operation::Sync).on_path("manifest"));
    assert!(engine.step().is_err());
    assert_eq!(engine.write_state(), WriteState::Poisoned);
    let (files, writes) = (machine.disk.paths(), machine.disk.operations_of(Operation::Write));
    for _ in 0..5 {
        assert!(is_poisoned(&engine.step()));
        assert!(is_poisoned(&engine.checkpoint(&machine.dir.join("copy"))));
        assert!(engine.create_blob().is_err());
    }
    assert_eq!((machine.disk.paths(), machine.disk.operations_of(Operation::Write)), (files, writes));
    model.assert_held_by(&engine, 0, "poisoned");
    drop(engine);
    let engine = machine.open().unwrap();
    settle(&engine).unwrap();
    model.assert_held_by(&engine, 0, "opened again");
}

/// Writes were refused one by one, while the store's status said that it takes them.
#[test]
fn a_log_that_cannot_go_on_is_one_that_cannot_be_written() {
    for operation in [Operation::Create, Operation::Allocate, Operation::Sync, Operation::SyncDir] {
        // With this durability the open segment is not synced.
        let (machine, engine) = open(Durability::Never);
        let mut model = Model::default();
        machine.disk.fail_operation(0, Fault::io().on(operation).on_path("wal"));
        let refused = (0..200).find_map(|n| {
            let writes = [Write::put(format!("key-{n}"), n + 1, 200)];
            let written = write(&engine, &writes);
            model.apply(if written.is_ok() { &writes } else { &[] });
            written.is_err().then_some(written)
        });
        assert!(is_poisoned(&refused.unwrap()), "{operation:?}");
        assert_eq!(engine.write_state(), WriteState::Poisoned);
        assert!(engine.poison_reason().unwrap().contains("/wal"), "{:?}", engine.poison_reason());
        model.assert_held_by(&engine, 0, "poisoned");
        drop(engine);
        let engine = machine.open().unwrap();
        model.assert_held_by(&engine, 0, "opened again");
        write(&engine, &[Write::put("after", 1000, 10)]).unwrap();
    }
}

/// The sync of a new segment fails, and so does removing the segment.
#[test]
fn a_segment_that_could_not_be_made_nor_removed_is_made_again() {
    let (machine, engine) = open(Durability::Always);
    write(&engine, &[Write::put("a", 1, 10)]).unwrap();
    for operation in [Operation::Allocate, Operation::Sync, Operation::SyncDir] {
        machine.disk.fail_operation(0, Fault::storage_full().on(operation).on_path("wal"));
        machine.disk.fail_operation(0, Fault::io().on(Operation::Remove).on_path("wal"));
        assert!(engine.seal().is_err_and(|error| error.is_disk_full()));
        engine.seal().unwrap();
        write(&engine, &[Write::put("a", 2 + operation as u64, 10)]).unwrap();
    }
    engine.close().unwrap();
    machine.assert_sound("closed");
}

#[test]
fn a_flush_that_fails_is_done_again_and_leaves_nothing_behind() {
    for operation in [Operation::Create, Operation::Write, Operation::Sync] {
        let (machine, engine) = open(Durability::Always);
        let write_all = [Write::put("a", 1, 300), Write::blob("b", 2, 300)];
        write(&engine, &write_all).unwrap();
        engine.seal().unwrap();
        for _ in 0..3 {
            machine.disk.fail_operation(0, Fault::io().on(operation).on_path("tables"));
            assert!(engine.step().is_err());
            assert_eq!(engine.write_state(), WriteState::Open);
        }
        settle(&engine).unwrap();
        Model::default().with(&write_all).assert_held_by(&engine, 0, "flushed");
        let tables =
            machine.disk.paths().iter().filter(|path| path.extension().is_some_and(|e| e == "sst")).count();
        assert_eq!(tables, 1, "{operation:?}: {:?}", machine.disk.paths());
        machine.disk.power_cut(PowerCut::LoseAll);
        machine.disk.power_on();
        drop(engine);
        Model::default().with(&write_all).assert_held_by(&machine.open().unwrap(), 0, "after a power cut");
    }
}

/// The names of two large values are not durable yet, and the sync for one of them fails.
#[test]
fn a_failed_sync_of_the_names_is_everybodys() {
    let (machine, engine) = open(Durability::Always);
    let begin = || {
        let mut writer = engine.create_blob().unwrap();
        writer.write(&[7; 300]).unwrap();
        writer
    };
    write(&engine, &[Write::put("small", 1, 10)]).unwrap();
    let (first, second) = (begin(), begin());
    machine.disk.fail_operation(0, Fault::io().on(Operation::SyncDir).on_path("blobs"));
    assert!(first.finish().is_err());
    assert!(second.finish().is_err(), "its name went with the other's");
    assert_eq!(engine.write_state(), WriteState::Poisoned);
    drop(engine);
    let engine = machine.open().unwrap();
    write(&engine, &[Write::blob("large", 2, 300)]).unwrap();
    assert!(engine.get(b"small").unwrap().is_some());
}

#[test]
fn a_closed_store_takes_nothing_and_does_nothing() {
    let (machine, engine) = open(Durability::Always);
    write(&engine, &[Write::put("a", 1, 10)]).unwrap();
    engine.close().unwrap();
    let writes = machine.disk.operations_of(Operation::Write);
    let is_closed = |result: Result<(), Error>| matches!(result, Err(Error::Closed));
    assert!(is_closed(write(&engine, &[Write::put("b", 2, 10)])));
    assert!(is_closed(engine.step().map(drop)));
    assert!(is_closed(engine.seal()));
    assert!(is_closed(engine.sync()));
    assert!(is_closed(engine.create_blob().map(drop)));
    assert!(is_closed(engine.checkpoint(&machine.dir.join("copy")).map(drop)));
    assert_eq!(machine.disk.operations_of(Operation::Write), writes);
    engine.close().unwrap();
    let next = machine.open().unwrap();
    assert!(matches!(machine.open(), Err(Error::Locked { .. })));
    write(&next, &[Write::put("b", 3, 10)]).unwrap();
}
