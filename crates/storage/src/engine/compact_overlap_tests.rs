//! Compactions of tables that span much of a store.

use std::path::Path;

use ladoga_model::{Stamp, Version};

use crate::{Background, Compression, Durability, Engine, Options, WriteBatch};

const TABLE_BYTES: u64 = 4 << 10;
const LEVEL_1_BYTES: u64 = 8 << 10;
const KEYS: u64 = 4_000;

fn open(level_1_bytes: u64) -> Engine {
    let (env, _, _) = ladoga_env::sim::env(1);
    let options = Options {
        background: Background::Manual,
        compression: [Compression::None; 7],
        table_bytes: Some(TABLE_BYTES),
        level_1_bytes: Some(level_1_bytes),
        reserve_bytes: Some(0),
        ..Options::new(16 << 20, Durability::Never)
    };
    Engine::open(env, Path::new("/data"), options).expect("a new store")
}

/// Writes the change of each of these keys, and flushes them.
fn flush(
    engine: &Engine,
    timestamp: u64,
    keys: impl Iterator<Item = u64>,
    change: impl Fn(&mut WriteBatch, &[u8], Stamp),
) {
    let mut batch = WriteBatch::new();
    keys.for_each(|key| change(&mut batch, &key.to_be_bytes(), Stamp::new(Version { timestamp, node: 1 })));
    engine.write_group(&[batch]).expect("room");
    engine.seal().expect("room");
    assert!(engine.inner.flush_one().expect("room"));
}

/// Compacts until there is nothing to do. The most that a compaction out of a level above 0 takes.
fn compact(engine: &Engine) -> u64 {
    let mut most = 0;
    while let Some(work) = engine.inner.choose() {
        if work.choice.level > 0 && !work.choice.only_move {
            most = most.max(work.choice.input_bytes);
        }
        assert!(engine.inner.compact_one(&|| false).expect("a sound disk"));
    }
    most
}

/// A store that was written in the order of its keys, as by an import.
fn imported(level_1_bytes: u64) -> Engine {
    let engine = open(level_1_bytes);
    for first in (0..KEYS).step_by(36) {
        let keys = first..(first + 36).min(KEYS);
        flush(&engine, 1, keys, |batch, key, stamp| batch.put(key, stamp, &[7; 100]));
        assert_eq!(compact(&engine), 0, "what is in order is only moved");
    }
    engine
}

/// They came to one table, and its compactions took all of each level along: in a large store hours, during which level 0 was not
/// compacted, and as much room as the level has.
#[test]
fn deletions_that_are_spread_over_a_store_do_not_come_down_as_one() {
    let engine = imported(LEVEL_1_BYTES);
    for first in (0..320).step_by(20) {
        flush(&engine, 2, (first..KEYS).step_by(320), WriteBatch::delete);
    }
    let most = compact(&engine);
    // What it may overlap, those that it overlaps in part, and the table itself.
    assert!(0 < most && most < 14 * TABLE_BYTES, "{most} bytes: {:?}", engine.statistics().levels);
    for key in 0..KEYS {
        let found = engine.get(&key.to_be_bytes()).expect("a sound disk");
        assert_eq!(found.is_none(), key % 20 == 0, "{key}");
    }
}

/// It came to a table for each ten of level 1: several in level 0 slow writers down, and the next compaction takes all of
/// them together.
#[test]
fn a_table_of_level_0_that_is_written_anew_in_its_place_stays_one() {
    let engine = imported(u64::MAX);
    let tables = |level| engine.inner.current_levels().level(level).len();
    assert!(tables(1) > 100, "{:?}", engine.statistics().levels);
    flush(&engine, 2, (0..KEYS).step_by(40), |batch, key, stamp| {
        batch.put(key, Stamp { expires_at_ms: 1, ..stamp }, &[7; 100]);
    });
    engine.drop_values_expired_before_ms(1);
    let work = engine.inner.choose().expect("all of its values have expired");
    assert_eq!((work.choice.level, work.choice.output_level), (0, 0));
    assert!(engine.inner.compact_one(&|| false).expect("a sound disk"));
    assert_eq!(tables(0), 1);
}
