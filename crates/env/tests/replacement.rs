//! A file that is replaced has its old bytes or the new ones, whenever the power goes and whatever fails.

use std::path::{Path, PathBuf};

use ladoga_env::sim::{Fault, PowerCut, SimDisk};
use ladoga_env::{Disk, Env, OpenMode, Replacement};

const OLD: &[u8] = b"old";
const NEW: &[u8] = b"new, and longer";

fn path() -> PathBuf {
    PathBuf::from("/data/file")
}

/// A disk with the old bytes, and with the remains of an earlier attempt that crashed.
fn prepared(seed: u64) -> (Env, SimDisk) {
    let (env, disk, _clock) = ladoga_env::sim::env(seed);
    env.disk.create_dir_all(Path::new("/data")).expect("a directory");
    Replacement::of(&*env.disk, &path(), OLD).expect("a sound disk");
    Replacement::begin(&*env.disk, &path()).expect("a sound disk").fill(b"left").expect("a sound disk");
    env.disk.sync_dir(Path::new("/data")).expect("a sound disk");
    (env, disk)
}

fn read(disk: &dyn Disk) -> Vec<u8> {
    let file = disk.open(&path(), OpenMode::Read).expect("the file is there");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("it can be read");
    bytes
}

#[test]
fn the_power_goes_at_every_operation() {
    for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
        for seed in 0..8 {
            let mut cuts = 0;
            loop {
                let (env, disk) = prepared(seed);
                disk.cut_power_at_operation(cuts, policy);
                if Replacement::of(&*env.disk, &path(), NEW).is_ok() {
                    disk.power_cut(policy);
                    disk.power_on();
                    assert_eq!(read(&disk.attached()), NEW, "it is durable");
                    break;
                }
                disk.power_on();
                let bytes = read(&disk.attached());
                assert!(bytes == OLD || bytes == NEW, "{cuts} {policy:?}: {bytes:?}");
                Replacement::of(&disk.attached(), &path(), NEW).expect("it can be done again");
                assert_eq!(read(&disk.attached()), NEW);
                cuts += 1;
            }
            assert!(cuts >= 6, "remove, create, write, sync, rename, sync of the directory: {cuts}");
        }
    }
}

#[test]
fn every_operation_fails_and_before_the_rename_that_is_no_harm() {
    let mut failures = Vec::new();
    loop {
        let (env, disk) = prepared(1);
        disk.fail_operation(failures.len() as u64, Fault::io());
        let Err(failed) = Replacement::of(&*env.disk, &path(), NEW) else { break };
        let bytes = read(&*env.disk);
        assert!(bytes == OLD || failed.operation == "sync directory", "{}: {bytes:?}", failed.operation);
        failures.push(failed.operation);
        Replacement::of(&*env.disk, &path(), NEW).expect("it can be done again");
        assert_eq!(read(&*env.disk), NEW);
    }
    failures.dedup();
    let last = &failures[failures.len() - 6..];
    assert_eq!(last, ["remove", "create", "write", "sync", "rename", "sync directory"]);
}
