//! Log that is kept: it has no gap, is bounded, and costs no write.

use std::path::Path;
use std::time::Duration;

use ladoga_env::Env;
use ladoga_env::sim::{self, Fault, Operation, PowerCut, SimDisk};
use ladoga_model::{Stamp, Version};

use super::background::Pace;
use crate::log_file::{large_name, parse_large};
use crate::{
    Background, Durability, Engine, KeptSegment, LargeValue, LogValue, Options, SegmentReader, WriteBatch,
};

const DIR: &str = "/data";

pub(super) fn options(memtable_bytes: usize) -> Options {
    Options {
        background: Background::Manual,
        memtable_bytes: Some(memtable_bytes),
        table_bytes: Some(16 << 10),
        level_1_bytes: Some(32 << 10),
        reserve_bytes: Some(0),
        keep_log_ms: Some(60_000),
        ..Options::new(16 << 20, Durability::Always)
    }
}

pub(super) fn write(engine: &Engine, number: u64, key: &[u8], value: &[u8]) -> Result<(), crate::Error> {
    let stamp = Stamp::new(Version { timestamp: number, node: 0 });
    let mut batch = WriteBatch::new();
    if value.len() as u64 >= crate::BLOB_BYTES_MIN {
        let mut writer = engine.create_blob()?;
        writer.write(value)?;
        batch.put_blob(key, stamp, writer.finish()?);
    } else {
        batch.put(key, stamp, value);
    }
    engine.write_group(&[batch])
}

fn files(disk: &SimDisk) -> Vec<String> {
    let kept = Path::new(DIR).join("wal-kept");
    let inside = disk.paths().into_iter().filter(|path| path.starts_with(&kept));
    inside.map(|path| path.file_name().expect("a name").to_string_lossy().into_owned()).collect()
}

/// Everything from the first group on, up to what was written last.
#[track_caller]
fn expect_no_gap(engine: &Engine) -> Vec<KeptSegment> {
    let end = engine.seal_log().expect("a sound disk").expect("it keeps its log");
    let kept = engine.kept_log(0, usize::MAX);
    assert_eq!(kept.first().map(|first| first.first_sequence), Some(1));
    assert!(kept.windows(2).all(|pair| pair[0].end_sequence == pair[1].first_sequence), "{kept:?}");
    assert_eq!(kept.last().map(|last| last.end_sequence), Some(end));
    kept
}

/// What these segments name is kept, too.
#[track_caller]
fn expect_larges(disk: &SimDisk, kept: &[KeptSegment]) {
    let found = files(disk);
    for kept in kept {
        let path = Path::new(DIR).join("wal-kept").join(kept.file_name());
        let mut reader = SegmentReader::new(&path, (kept.first_sequence, kept.end_sequence));
        let read = reader.push(&disk.read_file(&path).expect("a file"), &mut |cell| {
            if let LogValue::Large(LargeValue { file, .. }) = cell.value {
                assert!(found.contains(&large_name(kept.number, file)), "{kept:?}, {file}: {found:?}");
            }
            Ok(())
        });
        read.and_then(|_| reader.finish()).expect("a segment that is sound");
    }
}

/// A new store that keeps so many segments with a large value each.
fn store_with_larges(env: &Env, count: u64) -> Engine {
    let engine = Engine::open(env.clone(), Path::new(DIR), options(16 << 10)).expect("a new store");
    for number in 1..=count {
        write(&engine, number, b"key", &vec![7; 300_000]).expect("room");
        engine.seal_log().expect("a sound disk");
    }
    engine
}

#[track_caller]
fn expect_larges_after_power_cut((env, disk): (&Env, &SimDisk)) {
    disk.clear_faults();
    disk.power_on();
    let engine = Engine::open(env.clone(), Path::new(DIR), options(16 << 10)).expect("a store");
    expect_larges(disk, &engine.kept_log(0, 9));
}

/// Opens a store of a log that memory has no room for, after a power cut.
#[test]
fn a_log_that_is_more_than_memory_has_room_for_is_kept_too() {
    let (env, disk, _) = sim::env(1);
    let engine = Engine::open(env.clone(), Path::new(DIR), options(256 << 10)).expect("a new store");
    for number in 1..400 {
        let value = vec![7; if number % 90 == 0 { 300_000 } else { 2_000 }];
        write(&engine, number, &(number % 50).to_be_bytes(), &value).expect("room");
    }
    assert!(engine.statistics().sealed_memtables > 1);
    disk.power_cut(PowerCut::LoseAll);
    drop(engine);
    disk.power_on();
    let engine = Engine::open(env, Path::new(DIR), options(16 << 10)).expect("a store");
    let kept = expect_no_gap(&engine);
    assert!(kept.len() > 2, "{kept:?}");
    assert_eq!(files(&disk).iter().filter(|name| parse_large(name).is_some()).count(), 4);
}

#[test]
fn segments_are_used_again_only_by_a_store_that_keeps_none() {
    let (env, disk, _) = sim::env(2);
    let mut options = options(16 << 10);
    for keep_log_ms in [None, Some(60_000), None] {
        options.keep_log_ms = keep_log_ms;
        let engine = Engine::open(env.clone(), Path::new(DIR), options.clone()).expect("a store");
        for number in 1..100 {
            write(&engine, number, b"key", &[7; 1_000]).expect("room");
            engine.step().expect("a sound disk");
        }
        assert_eq!(engine.kept_log(0, 99).is_empty(), keep_log_ms.is_none());
        assert_eq!(files(&disk).is_empty(), keep_log_ms.is_none());
        engine.close().expect("it closes");
    }
}

/// When the oldest was kept, and how many are missing. What the figures say is what there is.
#[track_caller]
fn figures(engine: &Engine, disk: &SimDisk) -> (u64, u64) {
    let found = engine.statistics().kept_log;
    let path = |name: &String| Path::new(DIR).join("wal-kept").join(name);
    let bytes = files(disk).iter().map(|name| disk.file_len(path(name)).expect("a file")).sum::<u64>();
    assert_eq!((found.segments, found.bytes), (engine.kept_log(0, 9).len() as u64, bytes));
    (found.oldest_ms, found.gaps)
}

#[test]
fn it_goes_when_it_is_old() {
    let (env, disk, clock) = sim::env(3);
    let engine = Engine::open(env.clone(), Path::new(DIR), options(16 << 10)).expect("a new store");
    let value = vec![7; 300_000];
    let figures = |engine: &Engine| figures(engine, &disk);
    assert_eq!(figures(&engine), (0, 0));
    write(&engine, 1, b"old", &value).expect("room");
    engine.seal_log().expect("a sound disk");
    let began_ms = env.clock.wall_ms();
    clock.advance(Duration::from_secs(50));
    write(&engine, 2, b"old", b"replaced").expect("room");
    engine.seal_log().expect("a sound disk");
    assert_eq!((files(&disk).len(), figures(&engine)), (3, (began_ms, 0)));
    clock.advance(Duration::from_secs(11));
    engine.step().expect("a sound disk");
    assert_eq!(figures(&engine), (began_ms + 50_000, 0));
    assert_eq!((engine.kept_log(0, 9).len(), files(&disk).len()), (1, 1), "{:?}", files(&disk));
    engine.close().expect("a sound disk");
    drop(engine);
    let again = Engine::open(env.clone(), Path::new(DIR), options(16 << 10)).expect("the same store");
    assert_eq!(figures(&again), (began_ms + 50_000, 0));
}

/// Large values stayed until the store was opened again, and nobody knew of them.
#[test]
fn what_cannot_be_removed_for_lack_of_descriptors_goes_later() {
    let (env, disk, clock) = sim::env(3);
    let engine = store_with_larges(&env, 3);
    clock.advance(Duration::from_secs(61));
    disk.fail_operation(0, Fault::too_many_files().on(Operation::SyncDir).on_path("wal-kept").sticky());
    for _ in 0..2 {
        engine.step().expect("it does not need it");
        assert_eq!((figures(&engine, &disk), files(&disk).len()), ((0, 0), 3), "large values");
    }
    disk.clear_faults();
    engine.step().expect("a sound disk");
    assert_eq!((figures(&engine, &disk), files(&disk)), ((0, 0), Vec::new()));
}

/// Or else nothing would go until that time has come.
#[test]
fn it_goes_when_it_is_old_although_the_clock_was_ahead_for_a_while() {
    let (env, _, clock) = sim::env(3);
    let engine = Engine::open(env, Path::new(DIR), options(16 << 10)).expect("a new store");
    let left = |passes_secs, jumps_ms| {
        clock.advance(Duration::from_secs(passes_secs));
        clock.jump_wall_ms(jumps_ms);
        engine.step().expect("a sound disk");
        engine.kept_log(0, 9).into_iter().map(|kept| kept.first_sequence).collect::<Vec<_>>()
    };
    let keep = |number| {
        write(&engine, number, b"key", b"value").expect("room");
        engine.seal_log().expect("a sound disk");
    };
    keep(1);
    assert_eq!(left(1, 3_600_000), [1u64; 0], "it is old by that clock");
    keep(2);
    keep(3);
    assert_eq!(left(30, -3_600_000), [2, 3]);
    keep(4);
    assert_eq!(left(59, 0), [2, 3, 4], "none is known to be old");
    keep(5);
    assert_eq!(left(2, 0), [5]);
}

fn full_env(seed: u64, capacity: u64) -> (Env, SimDisk) {
    let (env, disk, _) = sim::env(seed);
    disk.set_capacity(capacity);
    (env, disk)
}

/// What the threads do. What fails for lack of space works out when it is tried again.
fn work(engine: &Engine) {
    let mut failed = 0;
    loop {
        let flushed = engine.inner.flush_step();
        let worked = flushed.and_then(|flushed| Ok(engine.inner.compact_step(Pace::Patient)? || flushed));
        match worked {
            Ok(true) => failed = 0,
            Ok(false) => return,
            Err(error) => {
                failed += 1;
                assert!(failed < 3 && error.is_disk_full(), "{error}");
            }
        }
    }
}

#[test]
fn no_write_is_refused_for_log_that_is_kept() {
    for reserve_bytes in [0, 200 << 10] {
        let (env, disk) = full_env(4, 4 << 20);
        let options = Options { reserve_bytes: Some(reserve_bytes), ..options(32 << 10) };
        let engine = Engine::open(env, Path::new(DIR), options).expect("a new store");
        let mut most = 0;
        // Ten times what the disk has room for, of which nearly all is replaced.
        for number in 1..2_000 {
            let value = vec![7; if number % 100 == 0 { 300_000 } else { 9_000 }];
            let written = write(&engine, number, &(number % 4).to_be_bytes(), &value);
            assert!(written.is_ok(), "{reserve_bytes}, {number}: {written:?}");
            work(&engine);
            most = most.max(engine.kept_log(0, usize::MAX).len());
        }
        let kept = engine.kept_log(0, usize::MAX);
        assert!(most > 3 && kept.len() < 200, "{} of {most}", kept.len());
        assert!(kept.windows(2).all(|pair| pair[0].end_sequence == pair[1].first_sequence), "{kept:?}");
        assert!(files(&disk).len() < 250);
        assert!(engine.statistics().kept_log.gaps > 0, "what had to go early is told");
    }
}

/// What a crash leaves of the names is removed, or is a segment.
#[test]
fn a_power_cut_at_any_step_leaves_no_gap() {
    // By chance, as often as it takes for each name to be lost alone.
    let policies = [(PowerCut::LoseAll, 1), (PowerCut::KeepAll, 1), (PowerCut::Random, 16)];
    for (policy, times) in policies {
        for (step, time) in (0..90).flat_map(|step| (0..times).map(move |time| (step, time))) {
            let (env, disk, _) = sim::env(time * 90 + step + 1);
            let engine = Engine::open(env.clone(), Path::new(DIR), options(16 << 10)).expect("a new store");
            disk.cut_power_at_operation(step, policy);
            let mut number = 0;
            while disk.is_powered() {
                number += 1;
                let value = vec![7; if number % 7 == 0 { 300_000 } else { 3_000 }];
                _ = write(&engine, number, &number.to_be_bytes(), &value);
                _ = engine.step();
            }
            drop(engine);
            disk.clear_faults();
            disk.power_on();
            let engine = Engine::open(env.clone(), Path::new(DIR), options(16 << 10)).expect("a store");
            write(&engine, number + 1, b"one more", b"value").expect("room");
            let kept = expect_no_gap(&engine);
            let numbers: Vec<u64> = kept.iter().map(|segment| segment.number).collect();
            expect_larges(&disk, &kept);
            for (segment, _) in files(&disk).iter().filter_map(|name| parse_large(name)) {
                assert!(numbers.contains(&segment), "{policy:?} {step}: {segment} is none of {numbers:?}");
            }
        }
    }
}

#[test]
fn a_power_cut_takes_no_large_value_before_the_segment_that_names_it() {
    for seed in 0..100 {
        let (env, disk, clock) = sim::env(seed);
        let engine = store_with_larges(&env, 5);
        clock.advance(Duration::from_secs(61));
        disk.cut_power_at_operation(seed % 12, PowerCut::Random);
        _ = engine.step();
        drop(engine);
        expect_larges_after_power_cut((&env, &disk));
    }
}

/// A disk that fails, and then loses its power, may have the segment again.
#[test]
fn a_large_value_stays_whose_segment_could_not_be_removed_durably() {
    for seed in 0..100 {
        let (env, disk, clock) = sim::env(seed);
        let engine = store_with_larges(&env, 3);
        clock.advance(Duration::from_secs(61));
        let failing = if seed % 2 == 0 { Operation::SyncDir } else { Operation::Remove };
        disk.fail_operation(seed % 3, Fault::io().on(failing).on_path("wal-kept").sticky());
        _ = engine.step();
        disk.power_cut(PowerCut::Random);
        drop(engine);
        expect_larges_after_power_cut((&env, &disk));
    }
}

#[test]
fn a_store_that_keeps_none_leaves_no_segment_without_its_large_values_if_it_crashes() {
    for seed in 0..200 {
        let (env, disk, _) = sim::env(seed);
        let engine = store_with_larges(&env, 5);
        engine.close().expect("it closes");
        drop(engine);
        disk.cut_power_at_operation(seed % 50, PowerCut::Random);
        let keeps_none = Options { keep_log_ms: None, ..options(16 << 10) };
        drop(Engine::open(env.clone(), Path::new(DIR), keeps_none));
        disk.clear_faults();
        disk.power_cut(PowerCut::Random);
        expect_larges_after_power_cut((&env, &disk));
    }
}

/// After the time to keep it was made shorter all of it is old, and flushes come from the same thread.
#[test]
fn a_lot_of_it_goes_a_part_at_a_time() {
    let (env, disk, clock) = sim::env(4);
    let engine = Engine::open(env, Path::new(DIR), options(16 << 10)).expect("a new store");
    for number in 1..=150 {
        write(&engine, number, b"key", b"value").expect("room");
        engine.seal_log().expect("a sound disk");
    }
    assert_eq!(files(&disk).len(), 150);
    clock.advance(Duration::from_secs(61));
    let mut left = vec![150];
    while left.last() != Some(&0) {
        engine.step().expect("a sound disk");
        left.push(files(&disk).len());
    }
    assert!(left.windows(2).all(|pair| (1..100).contains(&(pair[0] - pair[1]))), "{left:?}");
    assert_eq!(engine.statistics().kept_log.bytes, 0);
}

/// Somebody else has filled the disk, and then the node crashes.
#[test]
fn a_full_disk_gives_it_up_for_a_store_that_is_opened() {
    for reserve_bytes in [0, 200 << 10] {
        let (env, disk, _) = sim::env(5);
        let options = Options { reserve_bytes: Some(reserve_bytes), ..options(16 << 10) };
        let engine = Engine::open(env.clone(), Path::new(DIR), options.clone()).expect("a new store");
        for number in 1..20 {
            write(&engine, number, b"key", &[7; 6_000]).expect("room");
            engine.seal_log().expect("a sound disk");
        }
        disk.power_cut(PowerCut::LoseAll);
        drop(engine);
        disk.power_on();
        disk.set_capacity(1 << 30);
        let free_bytes = env.disk.free_bytes(Path::new(DIR)).expect("a sound disk");
        disk.set_capacity((1 << 30) - free_bytes);
        let engine = Engine::open(env, Path::new(DIR), options).expect("a store");
        assert!(engine.get(b"key").expect("a sound disk").is_some());
        assert!(engine.statistics().kept_log.gaps > 0, "what had to go early is told");
    }
}

/// Without it a point in time can no more be restored, and this store may have to be.
#[test]
fn what_is_refused_keeps_it() {
    let (env, disk, _) = sim::env(6);
    let engine = Engine::open(env.clone(), Path::new(DIR), options(16 << 10)).expect("a new store");
    for number in 1..5 {
        write(&engine, number, b"key", &[7; 6_000]).expect("room");
        engine.seal_log().expect("a sound disk");
        engine.step().expect("a sound disk");
    }
    engine.close().expect("it closes");
    drop(engine);
    let before = files(&disk);
    let tables = Path::new(DIR).join("tables");
    let table = disk.paths().into_iter().find(|path| path.starts_with(&tables)).expect("a table");
    env.disk.remove(&table).expect("a file");
    let keeps_none = Options { keep_log_ms: None, ..options(16 << 10) };
    assert!(Engine::open(env.clone(), Path::new(DIR), keeps_none).is_err(), "a table is missing");
    assert_eq!(files(&disk), before);
}
