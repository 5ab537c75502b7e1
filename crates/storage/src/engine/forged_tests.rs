//! Manifests and tables whose checksums fit, and which say what cannot be.

use std::path::Path;

use ladoga_env::Env;
use ladoga_env::sim::SimDisk;
use ladoga_model::{Stamp, Version};

use crate::coding::u32_at;
use crate::frame::LogId;
use crate::levels::{Edit, Manifest};
use crate::table::{Expiries, TableMeta, with_checksum};
use crate::{
    Background, CheckProgress, Compression, Durability, Engine, Error, LEVELS, Options, WriteBatch, check,
    paths, read_value,
};

const DIR: &str = "/data";

fn table(number: u64, file_bytes: u64, blob_bytes: u64, records: u64) -> (usize, TableMeta) {
    let key: std::sync::Arc<[u8]> = number.to_be_bytes().into();
    let meta = TableMeta {
        number,
        file_bytes,
        records,
        tombstones: 0,
        blob_bytes,
        newest: Version { timestamp: 2, node: 1 },
        oldest: Version { timestamp: 1, node: 1 },
        smallest: key.clone(),
        largest: key,
        blobs: Vec::new(),
        expiries: Expiries::default(),
    };
    (1, meta)
}

/// A directory with this manifest and nothing else.
fn store_of(edit: &Edit) -> Env {
    let (env, disk, _) = ladoga_env::sim::env(1);
    let dir = Path::new(DIR);
    for dir in [paths::wal_dir(dir), paths::tables_dir(dir), paths::blobs_dir(dir)] {
        ladoga_env::Disk::create_dir_all(&disk, &dir).expect("an empty disk");
    }
    Manifest::create(&disk, dir, LogId { number: 1, secret: Some(7) }, edit)
        .map(drop)
        .expect("an empty disk");
    env
}

fn open(env: &Env) -> Error {
    let options = Options { background: Background::Manual, ..Options::new(16 << 20, Durability::Always) };
    Engine::open(env.clone(), Path::new(DIR), options).map(drop).expect_err("a forged manifest")
}

#[test]
fn tables_that_say_that_they_hold_more_than_there_can_be_are_refused_with_the_sum() {
    let forged = [
        (vec![table(2, u64::MAX, 1, 1)], "bytes of all tables"),
        (vec![table(2, 1 << 63, 0, 1), table(3, 0, 1 << 63, 1)], "bytes of all tables"),
        (vec![table(2, 1, 1, u64::MAX), table(3, 1, 1, 1)], "records of all tables"),
    ];
    for (added, what) in forged {
        let first = Some(1);
        let env = store_of(&Edit {
            next_file: Some(9),
            first_wal: first,
            first_sequence: first,
            added,
            ..Edit::default()
        });
        let expected = format!("{DIR}/manifest-000001 is corrupt at offset 0: {what}: expected at most");
        let error = open(&env).to_string();
        assert!(error.starts_with(&expected), "{error}");
        let mut last = None;
        let report = check(&env, Path::new(DIR), &mut |progress: CheckProgress| last = Some(progress));
        let errors = report.expect("it goes on behind it").errors;
        assert!(errors.iter().any(|error| error.to_string().starts_with(&expected)), "{errors:?}");
        let progress = last.expect("tables were looked for");
        assert_eq!(progress.done_bytes, progress.total_bytes);
    }
}

#[test]
fn a_manifest_that_does_not_say_where_the_log_begins_is_refused() {
    for first_sequence in [None, Some(0), Some(u64::MAX)] {
        let env =
            store_of(&Edit { next_file: Some(9), first_wal: Some(1), first_sequence, ..Edit::default() });
        let error = open(&env);
        assert!(error.is_corruption() && error.to_string().contains("manifest edit"), "{error}");
    }
}

/// No version could be given after it.
#[test]
fn a_table_with_a_version_that_no_clock_gives_is_refused() {
    let (level, mut meta) = table(2, 1, 0, 1);
    meta.newest.timestamp = u64::MAX;
    let (first, added) = (Some(1), vec![(level, meta)]);
    let edit = Edit { next_file: Some(9), first_wal: first, first_sequence: first, added, ..Edit::default() };
    let error = open(&store_of(&edit));
    assert!(error.is_corruption() && error.to_string().contains("manifest edit"), "{error}");
}

/// Tables of eight records each, in level 0 but for the first, which lies in level 1 and behind the others.
fn store_of_tables() -> (Env, SimDisk, Engine) {
    let (env, disk, _) = ladoga_env::sim::env(1);
    let options = Options {
        background: Background::Manual,
        reserve_bytes: Some(0),
        compression: [Compression::None; LEVELS],
        ..Options::new(16 << 20, Durability::Never)
    };
    let engine = Engine::open(env.clone(), Path::new(DIR), options).expect("a new store");
    let add_table = |first_key: u64, timestamp: u64| {
        let mut batch = WriteBatch::new();
        for key in first_key..first_key + 8 {
            batch.put(&key.to_be_bytes(), Stamp::new(Version { timestamp, node: 1 }), b"value");
        }
        engine.write_group(&[batch]).expect("room");
        engine.seal().expect("room");
        engine.step().expect("room");
    };
    (1..5).for_each(|timestamp| add_table(1000, timestamp));
    while engine.step().expect("room") {}
    (5..8).for_each(|timestamp| add_table(0, timestamp));
    let tables = engine.statistics().levels.iter().map(|level| level.tables).collect::<Vec<_>>();
    assert_eq!(tables[..2], [3, 1]);
    (env, disk, engine)
}

/// Of a block that has so many bytes before its trailer.
type Change<'a> = &'a dyn Fn(&mut [u8], usize);

/// Changes the only block of the newest table, whose checksum fits again.
fn forge(env: &Env, disk: &SimDisk, change: impl FnOnce(&mut [u8], usize)) {
    let names = env.disk.list(&paths::tables_dir(Path::new(DIR))).expect("a directory");
    let number = names.iter().filter_map(|name| paths::parse(name, "", ".sst")).max().expect("tables");
    let path = paths::table(Path::new(DIR), number);
    let mut bytes = disk.read_file(&path).expect("a table");
    // Where the block ends: its checksum covers all before.
    let fits = |end: &usize| with_checksum(number, 0, &bytes[..*end]) == bytes[..end + 4];
    let end = (1..bytes.len() - 4).find(fits).expect("a block");
    let raw_bytes = u32_at(&bytes, end - 4) as usize;
    change(&mut bytes[..end], raw_bytes);
    disk.corrupt(&path, 0, &with_checksum(number, 0, &bytes[..end])).expect("a table");
}

/// The compaction ended with a panic: the first key had to come after the second, or the table that it wrote had a key of
/// another one in its level.
#[test]
fn a_table_with_keys_where_they_cannot_be_is_left_alone() {
    let swap_places = |block: &mut [u8], raw_bytes: usize| {
        // Of the records: eight offsets, and how many there are.
        let places = raw_bytes - 4 - 8 * 4;
        block[places + 4..places + 12].rotate_left(4);
    };
    let lead_elsewhere = |block: &mut [u8], _: usize| {
        let key = 7_u64.to_be_bytes();
        let at = block.windows(8).position(|bytes| bytes == key).expect("the last key");
        block[at..at + 8].copy_from_slice(&1003_u64.to_be_bytes());
    };
    let repeat = |block: &mut [u8], raw_bytes: usize| {
        let places = raw_bytes - 4 - 8 * 4;
        block.copy_within(places..places + 4, places + 4);
    };
    let changes: [Change<'_>; 3] = [&swap_places, &lead_elsewhere, &repeat];
    for change in changes {
        let (env, disk, engine) = store_of_tables();
        let mut batch = WriteBatch::new();
        for key in 0..8_u64 {
            batch.put(&key.to_be_bytes(), Stamp::new(Version { timestamp: 9, node: 1 }), b"value");
        }
        engine.write_group(&[batch]).expect("room");
        engine.seal().expect("room");
        assert!(engine.inner.flush_one().expect("room"));
        forge(&env, &disk, change);
        while engine.step().expect("a compaction leaves it alone") {}
        assert!(engine.statistics().corrupt_reads > 0);
        let tables = engine.statistics().levels.iter().map(|level| level.tables).collect::<Vec<_>>();
        assert_eq!(tables[0], 4, "too few are sound for a compaction: {tables:?}");
        let value = engine.get(&1003_u64.to_be_bytes()).expect("a sound table").expect("it was written");
        assert_eq!(*read_value(&value).expect("a sound disk"), *b"value");
    }
}
