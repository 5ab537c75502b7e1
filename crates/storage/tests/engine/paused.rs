//! Point reads that pause if memory cannot tell, and resume with bytes that the caller has read.

use std::io;

use ladoga_storage::{Cached, Cell, Durability, Engine, Error, PendingRead, Progress, ReadTier};

use crate::support::{Machine, Model, Write, bytes, settle, tiny_options, write};

/// Reads the part that a read needs; `None` if one read is not enough.
pub(crate) fn read_part(read: &PendingRead) -> Option<io::Result<Vec<u8>>> {
    let part = read.needs()?;
    let mut bytes = vec![0; part.len];
    Some(part.file.read_exact_at(&mut bytes, part.offset).map(|()| bytes))
}

/// Reads what `read` needs, each time it does, and answers how often that was.
pub(crate) fn drive(mut read: Box<PendingRead>) -> Result<(Option<Cell>, usize), Error> {
    let mut reads = 0;
    loop {
        let Some(bytes) = read_part(&read) else { return Ok((read.finish()?, reads)) };
        reads += 1;
        match read.resume(bytes)? {
            Progress::Done(cell) => return Ok((cell, reads)),
            Progress::Paused(paused) => read = paused,
        }
    }
}

/// What a paused read finds, as a user sees it.
pub(crate) fn value(cell: Option<Cell>) -> Option<Vec<u8>> {
    cell.and_then(|cell| cell.value).map(|value| bytes(&value))
}

fn pause(engine: &Engine, key: &[u8]) -> Option<Box<PendingRead>> {
    match engine.get_cached(key, ReadTier::Memory).unwrap() {
        Cached::NeedsDisk(read) => Some(read),
        Cached::Found(_) | Cached::Absent => None,
    }
}

fn put(engine: &Engine, model: &mut Model, n: u64, timestamp: u64) {
    let writes = [Write::put(format!("key-{:04}", n % 300), timestamp, 1500)];
    write(engine, &writes).unwrap();
    model.apply(&writes);
}

/// A store with tables on several levels, opened again so that their indexes are in memory and hardly a block is. Versions
/// arrive out of order, so most keys have to be looked for in more than one table.
fn store() -> (Machine, Engine, Model) {
    let machine = Machine::new(8, tiny_options(Durability::Always));
    let engine = machine.open().unwrap();
    let mut model = Model::default();
    for n in 0..900 {
        put(&engine, &mut model, n * 7, 1 + n * 577 % 1000);
        engine.step().unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    let engine = machine.open().unwrap();
    // Keys that are not there: filters keep their reads from the blocks, and are in memory from then on.
    for n in 0..300 {
        assert!(engine.get(format!("key-{n:04}-").as_bytes()).unwrap().is_none());
    }
    (machine, engine, model)
}

fn tables(engine: &Engine) -> usize {
    engine.statistics().levels.iter().map(|level| level.tables as usize).sum()
}

#[test]
fn a_read_pauses_for_blocks_and_ends_with_what_is_there() {
    let (_machine, engine, model) = store();
    let (mut paused, mut most) = (0, 0);
    for key in model.keys() {
        let Some(read) = pause(&engine, key) else { continue };
        let (cell, reads) = drive(read).unwrap();
        assert_eq!(value(cell).as_deref(), model.get(key, 0));
        assert!(reads <= tables(&engine), "{reads} reads, and {} tables", tables(&engine));
        (paused, most) = (paused + 1, most.max(reads));
    }
    assert!(paused > 50, "only {paused} reads needed the disk");
    assert!(most > 1, "no read needed two blocks");
    let statistics = engine.statistics();
    assert!(statistics.block_reads >= paused && statistics.cache_misses >= paused, "{statistics:?}");
    // What was read once is in memory now.
    assert!(model.keys().all(|key| pause(&engine, key).is_none()));
}

#[test]
fn a_read_that_is_paused_survives_compactions_that_remove_its_tables() {
    let (machine, engine, mut model) = store();
    let before = model.clone();
    let held: Vec<_> = model.keys().filter_map(|key| Some((key.clone(), pause(&engine, key)?))).collect();
    assert!(held.len() > 50);
    let old_tables = machine.disk.paths();
    for n in 0..900 {
        put(&engine, &mut model, n, 2000 + n);
        settle(&engine).unwrap();
    }
    let removed =
        |machine: &Machine| old_tables.iter().filter(|path| machine.disk.file_len(path).is_err()).count();
    let removed_while_held = removed(&machine);
    for (key, read) in held {
        let (cell, _) = drive(read).unwrap();
        assert_eq!(value(cell).as_deref(), before.get(&key, 0), "as it was when the read began");
    }
    settle(&engine).unwrap();
    assert!(removed(&machine) > removed_while_held, "their files go when they are done");
    // What an old read has found is older than what is stored now, and must not get into the record cache.
    model.assert_held_by(&engine, 0, "after the old reads");
}

#[test]
fn bytes_that_are_wrong_or_cannot_be_read_fail_their_read_only() {
    let (_machine, engine, model) = store();
    let mut failed = 0;
    for key in model.keys() {
        let Some(read) = pause(&engine, key) else { continue };
        let Some(part) = read.needs() else {
            assert_eq!(value(drive(read).unwrap().0).as_deref(), model.get(key, 0), "with its index");
            continue;
        };
        let mut bytes = read_part(&read).unwrap().unwrap();
        let corrupt_reads = engine.statistics().corrupt_reads;
        failed += 1;
        match failed % 3 {
            0 => {
                let bit = failed * 31 % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                let error = read.resume(Ok(bytes)).unwrap_err();
                let Error::Corruption { path, offset, .. } = &error else {
                    panic!("not corruption: {error}")
                };
                assert!(path.extension().is_some_and(|extension| extension == "sst"), "{error}");
                assert_eq!(*offset, part.offset, "{error}");
                assert_eq!(engine.statistics().corrupt_reads, corrupt_reads + 1);
            }
            1 => {
                let error = read.resume(Err(io::Error::from_raw_os_error(5))).unwrap_err();
                assert!(matches!(error, Error::Io { operation: "read", code: Some(5), .. }), "{error}");
                let place = format!(".sst at offset {} failed: ", part.offset);
                assert!(error.to_string().contains(&place), "{error}");
                assert_eq!(engine.statistics().corrupt_reads, corrupt_reads + 1);
            }
            _ => {
                bytes.truncate(bytes.len() / 2);
                assert!(read.resume(Ok(bytes)).unwrap_err().is_corruption());
            }
        }
        // Nothing of it has stayed.
        let again = pause(&engine, key).expect("nothing was kept");
        assert_eq!(value(drive(again).unwrap().0).as_deref(), model.get(key, 0));
    }
    assert!(failed > 20, "only {failed} reads needed the disk");
}

#[test]
fn what_no_memory_keeps_is_found_with_the_bytes_that_were_handed_over() {
    let (_machine, engine, model) = store();
    // Each read is begun anew with empty hands; the block is in the cache then, but the read in flight does not ask it.
    for key in model.keys() {
        let (Some(first), Some(second)) = (pause(&engine, key), pause(&engine, key)) else { continue };
        assert_eq!(value(drive(first).unwrap().0), value(drive(second).unwrap().0));
    }
    model.assert_held_by(&engine, 0, "after all");
}
