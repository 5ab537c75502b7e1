//! Bytes on the disk change: reads give the right answer or say which file is corrupt and where, never anything else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ladoga_env::{Disk, OpenMode};
use ladoga_storage::{Compression, Durability, Engine, Error, Options, check, read_value};

use crate::support::{Machine, Model, Write, settle, tiny_options, write};

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A store at rest: its files, and what it holds.
struct Store {
    files: Files,
    model: Model,
    options: Options,
}

/// How the store was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// With groups in the log.
    Dropped,
    Closed,
    /// Right behind a compaction.
    Compacted,
}

const LEFT: [Left; 3] = [Left::Dropped, Left::Closed, Left::Compacted];

fn options() -> Options {
    let mut options = tiny_options(Durability::Always);
    options.memtable_bytes = Some(16 << 10);
    options.table_bytes = Some(16 << 10);
    options.level_1_bytes = Some(20 << 10);
    options.compression[2] = Compression::Zstd;
    options
}

/// Three levels, blobs, and several groups in the log.
fn store(left: Left) -> Store {
    let machine = Machine::new(1, options());
    let engine = machine.open().unwrap();
    let mut model = Model::default();
    let mut put = |n: u64| {
        let key = format!("key-{:03}", n * 37 % 211).into_bytes();
        let writes = match n % 11 {
            3 => [Write::delete(key, 1000 + n)],
            5 => [Write::blob(key, 1000 + n, 500)],
            _ => [Write::put(key, 1000 + n, 60 + (n % 7) as usize * 30)],
        };
        write(&engine, &writes).unwrap();
        model.apply(&writes);
    };
    let tables = |level: usize| engine.statistics().levels[level].tables;
    let mut n = 0;
    while n < 380 || tables(1) == 0 || tables(2) == 0 {
        put(n);
        n += 1;
        if n % 20 == 0 {
            engine.seal().unwrap();
            settle(&engine).unwrap();
        }
    }
    (n..n + 30).for_each(&mut put);
    engine.seal().unwrap();
    engine.step().unwrap();
    (n + 30..n + 38).for_each(&mut put);
    assert!((0..3).all(|level| tables(level) > 0), "{:?}", engine.statistics().levels);
    if left == Left::Compacted {
        for n in n + 40..n + 60 {
            put(n);
            engine.seal().unwrap();
        }
        let compactions = engine.statistics().compactions;
        while engine.statistics().compactions == compactions {
            assert!(engine.step().unwrap());
        }
    }
    if left == Left::Closed {
        engine.close().unwrap();
    }
    drop(engine);
    Store { files: files_of(&machine), model, options: options() }
}

fn files_of(machine: &Machine) -> Files {
    let paths = machine.disk.paths().into_iter();
    paths.map(|path| (path.clone(), machine.disk.read_file(&path).unwrap())).collect()
}

impl Store {
    /// A machine whose disk has the files.
    fn machine(&self) -> Machine {
        let machine = Machine::new(2, self.options.clone());
        for (path, bytes) in &self.files {
            machine.disk.create_dir_all(path.parent().unwrap()).unwrap();
            let file = machine.disk.open(path, OpenMode::CreateNew).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file.sync_data().unwrap();
            machine.disk.sync_dir(path.parent().unwrap()).unwrap();
        }
        machine
    }

    fn paths(&self, part: &str) -> Vec<PathBuf> {
        let paths: Vec<_> =
            self.files.keys().filter(|path| path.to_string_lossy().contains(part)).cloned().collect();
        assert!(!paths.is_empty(), "no {part} among {:?}", self.files.keys());
        paths
    }

    /// The end of the used part of a file.
    fn used(&self, path: &Path) -> u64 {
        self.files[path].iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
    }
}

fn flip(machine: &Machine, path: &Path, offset: u64) {
    machine.disk.flip_bit(path, offset, (offset % 8) as u8).unwrap();
}

/// The path and offset that an error names.
fn place(error: &Error) -> (&Path, u64) {
    match error {
        Error::Corruption { path, offset, .. } => (path, *offset),
        other => panic!("not corruption: {other}"),
    }
}

/// What the check finds with one bit flipped.
fn check_with_flip(machine: &Machine, path: &Path, offset: u64) -> Vec<Error> {
    flip(machine, path, offset);
    let errors = match check(&machine.env(), &machine.dir, &mut |_| {}) {
        Ok(report) => report.errors,
        Err(error) => vec![error],
    };
    flip(machine, path, offset);
    errors
}

#[test]
fn the_check_finds_every_flipped_bit_of_tables_and_blobs() {
    let store = store(Left::Dropped);
    let machine = store.machine();
    machine.assert_sound("intact");
    for path in [store.paths("tables/"), store.paths("blobs/")].concat() {
        for offset in (0..store.files[&path].len() as u64).step_by(3) {
            let errors = check_with_flip(&machine, &path, offset);
            let found = errors.iter().map(place).find(|(found, _)| *found == path);
            let Some((_, at)) = found else { panic!("{path:?} at {offset}: {errors:?}") };
            assert!(at <= offset && offset - at < 8192, "{path:?} at {offset}: found at {at}");
        }
    }
    machine.assert_sound("restored");
}

/// Where the frames of a log begin, and where the last one ends.
fn frames(bytes: &[u8]) -> Vec<u64> {
    let mut starts = vec![48_u64];
    let first_sequence = u64::from_le_bytes(*bytes[20..].first_chunk().unwrap());
    let secret = u32::from_le_bytes(*bytes[28..].first_chunk().unwrap());
    // What follows may be frames of the segment that the file was before.
    while let Some(header) = bytes[*starts.last().unwrap() as usize..].first_chunk::<28>()
        && header[..4] == (0x4c46_5241_u32 ^ secret).to_le_bytes()
        && header[12..20] == (first_sequence + starts.len() as u64 - 1).to_le_bytes()
    {
        let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        starts.push(starts.last().unwrap() + 28 + u64::from(length));
    }
    starts
}

#[test]
fn the_check_finds_every_flipped_bit_of_the_log_but_in_its_last_group() {
    let store = store(Left::Dropped);
    let machine = store.machine();
    let is_begun = |path: &&PathBuf| {
        let number = u64::from_le_bytes(*store.files[*path][12..].first_chunk().unwrap());
        path.ends_with(format!("{number:06}.wal"))
    };
    let paths = store.paths("wal/");
    let path = paths.iter().rfind(is_begun).unwrap().clone();
    let frames = frames(&store.files[&path]);
    assert!(frames.len() > 6, "{frames:?}");
    // The last group may have been torn by a power cut before it was acknowledged: nothing tells.
    let [.., last, _] = frames.as_slice() else { panic!("{frames:?}") };
    for offset in 0..*last {
        let errors = check_with_flip(&machine, &path, offset);
        let [error] = errors.as_slice() else { panic!("{offset}: {errors:?}") };
        let frame = frames.iter().rfind(|start| **start <= offset).copied().unwrap_or(0);
        assert_eq!(place(error), (path.as_path(), frame), "{error}");
    }
    for offset in *last..store.files[&path].len() as u64 {
        let errors = check_with_flip(&machine, &path, offset);
        assert!(errors.is_empty(), "{offset}: a torn end is no corruption: {errors:?}");
    }
}

#[test]
fn the_check_finds_every_flipped_bit_of_the_manifest() {
    for left in LEFT {
        let store = store(left);
        let machine = store.machine();
        machine.assert_sound("intact");
        for path in [store.paths("CURRENT"), store.paths("manifest")].concat() {
            for offset in 0..store.used(&path) {
                let errors = check_with_flip(&machine, &path, offset);
                assert!(!errors.is_empty(), "{left:?}: {path:?} at {offset}");
                assert!(
                    errors.iter().all(Error::is_corruption),
                    "{left:?}: {path:?} at {offset}: {errors:?}"
                );
            }
        }
    }
}

/// Reads everything: each answer is right, or an error that names the file. The answer is how many were errors.
fn read_all(engine: &Engine, model: &Model, path: &Path, context: &str) -> usize {
    let mut failed = 0;
    for key in model.keys() {
        match engine.get(key).and_then(|value| value.map(|value| read_value(&value)).transpose()) {
            Ok(found) => assert_eq!(found.as_deref(), model.get(key, 0), "{context}"),
            Err(error) => {
                assert_eq!(place(&error).0, path, "{context}: {error}");
                failed += 1;
            }
        }
    }
    scan(engine, model, path, context);
    failed
}

fn scan(engine: &Engine, model: &Model, path: &Path, context: &str) {
    let expected = model.range(b"", None, 0);
    for forward in [true, false] {
        let mut range = engine.snapshot().range(b"", None);
        let mut expected = expected.clone();
        if !forward {
            expected.reverse();
        }
        let mut expected = expected.into_iter();
        loop {
            let found = if forward { range.next() } else { range.next_back() };
            match found.and_then(|pair| pair.map(|(key, value)| Ok((key, read_value(&value)?))).transpose()) {
                Ok(Some((key, value))) => {
                    assert_eq!(expected.next(), Some((key.to_vec(), value.to_vec())), "{context}");
                }
                Ok(None) => break assert_eq!(expected.next(), None, "{context}: ends early"),
                Err(error) => break assert_eq!(place(&error).0, path, "{context}: {error}"),
            }
        }
    }
}

#[test]
fn a_flipped_bit_of_a_table_or_blob_fails_only_the_reads_that_need_it() {
    let store = store(Left::Dropped);
    let records_in_a_block_max = 4096 / 80 + 1;
    for path in [store.paths("tables/"), store.paths("blobs/")].concat() {
        let length = store.files[&path].len() as u64;
        let (mut harmless, mut some, mut all) = (0, 0, 0);
        for offset in (0..length).step_by(if length > 2000 { 211 } else { 37 }) {
            let context = format!("{path:?} at {offset}");
            let machine = store.machine();
            flip(&machine, &path, offset);
            let engine = machine.open().unwrap_or_else(|error| panic!("{context}: does not open: {error}"));
            match read_all(&engine, &store.model, &path, &context) {
                0 => harmless += 1,
                failed if failed <= records_in_a_block_max => some += 1,
                _ => all += 1,
            }
            assert!(
                harmless > 0
                    || engine.statistics().corrupt_reads > 0
                    || path.to_string_lossy().contains("blobs")
            );
            let more = [Write::put("key-000", 9000, 300), Write::put("new", 9001, 20)];
            write(&engine, &more).unwrap();
            engine.close().unwrap();
            let engine = machine.open().unwrap();
            read_all(&engine, &store.model.with(&more), &path, &context);
        }
        // Blocks make up most of a table; behind them are its filter and index, which all reads need.
        assert!(some + harmless >= all, "{path:?}: {harmless} harmless, {some} a block, {all} everything");
    }
}

#[test]
fn a_flipped_bit_of_manifest_or_log_is_named_or_does_no_harm() {
    for left in LEFT {
        let store = store(left);
        for path in [store.paths("CURRENT"), store.paths("manifest"), store.paths("wal/")].concat() {
            let is_log = path.to_string_lossy().contains("wal/");
            let used = if is_log {
                *frames(&store.files[&path]).iter().rev().nth(1).unwrap_or(&0)
            } else {
                store.used(&path)
            };
            for offset in 0..used {
                let context = format!("{left:?}: {path:?} at {offset}");
                let machine = store.machine();
                flip(&machine, &path, offset);
                match machine.open() {
                    Ok(engine) => store.model.assert_held_by(&engine, 0, &context),
                    // What a file names need not be there once a bit of the file is flipped.
                    Err(Error::Missing { .. }) => {}
                    Err(error) => drop(place(&error)),
                }
            }
        }
    }
}

#[test]
fn a_large_value_that_is_cut_off_is_named_by_the_piece_that_is_missing() {
    let machine = Machine::new(1, tiny_options(Durability::Always));
    let engine = machine.open().unwrap();
    write(&engine, &[Write::blob("key", 1, 300_000)]).unwrap();
    let path =
        machine.disk.paths().into_iter().find(|path| path.to_string_lossy().contains("blobs/")).unwrap();
    // In the second piece, behind a header of 16 bytes and a first one of 256 KiB with its checksum.
    machine.disk.open(&path, OpenMode::ReadWrite).unwrap().truncate(270_000).unwrap();
    let error = read_value(&engine.get(b"key").unwrap().unwrap()).unwrap_err();
    let place = (16 + (256 << 10) + 4, "blob length");
    assert!(
        matches!(&error, Error::Corruption { path: at, offset, what, .. } if *at == path && (*offset, *what) == place),
        "{error}"
    );
}
