use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_env::{Disk, File, OpenMode};

use crate::batch::WriteBatch;
use crate::error::Error;
use crate::frame::{FRAME_HEADER_BYTES, HEADER_BYTES_MAX, Header, LogId, LogKind, encode_frame};
use crate::paths;

/// What file systems write at a time.
const PAGE_BYTES: u64 = 4096;

/// How much of a new segment is written ahead of its groups at a time, and how little of that may be left.
const AHEAD_BYTES: usize = 64 << 10;
const AHEAD_BYTES_MIN: u64 = 16 << 10;

/// One segment of the log.
///
/// If a write ends on a page that it begins, it writes zeros to the end of the page. Otherwise the kernel would have to read
/// the page first, which in a reused segment may no longer be cached, and the writer would wait for the disk.
///
/// Protocol: `(create | recycle) begin (append | sync)*`.
pub(crate) struct WalWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    log: LogId,
    offset: u64,
    capacity: u64,
    first_sequence: u64,
    /// Up to where the segment's space was written to before, by this segment or the one that it was.
    written_bytes: u64,
    frame: Vec<u8>,
}

impl WalWriter {
    /// Makes an empty segment of this size, durably.
    pub(crate) fn create(
        disk: &dyn Disk,
        dir: &Path,
        number: u64,
        capacity: u64,
    ) -> Result<WalWriter, Error> {
        let path = paths::wal(dir, number);
        let file = create_anew(disk, &path)?;
        let prepared = (|| {
            file.allocate(capacity).map_err(Error::io("allocate", &path))?;
            file.sync_data().map_err(Error::io("sync", &path))?;
            let wal_dir = paths::wal_dir(dir);
            disk.sync_dir(&wal_dir).map_err(Error::io("sync directory", wal_dir))
        })();
        if let Err(error) = prepared {
            // On a full disk the file would take the space that is needed to free some.
            drop(file);
            _ = disk.remove(&path);
            return Err(error);
        }
        Ok(WalWriter::empty(file, path, number, (capacity, 0)))
    }

    /// Durably makes an empty segment of segment `old`, whose groups are no longer needed. Old frames are not taken for new
    /// ones, since frames are checked with their log's number. Syncing bytes that were written before changes only them, while
    /// the first write to allocated space goes through the file system's journal as well.
    ///
    /// `None` if the old one is of another size.
    pub(crate) fn recycle(
        disk: &dyn Disk,
        dir: &Path,
        old: u64,
        number: u64,
        capacity: u64,
    ) -> Result<Option<WalWriter>, Error> {
        let (old, path, wal_dir) = (paths::wal(dir, old), paths::wal(dir, number), paths::wal_dir(dir));
        let file = disk.open(&old, OpenMode::ReadWrite).map_err(Error::io("open", &old))?;
        if file.len().map_err(Error::io("measure", &old))? != capacity {
            return Ok(None);
        }
        disk.rename(&old, &path).map_err(Error::io("rename", old))?;
        if let Err(error) = disk.sync_dir(&wal_dir) {
            _ = disk.remove(&path);
            return Err(Error::io("sync directory", wal_dir)(error));
        }
        Ok(Some(WalWriter::empty(file, path, number, (capacity, capacity))))
    }

    fn empty(
        file: Arc<dyn File>,
        path: PathBuf,
        number: u64,
        (capacity, written_bytes): (u64, u64),
    ) -> WalWriter {
        let log = LogId { number, secret: None };
        WalWriter {
            file,
            path,
            log,
            offset: 0,
            capacity,
            first_sequence: 0,
            written_bytes,
            frame: Vec::new(),
        }
    }

    /// Says which group comes first, and of whose log. Without a secret it is one of format 1.
    pub(crate) fn begin(&mut self, first_sequence: u64, secret: Option<u64>) -> Result<(), Error> {
        assert_eq!(self.offset, 0, "a segment begins once");
        self.log.secret = secret;
        self.first_sequence = first_sequence;
        let header = Header { log: self.log, first_sequence, file_bytes: Some(self.capacity) };
        self.frame.clear();
        self.frame.extend_from_slice(&header.encode(LogKind::Wal));
        self.write_frame().map(drop)
    }

    pub(crate) const fn number(&self) -> u64 {
        self.log.number
    }

    /// Its first group.
    pub(crate) const fn first_sequence(&self) -> u64 {
        self.first_sequence
    }

    /// Where its groups end.
    pub(crate) const fn end_offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn file(&self) -> Arc<dyn File> {
        self.file.clone()
    }

    pub(crate) const fn path(&self) -> &PathBuf {
        &self.path
    }

    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether a segment of `capacity` bytes takes a group of `bytes` bytes of batches as its first.
    pub(crate) const fn suffices(capacity: u64, bytes: usize) -> bool {
        (HEADER_BYTES_MAX + FRAME_HEADER_BYTES + bytes) as u64 <= capacity
    }

    /// The same for this segment, which is not begun.
    pub(crate) const fn will_have_room(&self, bytes: usize) -> bool {
        WalWriter::suffices(self.capacity, bytes)
    }

    /// Whether a group of `bytes` bytes of batches fits.
    pub(crate) const fn has_room(&self, bytes: usize) -> bool {
        self.offset + (FRAME_HEADER_BYTES + bytes) as u64 <= self.capacity
    }

    /// Appends a group as one frame; the answer is its size. On `StorageFull` nothing has happened: the next append
    /// goes to the same place.
    pub(crate) fn append(
        &mut self,
        sequence: u64,
        durable: u64,
        batches: &[WriteBatch],
    ) -> Result<u64, Error> {
        let parts = batches.iter().map(WriteBatch::bytes);
        encode_frame(&mut self.frame, self.log, sequence, durable, parts);
        self.write_frame()
    }

    /// Writes the frame, which has its size for an answer.
    fn write_frame(&mut self) -> Result<u64, Error> {
        let bytes = self.frame.len();
        let end = self.offset + bytes as u64;
        let begins_page = end - end % PAGE_BYTES >= self.offset;
        if begins_page {
            let page_end = end.next_multiple_of(PAGE_BYTES).min(self.capacity);
            self.frame.resize((page_end - self.offset) as usize, 0);
        }
        let written = self.file.write_all_at(&self.frame, self.offset);
        written.map_err(Error::io_at("write", &self.path, self.offset))?;
        self.written_bytes = self.written_bytes.max(self.offset + self.frame.len() as u64);
        self.offset = end;
        Ok(bytes as u64)
    }

    /// Has the next groups find space that was written to before. For a log that is synced group by group: the first write to
    /// allocated space has to go through the file system's journal as well, and so one sync pays for many.
    pub(crate) fn write_ahead(&mut self) {
        static ZEROS: [u8; AHEAD_BYTES] = [0; AHEAD_BYTES];
        let left = self.capacity - self.written_bytes;
        if left == 0 || self.written_bytes - self.offset >= AHEAD_BYTES_MIN {
            return;
        }
        let ahead = &ZEROS[..left.min(AHEAD_BYTES as u64) as usize];
        // Groups do not depend on it. If something is wrong with the disk, the sync says so.
        if self.file.write_all_at(ahead, self.written_bytes).is_ok() {
            self.written_bytes += ahead.len() as u64;
        }
    }

    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(Error::io("sync", &self.path))
    }
}

/// Creates a file in place of one that an earlier attempt has left; that one was never used.
fn create_anew(disk: &dyn Disk, path: &Path) -> Result<Arc<dyn File>, Error> {
    match disk.open(path, OpenMode::CreateNew) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            disk.remove(path).map_err(Error::io("remove", path))?;
            disk.open(path, OpenMode::CreateNew).map_err(Error::io("create", path))
        }
        other => other.map_err(Error::io("create", path)),
    }
}
