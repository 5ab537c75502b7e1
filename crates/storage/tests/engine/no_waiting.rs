//! Writes of a caller that must not wait: they happen as others do, or not at all.

use std::slice::from_ref;

use ladoga_env::sim::{Fault, Operation, PowerCut};
use ladoga_storage::{Durability, Engine, Options, WriteState};

use crate::support::{Machine, Model, Write, batch, settle, tiny_options, write};

fn tried(engine: &Engine, writes: &[Write]) -> bool {
    engine.try_write_group(from_ref(&batch(engine, writes).unwrap())).unwrap()
}

#[test]
fn what_is_to_be_synced_is_on_disk_when_it_was_written() {
    let machine = Machine::new(1, tiny_options(Durability::Always));
    let (engine, mut model) = (machine.open().unwrap(), Model::default());
    assert_eq!(engine.durability(), Durability::Always);
    for n in 1..20_u64 {
        let writes = [Write::put(format!("key-{n}"), n, 10)];
        assert!(tried(&engine, &writes), "it waits for its sync");
        assert_eq!(engine.statistics().syncs.count(), n);
        model.apply(&writes);
    }
    assert!(!engine.try_write_group(&[]).unwrap(), "a sync of what others wrote is left to who may wait");
    drop(engine);
    machine.disk.power_cut(PowerCut::LoseAll);
    machine.disk.power_on();
    model.assert_held_by(&machine.open().unwrap(), 0, "after the power was cut");
}

#[test]
fn what_needs_the_next_memtable_is_left_to_who_may_wait() {
    let machine = Machine::new(1, tiny_options(Durability::EverySecond));
    let (engine, mut model) = (machine.open().unwrap(), Model::default());
    for n in 1_u64.. {
        let writes = [Write::put(format!("key-{n}"), n, 200)];
        if tried(&engine, &writes) {
            model.apply(&writes);
            continue;
        }
        assert!(n > 10, "an empty memtable has room");
        model.assert_held_by(&engine, 0, "full");
        assert_eq!(engine.statistics().sealed_memtables, 0);
        engine.write_group(from_ref(&batch(&engine, &writes).unwrap())).unwrap();
        assert_eq!(engine.statistics().sealed_memtables, 1);
        model.apply(&writes);
        break;
    }
    let more = [Write::put("more", 1_000, 200), Write::delete("key-1", 1_000)];
    assert!(tried(&engine, &more), "the next memtable has room");
    model.apply(&more);
    settle(&engine).unwrap();
    engine.sync().unwrap();
    drop(engine);
    machine.disk.power_cut(PowerCut::LoseAll);
    machine.disk.power_on();
    model.assert_held_by(&machine.open().unwrap(), 0, "after the power was cut");
}

#[test]
fn nothing_is_written_to_a_store_that_refuses_writes() {
    let machine = Machine::new(1, tiny_options(Durability::EverySecond));
    let engine = machine.open().unwrap();
    machine.disk.fail_operation(0, Fault::io().on(Operation::Write).on_path("wal"));
    assert!(write(&engine, &[Write::put("a", 1, 10)]).is_err());
    assert_eq!(engine.write_state(), WriteState::Poisoned);
    assert!(!tried(&engine, &[Write::put("b", 2, 10)]));
    Model::default().assert_held_by(&engine, 0, "poisoned");
}

#[test]
fn a_full_disk_is_left_to_who_may_look_for_room() {
    let options = Options { reserve_bytes: Some(64 << 10), ..tiny_options(Durability::EverySecond) };
    let machine = Machine::new(1, options);
    let (engine, mut model) = (machine.open().unwrap(), Model::default());
    machine.disk.set_capacity(400 << 10);
    let mut timestamp = 0;
    while engine.write_state() == WriteState::Open {
        timestamp += 1;
        let writes = [Write::put(format!("key-{timestamp}"), timestamp, 400)];
        match write(&engine, &writes) {
            Ok(()) => model.apply(&writes),
            Err(error) => assert!(error.is_disk_full(), "{error}"),
        }
        if let Err(error) = engine.step() {
            assert!(error.is_disk_full(), "{error}");
        }
    }
    assert_eq!(engine.write_state(), WriteState::DiskFull);
    assert!(!tried(&engine, &[Write::put("b", timestamp + 1, 10)]));
    model.assert_held_by(&engine, 0, "full");
}
