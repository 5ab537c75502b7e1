//! The hints for one peer, in segments of a directory of its own: `hints/NAME/NUMBER.hints`.
//!
//! ```text
//! segment := "LADOGAH" format u8 (1), first u64, crc u32, hint*, anything          crc: of what precedes it
//! hint    := length u32, crc u32, kept_at_ms u64, record                           crc: of number u64, kept_at_ms, record
//! ```
//!
//! Hints are numbered from `first` on. A segment ends at the first hint that is missing or broken: what was not synced.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use ladoga_env::{Disk, File, OpenMode};

use crate::wire::FRAME_BYTES_MAX;

const MAGIC: &[u8; 7] = b"LADOGAH";
const FORMAT: u8 = 1;
const HEADER_BYTES: u64 = 20;
const PREFIX_BYTES: usize = 8;
/// The size at which a segment ends and the next begins: delivered hints are removed by whole segments.
const SEGMENT_BYTES_MAX: u64 = 8 << 20;
const SUFFIX: &str = ".hints";

/// A hint as it was found on the disk.
pub(super) struct FoundHint {
    pub(super) number: u64,
    pub(super) kept_at_ms: u64,
    pub(super) record: Bytes,
}

struct Segment {
    first: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    bytes: u64,
    /// Where each hint begins.
    offsets: Vec<u32>,
}

/// The log of one peer.
pub(super) struct HintLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segments: VecDeque<Segment>,
    next: u64,
}

impl HintLog {
    /// Opens the log, and reports each hint in it, in their order.
    pub(super) fn open(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        mut found: impl FnMut(FoundHint),
    ) -> io::Result<HintLog> {
        disk.create_dir_all(dir)?;
        let mut firsts: Vec<u64> = disk.list(dir)?.iter().filter_map(|name| first_of(name)).collect();
        firsts.sort_unstable();
        let mut log =
            HintLog { disk: Arc::clone(disk), dir: dir.to_path_buf(), segments: VecDeque::new(), next: 1 };
        let mut overlapping = Vec::new();
        for first in firsts {
            if first < log.next {
                overlapping.push(first);
                continue;
            }
            // What follows a gap was numbered anew after a torn end, and is valid.
            if let Some(segment) = log.read_segment(first, &mut found)? {
                log.next = segment.first + segment.offsets.len() as u64;
                log.segments.push_back(segment);
            }
        }
        log.append_again(&overlapping, &mut found)?;
        Ok(log)
    }

    /// Gives new numbers to the hints of segments whose numbers overlap with others': a removed segment is back after a power
    /// cut if the directory could not be synced in between, and it is unknown which of the two is the old one. Delivering a
    /// hint twice changes nothing.
    fn append_again(&mut self, overlapping: &[u64], found: &mut impl FnMut(FoundHint)) -> io::Result<()> {
        if overlapping.is_empty() {
            return Ok(());
        }
        let mut hints = Vec::new();
        for &first in overlapping {
            self.read_segment(first, &mut |hint| hints.push(hint))?;
        }
        for hint in hints {
            let number = self.append(hint.kept_at_ms, &hint.record)?;
            found(FoundHint { number, ..hint });
        }
        self.sync()?;
        for &first in overlapping {
            self.disk.remove(&self.path(first))?;
        }
        self.disk.sync_dir(&self.dir)
    }

    fn read_segment(&self, first: u64, found: &mut impl FnMut(FoundHint)) -> io::Result<Option<Segment>> {
        let path = self.path(first);
        let file = self.disk.open(&path, OpenMode::ReadWrite)?;
        let length = file.len()?;
        if !begins_with_header(&*file, first)? {
            tracing::warn!("{} is not a segment of hints; it is ignored", path.display());
            return Ok(None);
        }
        let mut segment = Segment { first, path, file, bytes: HEADER_BYTES, offsets: Vec::new() };
        while let Some((hint, end)) = segment.read_at(segment.bytes, length)? {
            segment.offsets.push(segment.bytes as u32);
            segment.bytes = end;
            found(hint);
        }
        Ok(Some(segment))
    }

    fn path(&self, first: u64) -> PathBuf {
        self.dir.join(format!("{first:012}{SUFFIX}"))
    }

    /// Appends a hint; answers its number. Not durable before [`HintLog::sync`].
    pub(super) fn append(&mut self, kept_at_ms: u64, record: &[u8]) -> io::Result<u64> {
        let number = self.next;
        let is_full = |segment: &Segment| segment.bytes >= SEGMENT_BYTES_MAX;
        if self.segments.back().is_none_or(is_full) {
            self.begin_segment()?;
        }
        let segment = self.segments.back_mut().expect("there is one now");
        let mut bytes = Vec::with_capacity(PREFIX_BYTES + 8 + record.len());
        bytes.put_u32_le(8 + record.len() as u32);
        let crc = hint_crc(number, kept_at_ms, record);
        bytes.put_u32_le(crc);
        bytes.put_u64_le(kept_at_ms);
        bytes.put_slice(record);
        segment.file.write_all_at(&bytes, segment.bytes)?;
        segment.offsets.push(segment.bytes as u32);
        segment.bytes += bytes.len() as u64;
        self.next += 1;
        Ok(number)
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        self.sync()?;
        let first = self.next;
        let path = self.path(first);
        // What an attempt left for which there was no room on the disk: it has no hints, or they would have been counted.
        match self.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.disk.open(&path, OpenMode::CreateNew)?;
        file.write_all_at(&header(first), 0)?;
        file.sync_data()?;
        self.disk.sync_dir(&self.dir)?;
        let segment = Segment { first, path, file, bytes: HEADER_BYTES, offsets: Vec::new() };
        self.segments.push_back(segment);
        Ok(())
    }

    /// Makes everything so far durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.segments.back().map_or(Ok(()), |segment| segment.file.sync_data())
    }

    /// The record of a hint.
    pub(super) fn read(&self, number: u64) -> io::Result<Option<Bytes>> {
        let segment = self.segments.iter().rev().find(|segment| segment.first <= number);
        let Some(segment) = segment else { return Ok(None) };
        let Some(&offset) = segment.offsets.get((number - segment.first) as usize) else { return Ok(None) };
        Ok(segment.read_at(u64::from(offset), segment.bytes)?.map(|(hint, _)| hint.record))
    }

    /// Removes the segments whose hints all have numbers up to this one.
    pub(super) fn forget(&mut self, number: u64) -> io::Result<()> {
        while let Some(segment) = self.segments.front() {
            let is_over = segment.first + segment.offsets.len() as u64 <= number + 1;
            let is_current = self.segments.len() == 1 && segment.bytes < SEGMENT_BYTES_MAX;
            // The current segment is removed as well if all of it is delivered, so that a restart repeats nothing.
            if !is_over || (is_current && number + 1 < self.next) {
                break;
            }
            let segment = self.segments.pop_front().expect("it was looked at");
            self.disk.remove(&segment.path)?;
        }
        Ok(())
    }
}

impl Segment {
    /// The hint at an offset, and its end; `None` if there is no complete hint.
    fn read_at(&self, offset: u64, length: u64) -> io::Result<Option<(FoundHint, u64)>> {
        let body = offset + PREFIX_BYTES as u64;
        if body > length {
            return Ok(None);
        }
        let mut prefix = [0; PREFIX_BYTES];
        self.file.read_exact_at(&mut prefix, offset)?;
        let [l0, l1, l2, l3, c0, c1, c2, c3] = prefix;
        let bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if !(8..=FRAME_BYTES_MAX).contains(&bytes) || body + bytes as u64 > length {
            return Ok(None);
        }
        let mut content = vec![0; bytes];
        self.file.read_exact_at(&mut content, body)?;
        let content = Bytes::from(content);
        let (kept_at, record) = content.split_at(8);
        let kept_at_ms = u64::from_le_bytes(kept_at.try_into().expect("eight bytes"));
        let number = self.first + self.offsets.partition_point(|&other| u64::from(other) < offset) as u64;
        if hint_crc(number, kept_at_ms, record) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Ok(None);
        }
        let hint = FoundHint { number, kept_at_ms, record: content.slice(8..) };
        Ok(Some((hint, body + bytes as u64)))
    }
}

/// The segments of a directory that are damaged, by their names; changes nothing. What a hint says is not looked at: one that is broken
/// cannot be told from one that was not synced, and repair brings what it was about.
pub(super) fn damaged(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<String>> {
    let mut damaged = Vec::new();
    for name in disk.list(dir)? {
        let Some(first) = first_of(&name) else { continue };
        let file = disk.open(&dir.join(&name), OpenMode::Read)?;
        // A header is synced before the first hint; who found no room for it has left it short.
        if file.len()? >= HEADER_BYTES && !begins_with_header(&*file, first)? {
            damaged.push(name);
        }
    }
    Ok(damaged)
}

/// The number of the first hint of the segment that is called so.
fn first_of(name: &str) -> Option<u64> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}

fn begins_with_header(file: &dyn File, first: u64) -> io::Result<bool> {
    let mut found = [0; HEADER_BYTES as usize];
    if file.len()? < HEADER_BYTES {
        return Ok(false);
    }
    file.read_exact_at(&mut found, 0)?;
    Ok(found == header(first))
}

fn header(first: u64) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..7].copy_from_slice(MAGIC);
    header[7] = FORMAT;
    header[8..16].copy_from_slice(&first.to_le_bytes());
    let crc = crc32c::crc32c(&header[..16]);
    header[16..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Ties a hint to its number, so that what an earlier segment of the same name left is none.
fn hint_crc(number: u64, kept_at_ms: u64, record: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&number.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &kept_at_ms.to_le_bytes()), record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(disk: &Arc<dyn Disk>) -> (HintLog, Vec<(u64, Bytes)>) {
        let mut found = Vec::new();
        let log = HintLog::open(disk, Path::new("/hints/1"), |hint| found.push((hint.number, hint.record)))
            .expect("a log");
        (log, found)
    }

    #[test]
    fn hints_are_found_again_in_their_order_and_forgotten_by_the_segment() {
        let (env, _disk, _clock) = ladoga_env::sim::env(1);
        let disk = Arc::clone(&env.disk);
        let (mut log, found) = open(&disk);
        assert!(found.is_empty());
        let record = vec![7; 100_000];
        for number in 1..=200 {
            assert_eq!(log.append(5, &record).expect("room"), number);
        }
        log.sync().expect("a sync");
        assert_eq!(log.read(1).expect("a read").expect("a hint"), record);
        assert_eq!(log.read(200).expect("a read").expect("a hint"), record);
        assert_eq!(log.read(201).expect("a read"), None);
        drop(log);
        let (mut log, found) = open(&disk);
        assert!(found.iter().map(|(number, _)| *number).eq(1..=200));
        log.forget(150).expect("a removal");
        assert_eq!(log.append(5, b"more").expect("room"), 201);
        drop(log);
        let (mut log, found) = open(&disk);
        assert!(found.first().is_some_and(|(number, _)| (2..=151).contains(number)));
        log.forget(201).expect("a removal");
        drop(log);
        assert!(open(&disk).1.is_empty());
    }

    #[test]
    fn a_segment_that_could_not_be_begun_is_begun_again() {
        let (env, sim, _clock) = ladoga_env::sim::env(3);
        let disk = Arc::clone(&env.disk);
        let (mut log, _) = open(&disk);
        sim.set_capacity(Some(0));
        log.append(5, b"none").expect_err("no room");
        assert_eq!(sim.paths().len(), 1, "what is left of the attempt");
        // Whether or not the node is restarted before there is room again.
        for _ in 0..2 {
            sim.set_capacity(Some(0));
            let (mut log, found) = open(&disk);
            assert!(found.is_empty());
            log.append(5, b"none").expect_err("no room");
            sim.set_capacity(None);
            assert_eq!(log.append(5, b"kept").expect("room"), 1);
            log.forget(1).expect("a removal");
        }
        sim.set_capacity(None);
        assert_eq!(log.append(5, b"kept").expect("room"), 1);
        assert_eq!(log.read(1).expect("a read").expect("a hint"), &b"kept"[..]);
    }

    #[test]
    fn what_was_not_synced_is_lost_from_the_end() {
        let (env, sim, _clock) = ladoga_env::sim::env(2);
        let disk = Arc::clone(&env.disk);
        let (mut log, _) = open(&disk);
        for _ in 0..10 {
            log.append(5, b"kept").expect("room");
        }
        log.sync().expect("a sync");
        log.append(5, b"torn").expect("room");
        drop(log);
        let paths = sim.paths();
        let path = paths.iter().find(|path| path.to_string_lossy().ends_with(SUFFIX)).expect("a segment");
        let file = disk.open(path, OpenMode::ReadWrite).expect("the segment");
        let length = file.len().expect("a length");
        file.truncate(length - 1).expect("a cut");
        let (mut log, found) = open(&disk);
        assert_eq!(found.len(), 10);
        assert_eq!(log.append(5, b"next").expect("room"), 11);
        assert_eq!(log.read(11).expect("a read").expect("a hint"), &b"next"[..]);
    }

    #[test]
    fn hints_of_a_segment_that_is_back_are_numbered_anew() {
        let (env, _disk, _clock) = ladoga_env::sim::env(1);
        let disk = Arc::clone(&env.disk);
        let dir = Path::new("/hints/1");
        let (mut log, _) = open(&disk);
        log.append(1, b"old 1").expect("room");
        log.forget(1).expect("a disk that works");
        log.append(1, b"old 2").expect("room");
        log.sync().expect("a disk that works");
        let back = log.path(2);
        let kept = disk.open(&back, OpenMode::Read).expect("it is there");
        let mut bytes = vec![0; kept.len().expect("a length") as usize];
        kept.read_exact_at(&mut bytes, 0).expect("all of it");
        drop((log, kept));
        disk.remove(&back).expect("it is there");
        let (mut log, found) = open(&disk);
        assert!(found.is_empty());
        for record in [b"new 1", b"new 2"] {
            log.append(2, record).expect("room");
        }
        log.sync().expect("a disk that works");
        drop(log);
        disk.open(&back, OpenMode::CreateNew).expect("it is gone").write_all_at(&bytes, 0).expect("room");

        let expected =
            [(1, "new 1"), (2, "new 2"), (3, "old 2")].map(|(number, text)| (number, Bytes::from(text)));
        let (mut log, found) = open(&disk);
        assert_eq!(found, expected);
        assert_eq!(log.read(3).expect("a disk that works"), Some(Bytes::from("old 2")));
        assert_eq!(log.append(3, b"next").expect("room"), 4);
        drop(log);
        assert_eq!(open(&disk).1[..3], expected, "it is as if it had always been so");
        assert_eq!(disk.list(dir).expect("the directory").len(), 1);
    }
}
