//! The frames that logs are made of: the write-ahead log's groups and the manifest's edits.
//!
//! ```text
//! log     := header, frame*, anything                      (the rest is what the file held or was given before)
//! header  := "LADOGA" kind u8 0, format u32, number u64, first_sequence u64, secret u64, file_bytes u64, crc u32
//! frame   := magic u32, crc u32, length u32, sequence u64, durable u64, payload
//! ```
//!
//! A frame's `crc` is crc32c over the log's number, the store's secret and everything behind the checksum; its `magic` is
//! 0x4c465241, xor the lower half of the secret. So neither a frame of another log is valid nor one that a client makes up:
//! clients' values lie between frames that a power cut may tear, and behind the end of a log whose file held another log
//! before. Logs of format 1 have no secret; those of format 2 do not say, in `file_bytes`, how long their file was made before
//! the first frame was written to it. A manifest grows, and says 0.
//!
//! `sequence` counts frames; `durable` is the sequence up to which everything was known to be on disk when the frame was
//! written. That distinguishes a torn tail from corruption: if a later frame calls a missing frame durable, that frame was on
//! disk once.

use std::path::Path;

use crate::coding::{Reader, u32_at};
use crate::error::Error;
use crate::log_bytes::LogBytes;

/// The newest format of log files that this code reads and the one that it writes.
const FORMAT: u32 = 3;
/// The format that does not say how long its file is.
const FORMAT_WITHOUT_LENGTH: u32 = 2;
/// The format without a secret.
const FORMAT_WITHOUT_SECRET: u32 = 1;
const FRAME_MAGIC: u32 = 0x4c46_5241;
pub(crate) const FRAME_HEADER_BYTES: usize = 4 + 4 + 4 + 8 + 8;
/// The longest payload; a length above it is no length.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// A header is shorter.
pub(crate) const HEADER_BYTES_MAX: usize = 64;

/// What a log is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogKind {
    Wal,
    Manifest,
}

impl LogKind {
    const fn byte(self) -> u8 {
        match self {
            LogKind::Wal => b'W',
            LogKind::Manifest => b'M',
        }
    }
}

/// Which log frames are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogId {
    pub number: u64,
    /// What the store's clients do not know; `None` in format 1.
    pub secret: Option<u64>,
}

impl LogId {
    pub(crate) fn magic(self) -> u32 {
        FRAME_MAGIC ^ self.secret.unwrap_or(0) as u32
    }

    fn checksum(self, covered: &[u8]) -> u32 {
        let mut crc = crc32c::crc32c(&self.number.to_le_bytes());
        if let Some(secret) = self.secret {
            crc = crc32c::crc32c_append(crc, &secret.to_le_bytes());
        }
        crc32c::crc32c_append(crc, covered)
    }
}

/// The beginning of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub log: LogId,
    pub first_sequence: u64,
    /// The length of its file as it was made; `None` in formats 1 and 2.
    pub file_bytes: Option<u64>,
}

impl Header {
    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        8 + 4 + 8 + 8 + 8 * self.since_format_1().count() + 4
    }

    fn format(&self) -> u32 {
        match (self.log.secret, self.file_bytes) {
            (None, _) => FORMAT_WITHOUT_SECRET,
            (Some(_), None) => FORMAT_WITHOUT_LENGTH,
            (Some(_), Some(_)) => FORMAT,
        }
    }

    /// What later formats have behind the rest.
    fn since_format_1(&self) -> impl Iterator<Item = u64> {
        let secret = self.log.secret;
        [secret, secret.and(self.file_bytes)].into_iter().flatten()
    }

    pub(crate) fn encode(&self, kind: LogKind) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes());
        out.extend_from_slice(b"LADOGA");
        out.extend_from_slice(&[kind.byte(), 0]);
        out.extend_from_slice(&self.format().to_le_bytes());
        out.extend_from_slice(&self.log.number.to_le_bytes());
        out.extend_from_slice(&self.first_sequence.to_le_bytes());
        self.since_format_1().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// The header at the beginning of a log. `None` if there is none of this kind; an error if it is one of a newer format.
    pub(crate) fn read(kind: LogKind, bytes: &mut LogBytes) -> Result<Option<Header>, Error> {
        let path = bytes.path().clone();
        Header::decode(kind, &path, bytes.ahead(0, HEADER_BYTES_MAX)?)
    }

    fn decode(kind: LogKind, path: &Path, bytes: &[u8]) -> Result<Option<Header>, Error> {
        let mut reader = Reader::new(bytes);
        let parsed = (|| {
            let magic = reader.bytes(8)?;
            let format =
                (magic[..6] == *b"LADOGA" && magic[6..] == [kind.byte(), 0]).then_some(reader.u32()?)?;
            let (number, first_sequence) = (reader.u64()?, reader.u64()?);
            let secret = if format > FORMAT_WITHOUT_SECRET { Some(reader.u64()?) } else { None };
            let file_bytes = if format > FORMAT_WITHOUT_LENGTH { Some(reader.u64()?) } else { None };
            let log = LogId { number, secret };
            Some((format, Header { log, first_sequence, file_bytes }, reader.u32()?))
        })();
        let Some((format, header, crc)) = parsed else { return Ok(None) };
        if crc != crc32c::crc32c(&bytes[..header.bytes() - 4]) {
            return Ok(None);
        }
        if format > FORMAT {
            return Err(Error::NewerFormat { path: path.into(), found: format, supported: FORMAT });
        }
        Ok(Some(header))
    }
}

/// Builds one frame in a buffer that is used again and again.
pub(crate) fn encode_frame<'a>(
    out: &mut Vec<u8>,
    log: LogId,
    sequence: u64,
    durable: u64,
    parts: impl Iterator<Item = &'a [u8]>,
) {
    out.clear();
    out.extend_from_slice(&log.magic().to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&durable.to_le_bytes());
    parts.for_each(|part| out.extend_from_slice(part));
    let payload = out.len() - FRAME_HEADER_BYTES;
    assert!(payload <= PAYLOAD_BYTES_MAX, "callers bound a group");
    out[8..12].copy_from_slice(&(payload as u32).to_le_bytes());
    let crc = log.checksum(&out[8..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// One frame, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub sequence: u64,
    pub durable: u64,
    pub payload: &'a [u8],
}

/// Reads the frame at the beginning of `bytes`; `None` if there is no valid frame of this log.
pub(crate) fn decode_frame(log: LogId, bytes: &[u8]) -> Option<Frame<'_>> {
    let mut reader = Reader::new(bytes);
    if reader.u32()? != log.magic() {
        return None;
    }
    let crc = reader.u32()?;
    let length = reader.u32()? as usize;
    let (sequence, durable) = (reader.u64()?, reader.u64()?);
    if length > PAYLOAD_BYTES_MAX {
        return None;
    }
    let payload = reader.bytes(length)?;
    let covered = &bytes[8..FRAME_HEADER_BYTES + length];
    (log.checksum(covered) == crc).then_some(Frame { sequence, durable, payload })
}

/// Reads the frame at `offset`; `None` if there is no valid frame of this log.
fn frame_at(bytes: &mut LogBytes, log: LogId, offset: u64) -> Result<Option<Frame<'_>>, Error> {
    let header = bytes.ahead(offset, FRAME_HEADER_BYTES)?;
    if header.len() < FRAME_HEADER_BYTES || u32_at(header, 0) != log.magic() {
        return Ok(None);
    }
    let frame_bytes = FRAME_HEADER_BYTES + u32_at(header, 8) as usize;
    // Nothing is read for a length that is none.
    if frame_bytes > FRAME_HEADER_BYTES + PAYLOAD_BYTES_MAX || offset + frame_bytes as u64 > bytes.length() {
        return Ok(None);
    }
    Ok(decode_frame(log, bytes.ahead(offset, frame_bytes)?))
}

/// The frames of a log from `offset` on, in order, up to the first that is not the expected one.
pub(crate) struct Frames<'a> {
    bytes: &'a mut LogBytes,
    log: LogId,
    offset: u64,
    expected: u64,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(bytes: &'a mut LogBytes, header: Header) -> Frames<'a> {
        Frames { bytes, log: header.log, offset: header.bytes() as u64, expected: header.first_sequence }
    }

    /// Where the next frame would begin.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next frame's sequence.
    pub(crate) const fn expected(&self) -> u64 {
        self.expected
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Error> {
        let Frames { bytes, log, offset, expected } = self;
        let frame = frame_at(bytes, *log, *offset)?.filter(|frame| frame.sequence == *expected);
        // No store lives long enough for the last one.
        let (Some(frame), Some(next)) = (frame, expected.checked_add(1)) else { return Ok(None) };
        *expected = next;
        *offset += (FRAME_HEADER_BYTES + frame.payload.len()) as u64;
        Ok(Some(frame))
    }
}

/// Valid frames behind the end of a log: they are there, but do not follow the last frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Leftovers {
    /// How many of them come after the expected one: it is missing, or what leads to it is.
    pub frames: u64,
    /// The sequence of the first.
    pub first: Option<u64>,
    /// The highest sequence that one of them calls durable.
    pub durable: u64,
}

impl Leftovers {
    /// Looks through a log for frames from `expected` on, behind `offset`.
    pub(crate) fn find(
        bytes: &mut LogBytes,
        mut offset: u64,
        log: LogId,
        expected: u64,
    ) -> Result<Leftovers, Error> {
        let mut found = Leftovers::default();
        while let Some(at) = find_magic(bytes, offset, log)? {
            match frame_at(bytes, log, at)? {
                Some(frame) if frame.sequence >= expected => {
                    found.frames += u64::from(frame.sequence > expected);
                    found.first = found.first.or(Some(frame.sequence));
                    found.durable = found.durable.max(frame.durable);
                    offset = at + (FRAME_HEADER_BYTES + frame.payload.len()) as u64;
                }
                _ => offset = at + 1,
            }
        }
        Ok(found)
    }
}

/// Where a frame of this log may begin, from `offset` on.
fn find_magic(bytes: &mut LogBytes, mut offset: u64, log: LogId) -> Result<Option<u64>, Error> {
    let magic = log.magic().to_le_bytes();
    loop {
        let ahead = bytes.ahead(offset, magic.len())?;
        if ahead.len() < magic.len() {
            return Ok(None);
        }
        if let Some(step) = memchr::memmem::find(ahead, &magic) {
            return Ok(Some(offset + step as u64));
        }
        // One may begin in the last bytes that memory has.
        offset += (ahead.len() - (magic.len() - 1)) as u64;
    }
}

/// The error for a frame that was durable and is not there any more.
pub(crate) fn missing_frame(bytes: &mut LogBytes, log: LogId, offset: u64, expected: u64) -> Error {
    let found = match bytes.ahead(offset, FRAME_HEADER_BYTES) {
        Err(error) => return error,
        Ok(header) if header.len() < FRAME_HEADER_BYTES => "the end of the file".to_owned(),
        Ok(header) if u32_at(header, 0) == log.magic() => {
            format!("a frame whose checksum {:#010x} does not match", u32_at(header, 4))
        }
        Ok(_) => "no frame".to_owned(),
    };
    Error::Corruption {
        path: bytes.path().clone(),
        offset,
        what: "log frame",
        expected: format!("frame {expected}"),
        found,
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
