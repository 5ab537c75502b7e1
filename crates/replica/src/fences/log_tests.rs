use std::collections::BTreeSet;

use ladoga_env::sim::{self, Fault, Operation, PowerCut, SimDisk};

use super::*;

const DIR: &str = "/data";
const PATH: &str = "/data/fences";

const fn version(timestamp: u64) -> Version {
    Version { timestamp, node: 1 }
}

fn open(disk: &Arc<dyn Disk>) -> io::Result<(FenceLog, BTreeSet<(u64, Version)>)> {
    let (log, fences) = FenceLog::open(disk, Path::new(DIR))?;
    Ok((log, fences.iter().collect()))
}

fn disk(seed: u64) -> (Arc<dyn Disk>, SimDisk) {
    let (env, sim, _clock) = sim::env(seed);
    (env.disk, sim)
}

fn set(fences: impl IntoIterator<Item = (u64, u64)>) -> BTreeSet<(u64, Version)> {
    fences.into_iter().map(|(key_hash, timestamp)| (key_hash, version(timestamp))).collect()
}

#[test]
fn promises_stand_until_they_are_released_lifted_or_void() {
    let (disk, _) = disk(1);
    let (mut log, found) = open(&disk).expect("a new file");
    assert_eq!(found, set([]));
    let promises: Vec<_> = [(1, 5), (1, 7), (2, 5), (3, 4), (4, 9)]
        .map(|(key, at)| FenceRecord::Promise(key, version(at)))
        .into();
    log.append(&promises, true).expect("a disk that works");
    let ends = [FenceRecord::Release(1, version(7)), FenceRecord::Lift(4, version(9)), FenceRecord::Void(5)];
    log.append(&ends, false).expect("a disk that works");
    drop(log);
    for _ in 0..2 {
        let (_, found) = open(&disk).expect("the file");
        assert_eq!(found, set([(1, 5), (2, 5)]));
    }
}

/// Whatever bit of the file is another one: that is said, or changes nothing.
#[test]
fn no_promise_is_lost_to_a_damaged_bit() {
    let (disk, sim) = disk(2);
    let (mut log, _) = open(&disk).expect("a new file");
    log.append(&[FenceRecord::Promise(1, version(5)), FenceRecord::Promise(2, version(6))], true)
        .expect("room");
    log.append(&[FenceRecord::Release(1, version(5))], false).expect("room");
    log.append(&[FenceRecord::Promise(3, version(7))], true).expect("room");
    let records = log.end as usize;
    drop(log);
    let expected = set([(2, 6), (3, 7)]);
    let mut damaged = 0;
    // Those of the mark, and of a place among the zeros, do not matter.
    for bit in 0..(records + 2 * RECORD_BYTES) * 8 {
        sim.flip_bit(PATH, (bit / 8) as u64, (bit % 8) as u8).expect("the file");
        match read(&*disk, Path::new(PATH)) {
            Err(error) => {
                assert!(error.to_string().contains("is damaged"), "{error}");
                damaged += 1;
            }
            Ok(found) => {
                let found = found.expect("it is there").iter().collect::<BTreeSet<_>>();
                assert_eq!(found, expected, "bit {bit}");
            }
        }
        sim.flip_bit(PATH, (bit / 8) as u64, (bit % 8) as u8).expect("the file");
    }
    assert_eq!(damaged, records * 8);
}

/// The power is cut at each operation: what was said to be durable is there, and nothing else but what was under way.
#[test]
fn what_was_synced_survives_a_power_cut_at_every_operation() {
    for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
        let cuts = (0..10_000).take_while(|&operation| is_cut(operation, policy)).count();
        assert!(cuts > 2 * STEPS as usize, "{cuts} operations");
    }
}

const STEPS: u64 = 40;

/// Whether there were so many operations.
fn is_cut(operation: u64, policy: PowerCut) -> bool {
    let (disk, sim) = disk(operation);
    disk.create_dir_all(Path::new(DIR)).expect("a directory");
    sim.cut_power_at_operation(operation, policy);
    let (mut durable, mut all) = (BTreeSet::new(), BTreeSet::new());
    let mut log = open(&disk).ok();
    for step in 1..=STEPS {
        let Some((log, _)) = log.as_mut() else { break };
        let records =
            [FenceRecord::Promise(step, version(step)), FenceRecord::Promise(step, version(step + 1))];
        all.extend([(step, version(step)), (step, version(step + 1))]);
        let written =
            if step % 16 == 0 { log.write_anew(all.iter().copied()) } else { log.append(&records, true) };
        if written.is_err() {
            break;
        }
        durable.clone_from(&all);
    }
    if sim.is_powered() {
        assert_eq!(durable.len(), 2 * STEPS as usize);
        return false;
    }
    sim.power_on();
    let (mut log, found) = open(&disk).expect("a torn end is none");
    assert!(durable.is_subset(&found) && found.is_subset(&all), "cut at {operation}: {found:?}");
    log.append(&[FenceRecord::Promise(99, version(99))], true).expect("it goes on");
    let (_, again) = open(&disk).expect("the file");
    assert!(found.is_subset(&again) && again.contains(&(99, version(99))));
    true
}

#[test]
fn a_file_that_could_not_be_written_is_written_as_a_whole() {
    let (disk, sim) = disk(3);
    let (mut log, _) = open(&disk).expect("a new file");
    sim.fail_operation(0, Fault::io().on(Operation::Sync));
    log.append(&[FenceRecord::Promise(1, version(5))], true).expect_err("a failed sync");
    assert!(log.is_to_be_written_anew(1));
    log.append(&[FenceRecord::Promise(1, version(5))], true).expect_err("nobody knows what is in it");
    log.write_anew([(1, version(5))].into_iter()).expect("a disk that works");
    assert!(!log.is_to_be_written_anew(1));
    drop(log);
    assert_eq!(open(&disk).expect("the file").1, set([(1, 5)]));
}

#[test]
fn what_is_not_needed_makes_it_written_anew() {
    let (disk, sim) = disk(4);
    let (mut log, _) = open(&disk).expect("a new file");
    let records: Vec<_> = (0..=RECORDS_MIN).map(|n| FenceRecord::Promise(n, version(n + 1))).collect();
    log.append(&records, true).expect("room");
    assert!(!log.is_to_be_written_anew(records.len()) && log.is_to_be_written_anew(0));
    log.write_anew([(1, version(5))].into_iter()).expect("room");
    assert_eq!(sim.file_len(PATH).expect("the file"), HEADER_BYTES + 2 * RECORD_BYTES as u64);
}

#[test]
fn a_newer_format_and_other_files_are_refused() {
    let (disk, sim) = disk(5);
    drop(open(&disk).expect("a new file"));
    sim.corrupt(PATH, 7, &[FORMAT + 1]).expect("the file");
    let error = check(&*disk, Path::new(DIR)).expect_err("a newer one").to_string();
    assert!(error.contains("format 2, expected at most 1"), "{error}");
    sim.corrupt(PATH, 0, b"X").expect("the file");
    let error = check(&*disk, Path::new(DIR)).expect_err("another file").to_string();
    assert!(error.contains("does not begin"), "{error}");
    remove(&*disk, Path::new(DIR)).expect("it is there");
    remove(&*disk, Path::new(DIR)).expect("it is gone");
    check(&*disk, Path::new(DIR)).expect("none is fine");
}
