use std::path::{Path, PathBuf};

use ladoga_env::{Disk, OpenMode};

use crate::batch::records;
use crate::error::Error;
use crate::frame::{Frames, Header, Leftovers, LogId, LogKind, missing_frame};
use crate::log_bytes::LogBytes;
use crate::options::MEMTABLE_BYTES;
use crate::paths;
use crate::record::Record;

/// A segment is as long as a memtable, of whatever budget.
const WAL_BYTES_MAX: u64 = *MEMTABLE_BYTES.end() as u64;

/// Bytes of a segment that are written again at a time.
const REWRITE_BYTES: usize = 1 << 20;

/// One group of the log: its segment, its offset, and the batches' bytes.
pub(crate) struct LogGroup<'a> {
    pub segment: u64,
    pub path: &'a Path,
    pub offset: u64,
    pub sequence: u64,
    pub payload: &'a [u8],
}

impl<'a> LogGroup<'a> {
    /// Its records, up to the first that is none.
    pub(crate) fn records(&self) -> impl Iterator<Item = Result<Record<'a>, Error>> {
        let (path, offset) = (self.path, self.offset);
        records(self.payload).map(move |record| {
            record.ok_or_else(|| Error::Corruption {
                path: path.into(),
                offset,
                what: "log record",
                expected: "records of the log's format".to_owned(),
                found: "bytes that are none".to_owned(),
            })
        })
    }
}

/// What came of reading the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// The sequence that the next group gets.
    pub next_sequence: u64,
    /// The number that the next segment gets.
    pub next_number: u64,
    /// The first segment with a group; if there is none, the next one. Segments before it are not needed.
    pub first_number: u64,
    /// Segments of the log from there on, and the end of the groups in each.
    pub segments: Vec<(u64, u64)>,
    /// Segments behind the end of the log, to be removed before the next one is made.
    pub behind: Vec<u64>,
    /// Valid groups that are lost because a group before them is missing; only if not every group is synced.
    pub lost_groups: u64,
}

/// Where the log of a store begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogStart {
    /// The number of the first segment.
    pub first_wal: u64,
    /// The sequence of its first group.
    pub first_sequence: u64,
    /// The store's secret; `None` if the store was made before there was one.
    pub secret: Option<u64>,
    /// Whether the first segment was made.
    pub is_there: bool,
}

/// Passes every group of the log to `apply`, in order.
///
/// A missing group is a torn tail if nothing says that it had been on disk: then the log ends there. Otherwise it is
/// corruption.
pub(crate) fn replay(
    disk: &dyn Disk,
    dir: &Path,
    start: LogStart,
    apply: &mut dyn FnMut(LogGroup<'_>) -> Result<(), Error>,
) -> Result<Replayed, Error> {
    let LogStart { first_wal, first_sequence, secret, is_there } = start;
    let numbers = segments(disk, dir, first_wal)?;
    let mut replayed = Replayed {
        next_sequence: first_sequence,
        next_number: first_wal,
        first_number: first_wal,
        ..Replayed::default()
    };
    if numbers.is_empty() && is_there {
        return Err(missing_segment(dir, first_wal, "the manifest says that the log has begun".to_owned()));
    }
    let mut end = None;
    for (index, &number) in numbers.iter().enumerate() {
        if number != replayed.next_number {
            let although = format!("there is segment {number}");
            return Err(missing_segment(dir, replayed.next_number, although));
        }
        let path = paths::wal(dir, number);
        let mut bytes = LogBytes::open(disk, path, WAL_BYTES_MAX)?;
        let found = Header::read(LogKind::Wal, &mut bytes)?;
        let Some(header) = found.filter(|header| follows(header, number, replayed.next_sequence, secret))
        else {
            // The missing group was at the end of the segment before, or in this one, if its header is damaged.
            let is_next = found.is_some_and(|header| header.log.number == number);
            let place = end.filter(|_| is_next).unwrap_or_else(|| (bytes.path().clone(), 0));
            drop(bytes);
            replayed.lost_groups +=
                lost_in(disk, dir, &numbers[index..], start, replayed.next_sequence, &place)?;
            replayed.behind = numbers[index..].to_vec();
            break;
        };
        check_length(&bytes, header.file_bytes)?;
        let ended = replay_segment(&mut bytes, header, apply)?;
        let has_groups = ended.next_sequence > replayed.next_sequence;
        replayed.next_number = number + 1;
        replayed.next_sequence = ended.next_sequence;
        // In a segment that another follows they were counted when that one was made.
        replayed.lost_groups = ended.lost_groups;
        if has_groups || !replayed.segments.is_empty() {
            replayed.segments.push((number, ended.offset));
        } else {
            replayed.first_number = replayed.next_number;
        }
        end = Some((paths::wal(dir, number), ended.offset));
    }
    Ok(replayed)
}

/// Whether a segment with this header continues the log. A segment from before the store had a secret has none.
fn follows(header: &Header, number: u64, sequence: u64, secret: Option<u64>) -> bool {
    let is_ours = header.log.secret.is_none() || header.log.secret == secret;
    is_ours && header.log.number == number && header.first_sequence == sequence
}

/// Checks that a segment is as long as it was made before anything was written to it. A crash leaves it so; a shorter one has
/// lost its end, and with it the frames that may say that more was durable.
fn check_length(bytes: &LogBytes, expected: Option<u64>) -> Result<(), Error> {
    match expected.filter(|&expected| bytes.length() < expected) {
        None => Ok(()),
        Some(expected) => Err(Error::Corruption {
            path: bytes.path().clone(),
            offset: bytes.length(),
            what: "log segment length",
            expected: format!("at least {expected} bytes"),
            found: format!("{} bytes", bytes.length()),
        }),
    }
}

/// Checks that a segment which does not continue the log can be what a crash leaves: one whose header never reached the disk.
/// It has its full length by then, unless it is the last; and if the file was used before, then for a segment that is gone.
fn check_unbegun(
    bytes: &LogBytes,
    found: Option<Header>,
    number: u64,
    start: LogStart,
    is_last: bool,
) -> Result<(), Error> {
    if !is_last {
        check_length(bytes, Some(*MEMTABLE_BYTES.start() as u64))?;
    }
    match found.filter(|header| header.log.secret.is_some() && header.log.secret == start.secret) {
        Some(Header { log, .. }) if log.number != number && log.number >= start.first_wal => {
            Err(Error::Corruption {
                path: bytes.path().clone(),
                offset: 0,
                what: "log segment header",
                expected: format!("that of segment {number}"),
                found: format!("that of segment {}", log.number),
            })
        }
        _ => Ok(()),
    }
}

/// Segments are made in order and removed in order, from either end of the log, so no crash leaves a gap.
fn missing_segment(dir: &Path, number: u64, although: String) -> Error {
    Error::Missing { path: paths::wal(dir, number), although }
}

/// The numbers of the segments from `first_wal` on, in order.
pub(crate) fn segments(disk: &dyn Disk, dir: &Path, first_wal: u64) -> Result<Vec<u64>, Error> {
    let wal_dir = paths::wal_dir(dir);
    let names = disk.list(&wal_dir).map_err(Error::io("list", wal_dir))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| paths::parse(name, "", ".wal")).collect();
    numbers.retain(|&number| number >= first_wal);
    numbers.sort_unstable();
    Ok(numbers)
}

/// Where the groups of a segment end.
struct Ended {
    offset: u64,
    next_sequence: u64,
    lost_groups: u64,
}

fn replay_segment(
    bytes: &mut LogBytes,
    header: Header,
    apply: &mut dyn FnMut(LogGroup<'_>) -> Result<(), Error>,
) -> Result<Ended, Error> {
    let (segment, path) = (header.log.number, bytes.path().clone());
    let mut frames = Frames::new(bytes, header);
    loop {
        let offset = frames.offset();
        let Some(frame) = frames.next_frame()? else { break };
        apply(LogGroup { segment, path: &path, offset, sequence: frame.sequence, payload: frame.payload })?;
    }
    let (offset, expected) = (frames.offset(), frames.expected());
    let offset = offset.min(bytes.length());
    let lost = Leftovers::find(bytes, offset, header.log, expected)?;
    if lost.durable >= expected {
        return Err(missing_frame(bytes, header.log, offset, expected));
    }
    Ok(Ended { offset, next_sequence: expected, lost_groups: lost.frames })
}

/// Group `expected` is missing at `place`. Counts the groups in the rest of the log; fails if one of them says that it was
/// durable.
fn lost_in(
    disk: &dyn Disk,
    dir: &Path,
    rest: &[u64],
    start: LogStart,
    expected: u64,
    (missing_in, offset): &(PathBuf, u64),
) -> Result<u64, Error> {
    let mut lost = 0;
    for &number in rest {
        let path = paths::wal(dir, number);
        let mut bytes = LogBytes::open(disk, path.clone(), WAL_BYTES_MAX)?;
        let header = Header::read(LogKind::Wal, &mut bytes)?;
        check_unbegun(&bytes, header, number, start, rest.last() == Some(&number))?;
        // Not taken from the header, which is damaged or another log's.
        let log = LogId { number, secret: start.secret };
        let leftovers = Leftovers::find(&mut bytes, 0, log, expected)?;
        if leftovers.durable >= expected {
            let mut bytes = LogBytes::open(disk, missing_in.clone(), WAL_BYTES_MAX)?;
            return Err(missing_frame(&mut bytes, log, *offset, expected));
        }
        lost += leftovers.frames;
    }
    Ok(lost)
}

/// Makes what was replayed durable: readers are about to see it, and a crash before it is synced must not take it back.
///
/// It is written again, not only synced: if a sync failed before, the kernel may hold the pages as clean and would sync
/// nothing.
pub(crate) fn make_durable(disk: &dyn Disk, dir: &Path, log: &Replayed) -> Result<(), Error> {
    for &(number, end) in &log.segments {
        let path = paths::wal(dir, number);
        let file = disk.open(&path, OpenMode::ReadWrite).map_err(Error::io("open", &path))?;
        let mut bytes = vec![0; REWRITE_BYTES.min(end as usize)];
        for offset in (0..end).step_by(REWRITE_BYTES) {
            let piece = &mut bytes[..REWRITE_BYTES.min((end - offset) as usize)];
            file.read_exact_at(piece, offset).map_err(Error::io_at("read", &path, offset))?;
            file.write_all_at(piece, offset).map_err(Error::io_at("write", &path, offset))?;
        }
        file.sync_data().map_err(Error::io("sync", path))?;
    }
    Ok(())
}
