//! The log of the last hours, kept for backups that restore to a point in time.
//!
//! A segment gets a second name in `wal-kept/` before the manifest says that its records are in tables, and loses its first one
//! afterwards: so at each moment, a crash leaves it under one of them. A large value that it names gets a name there, too, one for
//! each segment. Nothing that is written for a client waits for any of it, and what cannot be kept is a gap that backups find.

mod removal;
mod room;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ladoga_env::{Clock, Disk, OpenMode};
use parking_lot::{Mutex, MutexGuard};

use crate::error::Error;
use crate::frame::{HEADER_BYTES_MAX, Header, LogKind};
use crate::log_bytes::LogBytes;
use crate::log_file::{KeptSegment, LogFile, kept_dir, large_name, parse_large};
use crate::paths;
use crate::stats::KeptStatistics;
use room::AwaitedRoom;
pub(crate) use room::RoomLimits;
use sizes::KeptSizes;

/// The segments that are kept, oldest first. No other lock than `changing` is held while the disk is waited for.
pub(crate) struct KeptLog {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    kept: PathBuf,
    keep_ms: u64,
    segments: Mutex<BTreeMap<u64, Kept>>,
    sizes: Mutex<KeptSizes>,
    /// Held while segments are kept or removed: the files are those that `segments` and `left` have.
    changing: Mutex<()>,
    /// What could not be removed yet of segments that are kept no more.
    left: Mutex<Vec<Kept>>,
    /// Whether it was told that something could not be removed.
    has_told: AtomicBool,
    /// Whether it was told that there are too many segments.
    has_told_too_many: AtomicBool,
    /// Segments that could not be kept, or had to go early.
    gaps: AtomicU64,
    /// Where the groups of a segment end that takes no more, by its number; until it is shortened.
    ends: Mutex<BTreeMap<u64, u64>>,
    /// The same of those that could not be shortened yet.
    unshortened: Mutex<BTreeMap<u64, u64>>,
    /// Room that comes with what was removed.
    awaited: Mutex<AwaitedRoom>,
}

/// A segment that is kept, with the large values that it names.
struct Kept {
    segment: KeptSegment,
    larges: BTreeSet<u64>,
    /// How long it is itself.
    bytes: u64,
}

impl KeptLog {
    /// Finds what is kept in `dir`, and removes what a crash has left.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        clock: &Arc<dyn Clock>,
        dir: &Path,
        keep_ms: u64,
    ) -> Result<KeptLog, Error> {
        let kept = kept_dir(dir);
        disk.create_dir_all(&kept).map_err(Error::io("create directory", &kept))?;
        let names = disk.list(&kept).map_err(Error::io("list", &kept))?;
        let found = names.iter().filter_map(|name| KeptSegment::parse(name));
        let segments: BTreeMap<u64, KeptSegment> = found.map(|segment| (segment.number, segment)).collect();
        let mut segments: BTreeMap<u64, Kept> = segments
            .into_iter()
            .map(|(number, segment)| (number, Kept { segment, larges: BTreeSet::new(), bytes: 0 }))
            .collect();
        let mut sizes = KeptSizes::default();
        for name in names {
            let large = parse_large(&name);
            let number = large.map(|(segment, _)| segment);
            let number = number.or_else(|| KeptSegment::parse(&name).map(|segment| segment.number));
            let path = kept.join(&name);
            match number.and_then(|number| segments.get_mut(&number)) {
                Some(kept) if large.is_some() || kept.segment.file_name() == name => {
                    let bytes = length(&**disk, &path);
                    if let Some((_, file)) = large {
                        kept.larges.insert(file);
                        sizes.add_large(file, bytes);
                    } else {
                        kept.bytes = bytes;
                        sizes.add_segment(bytes);
                    }
                }
                _ => disk.remove(&path).map_err(Error::io("remove", path))?,
            }
        }
        Ok(KeptLog {
            disk: Arc::clone(disk),
            clock: Arc::clone(clock),
            dir: dir.to_path_buf(),
            kept,
            keep_ms,
            segments: Mutex::new(segments),
            sizes: Mutex::new(sizes),
            changing: Mutex::default(),
            left: Mutex::default(),
            has_told: AtomicBool::new(false),
            has_told_too_many: AtomicBool::new(false),
            gaps: AtomicU64::new(0),
            ends: Mutex::default(),
            unshortened: Mutex::default(),
            awaited: Mutex::default(),
        })
    }

    /// Removes what a store kept that is to keep none: its files may be used again from now on.
    pub(crate) fn remove_all_in(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
        let kept = kept_dir(dir);
        let names = match disk.list(&kept) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            names => names.map_err(Error::io("list", &kept))?,
        };
        // As elsewhere: no large value goes before the segment that names it, and the oldest go first.
        let (mut segments, larges): (Vec<_>, Vec<_>) =
            names.iter().partition(|name| KeptSegment::parse(name).is_some());
        segments.sort_by_key(|name| KeptSegment::parse(name).map(|segment| segment.number));
        for names in [segments, larges].into_iter().filter(|names| !names.is_empty()) {
            for name in names {
                let path = kept.join(name);
                disk.remove(&path).map_err(Error::io("remove", path))?;
            }
            disk.sync_dir(&kept).map_err(Error::io("sync directory", &kept))?;
        }
        Ok(())
    }

    /// Notes where the groups of a segment end.
    pub(crate) fn ends_at(&self, number: u64, offset: u64) {
        self.ends.lock().insert(number, offset);
    }

    /// Keeps a segment, durably, and the large values that it names. The log has it under its own name until after that.
    pub(crate) fn keep(&self, number: u64, end_sequence: u64, larges: &BTreeSet<u64>) -> Result<(), Error> {
        let _changing = self.changing.lock();
        let missing =
            self.segments.lock().get(&number).map(|kept| larges.difference(&kept.larges).copied().collect());
        if let Some(missing) = missing {
            return self.keep_missing(number, missing);
        }
        // An attempt that failed: what removes the rest of it would remove what this one makes.
        self.remove_left(|left| left.number == number)?;
        let path = paths::wal(&self.dir, number);
        let file = self.disk.open(&path, OpenMode::ReadWrite).map_err(Error::io("open", &path))?;
        let mut bytes = vec![0; HEADER_BYTES_MAX];
        file.read_exact_at(&mut bytes, 0).map_err(Error::io("read", &path))?;
        let header = Header::read(LogKind::Wal, &mut LogBytes::of(&path, bytes))?;
        let Some(header) = header.filter(|header| header.log.number == number) else {
            return Err(Error::Corruption {
                path,
                offset: 0,
                what: "log segment header",
                expected: format!("that of segment {number}"),
                found: "another one, or none".to_owned(),
            });
        };
        let first_sequence = header.first_sequence;
        if first_sequence >= end_sequence {
            return Ok(());
        }
        // What a store that syncs less often has not synced yet.
        file.sync_data().map_err(Error::io("sync", &path))?;
        // The directory that is synced takes a descriptor, too.
        drop(file);
        let kept_ms = self.clock.wall_ms();
        let segment = KeptSegment { number, first_sequence, end_sequence, kept_ms };
        let mut kept = Kept { segment, larges: larges.clone(), bytes: 0 };
        let linked = self
            .link_larges(number, larges)
            .and_then(|()| self.link(&path, &self.kept.join(segment.file_name())))
            .and_then(|()| self.sync_names());
        kept.bytes = length(&*self.disk, &path);
        self.note_larges(number, larges);
        self.sizes.lock().add_segment(kept.bytes);
        if let Err(error) = linked {
            // Or nobody knows of these names before the store is opened again, and their files keep their room.
            self.remove(vec![kept]);
            return Err(error);
        }
        self.segments.lock().insert(number, kept);
        Ok(())
    }

    fn sync_names(&self) -> Result<(), Error> {
        self.disk.sync_dir(&self.kept).map_err(Error::io("sync directory", &self.kept))
    }

    /// Keeps large values of a segment that is kept, durably. A power cut before the names were synced may have left its own, and none
    /// of theirs.
    fn keep_missing(&self, number: u64, missing: BTreeSet<u64>) -> Result<(), Error> {
        if missing.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.link_larges(number, &missing).and_then(|()| self.sync_names()) {
            missing.iter().for_each(|&large| _ = self.remove_name(&large_name(number, large)));
            return Err(error);
        }
        self.note_larges(number, &missing);
        if let Some(kept) = self.segments.lock().get_mut(&number) {
            kept.larges.extend(missing);
        }
        Ok(())
    }

    fn link_larges(&self, number: u64, larges: &BTreeSet<u64>) -> Result<(), Error> {
        let mut names = larges.iter().map(|&large| (large, self.kept.join(large_name(number, large))));
        names.try_for_each(|(large, name)| self.link(&paths::blob(&self.dir, large), &name))
    }

    fn note_larges(&self, number: u64, larges: &BTreeSet<u64>) {
        for &large in larges {
            let bytes = length(&*self.disk, &self.kept.join(large_name(number, large)));
            self.sizes.lock().add_large(large, bytes);
        }
    }

    pub(crate) fn sizes(&self) -> MutexGuard<'_, KeptSizes> {
        self.sizes.lock()
    }

    /// Notes that a segment could not be kept, or had to go early.
    pub(crate) fn note_gap(&self) {
        self.gaps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn statistics(&self) -> KeptStatistics {
        let segments = self.segments.lock();
        KeptStatistics {
            segments: segments.len() as u64,
            oldest_ms: segments.first_key_value().map_or(0, |(_, oldest)| oldest.segment.kept_ms),
            bytes: self.sizes.lock().bytes(),
            gaps: self.gaps.load(Ordering::Relaxed),
        }
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), Error> {
        match self.disk.hard_link(from, to) {
            // By an attempt that failed later on.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked.map_err(Error::io("link", to)),
        }
    }

    /// Gives back the room that a segment has not used. The log does not need it any more: there it had to be as long as it was
    /// made.
    pub(crate) fn shorten(&self, number: u64) {
        let Some(end) = self.ends.lock().remove(&number) else { return };
        self.shorten_to(number, end);
    }

    /// Does so for those for which there was no descriptor.
    fn shorten_others(&self) {
        let unshortened = std::mem::take(&mut *self.unshortened.lock());
        unshortened.into_iter().for_each(|(number, end)| self.shorten_to(number, end));
    }

    fn shorten_to(&self, number: u64, end: u64) {
        let name = self.segments.lock().get(&number).map(|kept| kept.segment.file_name());
        let Some(path) = name.map(|name| self.kept.join(name)) else { return };
        let open = self.disk.open(&path, OpenMode::ReadWrite);
        let shortened = open.and_then(|file| {
            let before = file.len()?;
            file.truncate(end)?;
            Ok(before.saturating_sub(end))
        });
        match shortened.map_err(Error::io("shorten", path)) {
            Ok(less) => {
                if let Some(kept) = self.segments.lock().get_mut(&number) {
                    let less = less.min(kept.bytes);
                    kept.bytes -= less;
                    self.sizes.lock().remove_segment(less);
                }
            }
            Err(error) if error.is_out_of_descriptors() => _ = self.unshortened.lock().insert(number, end),
            Err(error) => tracing::warn!(%error, "could not shorten a segment that is kept"),
        }
    }

    /// The segments, oldest first, from the one on that ends behind `after`.
    pub(crate) fn segments(&self, after: u64, count_max: usize) -> Vec<KeptSegment> {
        let segments = self.segments.lock();
        let segments = segments.values().map(|kept| kept.segment);
        segments.filter(|segment| segment.end_sequence > after).take(count_max).collect()
    }

    /// Where a file is; `None` if it is not there any more.
    pub(crate) fn path(&self, file: LogFile) -> Option<PathBuf> {
        let (LogFile::Segment(number) | LogFile::Large { segment: number, .. }) = file;
        let segment = self.segments.lock().get(&number)?.segment;
        Some(self.kept.join(match file {
            LogFile::Segment(_) => segment.file_name(),
            LogFile::Large { segment, file } => large_name(segment, file),
        }))
    }
}

/// How long a file is. Nothing depends on it but a figure.
fn length(disk: &dyn Disk, path: &Path) -> u64 {
    disk.open(path, OpenMode::Read).and_then(|file| file.len()).unwrap_or(0)
}

#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod tests;
