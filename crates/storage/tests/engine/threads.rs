//! Many threads at once, with the background on threads of its own: everyone reads their own writes, snapshots are whole,
//! groups share their syncs, and each writer gets the answer to its own batch.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use ladoga_env::{Env, real};
use ladoga_storage::{Background, Durability, Engine, Error, Options, WriteBatch, WriteState, check};

use crate::support::{Change, Machine, Model, Write, bytes, length, tiny_options, write};
use crate::watched_disk::WatchedDisk;

fn options(durability: Durability) -> Options {
    Options {
        background: Background::Threads,
        memtable_bytes: Some(32 << 10),
        table_bytes: Some(16 << 10),
        level_1_bytes: Some(64 << 10),
        ..tiny_options(durability)
    }
}

/// A directory of the real file system that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("ladoga-storage-{name}-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn key(thread: u64, n: u64) -> Vec<u8> {
    format!("{n:03}-of-{thread}").into_bytes()
}

/// Writes to its own keys and reads each back at once; the answer is what they hold in the end.
fn writer(engine: &Engine, thread: u64, first_round: u64, rounds: u64) -> Model {
    let mut model = Model::default();
    for round in first_round..first_round + rounds {
        let key = key(thread, round * 7 % 60);
        let timestamp = 1 + round * 10 + thread;
        let one = match round % 8 {
            0 => Write::delete(key, timestamp),
            3 => Write::blob(key, timestamp, 900),
            _ => Write::put(key, timestamp, 100 + round as usize % 200),
        };
        write(engine, std::slice::from_ref(&one)).unwrap();
        let found = engine.get(&one.key).unwrap().map(|value| bytes(&value));
        let expected = Model::default().with(std::slice::from_ref(&one));
        assert_eq!(found.as_deref(), expected.get(&one.key, 0), "{thread} reads its own write");
        model.apply(&[one]);
    }
    model
}

/// Walks everything, forward and backward, until it is stopped: keys are in order, and a snapshot answers the same twice.
fn scanner(engine: &Engine, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let snapshot = engine.snapshot();
        let result = (|| {
            let (mut forward, mut backward) = (Vec::new(), Vec::new());
            let mut range = snapshot.range(b"", None);
            while let Some((key, value)) = range.next()? {
                forward.push((key, length(&value)));
            }
            let mut range = snapshot.range(b"", None);
            while let Some((key, value)) = range.next_back()? {
                backward.push((key, length(&value)));
            }
            backward.reverse();
            assert!(forward.windows(2).all(|pair| pair[0].0 < pair[1].0), "out of order");
            assert_eq!(forward, backward);
            Ok::<(), Error>(())
        })();
        match result {
            Ok(()) | Err(Error::SnapshotTooOld { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn storm(env: &Env, dir: &Path, durability: Durability, rounds: u64) {
    let mut models: Vec<Model> = vec![Model::default(); 8];
    for reopened in 0..3 {
        let engine = Engine::open(env.clone(), dir, options(durability)).unwrap();
        let whole = models.iter().fold(Model::default(), |whole, model| whole.and(model));
        whole.assert_held_by(&engine, 0, &format!("opened {reopened}"));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let scanners: Vec<_> = (0..2).map(|_| scope.spawn(|| scanner(&engine, &stop))).collect();
            let engine = &engine;
            let writers: Vec<_> = (0..8)
                .map(|thread| scope.spawn(move || writer(engine, thread, reopened * rounds, rounds)))
                .collect();
            let written: Vec<Model> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            for (model, written) in models.iter_mut().zip(&written) {
                *model = model.and(written);
            }
            stop.store(true, Ordering::Relaxed);
            scanners.into_iter().for_each(|scanner| scanner.join().unwrap());
        });
        assert_eq!(engine.write_state(), WriteState::Open);
        if reopened % 2 == 0 {
            engine.close().unwrap();
        }
    }
    let report = check(env, dir, &mut |_| {}).unwrap();
    assert!(report.errors.is_empty(), "{:#?}", report.errors);
    assert!(report.tables > 0 && report.blobs > 0);
}

#[test]
fn eight_writers_see_their_own_writes_on_a_simulated_disk() {
    for durability in [Durability::Always, Durability::EverySecond, Durability::Never] {
        let machine = Machine::new(1, options(durability));
        storm(&machine.env(), &machine.dir, durability, 300);
    }
}

#[test]
fn eight_writers_see_their_own_writes_on_the_real_disk() {
    let scratch = Scratch::new("storm");
    storm(&real::env().unwrap(), &scratch.0, Durability::EverySecond, 400);
}

/// What a thread does, given the engine and the number of the round.
type Job<'a> = &'a (dyn Fn(&Engine, u64) + Sync);

/// Runs one thread for each job, all at once, each again and again.
fn at_once(engine: &Engine, jobs: &[Job<'_>]) {
    let barrier = Barrier::new(jobs.len());
    thread::scope(|scope| {
        for job in jobs {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                (0..60).for_each(|round| job(engine, round));
            });
        }
    });
}

#[test]
fn one_batch_that_is_too_large_fails_alone() {
    let machine = Machine::new(1, options(Durability::Always));
    let engine = machine.open().unwrap();
    let too_large = |engine: &Engine, round: u64| {
        let mut batch = WriteBatch::new();
        for n in 0..100 {
            let one = Write {
                key: key(100, n),
                timestamp: 1 + round,
                change: Change::Put { len: 1, expires_at_ms: 0 },
            };
            batch.put(&one.key, one.stamp(), &[1; 500]);
        }
        let refused = engine.write_group(&[batch]);
        assert!(
            matches!(refused, Err(Error::BatchTooLarge { bytes, bytes_max, .. }) if bytes > bytes_max),
            "{refused:?}"
        );
    };
    let small = |engine: &Engine, round: u64| {
        write(engine, &[Write::put(key(1, round), 1 + round, 50)]).unwrap();
    };
    at_once(&engine, &[&too_large, &too_large, &small, &small, &small, &small]);
    assert!(engine.get(&key(100, 0)).unwrap().is_none());
}

#[test]
fn deletes_go_on_beside_puts_that_a_full_disk_refuses() {
    let options = Options { reserve_bytes: Some(1 << 20), ..options(Durability::Always) };
    let machine = Machine::new(1, options);
    let engine = machine.open().unwrap();
    write(&engine, &[Write::put(key(1, 1), 1, 50)]).unwrap();
    machine.disk.set_capacity(1 << 20);
    while engine.write_state() == WriteState::Open {
        thread::yield_now();
    }
    let put = |engine: &Engine, round: u64| {
        let refused = write(engine, &[Write::put(key(1, round), 2 + round, 50)]);
        assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
    };
    let delete = |engine: &Engine, round: u64| {
        write(engine, &[Write::delete(key(1, round), 2 + round)]).unwrap();
    };
    at_once(&engine, &[&put, &delete, &put, &delete, &put, &delete]);
    assert!(engine.get(&key(1, 1)).unwrap().is_none());
}

/// They come faster than memtables are flushed, which on a full disk goes on in the reserve.
#[test]
fn deletes_on_a_full_disk_wait_for_a_flush_as_always() {
    let options = Options { reserve_bytes: Some(1 << 20), ..options(Durability::Never) };
    let machine = Machine::new(1, options.clone());
    let env = Env { disk: WatchedDisk::slow(machine.env().disk), ..machine.env() };
    machine.disk.set_capacity(1 << 20);
    let engine = Engine::open(env, &machine.dir, options).unwrap();
    while engine.write_state() == WriteState::Open {
        thread::yield_now();
    }
    let mut n = 0;
    while n < 4000 || engine.statistics().stalls.count() == 0 {
        assert!(n < 400_000, "the flushes keep up");
        write(&engine, &[Write::delete(key(1, n % 100), 1 + n)]).unwrap();
        n += 1;
    }
    assert_eq!(engine.write_state(), WriteState::DiskFull);
}

#[test]
fn batches_are_seen_whole_or_not_at_all() {
    let machine = Machine::new(1, options(Durability::Never));
    let engine = machine.open().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last = 0;
            while !stop.load(Ordering::Relaxed) {
                let snapshot = engine.snapshot();
                let read = |key: &[u8]| {
                    Ok(snapshot.get_cell(key)?.and_then(|cell| cell.value).map_or(0, |value| length(&value)))
                };
                let (a, z) = match (read(b"a"), read(b"z")) {
                    (Ok(a), Ok(z)) => (a, z),
                    (Err(Error::SnapshotTooOld { .. }), _) | (_, Err(Error::SnapshotTooOld { .. })) => {
                        continue;
                    }
                    failed => panic!("{failed:?}"),
                };
                assert_eq!(a, z, "half of a batch");
                assert!(a >= last, "back in time");
                last = a;
            }
        });
        for round in 1..4000_u64 {
            let len = round as usize;
            write(&engine, &[Write::put("a", round, len), Write::put("z", round, len)]).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// A read that is no snapshot saw what was applied of a group that was not yet visible.
#[test]
fn of_a_batch_under_way_reads_see_nothing() {
    let options = Options { memtable_bytes: Some(1 << 20), ..options(Durability::Never) };
    let machine = Machine::new(1, options);
    let engine = machine.open().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let length = |key: &[u8]| engine.get(key).unwrap().map_or(0, |value| length(&value));
            while !stop.load(Ordering::Relaxed) {
                let first = length(b"0000");
                let last = length(b"0999");
                assert!(last >= first, "half of a batch: {last} behind {first}");
            }
        });
        for round in 1..200 {
            let puts = (0..1000).map(|n| Write::put(format!("{n:04}"), round, round as usize));
            write(&engine, &puts.collect::<Vec<_>>()).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// Every write that was answered before the store was closed is found after it is opened again.
#[test]
fn a_store_is_closed_while_eight_threads_write() {
    for seed in 0..20 {
        let machine = Machine::new(seed, options(Durability::Never));
        let engine = machine.open().unwrap();
        let acknowledged: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        thread::scope(|scope| {
            for (thread, acknowledged) in acknowledged.iter().enumerate() {
                let engine = &engine;
                scope.spawn(move || {
                    for round in 1.. {
                        match write(engine, &[Write::put(key(thread as u64, 0), round, 50)]) {
                            Ok(()) => acknowledged.store(round, Ordering::SeqCst),
                            Err(Error::Closed) => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            while acknowledged.iter().any(|acknowledged| acknowledged.load(Ordering::SeqCst) < 50 + seed * 7)
            {
                thread::yield_now();
            }
            engine.close().unwrap();
            // From here on the directory belongs to another engine.
            let next = machine.open().unwrap();
            let shows = |thread: usize, round: u64| {
                let model = Model::default().with(&[Write::put(key(thread as u64, 0), round, 50)]);
                let found = next.get(&key(thread as u64, 0)).unwrap().map(|value| bytes(&value));
                found.as_deref() == model.get(&key(thread as u64, 0), 0)
            };
            for (thread, acknowledged) in acknowledged.iter().enumerate() {
                let round = acknowledged.load(Ordering::SeqCst);
                assert!(
                    shows(thread, round) || shows(thread, round + 1),
                    "seed {seed}: thread {thread}, {round}"
                );
            }
        });
    }
}
