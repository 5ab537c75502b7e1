use std::path::{Path, PathBuf};

use ladoga_model::Stamp;

use crate::batch::records;
use crate::coding::u32_at;
use crate::error::Error;
use crate::frame::{
    FRAME_HEADER_BYTES, Frame, HEADER_BYTES_MAX, Header, LogKind, PAYLOAD_BYTES_MAX, decode_frame,
};
use crate::log_bytes::LogBytes;
use crate::record::{Kind, Record};

/// A cell as the log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogCell<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its version and its expiry.
    pub stamp: Stamp,
    /// What was written.
    pub value: LogValue<'a>,
}

/// What a cell of the log has for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogValue<'a> {
    /// None: it was deleted.
    Deleted,
    /// These bytes.
    Inline(&'a [u8]),
    /// What a file has.
    Large(LargeValue),
}

/// A large value, as a record names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LargeValue {
    /// The number of its file.
    pub file: u64,
    /// Its length.
    pub bytes: u64,
    /// The checksum of it all.
    pub crc: u32,
}

/// What reads a segment as its bytes come, and verifies every frame of it. It has all groups from the first to the last that it is
/// said to have, or it is an error.
pub struct SegmentReader {
    path: PathBuf,
    header: Option<Header>,
    first_sequence: u64,
    next_sequence: u64,
    end_sequence: u64,
    /// Bytes that are not read yet, and where they begin.
    ahead: Vec<u8>,
    offset: u64,
}

impl SegmentReader {
    /// One that has these groups, the last of them excluded. Errors name `path`.
    pub fn new(path: &Path, (first_sequence, end_sequence): (u64, u64)) -> SegmentReader {
        let (header, next_sequence, ahead) = (None, first_sequence, Vec::new());
        let path = path.to_path_buf();
        SegmentReader { path, header, first_sequence, next_sequence, end_sequence, ahead, offset: 0 }
    }

    /// Whether all groups were read. What follows is no part of the log.
    pub const fn is_complete(&self) -> bool {
        self.header.is_some() && self.next_sequence >= self.end_sequence
    }

    /// Takes the next bytes of the file, and gives the cells to `each` whose groups are whole. Answers the bytes of what was read:
    /// they are the next bytes of a copy that has nothing else.
    pub fn push(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(LogCell<'_>) -> Result<(), Error>,
    ) -> Result<Vec<u8>, Error> {
        self.ahead.extend_from_slice(bytes);
        let mut read = 0;
        if self.header.is_none() {
            if self.ahead.len() < HEADER_BYTES_MAX {
                return Ok(Vec::new());
            }
            read = self.read_header()?;
        }
        let Some(header) = self.header else { return Ok(Vec::new()) };
        while self.next_sequence < self.end_sequence {
            let Some(frame_bytes) = self.frame_bytes(&header, read)? else { break };
            let whole = &self.ahead[read..read + frame_bytes];
            let frame = decode_frame(header.log, whole).filter(|frame| frame.sequence == self.next_sequence);
            let frame = frame.ok_or_else(|| self.broken(read, "a frame whose checksum does not match"))?;
            self.cells(&frame, read, each)?;
            self.next_sequence += 1;
            read += frame_bytes;
        }
        self.offset += read as u64;
        Ok(self.ahead.drain(..read).collect())
    }

    /// Says that there are no more bytes.
    pub fn finish(&self) -> Result<(), Error> {
        if self.is_complete() { Ok(()) } else { Err(self.broken(0, "the end of the file")) }
    }

    /// Its length is that of the header.
    fn read_header(&mut self) -> Result<usize, Error> {
        let mut bytes = LogBytes::of(&self.path, self.ahead[..HEADER_BYTES_MAX].to_vec());
        let header = Header::read(LogKind::Wal, &mut bytes)?;
        let header = header.filter(|header| header.first_sequence == self.first_sequence);
        let Some(header) = header else {
            return Err(Error::Corruption {
                path: self.path.clone(),
                offset: 0,
                what: "log segment header",
                expected: format!("that of a segment from group {} on", self.first_sequence),
                found: "another one, or none".to_owned(),
            });
        };
        self.header = Some(header);
        Ok(header.bytes())
    }

    /// How long the frame is that begins there; `None` if it is not all there yet.
    fn frame_bytes(&self, header: &Header, at: usize) -> Result<Option<usize>, Error> {
        let ahead = &self.ahead[at..];
        if ahead.len() < FRAME_HEADER_BYTES {
            return Ok(None);
        }
        if u32_at(ahead, 0) != header.log.magic() {
            return Err(self.broken(at, "no frame"));
        }
        let payload = u32_at(ahead, 8) as usize;
        if payload > PAYLOAD_BYTES_MAX {
            return Err(self.broken(at, "a frame that is longer than any"));
        }
        let bytes = FRAME_HEADER_BYTES + payload;
        Ok((ahead.len() >= bytes).then_some(bytes))
    }

    fn cells(
        &self,
        frame: &Frame<'_>,
        at: usize,
        each: &mut dyn FnMut(LogCell<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for record in records(frame.payload) {
            let record = record.ok_or_else(|| self.broken(at, "bytes that are no records"))?;
            each(cell_of(&record))?;
        }
        Ok(())
    }

    fn broken(&self, at: usize, found: &str) -> Error {
        Error::Corruption {
            path: self.path.clone(),
            offset: self.offset + at as u64,
            what: "log frame",
            expected: format!("frame {}", self.next_sequence),
            found: found.to_owned(),
        }
    }
}

fn cell_of<'a>(record: &Record<'a>) -> LogCell<'a> {
    let value = match (record.kind, record.blob()) {
        (Kind::Tombstone, _) => LogValue::Deleted,
        (_, Some(blob)) => LogValue::Large(LargeValue { file: blob.file, bytes: blob.len, crc: blob.crc }),
        (_, None) => LogValue::Inline(record.value),
    };
    LogCell { key: record.key, stamp: record.stamp, value }
}
