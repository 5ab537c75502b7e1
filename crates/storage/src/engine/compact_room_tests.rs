//! Compactions on a disk that is nearly full.

use std::path::Path;
use std::time::Duration;

use ladoga_env::Env;
use ladoga_env::sim::{self, SimClock, SimDisk};

use crate::engine::kept_tests::{options, write};
use crate::{Engine, Options, WriteState};

const DIR: &str = "/data";
const CAPACITY: u64 = 64 << 20;
const RESERVE_BYTES: u64 = 20 << 10;

/// A store in which only level 0 ever has to be compacted.
struct Store {
    env: Env,
    disk: SimDisk,
    clock: SimClock,
    engine: Engine,
}

impl Store {
    /// One with four tables in level 0 that replace all of level 1.
    fn behind(reserve_bytes: u64, keep_log_ms: Option<u64>) -> Store {
        let store = Store::new(reserve_bytes, keep_log_ms, CAPACITY);
        store.fill(0);
        while store.engine.step().expect("a sound disk") {}
        store.fill(1);
        store
    }

    fn new(reserve_bytes: u64, keep_log_ms: Option<u64>, level_1_bytes: u64) -> Store {
        let (env, disk, clock) = sim::env(7);
        disk.set_capacity(CAPACITY);
        let (level_1_bytes, reserve_bytes) = (Some(level_1_bytes), Some(reserve_bytes));
        let options = Options { level_1_bytes, reserve_bytes, keep_log_ms, ..options(64 << 10) };
        let engine = Engine::open(env.clone(), Path::new(DIR), options).expect("a new store");
        Store { env, disk, clock, engine }
    }

    /// Four tables of some 25 KiB, which replace those of the round before. Each has keys from the first to the last ones.
    fn fill(&self, round: u64) {
        let random = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        for number in 1..=200 {
            let value: Vec<u8> = (0..60).flat_map(|word| random(round << 32 | number << 8 | word)).collect();
            write(&self.engine, round * 1_000 + number, &random(number), &value).expect("room");
            if number % 50 == 0 {
                self.engine.seal().expect("room");
                assert!(self.engine.inner.flush_one().expect("a sound disk"));
            }
        }
    }

    fn free_bytes(&self) -> u64 {
        self.env.disk.free_bytes(Path::new(DIR)).expect("a sound disk")
    }

    fn set_free(&self, free_bytes: u64) {
        self.disk.set_capacity(CAPACITY);
        self.disk.set_capacity(CAPACITY - self.free_bytes() + free_bytes);
    }

    fn level_0_tables(&self) -> usize {
        self.engine.inner.current_levels().level(0).len()
    }
}

/// One that fitted just so began with the log still there, and took the disk below the reserve before anybody looked.
#[test]
fn a_compaction_leaves_the_reserve_as_long_as_there_is_log_that_can_go() {
    // A table of level 0 with level 1 has room for itself beside the reserve, or not.
    for (reserve_bytes, takes_log) in [(150 << 10, false), (100 << 10, true)] {
        let store = Store::behind(reserve_bytes, Some(60_000));
        store.set_free(2 * reserve_bytes);
        let work = store.engine.inner.choose().expect("level 0 has too many tables");
        let (wanted, free_bytes) = (work.choice.input_bytes + reserve_bytes, store.free_bytes());
        assert!(free_bytes >= wanted, "{reserve_bytes}: {free_bytes} of {wanted}");
        assert_eq!(store.engine.statistics().kept_log.gaps > 0, takes_log);
    }
}

/// Another level had room, and had all of its compactions before.
#[test]
fn log_goes_before_a_level_is_left_behind_for_one_that_is_less_urgent() {
    let store = Store::new(RESERVE_BYTES, Some(60_000), 90_000);
    store.fill(0);
    assert!(store.engine.inner.compact_one(&|| false).expect("a sound disk"));
    store.fill(1);
    store.fill(2);
    store.set_free(RESERVE_BYTES + 60_000);
    let levels = store.engine.inner.current_levels();
    assert!(levels.level(0).len() == 8 && levels.level(1).len() > 1);
    assert_eq!(store.engine.inner.choose().expect("it is behind").choice.level, 0);
    assert!(store.engine.statistics().kept_log.gaps > 0);
}

/// It failed for ever beside that log.
#[test]
fn a_compaction_that_needs_more_than_is_free_and_kept_gets_all_of_the_log() {
    let store = Store::behind(RESERVE_BYTES, Some(60_000));
    // What is older goes.
    store.clock.advance(Duration::from_mins(2));
    write(&store.engine, 10_000, b"key", &[7; 10_000]).expect("room");
    store.engine.seal().expect("room");
    assert!(store.engine.inner.flush_one().expect("a sound disk"));
    store.engine.inner.remove_old_log();
    let kept = store.engine.statistics().kept_log;
    // All of level 1 and one table have no room. What all of them come to has: it is as much as level 1.
    store.set_free(118_000 - kept.bytes);
    let before = store.engine.statistics();
    assert!(kept.segments > 0 && store.free_bytes() > 2 * RESERVE_BYTES, "{kept:?}");
    assert!(store.engine.inner.compact_one(&|| false).expect("it comes out smaller"));
    let after = store.engine.statistics();
    assert_eq!((after.kept_log.segments, after.compactions), (0, before.compactions + 1));
}

/// It was tried again and again, and each attempt filled the disk up until it had failed.
#[test]
fn a_compaction_that_has_no_room_is_tried_again_once_there_is_more() {
    let store = Store::behind(RESERVE_BYTES, None);
    store.set_free(RESERVE_BYTES + 1_000);
    let failures = || (0..10).filter(|_| store.engine.step().is_err()).count();
    assert_eq!(failures(), 1);
    store.set_free(RESERVE_BYTES + 2_000);
    assert_eq!((failures(), store.level_0_tables()), (0, 4), "as much as it had is not enough");
    assert_eq!(store.engine.write_state(), WriteState::Open);
    store.clock.advance(Duration::from_mins(2));
    assert_eq!(failures(), 1, "values may have expired");
    store.set_free(20 * RESERVE_BYTES);
    assert_eq!((failures(), store.level_0_tables()), (0, 0));
}
