use std::path::Path;

use ladoga_model::Stamp;

use super::*;
use crate::{Background, Durability, Engine, Options, WriteBatch, check, paths, read_value};

/// A store with a compaction that was paused after so many records.
fn paused(records: u64) -> (ladoga_env::Env, Engine) {
    let (env, _, _) = ladoga_env::sim::env(1);
    let options = Options {
        background: Background::Manual,
        table_bytes: Some(4 << 10),
        reserve_bytes: Some(0),
        first_segment_bytes: Some(u64::MAX),
        ..Options::new(16 << 20, Durability::Never)
    };
    let engine = Engine::open(env.clone(), Path::new("/data"), options).expect("a new store");
    for timestamp in 1..=1000_u64 {
        let mut batch = WriteBatch::new();
        batch.put(
            &(timestamp % 300).to_be_bytes(),
            Stamp::new(Version { timestamp, node: 1 }),
            &timestamp.to_be_bytes(),
        );
        engine.write_group(&[batch]).expect("room");
        if timestamp % 250 == 0 {
            engine.seal().expect("room");
            assert!(engine.inner.flush_one().expect("room"));
        }
    }
    assert!(go_on(&engine, records));
    assert_eq!(engine.statistics().compactions, 0, "it is not at its end");
    (env, engine)
}

fn go_on(engine: &Engine, records: u64) -> bool {
    let left = Cell::new(records);
    let is_to_pause = || left.replace(left.get().saturating_sub(1)) == 0;
    engine.inner.compact_one(&is_to_pause).expect("a sound disk")
}

#[test]
fn a_compaction_that_is_paused_again_and_again_is_one() {
    let (env, engine) = paused(7);
    let mut steps = 1;
    while engine.statistics().compactions == 0 {
        assert!(go_on(&engine, 7));
        steps += 1;
    }
    assert!(steps > 300 / 7, "{steps}");
    assert!(!go_on(&engine, 7), "nothing is left to do");
    for key in 0..300_u64 {
        let newest = (1..=1000).rfind(|timestamp| timestamp % 300 == key).expect("one of them");
        let found = engine.get(&key.to_be_bytes()).expect("a sound disk").expect("it was written");
        assert_eq!(*read_value(&found).expect("a sound disk"), u64::to_be_bytes(newest));
    }
    engine.close().expect("room");
    drop(engine);
    assert!(check(&env, Path::new("/data"), &mut |_| {}).expect("a store").errors.is_empty());
}

/// It kept those of its beginning. Ranges and exports were given up for them, one after the other, under many writes.
#[test]
fn a_compaction_keeps_no_memtable_that_is_flushed() {
    let (_, engine) = paused(7);
    let inner = &engine.inner;
    let flush = |timestamp| {
        let mut batch = WriteBatch::new();
        batch.put(b"key", Stamp::new(Version { timestamp, node: 1 }), b"value");
        engine.write_group(&[batch]).expect("room");
        engine.seal().expect("room");
        assert!(inner.flush_one().expect("room"));
        inner.collect_retired();
    };
    flush(2000);
    assert!(!inner.has_retired(), "while it is paused");
    let calls = Cell::new(0);
    let is_to_pause = || {
        calls.update(|calls| calls + 1);
        match calls.get() {
            1 => {
                flush(2001);
                assert!(inner.has_retired(), "it looks at it just now");
            }
            2 => {
                inner.collect_retired();
                assert!(!inner.has_retired(), "it looks at the table of it");
            }
            _ => {}
        }
        false
    };
    assert!(inner.compact_one(&is_to_pause).expect("a sound disk"));
    assert!(calls.get() > 2 && engine.statistics().compactions == 1);
}

/// Each would wait for the other: a flush that is left to this thread, and the compaction that has no core.
#[test]
fn nobody_waits_for_a_thread_that_compacts() {
    let (_, engine) = paused(7);
    let other = engine.inner.upkeep.unfinished.lock();
    assert!(!go_on(&engine, 7));
    drop(other);
    assert!(go_on(&engine, 7));
}

/// The manifest could not be written to when it was found to be damaged.
#[test]
fn a_damaged_table_that_could_not_be_set_aside_is_set_aside_later() {
    let (_, engine) = paused(7);
    while go_on(&engine, u64::MAX) {}
    let inner = &engine.inner;
    let levels = inner.current_levels();
    let deep: Vec<_> = levels.iter().map(|(level, table)| (level, table.clone())).collect();
    assert!(deep.iter().all(|(level, _)| *level > 0));
    let damaged = Error::Missing { path: deep[0].1.path().clone(), although: "it is named".to_owned() };
    inner.background.damage.mark(&deep, &damaged).expect("one of them");
    assert!(!go_on(&engine, 7), "nothing is left to do");
    let numbers: Vec<_> = inner.current_levels().level(0).iter().map(|table| table.meta().number).collect();
    assert_eq!(numbers, [deep[0].1.meta().number]);
}

#[test]
fn what_a_compaction_has_begun_goes_with_the_engine() {
    let (env, engine) = paused(200);
    let count = || env.disk.list(&paths::tables_dir(Path::new("/data"))).expect("a directory").len();
    let before = count();
    engine.close().expect("room");
    assert!(count() < before && count() == 4, "{before}, {}", count());
}

/// Nothing that came in order was ever compressed: no compaction rewrote it.
#[test]
fn what_is_only_moved_is_compressed_when_it_is_flushed() {
    let (env, _, _) = ladoga_env::sim::env(1);
    let options = Options {
        background: Background::Manual,
        reserve_bytes: Some(0),
        ..Options::new(16 << 20, Durability::Never)
    };
    let engine = Engine::open(env, Path::new("/data"), options).expect("a new store");
    let mut timestamp = 0;
    // Answers whether the table is compressed.
    let mut flush = |first_key: u64| {
        timestamp += 1;
        let mut batch = WriteBatch::new();
        for key in first_key..first_key + 100 {
            batch.put(&key.to_be_bytes(), Stamp::new(Version { timestamp, node: 1 }), &[7; 100]);
        }
        engine.write_group(&[batch]).expect("room");
        engine.seal().expect("room");
        assert!(engine.inner.flush_one().expect("room"));
        let levels = engine.inner.current_levels();
        let newest = levels.level(0).iter().map(|table| table.meta()).max_by_key(|meta| meta.number);
        let is_compressed = newest.expect("it was flushed").file_bytes < 100 * 100;
        while engine.inner.compact_one(&|| false).expect("a sound disk") {}
        is_compressed
    };
    let half = |first: bool| [[first; 4], [!first; 4]].concat();
    let in_order: Vec<bool> = (0..8).map(|table| flush(table * 100)).collect();
    assert_eq!(in_order, half(false));
    let again: Vec<bool> = (0..8).map(|_| flush(50)).collect();
    assert_eq!(again, half(true), "what compactions rewrite is plain until they do");
}
