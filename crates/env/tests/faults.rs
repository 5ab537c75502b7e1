//! Operations of the simulated disk that fail, or that the power fails in; a disk that fills up; bytes that decay.
#![expect(clippy::unwrap_used, reason = "a test")]

use ladoga_env::sim::{Fault, Operation, PowerCut, SimClock, SimDisk, is_power_off};
use ladoga_env::{Clock, Disk, File, OpenMode};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const EIO: Option<i32> = Some(5);

fn disk() -> SimDisk {
    SimDisk::new(1, SimClock::new())
}

fn create(disk: &SimDisk, path: &str) -> Arc<dyn File> {
    disk.open(Path::new(path), OpenMode::CreateNew).unwrap()
}

/// A little of everything that mutates, 8 operations: ends with "new" in /current, durable.
fn workload(disk: &dyn Disk) -> io::Result<()> {
    let file = disk.open(Path::new("/temporary"), OpenMode::CreateNew)?;
    file.allocate(2000)?;
    file.write_all_at(&[7; 1500], 0)?;
    file.truncate(1500)?;
    file.sync_data()?;
    disk.sync_dir(Path::new("/"))?;
    disk.rename(Path::new("/temporary"), Path::new("/current"))?;
    disk.sync_dir(Path::new("/"))
}

#[test]
fn the_nth_operation_fails_once() {
    let disk = disk();
    let file = create(&disk, "/file");
    disk.fail_operation(2, Fault::io());
    file.write_all_at(b"a", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.faults_hit(), 0);
    assert_eq!(file.write_all_at(b"b", 0).unwrap_err().raw_os_error(), EIO);
    assert_eq!(disk.faults_hit(), 1);
    file.write_all_at(b"c", 0).unwrap();
    assert_eq!(disk.read_file("/file").unwrap(), b"c");
}

#[test]
fn a_sticky_fault_strikes_until_it_is_cleared() {
    let disk = disk();
    let file = create(&disk, "/file");
    disk.fail_operation(1, Fault::storage_full().on(Operation::Write).sticky());
    file.write_all_at(b"a", 0).unwrap();
    for _ in 0..3 {
        assert_eq!(file.write_all_at(b"b", 0).unwrap_err().kind(), ErrorKind::StorageFull);
        file.read_exact_at(&mut [0], 0).unwrap();
    }
    disk.clear_faults();
    file.write_all_at(b"c", 0).unwrap();
}

#[test]
fn every_kind_of_operation_can_fail_and_then_does_nothing() {
    type Attempt = fn(&SimDisk, &dyn File) -> io::Result<()>;
    let (old, new, root) = (|| Path::new("/old"), || Path::new("/new"), || Path::new("/"));
    let attempts: [(Operation, Attempt); 14] = [
        (Operation::Open, |disk, _| disk.open(Path::new("/old"), OpenMode::ReadWrite).map(drop)),
        (Operation::Create, |disk, _| disk.open(Path::new("/new"), OpenMode::CreateNew).map(drop)),
        (Operation::Read, |_, file| file.read_exact_at(&mut [0], 0)),
        (Operation::Write, |_, file| file.write_all_at(b"X", 0)),
        (Operation::Allocate, |_, file| file.allocate(10)),
        (Operation::Truncate, |_, file| file.truncate(0)),
        (Operation::Sync, |_, file| file.sync_data()),
        (Operation::Rename, |disk, _| disk.rename(Path::new("/old"), Path::new("/new"))),
        (Operation::Remove, |disk, _| disk.remove(Path::new("/old"))),
        (Operation::Link, |disk, _| disk.hard_link(Path::new("/old"), Path::new("/new"))),
        (Operation::List, |disk, _| disk.list(Path::new("/")).map(drop)),
        (Operation::SyncDir, |disk, _| disk.sync_dir(Path::new("/"))),
        (Operation::CreateDir, |disk, _| disk.create_dir_all(Path::new("/dir"))),
        (Operation::Lock, |disk, _| disk.lock(Path::new("/new")).map(drop)),
    ];
    for (operation, attempt) in attempts {
        let disk = disk();
        let file = create(&disk, "/old");
        file.write_all_at(b"abc", 0).unwrap();
        disk.fail_operation(0, Fault::io().on(operation));
        assert_eq!(attempt(&disk, &*file).unwrap_err().raw_os_error(), EIO, "{operation:?}");
        assert_eq!(disk.read_file(old()).unwrap(), b"abc", "{operation:?}");
        assert_eq!(disk.list(root()).unwrap(), ["old"], "{operation:?}");
        assert!(disk.read_file(new()).is_err());
        assert!(attempt(&disk, &*file).is_ok(), "{operation:?} fails once");
        assert!(disk.operations_of(operation) >= 2, "{operation:?} is counted");
    }
}

#[test]
fn a_fault_can_be_for_mutating_operations_or_for_paths() {
    let disk = disk();
    let (wal, table) = (create(&disk, "/1.wal"), create(&disk, "/2.sst"));
    wal.write_all_at(b"x", 0).unwrap();
    disk.fail_operation(0, Fault::io().on_mutating());
    wal.read_exact_at(&mut [0], 0).unwrap();
    disk.list(Path::new("/")).unwrap();
    assert!(wal.sync_data().is_err());
    disk.fail_operation(0, Fault::io().on(Operation::Write).on_path(".sst"));
    wal.write_all_at(b"x", 0).unwrap();
    assert!(table.write_all_at(b"x", 0).is_err());
    disk.fail_operation(0, Fault::io().on_path("3.sst"));
    assert!(disk.rename(Path::new("/2.sst"), Path::new("/3.sst")).is_err());
}

#[test]
fn of_two_faults_that_are_due_the_one_planned_first_strikes() {
    let disk = disk();
    disk.fail_operation(0, Fault::io());
    disk.fail_operation(0, Fault::storage_full());
    assert_eq!(disk.list(Path::new("/")).unwrap_err().raw_os_error(), EIO);
    assert_eq!(disk.faults_hit(), 1);
    disk.list(Path::new("/")).unwrap();
}

#[test]
fn a_short_write_leaves_its_beginning() {
    let disk = disk();
    let file = create(&disk, "/file");
    disk.fail_operation(0, Fault::short_write(3));
    file.sync_data().unwrap();
    assert_eq!(file.write_all_at(b"abcdef", 2).unwrap_err().raw_os_error(), EIO);
    assert_eq!(disk.read_file("/file").unwrap(), b"\0\0abc");
}

#[test]
fn a_failing_read_fails_the_read_that_does_not_wait_too() {
    let disk = disk();
    let file = create(&disk, "/file");
    file.write_all_at(b"abc", 0).unwrap();
    disk.fail_operation(0, Fault::io().on(Operation::Read));
    assert!(file.try_read_exact_at(&mut [0; 3], 0).is_err());
    assert!(file.try_read_exact_at(&mut [0; 3], 0).unwrap());
    disk.set_cached(false);
    assert!(!file.try_read_exact_at(&mut [0; 3], 0).unwrap());
    file.read_exact_at(&mut [0; 3], 0).unwrap();
}

#[test]
fn a_loop_over_every_operation_ends_and_meets_each() {
    for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
        let mut reached = 0;
        loop {
            let disk = disk();
            disk.cut_power_at_operation(reached, policy);
            let result = workload(&disk);
            if disk.is_powered() {
                result.unwrap();
                break;
            }
            assert!(is_power_off(&result.unwrap_err()));
            disk.power_on();
            check_after_cut(&disk, policy, reached);
            reached += 1;
        }
        assert_eq!(reached, 8);
    }
}

fn check_after_cut(disk: &SimDisk, policy: PowerCut, operation: u64) {
    let current = disk.read_file("/current");
    let temporary = disk.read_file("/temporary");
    assert!(current.is_err() || temporary.is_err(), "the rename is whole");
    if let Ok(bytes) = &current {
        assert_eq!(bytes, &[7; 1500], "it was synced before it was renamed");
    }
    match policy {
        // Only operation 7 makes the rename durable, and the power fails before it does.
        PowerCut::LoseAll => assert_eq!((current.is_ok(), temporary.is_ok()), (false, operation >= 6)),
        PowerCut::KeepAll => {
            assert_eq!((current.is_ok(), temporary.is_ok()), (operation >= 6, operation < 6));
        }
        PowerCut::Random => assert!(operation < 6 || current.is_ok() || temporary.is_ok()),
    }
}

#[test]
fn a_loop_over_every_sync_ends_and_meets_each_before_it_takes_effect() {
    let mut reached = 0;
    loop {
        let disk = disk();
        disk.cut_power_at_sync(reached, PowerCut::LoseAll);
        if workload(&disk).is_ok() {
            break;
        }
        let expected: &[&str] = [&[] as &[&str], &[], &["/temporary"]][reached as usize];
        assert_eq!(disk.paths(), expected.iter().map(Path::new).collect::<Vec<_>>());
        reached += 1;
    }
    assert_eq!(reached, 3);
}

#[test]
fn a_write_that_the_power_fails_in_may_be_torn() {
    let (mut torn, mut whole, mut none) = (0, 0, 0);
    for seed in 0..100 {
        let disk = SimDisk::new(seed, SimClock::new());
        let file = create(&disk, "/file");
        file.write_all_at(&[1; 4096], 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        disk.cut_power_at_operation(0, PowerCut::Random);
        assert!(is_power_off(&file.write_all_at(&[2; 4096], 0).unwrap_err()));
        let bytes = disk.read_file("/file").unwrap();
        match (bytes.contains(&1), bytes.contains(&2)) {
            (true, true) => torn += 1,
            (false, _) => whole += 1,
            (true, false) => none += 1,
        }
    }
    assert!(torn > 5 && whole > 5 && none > 5, "{torn} torn, {whole} whole, {none} not there");
}

#[test]
fn a_power_cut_forgets_what_was_planned() {
    let disk = disk();
    disk.fail_operation(0, Fault::io().on(Operation::Link).sticky());
    disk.cut_power_at_operation(5, PowerCut::LoseAll);
    disk.power_cut(PowerCut::LoseAll);
    disk.power_on();
    workload(&disk).unwrap();
    disk.hard_link(Path::new("/current"), Path::new("/second")).unwrap();
}

#[test]
fn a_full_disk_takes_what_fits_and_recovers_when_room_comes_back() {
    let disk = disk();
    let (a, b) = (create(&disk, "/a"), create(&disk, "/b"));
    disk.set_capacity(1000);
    a.write_all_at(&[1; 600], 0).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 400);
    assert_eq!(b.allocate(401).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(b.len().unwrap(), 0);
    assert_eq!(b.write_all_at(&[2; 500], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(b.len().unwrap(), 400);
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 0);
    // What is there can be written again.
    a.write_all_at(&[3; 600], 0).unwrap();
    // A file takes its room until the last name is gone; that it is open does not matter.
    disk.hard_link(Path::new("/a"), Path::new("/a2")).unwrap();
    disk.remove(Path::new("/a")).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 0);
    disk.remove(Path::new("/a2")).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 600);
    b.allocate(1000).unwrap();
    b.write_all_at(&[4; 600], 400).unwrap();
    b.truncate(100).unwrap();
    assert_eq!(disk.free_bytes(Path::new("/")).unwrap(), 900);
    disk.set_capacity(None);
    b.write_all_at(&[5; 2000], 0).unwrap();
}

#[test]
fn decay_reaches_memory_disk_and_what_is_on_its_way() {
    let disk = disk();
    let file = create(&disk, "/file");
    file.write_all_at(b"durable", 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    file.write_all_at(b" pending", 7).unwrap();
    disk.flip_bit("/file", 0, 0).unwrap();
    disk.corrupt("/file", 5, b"XXXX").unwrap();
    assert_eq!(disk.read_file("/file").unwrap(), b"eurabXXXXending");
    file.sync_data().unwrap();
    assert_eq!(disk.read_durable("/file").unwrap(), b"eurabXXXXending");
    assert!(disk.corrupt("/file", 14, b"XX").is_err());
    assert!(disk.flip_bit("/absent", 0, 0).is_err());
    assert_eq!(disk.file_len("/file").unwrap(), 15);
}

#[test]
fn operations_take_the_time_that_was_set() {
    let (env, disk, clock) = ladoga_env::sim::env(1);
    disk.set_latency(Operation::Sync, Duration::from_millis(4));
    let file = env.disk.open(Path::new("file"), OpenMode::CreateNew).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    assert_eq!(clock.monotonic_ns(), 0);
    file.sync_data().unwrap();
    assert_eq!(env.clock.monotonic_ns(), 4_000_000);
    assert_eq!(disk.operations(), 3);
}
