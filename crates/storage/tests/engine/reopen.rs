//! Opening again: with other settings, with more in the log than a memtable takes, with files of another release.

use ladoga_env::Disk;
use ladoga_storage::{Compression, Durability, Engine, Error, MEMORY_BYTES_MIN, Options, check, read_value};

use crate::support::{Machine, Model, Write, forward, settle, tiny_options, write};

fn store(options: Options, writes: u64) -> (Machine, Model) {
    let machine = Machine::new(4, options);
    let engine = machine.open().unwrap();
    // The newest write comes first, so that it is far from the end of the log.
    let mut model = Model::default().with(&[Write::put("newest", 900, 10)]);
    write(&engine, &[Write::put("newest", 900, 10)]).unwrap();
    for n in 0..writes {
        let mut writes = vec![Write::put(format!("key-{:03}", n * 31 % 97), 1 + n, 200)];
        // Few, because blobs make a memtable be sealed before it is full.
        if n % 20 == 0 {
            writes.push(Write::blob(format!("blob-{}", n % 5), 1 + n, 300));
        }
        write(&engine, &writes).unwrap();
        model.apply(&writes);
    }
    (machine, model)
}

/// A log of large segments is more than the memtables of a smaller budget take.
#[test]
fn a_log_that_was_written_with_larger_memtables_is_read_in_parts() {
    for durability in [Durability::Always, Durability::Never] {
        let large = Options { memtable_bytes: Some(256 << 10), ..tiny_options(durability) };
        let (mut machine, model) = store(large, 300);
        machine.options = tiny_options(durability);
        for context in ["smaller", "smaller again"] {
            let engine = machine.open().unwrap();
            model.assert_held_by(&engine, 0, context);
            assert_eq!(engine.last_timestamp(), model.newest_timestamp(), "{context}");
        }
        let engine = machine.open().unwrap();
        settle(&engine).unwrap();
        model.assert_held_by(&engine, 0, "settled");
        engine.close().unwrap();
        assert_eq!(machine.open().unwrap().last_timestamp(), model.newest_timestamp());
        machine.assert_sound("closed");
    }
}

#[test]
fn the_newest_timestamp_is_known_whether_it_is_in_the_log_or_in_a_table() {
    let (machine, model) = store(tiny_options(Durability::Always), 77);
    for close in [false, true, false] {
        let engine = machine.open().unwrap();
        assert_eq!(engine.last_timestamp(), model.newest_timestamp());
        if close {
            engine.close().unwrap();
        }
    }
}

#[test]
fn every_setting_may_change_between_two_opens() {
    let (mut machine, mut model) = store(tiny_options(Durability::Never), 200);
    let settings: [fn(&mut Options); 6] = [
        |options| options.compression = [Compression::Zstd; 7],
        |options| options.compression = [Compression::None; 7],
        |options| options.table_bytes = Some(64 << 10),
        |options| options.level_1_bytes = Some(256 << 10),
        |options| options.memtable_bytes = Some(128 << 10),
        |options| options.durability = Durability::EverySecond,
    ];
    for (index, change) in settings.into_iter().enumerate() {
        change(&mut machine.options);
        let engine = machine.open().unwrap();
        for n in 0..100 {
            let writes = [Write::put(format!("key-{n:03}"), 1000 + index as u64 * 100 + n, 150)];
            write(&engine, &writes).unwrap();
            model.apply(&writes);
        }
        engine.seal().unwrap();
        settle(&engine).unwrap();
        model.assert_held_by(&engine, 0, &format!("setting {index}"));
    }
    machine.assert_sound("at the end");
}

#[test]
fn settings_out_of_their_range_are_named() {
    let refused = |change: fn(&mut Options)| {
        let mut machine = Machine::new(1, tiny_options(Durability::Always));
        change(&mut machine.options);
        let error = machine.open().map(drop).unwrap_err();
        assert!(matches!(error, Error::Setting { .. }), "{error}");
    };
    refused(|options| options.memory_bytes = MEMORY_BYTES_MIN - 1);
    refused(|options| options.memtable_bytes = Some(0));
    refused(|options| options.memtable_bytes = Some(usize::MAX));
}

/// Each of them had a segment of full size more.
#[test]
fn opens_without_a_write_leave_no_log_behind() {
    for writes in [0, 7] {
        let (machine, model) = store(tiny_options(Durability::Always), writes);
        for n in 0..12 {
            let engine = machine.open().unwrap();
            settle(&engine).unwrap();
            model.assert_held_by(&engine, 0, &format!("open {n} of {writes}"));
            if n % 3 == 0 {
                engine.close().unwrap();
            }
        }
        let segments = machine.disk.list(&machine.dir.join("wal")).unwrap();
        assert!(segments.len() <= 2, "{writes}: {segments:?}");
        machine.assert_sound("at the end");
    }
}

/// A later release writes its version in the place of ours, with a checksum that fits.
fn make_newer(
    machine: &Machine,
    path: &std::path::Path,
    version_at: u64,
    covered: std::ops::Range<u64>,
    crc_at: Option<u64>,
) {
    let version = 9;
    let mut bytes = machine.disk.read_file(path).unwrap();
    bytes[version_at as usize] = version;
    let crc = crc32c::crc32c(&bytes[covered.start as usize..covered.end as usize]);
    machine.disk.corrupt(path, version_at, &[version]).unwrap();
    if let Some(crc_at) = crc_at {
        machine.disk.corrupt(path, crc_at, &crc.to_le_bytes()).unwrap();
    }
}

fn path_of(machine: &Machine, part: &str) -> std::path::PathBuf {
    machine.disk.paths().into_iter().rfind(|path| path.to_string_lossy().contains(part)).unwrap()
}

fn assert_names_versions(result: Result<(), Error>, path: &std::path::Path, ours: u32) {
    match result {
        Err(Error::NewerFormat { path: named, found: 9, supported }) if supported == ours => {
            assert_eq!(named, path);
        }
        other => panic!("{}: {other:?}", path.display()),
    }
}

#[test]
fn a_directory_of_a_newer_release_is_refused_with_both_versions_named() {
    for part in ["manifest", "wal/"] {
        let (machine, _) = store(tiny_options(Durability::Always), 5);
        let path = path_of(&machine, part);
        make_newer(&machine, &path, 8, 0..44, Some(44));
        let before = machine.disk.paths();
        assert_names_versions(machine.open().map(drop), &path, 3);
        let checked = check(&machine.env(), &machine.dir, &mut |_| {});
        let checked = checked.and_then(|mut report| report.errors.pop().map_or(Ok(()), Err));
        assert_names_versions(checked, &path, 3);
        assert_eq!(machine.disk.paths(), before, "refused, and left as it was");
    }
}

#[test]
fn a_table_or_blob_of_a_newer_release_is_named_by_what_needs_it() {
    for (part, ours) in [("tables/", 3), ("blobs/", 1)] {
        let (machine, model) = store(tiny_options(Durability::Always), 5);
        machine.open().unwrap().close().unwrap();
        let path = path_of(&machine, part);
        let length = machine.disk.file_len(&path).unwrap();
        if part == "tables/" {
            // The footer: three handles of twelve bytes, the version, the checksum, a magic of eight bytes.
            make_newer(&machine, &path, length - 16, length - 52..length - 12, Some(length - 12));
        } else {
            make_newer(&machine, &path, 7, 0..0, None);
        }
        let engine = machine.open().unwrap();
        let mut reads = model
            .keys()
            .map(|key| engine.get(key).and_then(|value| value.map(|v| read_value(&v)).transpose()));
        let failed = reads.find_map(Result::err);
        assert_names_versions(failed.map_or(Ok(()), Err), &path, ours);
    }
}

#[test]
fn a_store_that_lost_its_current_is_not_taken_for_a_new_one() {
    let (machine, _) = store(tiny_options(Durability::Always), 50);
    machine.open().unwrap().close().unwrap();
    let current = machine.dir.join("CURRENT");
    let name = machine.disk.read_file(&current).unwrap();
    machine.disk.remove(&current).unwrap();
    let before = machine.disk.paths();
    let error = machine.open().map(drop).unwrap_err();
    let told = format!("{} is missing, although there are tables or logs of a store", current.display());
    assert_eq!(error.to_string(), told);
    assert_eq!(machine.disk.paths(), before);
    assert!(check(&machine.env(), &machine.dir, &mut |_| {}).is_err());
    for garbage in
        [&b""[..], b"manifest", b"manifest-000001", b"manifest-999999\n", b"\xff\xfe\n", &name[1..]]
    {
        let file = machine.disk.open(&current, ladoga_env::OpenMode::CreateNew).unwrap();
        file.write_all_at(garbage, 0).unwrap();
        let error = machine.open().map(drop).unwrap_err();
        if garbage == b"manifest-999999\n" {
            let manifest = machine.dir.join("manifest-999999");
            assert_eq!(
                error.to_string(),
                format!("{} is missing, although CURRENT names it", manifest.display())
            );
        } else {
            assert!(
                matches!(&error, Error::Corruption { path, .. } if *path == current),
                "{garbage:?}: {error}"
            );
        }
        machine.disk.remove(&current).unwrap();
    }
}

/// The answer of a long range is that of its moment, whatever is flushed, merged and removed meanwhile.
#[test]
fn a_long_range_goes_on_while_everything_changes() {
    let options = Options {
        memtable_bytes: Some(64 << 10),
        first_segment_bytes: Some(u64::MAX),
        ..tiny_options(Durability::Never)
    };
    let machine = Machine::new(4, options);
    let engine = machine.open().unwrap();
    let mut model = Model::default();
    let mut put = |engine: &Engine, n: u64, timestamp: u64| {
        let writes = [Write::put(format!("key-{n:05}"), timestamp, 20)];
        write(engine, &writes).unwrap();
        model.apply(&writes);
    };
    (0..9000).for_each(|n| put(&engine, n * 7 % 9000, 1 + n));
    let expected = model.range(b"", None, 0);
    let (mut front, mut back) = (engine.snapshot().range(b"", None), engine.snapshot().range(b"", None));
    let mut both = engine.snapshot().range(b"key-01000", Some(b"key-08000"));
    let (mut forward_found, mut backward_found, mut both_found) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..9000_u64 {
        write(&engine, &[Write::delete(format!("key-{:05}", n * 11 % 9000), 20_000 + n)]).unwrap();
        if n % 50 == 0 {
            engine.drop_tombstones_before(20_000 + n);
            engine.step().unwrap();
        }
        forward_found.extend(front.next().unwrap());
        backward_found.extend(back.next_back().unwrap());
        both_found.extend(if n % 3 == 0 { both.next().unwrap() } else { both.next_back().unwrap() });
    }
    let keys = |found: Vec<(bytes::Bytes, _)>| -> Vec<Vec<u8>> {
        found.into_iter().map(|(key, _): (bytes::Bytes, ladoga_storage::Value)| key.to_vec()).collect()
    };
    let all: Vec<Vec<u8>> = expected.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys(forward_found), all);
    assert_eq!(keys(backward_found), all.iter().rev().cloned().collect::<Vec<_>>());
    let mut both_found = keys(both_found);
    both_found.sort();
    assert_eq!(both_found, all[1000..8000]);
    assert!(forward(engine.snapshot().range(b"", None)).is_empty());
}
