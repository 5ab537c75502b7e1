//! A store takes room on the disk by how much it has: an empty one next to none.

use ladoga_env::sim::PowerCut;
use ladoga_storage::{Durability, Options};

use crate::space::used;
use crate::support::{Machine, Write, settle, tiny_options, write};

const FULL_BYTES: usize = 1 << 20;

fn machine() -> Machine {
    let options = Options {
        memtable_bytes: Some(FULL_BYTES),
        table_bytes: Some(FULL_BYTES as u64),
        level_1_bytes: Some(16 * FULL_BYTES as u64),
        ..tiny_options(Durability::Always)
    };
    Machine::new(3, options)
}

#[test]
fn an_empty_store_takes_little() {
    let machine = Machine::new(1, Options::new(6 << 30, Durability::Always));
    let engine = machine.open().unwrap();
    let empty = used(&machine, "/data");
    assert!(empty > 0 && empty <= 1 << 20, "{empty} bytes");
    engine.close().unwrap();
}

#[test]
fn segments_grow_with_what_is_written() {
    let machine = machine();
    let engine = machine.open().unwrap();
    let mut largest = 0;
    for n in 0..4_000 {
        write(&engine, &[Write::put(format!("key-{n}"), n + 1, 500)]).unwrap();
        if n % 4 == 0 {
            settle(&engine).unwrap();
        }
        let bytes = used(&machine, "wal");
        assert!(bytes <= 3 * FULL_BYTES as u64, "{bytes} bytes of log after {n} writes");
        largest = largest.max(bytes);
    }
    assert!(largest >= 2 * FULL_BYTES as u64, "segments never became full ones: {largest} bytes");
    drop(engine);
    machine.disk.power_cut(PowerCut::LoseAll);
    machine.disk.power_on();
    let engine = machine.open().unwrap();
    for n in 0..4_000 {
        let found = engine.get(format!("key-{n}").as_bytes()).unwrap();
        assert!(found.is_some(), "key-{n} is gone");
    }
    engine.close().unwrap();
    machine.assert_sound("after a power cut");
}

/// The first segment is made before anybody knows how large the first group is.
#[test]
fn a_group_that_is_larger_than_the_first_segments_is_taken() {
    for cells in [1, 6, 7, 8, 200, 980] {
        let machine = machine();
        let engine = machine.open().unwrap();
        let group: Vec<Write> = (0..cells).map(|n| Write::put(format!("key-{n}"), 1 + n, 500)).collect();
        write(&engine, &group).unwrap();
        write(&engine, &[Write::put("small", 1_000, 10)]).unwrap();
        drop(engine);
        machine.disk.power_cut(PowerCut::LoseAll);
        machine.disk.power_on();
        let engine = machine.open().unwrap();
        for key in group.iter().map(|write| &write.key[..]).chain([&b"small"[..]]) {
            assert!(engine.get(key).unwrap().is_some(), "{} of {cells}", key.escape_ascii());
        }
        engine.close().unwrap();
        machine.assert_sound("after a large group");
    }
}
