//! Verification of a data directory that no process has open: every checksum, every order, every count.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use ladoga_env::{Disk, Env, Lock, OpenMode};

use crate::blob::{Blob, BlobRegistry};
use crate::coding::key_hash;
use crate::engine::{levels_of, take_lock};
use crate::error::Error;
use crate::levels::{Recovered, read_manifest};
use crate::log_file::{KeptSegment, kept_dir};
use crate::paths;
use crate::restoring::expect_no_restore;
use crate::segment_reader::{LargeValue, SegmentReader};
use crate::stats::Counters;
use crate::table::{Access, BlockCache, Resident, Table, TableMeta, TableShared};
use crate::wal::replay;

/// Segments that are kept are read in pieces of so many bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// What a verification found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Tables verified.
    pub tables: u64,
    /// Blocks in them.
    pub blocks: u64,
    /// Records in them, tombstones included.
    pub records: u64,
    /// Blob files verified.
    pub blobs: u64,
    /// Groups of writes in the log.
    pub log_groups: u64,
    /// Groups in the log behind a torn one: lost in a power cut before they were synced.
    pub lost_groups: u64,
    /// Everything that is not as it should be.
    pub errors: Vec<Error>,
}

/// How far a verification is.
#[derive(Debug, Clone, Copy)]
pub struct CheckProgress {
    /// Bytes verified.
    pub done_bytes: u64,
    /// Bytes to verify in all.
    pub total_bytes: u64,
}

/// Verifies the store in `dir` and changes nothing. It goes on after corrupt parts, so that the report is complete; an `Err`
/// means that it could not even begin.
pub fn check(env: &Env, dir: &Path, progress: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport, Error> {
    let disk = &*env.disk;
    expect_no_restore(disk, dir)?;
    let recovered = read_manifest(disk, dir)?;
    let Some(recovered) = recovered else {
        let missing = std::io::Error::from(ErrorKind::NotFound);
        return Err(Error::io("open", dir.join(paths::CURRENT))(missing));
    };
    let lock = lock_if_there(disk, dir)?;
    let counters = Arc::new(Counters::default());
    let shared = Arc::new(TableShared {
        disk: env.disk.clone(),
        dir: dir.to_path_buf(),
        cache: BlockCache::new(1 << 20, 0),
        counters: counters.clone(),
        blobs: BlobRegistry::new(env.disk.clone(), dir.to_path_buf(), 0, counters),
    });
    // Nothing may be removed when the references go.
    shared.blobs.freeze();
    let mut report = CheckReport::default();
    report.errors.extend(levels_of(dir, &recovered, &shared).err());
    let kept = kept_segments(disk, dir).unwrap_or_else(|error| {
        report.errors.push(error);
        Vec::new()
    });
    let of_tables = recovered.tables.values().map(|(_, meta)| meta.disk_bytes());
    // A manifest that is wrong may say anything.
    let total_bytes = of_tables.chain(kept.iter().map(|(_, bytes)| *bytes)).fold(0, u64::saturating_add);
    let mut done_bytes = 0_u64;
    for (_, meta) in recovered.tables.values() {
        let table = Table::new(&shared, meta.clone());
        if let Err(error) = check_table(&table, &mut |_| LargeCheck::Whole, &mut report) {
            report.errors.push(error);
        }
        report.tables += 1;
        done_bytes = done_bytes.saturating_add(meta.disk_bytes());
        progress(CheckProgress { done_bytes, total_bytes });
    }
    if let Err(error) = check_log(env, dir, &recovered, &shared, &mut report) {
        report.errors.push(error);
    }
    for (segment, bytes) in kept {
        report.errors.extend(check_kept_segment(disk, dir, segment).err());
        done_bytes = done_bytes.saturating_add(bytes);
        progress(CheckProgress { done_bytes, total_bytes });
    }
    // A node that was started meanwhile has made the file, and changed what was read here.
    if lock.is_none() {
        lock_if_there(disk, dir)?;
    }
    Ok(report)
}

/// Takes the lock, unless its file is missing, as in a copy: to take it would create it, and a check only reads.
fn lock_if_there(disk: &dyn Disk, dir: &Path) -> Result<Option<Box<dyn Lock>>, Error> {
    let path = dir.join(paths::LOCK);
    match disk.open(&path, OpenMode::Read) {
        Ok(_) => take_lock(disk, dir).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("open", path)(error)),
    }
}

/// Counts what a table holds, to compare it with the table's properties.
struct Tally {
    meta: TableMeta,
    last_key: Vec<u8>,
}

/// What is verified of a large value that a table names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LargeCheck {
    /// Every byte.
    Whole,
    /// That it is there, with the length it should have.
    Length,
    /// Nothing: it need not be there.
    Nothing,
}

/// Verifies a table, and of the large values it names what is wanted of each.
pub(crate) fn check_table(
    table: &Arc<Table>,
    wanted: &mut dyn FnMut(LargeValue) -> LargeCheck,
    report: &mut CheckReport,
) -> Result<(), Error> {
    let footer = table.footer()?;
    table.read_handle(footer.properties)?;
    let resident = table.resident(Access::Once)?.expect("the disk may be used");
    let &TableMeta { number, file_bytes, .. } = table.meta();
    let counted = TableMeta { file_bytes, ..TableMeta::of_nothing(number) };
    let mut tally = Tally { meta: counted, last_key: Vec::new() };
    let mut whole = true;
    for index in 0..resident.index.blocks() {
        if let Err(error) = check_block((table, &resident, index), wanted, &mut tally, report) {
            report.errors.push(error);
            whole = false;
        }
        report.blocks += 1;
    }
    tally.meta.finish(&tally.last_key);
    report.records += tally.meta.records;
    if whole && tally.meta != *table.meta() {
        return Err(Error::Corruption {
            path: table.path().clone(),
            offset: footer.properties.offset,
            what: "table properties",
            expected: format!("{:?}", table.meta()),
            found: format!("{:?}", tally.meta),
        });
    }
    Ok(())
}

fn check_block(
    (table, resident, index): (&Arc<Table>, &Resident, usize),
    wanted: &mut dyn FnMut(LargeValue) -> LargeCheck,
    tally: &mut Tally,
    report: &mut CheckReport,
) -> Result<(), Error> {
    let (offset, size) = resident.index.place(index);
    let block = table.block(offset, size, Access::Once)?.expect("the disk may be used");
    block.verify().map_err(|_| table.broken(offset))?;
    for record in (0..block.count()).filter_map(|at| block.record(at)) {
        let placed = resident.index.block_of(record.key) == index;
        let filtered = resident.filter.may_contain(key_hash(record.key));
        if !placed || !filtered || tally.last_key.as_slice() >= record.key {
            return Err(table.broken(offset));
        }
        tally.meta.count(&record);
        if let Some(pointer) = record.blob() {
            report.blobs += 1;
            let blob = table.blob_ref(pointer.file).ok_or_else(|| table.broken(offset))?;
            let blob = Blob::new(blob, pointer);
            let large = LargeValue { file: pointer.file, bytes: pointer.len, crc: pointer.crc };
            let verified = match wanted(large) {
                LargeCheck::Whole => blob.verify(),
                LargeCheck::Length => blob.check_length(),
                LargeCheck::Nothing => Ok(()),
            };
            report.errors.extend(verified.err());
        }
        tally.last_key.clear();
        tally.last_key.extend_from_slice(record.key);
    }
    Ok(())
}

fn check_log(
    env: &Env,
    dir: &Path,
    recovered: &Recovered,
    shared: &Arc<TableShared>,
    report: &mut CheckReport,
) -> Result<(), Error> {
    let log = replay(&*env.disk, dir, recovered.log_start(), &mut |group| {
        report.log_groups += 1;
        for record in group.records() {
            match record.map(|record| record.blob()) {
                Ok(None) => {}
                Ok(Some(pointer)) => {
                    report.blobs += 1;
                    let blob = shared.blobs.refer(pointer.file);
                    report.errors.extend(Blob::new(blob, pointer).verify().err());
                }
                Err(error) => report.errors.push(error),
            }
        }
        Ok(())
    })?;
    report.lost_groups = log.lost_groups;
    Ok(())
}

/// The segments of the log that are kept, with their lengths.
fn kept_segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<(KeptSegment, u64)>, Error> {
    let kept = kept_dir(dir);
    let names = match disk.list(&kept) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(Error::io("list", &kept))?,
    };
    let mut segments: Vec<_> = names.iter().filter_map(|name| KeptSegment::parse(name)).collect();
    segments.sort_by_key(|segment| segment.number);
    let with_length = |segment: KeptSegment| {
        let file = disk.open(&kept.join(segment.file_name()), OpenMode::Read);
        (segment, file.and_then(|file| file.len()).unwrap_or(0))
    };
    Ok(segments.into_iter().map(with_length).collect())
}

/// Verifies one of them by itself. A gap between two is nothing wrong: some could not be kept, or a power cut left some of those that were
/// being removed. Backups find it.
fn check_kept_segment(disk: &dyn Disk, dir: &Path, segment: KeptSegment) -> Result<(), Error> {
    let path = kept_dir(dir).join(segment.file_name());
    let file = disk.open(&path, OpenMode::Read).map_err(Error::io("open", &path))?;
    let bytes = file.len().map_err(Error::io("measure", &path))?;
    let mut reader = SegmentReader::new(&path, (segment.first_sequence, segment.end_sequence));
    let mut offset = 0;
    while offset < bytes && !reader.is_complete() {
        let mut piece = vec![0; (bytes - offset).min(PIECE_BYTES) as usize];
        file.read_exact_at(&mut piece, offset).map_err(Error::io_at("read", &path, offset))?;
        offset += piece.len() as u64;
        reader.push(&piece, &mut |_| Ok(()))?;
    }
    reader.finish()
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
