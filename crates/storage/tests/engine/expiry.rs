//! Values that expire: what they hide stays hidden, and their space comes back.

use std::time::Duration;

use ladoga_model::HybridClock;
use ladoga_storage::{Durability, Engine, Options};

use crate::space::{flush, used};
use crate::support::{Change, Machine, Model, Write, live, settle, tiny_options, write};

const AGE_MS: u64 = 60_000;

fn open(options: Options) -> (Machine, Engine) {
    let machine = Machine::new(9, options);
    let engine = machine.open().unwrap();
    (machine, engine)
}

/// A store whose clock is set from outside, as on a node of a cluster.
fn told() -> (Machine, Engine) {
    open(tiny_options(Durability::Never))
}

/// A store that goes by its own clock, as on a node on its own.
fn by_its_clock() -> (Machine, Engine) {
    let options = Options { tombstone_age_ms_min: Some(AGE_MS), ..tiny_options(Durability::Never) };
    open(options)
}

/// A value that is written now, and expires after so long.
fn expiring(machine: &Machine, key: String, len: usize, ttl_ms: u64) -> Write {
    let now_ms = machine.now_ms();
    let change = Change::Put { len, expires_at_ms: now_ms + ttl_ms };
    Write { key: key.into_bytes(), timestamp: HybridClock::at_wall_ms(now_ms) + 1, change }
}

fn value(machine: &Machine, engine: &Engine, key: &[u8]) -> Option<usize> {
    live(engine.get_cell(key).unwrap(), machine.now_ms()).map(|value| value.len())
}

fn later(machine: &Machine, ms: u64) {
    machine.clock.advance(Duration::from_millis(ms));
}

#[test]
fn what_an_expired_value_hides_does_not_come_back_when_it_goes() {
    let (machine, engine) = told();
    let old = HybridClock::at_wall_ms(machine.now_ms()) - 1;
    write(&engine, &[Write::put("key", old, 100), Write::put("other", old, 100)]).unwrap();
    flush(&engine);
    write(&engine, &[expiring(&machine, "key".to_owned(), 200, 1_000)]).unwrap();
    flush(&engine);
    later(&machine, 999);
    assert_eq!(value(&machine, &engine, b"key"), Some(200));
    later(&machine, 1);
    assert_eq!(value(&machine, &engine, b"key"), None);
    engine.drop_values_expired_before_ms(machine.now_ms());
    for step in 0..3 {
        for n in 0..100 {
            let timestamp = HybridClock::at_wall_ms(machine.now_ms()) + 2 + n;
            write(&engine, &[Write::put(format!("more-{n}"), timestamp, 300)]).unwrap();
        }
        flush(&engine);
        assert_eq!(value(&machine, &engine, b"key"), None, "step {step}");
        assert_eq!(value(&machine, &engine, b"other"), Some(100), "step {step}");
        later(&machine, 120_000);
        engine.drop_tombstones_before(HybridClock::at_wall_ms(machine.now_ms()));
    }
    assert_eq!(engine.statistics().expired_values, 1);
    drop(engine);
    machine.assert_sound("dropped");
}

#[test]
fn a_later_value_is_not_touched_by_the_expiry_of_an_earlier_one() {
    let (machine, engine) = by_its_clock();
    write(&engine, &[expiring(&machine, "key".to_owned(), 200, 1_000)]).unwrap();
    flush(&engine);
    later(&machine, 500);
    let newer = HybridClock::at_wall_ms(machine.now_ms()) + 1;
    write(&engine, &[Write::put("key", newer, 50)]).unwrap();
    later(&machine, 86_400_000);
    flush(&engine);
    settle(&engine).unwrap();
    assert_eq!(value(&machine, &engine, b"key"), Some(50));
}

#[test]
fn before_it_is_told_a_store_keeps_what_has_expired_for_those_whose_clocks_are_behind() {
    let (machine, engine) = told();
    for n in 0..100 {
        write(&engine, &[expiring(&machine, format!("key-{n}"), 300, 1_000)]).unwrap();
    }
    flush(&engine);
    let written = used(&machine, "tables");
    later(&machine, 86_400_000);
    settle(&engine).unwrap();
    assert_eq!(used(&machine, "tables"), written);
    assert_eq!(engine.statistics().expired_values, 0);
    let expires_at_ms = machine.now_ms() - 86_400_000 + 1_000;
    let cell = engine.get_cell(b"key-7").unwrap().expect("it is kept");
    assert!(!cell.is_absent(expires_at_ms - 1) && cell.is_absent(expires_at_ms));
    engine.drop_values_expired_before_ms(expires_at_ms - 1);
    settle(&engine).unwrap();
    assert_eq!(engine.statistics().expired_values, 0, "for some it is not over yet");
}

/// Without writes no level grows over its size, so no compaction is due for that.
#[test]
fn values_that_expire_in_a_store_at_rest_give_their_space_back_without_a_write() {
    let (machine, engine) = told();
    for n in 0..200 {
        let mut one = expiring(&machine, format!("key-{n}"), 300, 3_600_000);
        one.timestamp += n;
        write(&engine, &[one]).unwrap();
    }
    for n in 0..4 {
        let Write { key, timestamp, .. } = expiring(&machine, format!("large-{n}"), 0, 0);
        let change = Change::PutBlob { len: 300_000, expires_at_ms: machine.now_ms() + 3_600_000 };
        write(&engine, &[Write { key, timestamp, change }]).unwrap();
    }
    flush(&engine);
    let (tables, blobs) = (used(&machine, "tables"), used(&machine, "blobs"));
    assert!(tables > 60_000 && blobs > 1_200_000, "{tables} {blobs}");
    later(&machine, 3_600_000);
    engine.drop_values_expired_before_ms(machine.now_ms());
    settle(&engine).unwrap();
    assert_eq!(engine.statistics().expired_values, 204);
    let left = used(&machine, "tables");
    assert!(left < tables / 4, "{left} of {tables} bytes");
    assert_eq!(used(&machine, "blobs"), 0);
    let cell = engine.get_cell(b"key-7").unwrap().expect("its stamp is compared with other replicas'");
    assert!(cell.is_absent(machine.now_ms()));
    engine.drop_tombstones_before(HybridClock::at_wall_ms(machine.now_ms() + 3_600_000));
    settle(&engine).unwrap();
    assert_eq!(used(&machine, "tables"), 0, "{:?}", engine.statistics().levels);
    drop(engine);
    machine.assert_sound("dropped");
}

#[test]
fn a_store_to_which_values_with_a_ttl_are_written_for_long_stays_as_large_as_those_that_live() {
    const TTL_MS: u64 = 600_000;
    let (machine, engine) = by_its_clock();
    let mut model = Model::default();
    let (mut most, mut written) = (0, 0);
    for minute in 0..600_u64 {
        later(&machine, 60_000);
        for n in 0..20 {
            let mut one = expiring(&machine, format!("{}-{n}", minute * 7_919 % 1_000), 300, TTL_MS);
            one.timestamp += n;
            if n == 0 {
                one.change = Change::PutBlob { len: 1_000, expires_at_ms: machine.now_ms() + TTL_MS / 2 };
            }
            model.apply(std::slice::from_ref(&one));
            write(&engine, &[one]).unwrap();
            written += 300;
        }
        if minute % 5 == 4 {
            engine.seal().unwrap();
        }
        settle(&engine).unwrap();
        if minute > 60 {
            most = most.max(used(&machine, "tables") + used(&machine, "blobs"));
        }
        if minute % 60 == 0 {
            model.assert_held_by(&engine, machine.now_ms(), &format!("minute {minute}"));
        }
    }
    // Those of ten minutes live; as much again may have expired.
    let alive = 10 * 20 * 330;
    assert!(most < alive * 4 && written > alive * 40, "{most} bytes for {alive} that live");
    let records: u64 = engine.statistics().levels.iter().map(|level| level.records).sum();
    assert!(records < 10 * 20 * 4, "{records} records: what is left of the others goes as well");
    drop(engine);
    machine.assert_sound("dropped");
}

/// A store whose values come down to the last level.
fn deep() -> (Machine, Engine) {
    let options = tiny_options(Durability::Never);
    open(Options { tombstone_age_ms_min: Some(AGE_MS), level_1_bytes: Some(1), ..options })
}

fn records(engine: &Engine) -> u64 {
    engine.statistics().levels.iter().map(|level| level.records).sum()
}

/// No compaction ever came to them from above: they stayed for ever, in ever more tables that ranges had to step over.
#[test]
fn what_is_left_of_old_keys_in_the_last_level_goes() {
    const TTL_MS: u64 = 600_000;
    let (machine, engine) = deep();
    for n in 0..600 {
        later(&machine, 100);
        write(&engine, &[expiring(&machine, format!("log:{n:05}"), 300, TTL_MS)]).unwrap();
    }
    flush(&engine);
    let last = |engine: &Engine| engine.statistics().levels[6].records;
    assert!(last(&engine) > 300, "{:?}", engine.statistics().levels);
    // Some of the same keys in memory, in which what is left has to stay, and may go once they are in tables.
    for n in 0..20 {
        write(&engine, &[expiring(&machine, format!("log:{n:05}"), 1, 100 * TTL_MS)]).unwrap();
    }
    later(&machine, TTL_MS + 120_000);
    settle(&engine).unwrap();
    assert_eq!(engine.statistics().expired_values, 600);
    later(&machine, TTL_MS);
    settle(&engine).unwrap();
    assert!(records(&engine) <= 20, "{:?}", engine.statistics().levels);
    flush(&engine);
    assert!(records(&engine) <= 20, "{:?}", engine.statistics().levels);
    drop(engine);
    machine.assert_sound("dropped");
}
