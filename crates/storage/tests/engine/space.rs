//! The space of deleted and overwritten values comes back; what snapshots hold stays; tombstones hide writes that come late.

use ladoga_env::Disk;
use ladoga_env::sim::Operation;
use ladoga_storage::{Durability, Engine, Error, Options, Snapshot};

use crate::support::{Machine, Model, Write, bytes, forward, length, settle, tiny_options, write};

fn open() -> (Machine, Engine) {
    let machine = Machine::new(9, tiny_options(Durability::Never));
    let engine = machine.open().unwrap();
    (machine, engine)
}

pub(crate) fn used(machine: &Machine, part: &str) -> u64 {
    let paths = machine.disk.paths().into_iter().filter(|path| path.to_string_lossy().contains(part));
    paths.map(|path| machine.disk.file_len(path).unwrap()).sum()
}

pub(crate) fn flush(engine: &Engine) {
    engine.seal().unwrap();
    settle(engine).unwrap();
}

#[test]
fn what_is_overwritten_does_not_stay() {
    let (machine, engine) = open();
    let mut timestamp = 0;
    for _ in 0..40 {
        for n in 0..20 {
            timestamp += 1;
            write(&engine, &[Write::put(format!("key-{n}"), timestamp, 500)]).unwrap();
        }
        flush(&engine);
    }
    let live = 20 * 500;
    let used = used(&machine, "tables");
    // Four tables in level 0, and one copy of each key in each of the levels that have been reached.
    assert!(used < live * 8, "{used} bytes of tables for {live} live: {:?}", engine.statistics().levels);
}

/// In a store that never syncs its log, every segment stayed open, and kept its space on the disk.
#[test]
fn segments_whose_records_are_in_tables_are_let_go_without_a_sync() {
    let (machine, engine) = open();
    for n in 0..20 {
        write(&engine, &[Write::put(format!("key-{n}"), n + 1, 500)]).unwrap();
        flush(&engine);
    }
    write(&engine, &[Write::put("last", 21, 500)]).unwrap();
    let syncs = machine.disk.operations_of(Operation::Sync);
    engine.sync().unwrap();
    assert_eq!(machine.disk.operations_of(Operation::Sync) - syncs, 1, "of the one segment that is needed");
}

#[test]
fn what_is_deleted_goes_and_so_do_its_tombstones_once_no_older_write_can_come() {
    let (machine, engine) = open();
    for n in 0..300_u64 {
        write(&engine, &[Write::put(format!("key-{n}"), 1000 + n, 300)]).unwrap();
    }
    flush(&engine);
    for n in 0..300_u64 {
        write(&engine, &[Write::delete(format!("key-{n}"), 2000 + n)]).unwrap();
    }
    flush(&engine);
    assert!(forward(engine.snapshot().range(b"", None)).is_empty());
    assert!(used(&machine, "tables") > 0, "tombstones wait for older writes");
    engine.drop_tombstones_before(3000);
    settle(&engine).unwrap();
    assert_eq!(used(&machine, "tables"), 0, "{:?}", engine.statistics().levels);
    assert!(engine.statistics().levels.iter().all(|level| level.records == 0));
}

#[test]
fn blob_files_go_with_what_named_them() {
    let (machine, engine) = open();
    for n in 0..10_u64 {
        write(&engine, &[Write::blob(format!("key-{n}"), 1000 + n, 5000)]).unwrap();
    }
    flush(&engine);
    assert_eq!(engine.statistics().blob_files, 10);
    for n in 0..10_u64 {
        let writes = match n % 3 {
            0 => [Write::blob(format!("key-{n}"), 2000 + n, 400)],
            1 => [Write::put(format!("key-{n}"), 2000 + n, 10)],
            _ => [Write::delete(format!("key-{n}"), 2000 + n)],
        };
        write(&engine, &writes).unwrap();
    }
    flush(&engine);
    engine.drop_tombstones_before(3000);
    settle(&engine).unwrap();
    assert_eq!(engine.statistics().blob_files, 4);
    let files: u64 =
        machine.disk.paths().iter().filter(|p| p.extension().is_some_and(|e| e == "blob")).count() as u64;
    assert_eq!((files, used(&machine, "blobs")), (4, 4 * (400 + 20)));
    engine.close().unwrap();
    machine.assert_sound("closed");
}

#[test]
fn large_values_are_found_in_whatever_order_their_keys_came() {
    let (_machine, engine) = open();
    let mut model = Model::default();
    for n in 0..100_u64 {
        let writes = [Write::blob(format!("key-{:02}", n * 37 % 100), 1000 + n, 400 + n as usize)];
        write(&engine, &writes).unwrap();
        model.apply(&writes);
        if n == 60 {
            model.assert_held_by(&engine, 0, "in memory");
            flush(&engine);
        }
    }
    flush(&engine);
    model.assert_held_by(&engine, 0, "in tables");
    settle(&engine).unwrap();
    model.assert_held_by(&engine, 0, "compacted");
}

#[test]
fn a_blob_that_nobody_names_goes() {
    let (machine, engine) = open();
    let mut writer = engine.create_blob().unwrap();
    writer.write(&vec![7; 300_000]).unwrap();
    drop(writer.finish().unwrap());
    let mut unfinished = engine.create_blob().unwrap();
    unfinished.write(&vec![7; 600_000]).unwrap();
    drop(unfinished);
    engine.step().unwrap();
    assert_eq!(used(&machine, "blobs"), 0);
    // A crash leaves an unfinished blob; the next open removes it.
    let mut writer = engine.create_blob().unwrap();
    writer.write(&vec![7; 600_000]).unwrap();
    machine.disk.kill_process();
    drop((writer, engine));
    assert!(used(&machine, "blobs") > 0);
    let engine = machine.open().unwrap();
    assert_eq!(used(&machine, "blobs"), 0);
    drop(engine);
}

#[test]
fn a_large_value_is_read_while_its_key_is_overwritten_and_its_file_goes_afterwards() {
    let (machine, engine) = open();
    write(&engine, &[Write::blob("key", 1, 700_000)]).unwrap();
    let value = engine.get(b"key").unwrap().unwrap();
    write(&engine, &[Write::put("key", 2, 10)]).unwrap();
    flush(&engine);
    assert_eq!(bytes(&value), crate::support::filled(1, 700_000));
    assert!(used(&machine, "blobs") > 700_000);
    drop(value);
    settle(&engine).unwrap();
    assert_eq!(used(&machine, "blobs"), 0);
}

#[test]
fn a_snapshot_keeps_what_it_shows_until_it_is_dropped() {
    let (machine, engine) = open();
    let mut model = Model::default();
    for n in 0..30_u64 {
        let writes =
            [Write::put(format!("key-{n}"), 1000 + n, 300), Write::blob(format!("blob-{n}"), 1000 + n, 900)];
        write(&engine, &writes).unwrap();
        model.apply(&writes);
    }
    flush(&engine);
    let snapshot = engine.snapshot();
    let range = snapshot.range(b"", None);
    for n in 0..30_u64 {
        let writes =
            [Write::delete(format!("key-{n}"), 2000 + n), Write::delete(format!("blob-{n}"), 2000 + n)];
        write(&engine, &writes).unwrap();
    }
    engine.drop_tombstones_before(3000);
    flush(&engine);
    assert!(forward(engine.snapshot().range(b"", None)).is_empty());
    assert_eq!(forward(snapshot.range(b"", None)), model.range(b"", None, 0));
    assert_eq!(forward(range), model.range(b"", None, 0));
    drop(snapshot);
    // The memtables first, and then the tables that they kept.
    settle(&engine).unwrap();
    settle(&engine).unwrap();
    assert_eq!(
        (used(&machine, "tables"), used(&machine, "blobs")),
        (0, 0),
        "{:?}",
        engine.statistics().levels
    );
}

/// A late write lies above the tombstone that hides it: the tombstone may not go down past it and vanish.
#[test]
fn a_tombstone_does_not_go_while_an_older_write_lies_above_it() {
    for in_memory in [true, false] {
        let (_machine, engine) = open();
        // Four flushes bring the tombstones into level 1.
        for key in ["a", "key", "y", "z"] {
            write(&engine, &[Write::delete(key, 500)]).unwrap();
            flush(&engine);
        }
        assert_eq!(engine.statistics().levels[1].records, 4);
        write(&engine, &[Write::put("key", 100, 10)]).unwrap();
        if !in_memory {
            engine.seal().unwrap();
            engine.step().unwrap();
        }
        engine.drop_tombstones_before(1000);
        settle(&engine).unwrap();
        assert!(engine.get(b"key").unwrap().is_none(), "in memory: {in_memory}");
        assert!(forward(engine.snapshot().range(b"", None)).is_empty(), "in memory: {in_memory}");
    }
}

/// Fills one memtable, and flushes it.
fn fill_memtable(engine: &Engine, timestamp: &mut u64) {
    let flushes = engine.statistics().flushes;
    while engine.statistics().flushes == flushes {
        *timestamp += 1;
        write(engine, &[Write::put(format!("key-{}", *timestamp % 50), *timestamp, 200)]).unwrap();
        settle(engine).unwrap();
    }
}

#[test]
fn a_log_segment_that_nobody_needs_becomes_the_next_one() {
    let (machine, engine) = open();
    let segments = || {
        let paths = machine.disk.paths().into_iter();
        paths.filter(|path| path.extension().is_some_and(|e| e == "wal")).collect::<Vec<_>>()
    };
    let mut timestamp = 0;
    fill_memtable(&engine, &mut timestamp);
    let before = segments();
    for _ in 0..10 {
        fill_memtable(&engine, &mut timestamp);
        assert_eq!(segments().len(), 2, "the active one, and one that is ready");
    }
    assert!(before.iter().all(|path| !segments().contains(path)), "{before:?}");
    // What a segment was before is nothing, wherever its groups ended.
    engine.sync().unwrap();
    drop(engine);
    machine.assert_sound("dropped");
    assert_eq!(machine.open().unwrap().last_timestamp(), timestamp);
}

#[test]
fn the_oldest_snapshots_are_given_up_when_together_they_keep_too_many_memtables() {
    let (_machine, engine) = open();
    let mut timestamp = 1;
    write(&engine, &[Write::put("key", 1, 10)]).unwrap();
    let shows_it = |snapshot: &Snapshot| match snapshot.get_cell(b"key") {
        Ok(cell) => cell.and_then(|cell| cell.value).is_some_and(|value| length(&value) == 10),
        Err(Error::SnapshotTooOld { pinned_bytes }) => {
            assert!(pinned_bytes > 0);
            assert!(matches!(snapshot.range(b"", None).next(), Err(Error::SnapshotTooOld { .. })));
            false
        }
        Err(error) => panic!("{error}"),
    };
    let mut kept = Vec::new();
    for count in 1..12_usize {
        kept.push(engine.snapshot());
        fill_memtable(&engine, &mut timestamp);
        engine.step().unwrap();
        let given_up = kept.iter().take_while(|snapshot| !shows_it(snapshot)).count();
        assert!(kept[given_up..].iter().all(shows_it), "the oldest go first");
        // Each keeps one memtable, and there is room for four, which are not quite full.
        assert!(
            (count.saturating_sub(6)..=count.saturating_sub(3)).contains(&given_up),
            "{given_up} of {count}"
        );
    }
    assert!(shows_it(&engine.snapshot()));
}

#[test]
fn a_manifest_does_not_grow_with_the_changes_that_it_tells_of() {
    let (machine, engine) = open();
    let mut timestamp = 0;
    let mut manifests = std::collections::BTreeSet::new();
    for _ in 0..200 {
        fill_memtable(&engine, &mut timestamp);
        let paths =
            machine.disk.paths().into_iter().filter(|path| path.to_string_lossy().contains("manifest"));
        let [path] = paths.collect::<Vec<_>>().try_into().unwrap();
        let bytes = machine.disk.read_file(&path).unwrap();
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap();
        assert!(used < 8 << 10, "{used} bytes after {timestamp} writes");
        manifests.insert(path);
    }
    assert!(manifests.len() > 5, "{manifests:?}");
    drop(engine);
    machine.assert_sound("dropped");
    assert_eq!(machine.open().unwrap().last_timestamp(), timestamp);
}

#[test]
fn the_disk_of_a_store_without_data_is_almost_empty() {
    let (machine, engine) = open();
    for n in 0..200_u64 {
        write(&engine, &[Write::put(format!("key-{n}"), 1 + n, 300)]).unwrap();
    }
    flush(&engine);
    for n in 0..200_u64 {
        write(&engine, &[Write::delete(format!("key-{n}"), 1000 + n)]).unwrap();
    }
    engine.drop_tombstones_before(2000);
    engine.close().unwrap();
    let engine = machine.open().unwrap();
    engine.drop_tombstones_before(2000);
    settle(&engine).unwrap();
    engine.close().unwrap();
    drop(engine);
    let engine = machine.open().unwrap();
    let used = (1 << 40) - machine.disk.free_bytes(&machine.dir).unwrap();
    // Its next log segments and a manifest.
    assert!(used < 64 << 10, "{used} bytes: {:?}", machine.disk.paths());
    drop(engine);
}

/// Three replicas that took the same writes flushed at the same moment, each time.
#[test]
fn stores_that_take_the_same_writes_flush_at_different_times() {
    let flushes_of = |seed, flush_early_percent| {
        let options = tiny_options(Durability::Never);
        let machine = Machine::new(seed, Options { flush_early_percent, ..options });
        let engine = machine.open().unwrap();
        let mut at = Vec::new();
        for timestamp in 1..=400 {
            let flushes = engine.statistics().flushes;
            write(&engine, &[Write::put(format!("key-{}", timestamp % 50), timestamp, 100)]).unwrap();
            settle(&engine).unwrap();
            if engine.statistics().flushes > flushes {
                at.push(timestamp);
            }
        }
        at
    };
    let (first, second) = (flushes_of(1, 25), flushes_of(2, 25));
    let together = first.iter().filter(|at| second.contains(at)).count();
    assert!(together * 2 < first.len(), "{first:?}, {second:?}");
    let full = flushes_of(1, 0);
    assert_eq!(full, flushes_of(2, 0));
    assert!(full.len() <= first.len() && first.len() <= full.len() * 4 / 3 + 1, "{full:?}, {first:?}");
}
