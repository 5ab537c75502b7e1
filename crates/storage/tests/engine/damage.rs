//! A compaction meets bytes that are corrupt or cannot be read: the table stays where it is, everything else goes on.

use std::path::PathBuf;

use ladoga_env::Disk;
use ladoga_env::sim::{Fault, Operation};
use ladoga_storage::{Durability, Engine, Error, LEVELS, WriteState, read_value};

use crate::support::{Machine, Model, Write, settle, tiny_options, write};

fn put(engine: &Engine, model: &mut Model, n: u64, timestamp: u64) {
    let writes = [Write::put(format!("key-{:04}", n % 300), timestamp, 120)];
    write(engine, &writes).unwrap();
    model.apply(&writes);
}

fn tables(engine: &Engine) -> Vec<u64> {
    engine.statistics().levels.iter().map(|level| level.tables).collect()
}

fn table_paths(machine: &Machine) -> Vec<PathBuf> {
    machine.disk.paths().into_iter().filter(|path| path.extension().is_some_and(|e| e == "sst")).collect()
}

/// A store with tables down to level 2 and none in memory.
fn store() -> (Machine, Model) {
    let machine = Machine::new(6, tiny_options(Durability::Always));
    let engine = machine.open().unwrap();
    let mut model = Model::default();
    for n in 0..900 {
        put(&engine, &mut model, n * 7, 1 + n);
        engine.step().unwrap();
    }
    engine.seal().unwrap();
    settle(&engine).unwrap();
    assert!(tables(&engine)[2] > 0, "{:?}", tables(&engine));
    engine.close().unwrap();
    drop(engine);
    (machine, model)
}

/// Reads what can be read; the answer is how many keys cannot.
fn unreadable(engine: &Engine, model: &Model, damaged: &PathBuf) -> usize {
    let mut count = 0;
    for key in model.keys() {
        match engine.get(key).map(|value| value.map(|value| read_value(&value).unwrap())) {
            Ok(found) => assert_eq!(found.as_deref(), model.get(key, 0)),
            Err(Error::Corruption { path, .. }) => {
                assert_eq!(path, *damaged);
                count += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    count
}

#[test]
fn a_damaged_table_stays_and_everything_else_goes_on() {
    let (machine, _) = store();
    for damaged in table_paths(&machine) {
        let (machine, mut model) = store();
        machine.disk.flip_bit(&damaged, 50, 3).unwrap();
        let engine = machine.open().unwrap();
        let before = unreadable(&engine, &model, &damaged);
        for n in 0..2000 {
            put(&engine, &mut model, n * 11, 10_000 + n);
            engine.step().unwrap();
        }
        engine.seal().unwrap();
        settle(&engine).unwrap();
        assert_eq!(engine.write_state(), WriteState::Open);
        assert!(unreadable(&engine, &model, &damaged) <= before.max(40), "{damaged:?}");
        assert!(machine.disk.file_len(&damaged).is_ok(), "{damaged:?} is evidence");
        let now = tables(&engine);
        assert!(now[0] < 6, "{damaged:?}: writers would be slowed down for ever: {now:?}");
        assert!(now[1..LEVELS].iter().sum::<u64>() > 0);
        engine.close().unwrap();
        let engine = machine.open().unwrap();
        unreadable(&engine, &model, &damaged);
    }
}

#[test]
fn many_damaged_tables_do_not_slow_writers_down() {
    let (machine, mut model) = store();
    table_paths(&machine).iter().for_each(|path| machine.disk.flip_bit(path, 50, 3).unwrap());
    let engine = machine.open().unwrap();
    for n in 0..2000 {
        put(&engine, &mut model, n * 11, 10_000 + n);
        engine.step().unwrap();
    }
    engine.seal().unwrap();
    settle(&engine).unwrap();
    assert!(tables(&engine)[0] > 12, "{:?}", tables(&engine));
    let slowed = engine.statistics().slowed_ns;
    for n in 0..20 {
        put(&engine, &mut model, n, 20_000 + n);
    }
    assert_eq!(engine.statistics().slowed_ns, slowed, "{:?}", tables(&engine));
}

#[test]
fn a_compaction_that_fails_is_done_again_and_leaves_nothing_behind() {
    let (machine, mut model) = store();
    let engine = machine.open().unwrap();
    for operation in [Operation::Create, Operation::Write, Operation::Sync, Operation::Read, Operation::Open]
    {
        for n in 0..60 {
            put(&engine, &mut model, n * 5, 20_000 + n + 100 * operation as u64);
            engine.seal().unwrap();
            if n % 3 == 0 {
                machine.disk.fail_operation(0, Fault::io().on(operation).on_path("tables"));
            }
            while !matches!(engine.step(), Ok(false)) {}
            machine.disk.clear_faults();
        }
    }
    model.assert_held_by(&engine, 0, "done again");
    assert_eq!(engine.write_state(), WriteState::Open);
    settle(&engine).unwrap();
    assert_eq!(table_paths(&machine).len() as u64, tables(&engine).iter().sum::<u64>());
    drop(engine);
    machine.assert_sound("dropped");
}

/// A bad sector: its bytes cannot be read, and the disk reports an error each time.
#[test]
fn a_table_that_cannot_be_read_stays_and_compactions_go_on() {
    leaves_alone_what_fails(Operation::Read);
}

/// A bad inode. No compaction was done any more: each began with the same table.
#[test]
fn a_table_that_cannot_be_opened_stays_and_compactions_go_on() {
    leaves_alone_what_fails(Operation::Open);
}

/// What fails on a table does so each time.
fn leaves_alone_what_fails(operation: Operation) {
    let (machine, _) = store();
    for unreadable in table_paths(&machine) {
        let (machine, mut model) = store();
        let name = unreadable.file_name().unwrap().to_str().unwrap();
        let engine = machine.open().unwrap();
        machine.disk.fail_operation(0, Fault::io().on(operation).on_path(name).sticky());
        for n in 0..2000 {
            put(&engine, &mut model, n * 11, 10_000 + n);
            // Those of this table fail at first.
            _ = engine.step();
        }
        engine.seal().unwrap();
        settle(&engine).unwrap();
        let now = tables(&engine);
        assert!(now[0] < 6, "{name}: writers would be slowed down for ever: {now:?}");
        machine.disk.clear_faults();
        model.assert_held_by(&engine, 0, name);
        engine.close().unwrap();
        machine.assert_sound(name);
    }
}

#[test]
fn a_read_that_fails_once_sets_no_table_aside() {
    let (machine, mut model) = store();
    let engine = machine.open().unwrap();
    let mut faults = 0;
    for n in 0..4000 {
        put(&engine, &mut model, n * 11, 10_000 + n);
        if machine.disk.faults_hit() == faults && n % 40 == 0 {
            // The first three reads after a flush are of its new table, which is loaded into the caches.
            machine.disk.fail_operation(n / 40 % 13, Fault::io().on(Operation::Read).on_path("tables"));
            faults += 1;
        }
        while !matches!(engine.step(), Ok(false)) {}
    }
    assert!(faults > 30, "{faults}");
    machine.disk.clear_faults();
    engine.seal().unwrap();
    settle(&engine).unwrap();
    assert!(tables(&engine)[0] < 6, "{:?}", tables(&engine));
    model.assert_held_by(&engine, 0, "in the end");
}

fn blob_path(machine: &Machine) -> PathBuf {
    let is_blob = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "blob");
    machine.disk.paths().into_iter().find(is_blob).expect("a large value")
}

/// A store that has one key, in a table.
fn with_a_large_value() -> (Machine, Engine) {
    let machine = Machine::new(6, tiny_options(Durability::Always));
    let engine = machine.open().unwrap();
    write(&engine, &[Write::blob("key", 1, 300_000)]).unwrap();
    engine.seal().unwrap();
    settle(&engine).unwrap();
    (machine, engine)
}

/// It was told as a read that failed, and no alarm was raised.
#[test]
fn a_file_that_is_gone_or_cannot_be_read_counts_and_a_lack_of_descriptors_does_not() {
    let (machine, engine) = with_a_large_value();
    let (table, blob) = (table_paths(&machine).remove(0), blob_path(&machine));
    let counted = |path: &PathBuf, fault: Fault| {
        let engine = machine.open().unwrap();
        machine.disk.fail_operation(0, fault.on_path(path.to_str().unwrap()).sticky());
        let read = engine.get(b"key").and_then(|value| read_value(&value.expect("a value")));
        machine.disk.clear_faults();
        let error = read.expect_err("a disk that fails");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        engine.statistics().corrupt_reads
    };
    engine.close().unwrap();
    drop(engine);
    for path in [&table, &blob] {
        assert_eq!(counted(path, Fault::too_many_files().on(Operation::Open)), 0, "{path:?}");
        assert_eq!(counted(path, Fault::io().on(Operation::Open)), 1, "{path:?}");
        assert_eq!(counted(path, Fault::io().on(Operation::Read)), 1, "{path:?}");
    }
    machine.disk.remove(&blob).unwrap();
    let engine = machine.open().unwrap();
    let error = read_value(&engine.get(b"key").unwrap().unwrap()).unwrap_err();
    assert!(matches!(&error, Error::Missing { path, .. } if *path == blob), "{error}");
    assert_eq!(engine.statistics().corrupt_reads, 1);
}

/// It named the copy that was to be made.
#[test]
fn a_checkpoint_names_the_file_that_is_gone() {
    let (machine, engine) = with_a_large_value();
    for path in [blob_path(&machine), table_paths(&machine).remove(0)] {
        let counted = engine.statistics().corrupt_reads;
        machine.disk.remove(&path).unwrap();
        let copy = machine.dir.join("checkpoints").join(path.extension().unwrap());
        let error = engine.checkpoint(&copy).unwrap_err();
        assert!(matches!(&error, Error::Missing { path: gone, .. } if *gone == path), "{error}");
        assert_eq!(engine.statistics().corrupt_reads, counted + 1);
    }
}
