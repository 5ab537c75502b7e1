//! The file `fences`.
//!
//! ```text
//! fences := "LADOGAF" format u8 (1), 0 × 20, crc u32, record*, 0*, anything                 crc: of what precedes it
//! ```
//!
//! It begins with the promises that stood when it was written as a whole, to another name, and renamed. Records follow. A
//! broken record ends it, unless one behind it says that it was synced: then the file is damaged. Behind the last record
//! stands a mark, once that is synced, which the next record takes the place of. So a promise that was given, and is damaged,
//! is taken for a torn end only if the power was cut before the mark was on the disk.
//!
//! Zeros are written ahead of the records, so that most syncs find a file of the same length in the same blocks: then the file system
//! has nothing of its own to write.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_cluster::Fences;
use ladoga_env::{Disk, File, OpenMode, Replacement};
use ladoga_model::Version;

use super::record::{FenceRecord, RECORD_BYTES};

pub(super) const NAME: &str = "fences";
const MAGIC: &[u8; 7] = b"LADOGAF";
const FORMAT: u8 = 1;
pub(super) const HEADER_BYTES: u64 = 32;
/// It is written as a whole before it is as long as this, unless so many promises stand.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// From how many records on it is looked how many of them are still needed.
const RECORDS_MIN: u64 = 8_192;
/// How far ahead of the records there are zeros at least, once a record needs more of them.
const AHEAD_BYTES: u64 = 64 << 10;
/// How many times as many there may be as promises stand.
const RECORDS_PER_FENCE_MAX: u64 = 4;

/// The file, as it is appended to.
pub(super) struct FenceLog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// `None` if it could not be written, so that its content is unknown.
    file: Option<Arc<dyn File>>,
    /// Where the next record is written.
    end: u64,
    /// Up to where it was synced.
    synced: u64,
    /// How long it is: zeros follow the last record.
    length: u64,
}

impl FenceLog {
    /// Opens the file below `dir`, or creates it. Answers the promises that stand.
    pub(super) fn open(disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<(FenceLog, Fences)> {
        disk.create_dir_all(dir)?;
        let path = dir.join(NAME);
        let fences = read(&**disk, &path)?.unwrap_or_default();
        let (end, synced, length) = (HEADER_BYTES, HEADER_BYTES, HEADER_BYTES);
        let mut log = FenceLog { disk: Arc::clone(disk), path, file: None, end, synced, length };
        // A torn end must not precede what is appended. If there is no room, the node starts all the same: it keeps its
        // promises, and makes no new ones until they can be written.
        if let Err(error) = log.write_anew(fences.iter()) {
            tracing::warn!("cannot write {}: {error}", log.path.display());
        }
        Ok((log, fences))
    }

    /// Whether it should be rewritten as a whole, if so many promises stand: most of it is not needed, or writing it failed.
    pub(super) const fn is_to_be_written_anew(&self, fences: usize) -> bool {
        let records = (self.end - HEADER_BYTES) / RECORD_BYTES as u64;
        self.file.is_none() || records > RECORDS_MIN + RECORDS_PER_FENCE_MAX * fences as u64
    }

    /// Writes the file as a whole, durably, with these promises.
    pub(super) fn write_anew(&mut self, fences: impl Iterator<Item = (u64, Version)>) -> io::Result<()> {
        self.file = None;
        let mut bytes = header().to_vec();
        for (key_hash, fence) in fences {
            let place = bytes.len() as u64;
            bytes.extend_from_slice(&FenceRecord::Promise(key_hash, fence).encode(place, 0));
        }
        Replacement::of(&*self.disk, &self.path, &bytes)?;
        let file = self.disk.open(&self.path, OpenMode::ReadWrite)?;
        let end = bytes.len() as u64;
        (self.end, self.synced, self.length) = (end, end, end);
        self.file = Some(file);
        self.mark()
    }

    /// Appends records. They are durable if `is_to_be_synced`, otherwise with those that are next.
    pub(super) fn append(&mut self, records: &[FenceRecord], is_to_be_synced: bool) -> io::Result<()> {
        let appended = self.try_append(records, is_to_be_synced);
        if appended.is_err() {
            // After a failed sync, nobody knows what is in the file.
            self.file = None;
        }
        appended
    }

    fn try_append(&mut self, records: &[FenceRecord], is_to_be_synced: bool) -> io::Result<()> {
        let file = self.file.as_ref().ok_or_else(|| io::Error::other("it could not be written before"))?;
        let mut bytes = Vec::with_capacity(records.len() * RECORD_BYTES);
        for record in records {
            let place = self.end + bytes.len() as u64;
            bytes.extend_from_slice(&record.encode(place, self.synced));
        }
        let end = self.end + bytes.len() as u64;
        // The mark that stands behind them is not to make the file longer either.
        if end + RECORD_BYTES as u64 > self.length {
            let length = end + AHEAD_BYTES;
            bytes.resize((length - self.end) as usize, 0);
            self.length = length;
        }
        file.write_all_at(&bytes, self.end)?;
        self.end = end;
        if !is_to_be_synced {
            return Ok(());
        }
        file.sync_data()?;
        self.synced = self.end;
        self.mark()
    }

    /// Says behind the last record that all of them are synced.
    fn mark(&self) -> io::Result<()> {
        let file = self.file.as_ref().expect("it was just written");
        file.write_all_at(&FenceRecord::Mark.encode(self.end, self.synced), self.end)
    }
}

/// What is wrong with the file below a data directory, if something is; changes nothing.
pub(crate) fn check(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    read(disk, &dir.join(NAME)).map(drop)
}

/// Removes the file from a directory that is to belong to another node.
pub(super) fn remove(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    match disk.remove(&dir.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => disk.sync_dir(dir),
    }
}

/// The promises in a file; `None` if there is none.
fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<Fences>> {
    let file = match disk.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(io::Error::new(error.kind(), format!("open {} failed: {error}", path.display())));
        }
    };
    let damaged = |what: String| {
        let line = format!(
            "{} is damaged: {what}. It says what this node has promised to conditional writes. Remove the data directory: the \
             node copies its data from the other nodes",
            path.display()
        );
        io::Error::new(io::ErrorKind::InvalidData, line)
    };
    let length = file.len()?;
    if !(HEADER_BYTES..=FILE_BYTES_MAX).contains(&length) {
        return Err(damaged(format!(
            "a file of {length} bytes, expected {HEADER_BYTES} to {FILE_BYTES_MAX}"
        )));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let (found, rest) = bytes.split_at(HEADER_BYTES as usize);
    if found != header() {
        let what = match found.strip_prefix(MAGIC) {
            Some([format, ..]) if *format > FORMAT => {
                format!("it has format {format}, expected at most {FORMAT}; it may be of a newer version")
            }
            _ => "it does not begin as such a file does".to_owned(),
        };
        return Err(damaged(what));
    }
    let (records, _) = rest.as_chunks::<RECORD_BYTES>();
    let place = |index: usize| HEADER_BYTES + (index * RECORD_BYTES) as u64;
    let mut records = records.iter().enumerate();
    let mut fences = Fences::default();
    while let Some((index, bytes)) = records.next() {
        if let Some((record, _)) = FenceRecord::decode(bytes, place(index)) {
            record.apply(&mut fences);
            continue;
        }
        // What was not synced may be missing, in whichever order it was written.
        let was_synced = |(later, bytes): (usize, &[u8; RECORD_BYTES])| {
            FenceRecord::decode(bytes, place(later)).is_some_and(|(_, synced)| synced > place(index))
        };
        if records.any(was_synced) {
            return Err(damaged(format!(
                "the record at byte {} has another checksum than it says",
                place(index)
            )));
        }
    }
    Ok(Some(fences))
}

fn header() -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..7].copy_from_slice(MAGIC);
    header[7] = FORMAT;
    let crc = crc32c::crc32c(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    header
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
