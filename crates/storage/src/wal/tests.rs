use std::path::Path;

use ladoga_env::Disk;
use ladoga_env::sim::Operation;
use ladoga_model::{Stamp, Version};

use super::WalWriter;
use crate::frame::LogId;
use crate::levels::{Edit, Manifest, read_manifest};
use crate::{Background, Durability, Engine, Options, WriteBatch, check, paths};

/// A store as it was written before logs had a secret: a manifest that names no table, a segment of three groups.
fn write_store_of_format_1(disk: &dyn Disk, dir: &Path) {
    for dir in [paths::wal_dir(dir), paths::tables_dir(dir), paths::blobs_dir(dir)] {
        disk.create_dir_all(&dir).expect("an empty disk");
    }
    let everything =
        Edit { next_file: Some(2), first_wal: Some(1), first_sequence: Some(1), ..Edit::default() };
    let log = LogId { number: 1, secret: None };
    Manifest::create(disk, dir, log, &everything).map(drop).expect("an empty disk");
    let mut wal = WalWriter::create(disk, dir, 1, 64 << 10).expect("an empty disk");
    wal.begin(1, None).expect("room");
    for sequence in 1..4_u64 {
        let mut batch = WriteBatch::new();
        let stamp = Stamp::new(Version { timestamp: sequence, node: 1 });
        batch.put(&sequence.to_be_bytes(), stamp, b"value");
        wal.append(sequence, sequence - 1, &[batch]).expect("room");
        wal.sync().expect("a sound disk");
    }
}

#[test]
fn a_store_from_before_logs_had_a_secret_opens_and_gets_one() {
    let (env, disk, _) = ladoga_env::sim::env(1);
    let dir = Path::new("/data");
    write_store_of_format_1(&disk, dir);
    let report = check(&env, dir, &mut |_| {}).expect("a store");
    assert!(report.errors.is_empty() && report.log_groups == 3, "{report:?}");

    let options = Options {
        background: Background::Manual,
        reserve_bytes: Some(0),
        ..Options::new(16 << 20, Durability::Always)
    };
    let mut secrets = Vec::new();
    // Dropped without being closed: the log of format 1 is still there when the manifest has a secret already.
    for _ in 0..2 {
        let engine = Engine::open(env.clone(), dir, options.clone()).expect("a store of an older release");
        for key in 1..4_u64 {
            assert!(engine.get(&key.to_be_bytes()).expect("a sound disk").is_some(), "{key}");
        }
        drop(engine);
        secrets.push(read_manifest(&disk, dir).expect("a manifest").expect("a store").secret);
        let header = disk.read_file(paths::wal(dir, 2)).expect("the segment that it went on with");
        assert_eq!(header[8..12], 3_u32.to_le_bytes());
    }
    assert!(secrets[0].is_some() && secrets[0] == secrets[1], "{secrets:?}");
}

/// The kernel had to read the page before the write, and the event loop that committed waited for the disk.
#[test]
fn a_page_that_a_write_begins_in_a_segment_used_again_is_written_whole() {
    const CAPACITY: u64 = 20_000;
    let (_, disk, _) = ladoga_env::sim::env(1);
    let dir = Path::new("/data");
    disk.create_dir_all(&paths::wal_dir(dir)).expect("an empty disk");
    drop(WalWriter::create(&disk, dir, 1, CAPACITY).expect("an empty disk"));
    let old = disk.open(&paths::wal(dir, 1), ladoga_env::OpenMode::ReadWrite).expect("it is there");
    old.write_all_at(&vec![0xaa; CAPACITY as usize], 0).expect("room");
    let recycled = WalWriter::recycle(&disk, dir, 1, 2, CAPACITY).expect("a sound disk");
    let mut wal = recycled.expect("one of full size");
    wal.begin(1, Some(7)).expect("room");
    let mut end = 0;
    for sequence in 1.. {
        let mut batch = WriteBatch::new();
        batch.put(b"key", Stamp::new(Version { timestamp: sequence, node: 1 }), &[0x55; 1000]);
        if !wal.has_room(batch.encoded_bytes()) {
            break;
        }
        end += wal.append(sequence, 0, &[batch]).expect("room");
        let mut bytes = vec![0; CAPACITY as usize];
        wal.file().read_exact_at(&mut bytes, 0).expect("a sound disk");
        let written = bytes.iter().rposition(|&byte| byte != 0xaa).expect("something") + 1;
        assert!(written == CAPACITY as usize || written.is_multiple_of(4096), "{written}");
    }
    assert!(end > CAPACITY - 2_000, "{end}");
    assert_eq!(wal.file().len().expect("a sound disk"), CAPACITY);
}

/// Each sync of a small group went through the file system's journal, until segments were used again.
#[test]
fn groups_that_are_synced_find_space_that_was_written_to() {
    const CAPACITY: u64 = 200_000;
    let (_, disk, _) = ladoga_env::sim::env(1);
    let dir = Path::new("/data");
    disk.create_dir_all(&paths::wal_dir(dir)).expect("an empty disk");
    let mut wal = WalWriter::create(&disk, dir, 1, CAPACITY).expect("an empty disk");
    wal.begin(1, Some(7)).expect("room");
    let (writes, mut groups) = (|| disk.operations_of(Operation::Write), 0);
    let writes_before = writes();
    for sequence in 1.. {
        let mut batch = WriteBatch::new();
        batch.put(b"key", Stamp::new(Version { timestamp: sequence, node: 1 }), &[0x55; 100]);
        if !wal.has_room(batch.encoded_bytes()) {
            break;
        }
        wal.append(sequence, sequence - 1, &[batch]).expect("room");
        wal.write_ahead();
        wal.sync().expect("a sound disk");
        groups += 1;
    }
    let ahead = writes() - writes_before - groups;
    assert!(groups > 1_000 && (3..=5).contains(&ahead), "{groups} groups, {ahead} writes ahead of them");
    assert_eq!(wal.file().len().expect("a sound disk"), CAPACITY);
}
