//! What a power cut leaves of the simulated disk.
#![expect(clippy::unwrap_used, reason = "a test")]

use ladoga_env::sim::{Fault, Operation, PowerCut, SimClock, SimDisk, is_power_off};
use ladoga_env::{Disk, File, OpenMode};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed, SimClock::new());
    disk.create_dir_all(Path::new("/a")).unwrap();
    disk.create_dir_all(Path::new("/b")).unwrap();
    disk
}

fn create(disk: &SimDisk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.open(Path::new(path), OpenMode::CreateNew).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

/// A file of which everything is durable.
fn create_durable(disk: &SimDisk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = create(disk, path, bytes);
    file.sync_data().unwrap();
    disk.sync_dir(Path::new(path).parent().unwrap()).unwrap();
    file
}

fn rename(disk: &SimDisk, from: &str, to: &str) {
    disk.rename(Path::new(from), Path::new(to)).unwrap();
}

fn sync_dir(disk: &SimDisk, dir: &str) {
    disk.sync_dir(Path::new(dir)).unwrap();
}

fn cut(disk: &SimDisk, policy: PowerCut) {
    disk.power_cut(policy);
    disk.power_on();
}

fn paths(disk: &SimDisk) -> Vec<String> {
    disk.paths().iter().map(|path| path.to_str().unwrap().to_owned()).collect()
}

#[test]
fn what_was_not_synced_is_lost() {
    let disk = disk(1);
    let file = create_durable(&disk, "/a/file", b"durable");
    file.write_all_at(b"DURABLE and more", 0).unwrap();
    assert_eq!(disk.read_durable("/a/file").unwrap(), b"durable");
    cut(&disk, PowerCut::LoseAll);
    assert_eq!(disk.read_file("/a/file").unwrap(), b"durable");
}

#[test]
fn all_is_kept_when_the_policy_says_so() {
    let disk = disk(1);
    let file = create(&disk, "/a/file", b"written, not synced");
    file.truncate(7).unwrap();
    file.allocate(9).unwrap();
    cut(&disk, PowerCut::KeepAll);
    assert_eq!(disk.read_file("/a/file").unwrap(), b"written\0\0");
}

#[test]
fn lengths_are_durable_with_the_sync_only() {
    let disk = disk(1);
    let file = create_durable(&disk, "/a/file", b"abcdef");
    file.truncate(3).unwrap();
    file.sync_data().unwrap();
    file.allocate(100).unwrap();
    cut(&disk, PowerCut::LoseAll);
    assert_eq!(disk.read_file("/a/file").unwrap(), b"abc");
}

#[test]
fn a_synced_file_without_a_synced_name_is_lost() {
    let disk = disk(1);
    create(&disk, "/a/file", b"x").sync_data().unwrap();
    sync_dir(&disk, "/b");
    assert_eq!(disk.read_durable("/a/file").unwrap_err().kind(), ErrorKind::NotFound);
    cut(&disk, PowerCut::LoseAll);
    assert_eq!(paths(&disk), Vec::<String>::new());
}

#[test]
fn a_synced_name_of_a_file_that_was_not_synced_is_an_empty_file() {
    let disk = disk(1);
    create(&disk, "/a/file", b"x");
    sync_dir(&disk, "/a");
    cut(&disk, PowerCut::LoseAll);
    assert_eq!(disk.read_file("/a/file").unwrap(), b"");
}

#[test]
fn directories_are_durable_at_once() {
    let disk = disk(1);
    disk.create_dir_all(Path::new("/c/d")).unwrap();
    cut(&disk, PowerCut::LoseAll);
    assert_eq!(disk.list(Path::new("/c")).unwrap(), ["d"]);
}

#[test]
fn a_rename_is_undone_until_the_directory_is_synced() {
    for synced in [false, true] {
        let disk = disk(1);
        create_durable(&disk, "/a/current", b"old");
        create_durable(&disk, "/a/temporary", b"new");
        rename(&disk, "/a/temporary", "/a/current");
        if synced {
            sync_dir(&disk, "/a");
        }
        cut(&disk, PowerCut::LoseAll);
        let expected: (&[u8], _) =
            if synced { (b"new", vec!["/a/current"]) } else { (b"old", vec!["/a/current", "/a/temporary"]) };
        assert_eq!(disk.read_file("/a/current").unwrap(), expected.0);
        assert_eq!(paths(&disk), expected.1);
    }
}

#[test]
fn a_removed_file_comes_back_until_the_directory_is_synced() {
    for synced in [false, true] {
        let disk = disk(1);
        let file = create_durable(&disk, "/a/file", b"x");
        disk.remove(Path::new("/a/file")).unwrap();
        drop(file);
        if synced {
            sync_dir(&disk, "/a");
        }
        cut(&disk, PowerCut::LoseAll);
        assert_eq!(disk.read_file("/a/file").is_ok(), !synced);
    }
}

#[test]
fn a_second_name_is_durable_with_its_own_directory() {
    let disk = disk(1);
    create_durable(&disk, "/a/file", b"x");
    disk.hard_link(Path::new("/a/file"), Path::new("/b/kept")).unwrap();
    sync_dir(&disk, "/b");
    disk.hard_link(Path::new("/a/file"), Path::new("/b/lost")).unwrap();
    disk.remove(Path::new("/a/file")).unwrap();
    sync_dir(&disk, "/a");
    cut(&disk, PowerCut::LoseAll);
    assert_eq!(paths(&disk), ["/b/kept"]);
    assert_eq!(disk.read_file("/b/kept").unwrap(), b"x");
}

#[test]
fn a_rename_between_directories_is_whole_whichever_is_synced() {
    for synced in ["/a", "/b"] {
        let disk = disk(1);
        create(&disk, "/a/file", b"x").sync_data().unwrap();
        create(&disk, "/a/other", b"y").sync_data().unwrap();
        rename(&disk, "/a/file", "/b/file");
        sync_dir(&disk, synced);
        cut(&disk, PowerCut::LoseAll);
        assert_eq!(disk.read_file("/b/file").unwrap(), b"x", "{synced} was synced");
        assert_eq!(paths(&disk).len(), if synced == "/a" { 2 } else { 1 });
    }
}

#[test]
fn a_synced_rename_takes_along_what_happened_to_the_old_name_before() {
    let disk = disk(1);
    create(&disk, "/a/file", b"x").sync_data().unwrap();
    rename(&disk, "/a/file", "/b/file");
    sync_dir(&disk, "/b");
    // Were the creation of the old name still to come, it would bring that back.
    cut(&disk, PowerCut::KeepAll);
    assert_eq!(paths(&disk), ["/b/file"]);
}

#[test]
fn a_sync_that_the_power_fails_in_has_no_effect() {
    let disk = disk(1);
    for planned in [SimDisk::cut_power_at_sync, SimDisk::cut_power_at_operation] {
        let _ = disk.remove(Path::new("/a/file"));
        let file = create_durable(&disk, "/a/file", b"old");
        file.write_all_at(b"new", 0).unwrap();
        planned(&disk, 0, PowerCut::LoseAll);
        assert!(is_power_off(&file.sync_data().unwrap_err()));
        disk.power_on();
        assert_eq!(disk.read_file("/a/file").unwrap(), b"old");
        disk.remove(Path::new("/a/file")).unwrap();
        planned(&disk, 0, PowerCut::LoseAll);
        assert!(is_power_off(&disk.sync_dir(Path::new("/a")).unwrap_err()));
        disk.power_on();
        assert_eq!(paths(&disk), ["/a/file"]);
    }
}

#[test]
fn handles_and_locks_die_with_the_power() {
    let disk = disk(1);
    let file = create_durable(&disk, "/a/file", b"abc");
    let lock = disk.lock(Path::new("/a/LOCK")).unwrap();
    let attached = disk.attached();
    disk.power_cut(PowerCut::KeepAll);
    assert!(!disk.is_powered());
    assert!(is_power_off(&disk.open(Path::new("/a/file"), OpenMode::Read).map(|_| ()).unwrap_err()));
    disk.power_on();
    assert!(is_power_off(&file.write_all_at(b"X", 0).unwrap_err()));
    assert!(is_power_off(&file.read_exact_at(&mut [0], 0).unwrap_err()));
    assert!(is_power_off(&file.try_read_exact_at(&mut [0], 0).unwrap_err()));
    assert!(is_power_off(&file.allocate(9).unwrap_err()));
    assert!(is_power_off(&file.truncate(0).unwrap_err()));
    assert!(is_power_off(&file.sync_data().unwrap_err()));
    assert!(is_power_off(&file.len().unwrap_err()));
    assert!(is_power_off(&attached.remove(Path::new("/a/file")).unwrap_err()));
    assert_eq!(disk.read_file("/a/file").unwrap(), b"abc");
    let again = disk.lock(Path::new("/a/LOCK")).unwrap();
    // The lock of before gives nothing back: it is another's now.
    drop(lock);
    assert_eq!(disk.lock(Path::new("/a/LOCK")).map(|_| ()).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(again);
    disk.attached().remove(Path::new("/a/LOCK")).unwrap();
}

#[test]
fn a_killed_process_loses_handles_but_no_bytes() {
    let disk = disk(1);
    let file = create(&disk, "/a/file", b"abc");
    let _lock = disk.lock(Path::new("/a/LOCK")).unwrap();
    disk.kill_process();
    assert!(is_power_off(&file.write_all_at(b"X", 0).unwrap_err()));
    assert_eq!(disk.read_file("/a/file").unwrap(), b"abc");
    assert!(disk.lock(Path::new("/a/LOCK")).is_ok());
    cut(&disk, PowerCut::LoseAll);
    assert_eq!(paths(&disk), Vec::<String>::new());
}

#[test]
fn what_a_failed_sync_covered_is_lost_though_a_later_sync_succeeds() {
    let disk = disk(1);
    let file = create_durable(&disk, "/a/file", b"------");
    file.write_all_at(b"12", 0).unwrap();
    disk.fail_operation(0, Fault::io().on(Operation::Sync));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
    file.write_all_at(b"56", 4).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.read_file("/a/file").unwrap(), b"12--56");
    cut(&disk, PowerCut::KeepAll);
    assert_eq!(disk.read_file("/a/file").unwrap(), b"----56");
}

#[test]
fn what_a_failed_directory_sync_covered_is_lost_too() {
    let disk = disk(1);
    create(&disk, "/a/file", b"x").sync_data().unwrap();
    disk.fail_operation(0, Fault::io().on(Operation::SyncDir));
    assert!(disk.sync_dir(Path::new("/a")).is_err());
    create(&disk, "/a/later", b"y").sync_data().unwrap();
    sync_dir(&disk, "/a");
    assert_eq!(paths(&disk), ["/a/file", "/a/later"]);
    cut(&disk, PowerCut::KeepAll);
    assert_eq!(paths(&disk), ["/a/later"]);
}

#[test]
fn a_random_cut_leaves_every_kind_of_part_and_nothing_else() {
    let mut lengths = BTreeSet::new();
    let (mut whole, mut none, mut torn, mut second_without_first, mut length_only) = (0, 0, 0, 0, 0);
    for seed in 0..300 {
        let disk = disk(seed);
        let file = create_durable(&disk, "/a/file", &[0; 2048]);
        file.write_all_at(&[1; 1024], 0).unwrap();
        file.write_all_at(&[2; 1200], 1024).unwrap();
        cut(&disk, PowerCut::Random);
        let bytes = disk.read_file("/a/file").unwrap();
        lengths.insert(bytes.len());
        let sector = |index: usize| {
            let sector = &bytes[index * 512..bytes.len().min(index * 512 + 512)];
            assert!(sector.iter().all(|byte| *byte == sector[0]), "seed {seed}: sector {index} is torn");
            sector.first().copied()
        };
        let sectors = [sector(0), sector(1), sector(2), sector(3), sector(4)].map(Option::unwrap_or_default);
        assert!(sectors[..2].iter().all(|byte| [0, 1].contains(byte)), "seed {seed}: {sectors:?}");
        assert!(sectors[2..].iter().all(|byte| [0, 2].contains(byte)), "seed {seed}: {sectors:?}");
        whole += u32::from(sectors == [1, 1, 2, 2, 2]);
        none += u32::from(sectors == [0; 5]);
        torn += u32::from(sectors[0] != sectors[1]);
        second_without_first += u32::from(sectors == [0, 0, 2, 2, 2]);
        length_only += u32::from(bytes.len() == 2224 && sectors[4] == 0);
    }
    assert!(whole > 20 && none > 20 && torn > 20 && second_without_first > 0 && length_only > 0);
    assert_eq!(lengths, BTreeSet::from([2048, 2224]));
}

#[test]
fn a_random_cut_keeps_synced_bytes_and_names() {
    for seed in 0..100 {
        let disk = disk(seed);
        let file = create_durable(&disk, "/a/file", &[1; 3000]);
        file.write_all_at(&[2; 5000], 3000).unwrap();
        create(&disk, "/a/other", b"x");
        cut(&disk, PowerCut::Random);
        assert_eq!(disk.read_file("/a/file").unwrap()[..3000], [1; 3000], "seed {seed}");
    }
}

#[test]
fn a_random_cut_keeps_the_order_of_changes_to_one_name() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..300 {
        let disk = disk(seed);
        create_durable(&disk, "/a/current", b"0");
        for content in [b"1", b"2"] {
            create(&disk, "/a/temporary", content).sync_data().unwrap();
            rename(&disk, "/a/temporary", "/a/current");
        }
        create(&disk, "/a/independent", b"").sync_data().unwrap();
        cut(&disk, PowerCut::Random);
        let current = disk.read_file("/a/current").unwrap();
        let temporary = disk.read_file("/a/temporary").ok();
        outcomes.insert((current, temporary, disk.read_file("/a/independent").is_ok()));
    }
    let outcome =
        |current: &[u8], temporary: Option<&[u8]>| (current.to_vec(), temporary.map(<[u8]>::to_vec));
    let allowed = [
        outcome(b"0", None),
        outcome(b"0", Some(b"1")),
        outcome(b"1", None),
        outcome(b"1", Some(b"2")),
        outcome(b"2", None),
    ];
    let seen: BTreeSet<_> =
        outcomes.iter().map(|(current, temporary, _)| (current.clone(), temporary.clone())).collect();
    assert_eq!(seen, BTreeSet::from(allowed));
    // The other name survives also without those before it, and they without it.
    assert!(outcomes.contains(&(b"0".to_vec(), None, true)));
    assert!(outcomes.contains(&(b"2".to_vec(), None, false)));
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let run = |seed| {
        let disk = disk(seed);
        for index in 0..20_u8 {
            let file = create(&disk, &format!("/a/{index}"), &[index; 2000]);
            file.write_all_at(&[index; 3000], 1000).unwrap();
        }
        cut(&disk, PowerCut::Random);
        paths(&disk).into_iter().map(|path| (disk.read_file(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    let different: BTreeSet<_> = (0..20).map(run).collect();
    assert!(different.len() > 5);
}
