//! How much room log that is kept takes, and gives.

use std::path::Path;

use ladoga_env::sim;
use ladoga_model::{Stamp, Version};

use super::background::Pace;
use super::kept_tests::{options, write};
use crate::{Engine, Options, Value, WriteBatch};

const DIR: &str = "/data";
const LARGE_BYTES: u64 = 1 << 20;

/// Names the large value of the key again, as with another time of expiry.
fn restamp(engine: &Engine, number: u64) {
    let Some(Value::Large(blob)) = engine.get(b"key").expect("a sound disk") else { panic!("a large value") };
    let mut batch = WriteBatch::new();
    batch.put_blob(b"key", Stamp::new(Version { timestamp: number, node: 0 }), blob.to_name_again());
    engine.write_group(&[batch]).expect("room");
}

/// It counted once for each segment that names it, up to more than the disk has, and as room for values that were not there then.
#[test]
fn a_large_value_counts_once_and_as_room_only_if_nothing_else_has_it() {
    let (env, disk, _) = sim::env(7);
    disk.set_capacity(64 << 20);
    // A table that names it does not go down by itself: what replaces it comes to it.
    let level_1_bytes = Some(64 << 20);
    let options = Options { reserve_bytes: Some(1), level_1_bytes, ..options(16 << 10) };
    let engine = Engine::open(env.clone(), Path::new(DIR), options.clone()).expect("a new store");
    write(&engine, 1, b"key", &vec![7; LARGE_BYTES as usize]).expect("room");
    for number in 2..=6 {
        engine.seal_log().expect("a sound disk");
        restamp(&engine, number);
    }
    while engine.step().expect("a sound disk") {}
    // How many of the large values are counted, in all and as room.
    let counted = |engine: &Engine| {
        while engine.step().expect("a sound disk") {}
        let kept = engine.statistics().kept_log;
        assert!(kept.segments >= 5, "{kept:?}");
        let free_bytes = engine.inner.observe_space().expect("a sound disk");
        let has_room_for = |larges: u64| engine.has_room_for(free_bytes + larges * LARGE_BYTES);
        (kept.bytes / LARGE_BYTES, (1..9).take_while(|&larges| has_room_for(larges)).count())
    };
    assert_eq!(counted(&engine), (1, 0));
    engine.close().expect("it closes");
    drop(engine);
    let engine = Engine::open(env.clone(), Path::new(DIR), options.clone()).expect("the same store");
    assert_eq!(counted(&engine), (1, 0), "opened again");
    write(&engine, 7, b"key", b"replaced").expect("room");
    for number in 8..20 {
        engine.seal_log().expect("a sound disk");
        write(&engine, number, b"key", b"replaced").expect("room");
    }
    assert_eq!(counted(&engine), (1, 1), "it is replaced");
    engine.close().expect("it closes");
    drop(engine);
    let engine = Engine::open(env.clone(), Path::new(DIR), options).expect("the same store");
    assert_eq!(counted(&engine), (1, 1), "opened again");
    assert!(engine.inner.remove_kept_log());
    assert_eq!(engine.statistics().kept_log.bytes, 0);
}

/// All of the log went, as compactions had less room than they needed by what was free alone.
#[test]
fn compactions_take_no_more_of_the_log_than_they_need() {
    const RESERVE_BYTES: u64 = 34 << 10;
    const CAPACITY: u64 = 64 << 20;
    let (env, disk, _) = sim::env(7);
    disk.set_capacity(CAPACITY);
    let options = Options { reserve_bytes: Some(RESERVE_BYTES), ..options(32 << 10) };
    let engine = Engine::open(env, Path::new(DIR), options).expect("a new store");
    let random = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    // Keys in disorder, so that each table covers much of the next level.
    let fill = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            let value: Vec<u8> = (0..60).flat_map(|word| random(number << 8 | word)).collect();
            write(&engine, number, &random(number), &value).expect("room");
            if number % 50 == 0 {
                engine.seal().expect("room");
                assert!(engine.inner.flush_one().expect("a sound disk"));
            }
        }
    };
    fill(1..4_801);
    while engine.step().expect("a sound disk") {}
    fill(4_801..5_001);
    let (before, compactions) = (engine.statistics().kept_log, engine.statistics().compactions);
    let free_bytes = engine.inner.observe_space().expect("a sound disk");
    disk.set_capacity(CAPACITY - free_bytes + 2 * RESERVE_BYTES);
    for pace in [Pace::Patient, Pace::Hurried] {
        while engine.inner.compact_step(pace).expect("room") {}
    }
    let after = engine.statistics().kept_log;
    assert!(engine.statistics().compactions > compactions, "there was something to do");
    assert!(after.gaps > 0 && after.segments > before.segments / 2, "{after:?} of {before:?}");
}
