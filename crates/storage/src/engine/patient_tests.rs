//! Flushes that one thread writes and another one ends: whatever happens in between, nothing is lost and no file is left over.

use std::path::Path;
use std::time::Duration;

use ladoga_env::Env;
use ladoga_env::sim::{self, PowerCut, SimClock, SimDisk};
use ladoga_model::{Stamp, Version};

use crate::{Background, Durability, Engine, Options, WriteBatch, check, paths, read_value};

const DIR: &str = "/data";
const KEYS: u64 = 40;

fn open(env: &Env) -> Engine {
    let options = Options {
        background: Background::Manual,
        memtable_bytes: Some(64 << 10),
        reserve_bytes: Some(0),
        ..Options::new(16 << 20, Durability::Always)
    };
    Engine::open(env.clone(), Path::new(DIR), options).expect("a store")
}

fn write(engine: &Engine, key: u64, timestamp: u64) {
    let mut batch = WriteBatch::new();
    let stamp = Stamp::new(Version { timestamp, node: 1 });
    batch.put(&key.to_be_bytes(), stamp, &value(timestamp));
    engine.write_group(&[batch]).expect("room");
}

fn value(timestamp: u64) -> Vec<u8> {
    [timestamp.to_be_bytes(); 125].concat()
}

/// A store with one table, and a memtable whose flush has time.
fn sealed(seed: u64) -> (Env, SimDisk, Engine) {
    let (env, disk, _, engine) = sealed_and_clock(seed);
    (env, disk, engine)
}

fn sealed_and_clock(seed: u64) -> (Env, SimDisk, SimClock, Engine) {
    let (env, disk, clock) = sim::env(seed);
    let engine = open(&env);
    for key in 0..KEYS {
        write(&engine, key, 1 + key);
    }
    engine.seal().expect("room");
    assert!(engine.inner.flush_step().expect("a sound disk"));
    for key in 0..KEYS / 2 {
        write(&engine, key, 100 + key);
    }
    clock.advance(Duration::from_secs(10));
    engine.seal().expect("room");
    assert!(!engine.inner.flush_step().expect("a sound disk"), "it is left to the patient thread");
    (env, disk, clock, engine)
}

fn tables(env: &Env) -> usize {
    env.disk.list(&paths::tables_dir(Path::new(DIR))).expect("a directory").len()
}

#[track_caller]
fn expect_all(engine: &Engine) {
    for key in 0..KEYS {
        let found = engine.get(&key.to_be_bytes()).expect("a sound disk").expect("it was written");
        let timestamp = if key < KEYS / 2 { 100 + key } else { 1 + key };
        assert_eq!(*read_value(&found).expect("a sound disk"), value(timestamp), "{key}");
    }
}

/// Both threads' part of a flush, as far as they come.
fn flush(engine: &Engine) -> Result<bool, crate::Error> {
    Ok(engine.inner.flush_patiently()? && engine.inner.flush_step()?)
}

#[track_caller]
fn expect_sound(env: &Env) {
    assert!(check(env, Path::new(DIR), &mut |_| {}).expect("a store").errors.is_empty());
}

#[test]
fn one_thread_writes_the_table_and_the_other_one_installs_it() {
    let (env, _, engine) = sealed(1);
    assert!(engine.inner.flush_patiently().expect("a sound disk"));
    assert_eq!((tables(&env), engine.statistics().flushes), (2, 1), "nothing names it yet");
    expect_all(&engine);
    assert!(!engine.inner.flush_patiently().expect("a sound disk"), "it has done its part");
    assert!(engine.inner.flush_step().expect("a sound disk"));
    assert_eq!((tables(&env), engine.statistics().flushes), (2, 2));
    assert!(!flush(&engine).expect("a sound disk"), "nothing waits");
    expect_all(&engine);
    engine.close().expect("a sound disk");
    drop(engine);
    expect_sound(&env);
    expect_all(&open(&env));
}

#[test]
fn nobody_is_patient_where_there_is_a_core_for_a_flush() {
    let (env, _, clock, engine) = sealed_and_clock(1);
    clock.set_core_to_spare(true);
    assert!(!engine.inner.flush_patiently().expect("a sound disk"), "the other thread does it at once");
    assert!(engine.inner.flush_step().expect("a sound disk"));
    assert_eq!((tables(&env), engine.statistics().flushes), (2, 2));
    expect_all(&engine);
}

#[test]
fn what_is_written_and_not_installed_goes_with_the_engine() {
    let (env, _, engine) = sealed(2);
    assert!(engine.inner.flush_patiently().expect("a sound disk"));
    assert_eq!(tables(&env), 2);
    drop(engine);
    assert_eq!(tables(&env), 1);
    expect_sound(&env);
    expect_all(&open(&env));
}

#[test]
fn who_waits_for_a_flush_gets_what_is_written_and_leaves_no_other_file() {
    let (env, _, engine) = sealed(3);
    assert!(engine.inner.flush_patiently().expect("a sound disk"));
    engine.inner.flush_all().expect("a sound disk");
    assert_eq!((tables(&env), engine.statistics().flushes), (2, 2));
    expect_all(&engine);
}

#[test]
fn a_power_cut_at_any_step_loses_nothing_and_leaves_no_file() {
    for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
        let mut steps = 0;
        loop {
            let (env, disk, engine) = sealed(10 + steps);
            disk.cut_power_at_operation(steps, policy);
            let whole = flush(&engine).is_ok_and(|is_done| is_done) && disk.is_powered();
            disk.clear_faults();
            if disk.is_powered() {
                disk.power_cut(policy);
            }
            drop(engine);
            disk.power_on();
            let engine = open(&env);
            expect_all(&engine);
            while flush(&engine).expect("a sound disk") || engine.step().expect("a sound disk") {}
            expect_all(&engine);
            engine.close().expect("a sound disk");
            let named = engine.statistics().levels.iter().map(|level| level.tables).sum::<u64>();
            drop(engine);
            assert_eq!(tables(&env) as u64, named, "{policy:?} {steps}");
            expect_sound(&env);
            if whole {
                break;
            }
            steps += 1;
        }
        assert!(steps > 5, "{steps}");
    }
}

#[test]
fn a_full_disk_is_told_leaves_no_file_and_passes() {
    let (env, disk, engine) = sealed(4);
    let used = disk.paths().iter().map(|path| disk.file_len(path).unwrap_or(0)).sum::<u64>();
    disk.set_capacity(used + 4096);
    let error = engine.inner.compact_step(super::background::Pace::Patient).expect_err("no room");
    assert!(error.is_disk_full(), "{error}");
    assert_eq!(tables(&env), 1);
    expect_all(&engine);
    disk.set_capacity(None);
    while engine.inner.flush_step().expect("room") || flush(&engine).expect("room") {}
    assert_eq!((tables(&env), engine.statistics().flushes), (2, 2));
    expect_all(&engine);
    engine.close().expect("room");
    drop(engine);
    expect_sound(&env);
}
