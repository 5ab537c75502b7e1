//! The frames that logs are made of: the write-ahead log's groups and the manifest's edits.
//!
//! ```text
//! log     := header, frame*, anything                      (the rest is what the file held or was given before)
//! header  := "LADOGA" kind u8 0, format u32, number u64, first_sequence u64, crc u32
//! frame   := 0x4c465241 u32, crc u32, length u32, sequence u64, durable u64, payload
//! ```
//!
//! `crc` is crc32c over the log's number and everything behind the checksum, so a frame of another log is none.
//! `sequence` counts frames; `durable` is the sequence up to which everything was known to be on disk when the frame
//! was written. That tells a torn tail from corruption: a frame that is missing although a later one calls it durable
//! was there once.

use std::path::Path;

use crate::coding::{Reader, u32_at};
use crate::error::Error;

/// The newest format of log files that this code reads and the one that it writes.
const FORMAT: u32 = 1;
const FRAME_MAGIC: u32 = 0x4c46_5241;
pub(crate) const HEADER_BYTES: usize = 8 + 4 + 8 + 8 + 4;
pub(crate) const FRAME_HEADER_BYTES: usize = 4 + 4 + 4 + 8 + 8;
/// The longest payload; a length above it is no length.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 256 << 20;

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

/// The beginning of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub number: u64,
    pub first_sequence: u64,
}

impl Header {
    pub(crate) fn encode(&self, kind: LogKind) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(b"LADOGA");
        out.extend_from_slice(&[kind.byte(), 0]);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.first_sequence.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` where the bytes are no header of this kind; an error where they are one of a newer format.
    pub(crate) fn decode(kind: LogKind, path: &Path, bytes: &[u8]) -> Result<Option<Header>, Error> {
        let mut reader = Reader::new(bytes);
        let parsed = (|| {
            let magic = reader.bytes(8)?;
            let rest = (reader.u32()?, reader.u64()?, reader.u64()?, reader.u32()?);
            (magic[..6] == *b"LADOGA" && magic[6..] == [kind.byte(), 0]).then_some(rest)
        })();
        let Some((format, number, first_sequence, crc)) = parsed else { return Ok(None) };
        if crc != crc32c::crc32c(&bytes[..HEADER_BYTES - 4]) {
            return Ok(None);
        }
        if format > FORMAT {
            return Err(Error::NewerFormat { path: path.into(), found: format, supported: FORMAT });
        }
        Ok(Some(Header { number, first_sequence }))
    }
}

fn checksum(number: u64, covered: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), covered)
}

/// Builds one frame in a buffer that is used again and again.
pub(crate) fn encode_frame<'a>(
    out: &mut Vec<u8>,
    number: u64,
    sequence: u64,
    durable: u64,
    parts: impl Iterator<Item = &'a [u8]>,
) {
    out.clear();
    out.extend_from_slice(&FRAME_MAGIC.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&durable.to_le_bytes());
    parts.for_each(|part| out.extend_from_slice(part));
    let payload = out.len() - FRAME_HEADER_BYTES;
    assert!(payload <= PAYLOAD_BYTES_MAX, "callers bound a group");
    out[8..12].copy_from_slice(&(payload as u32).to_le_bytes());
    let crc = checksum(number, &out[8..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// One frame, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub sequence: u64,
    pub durable: u64,
    pub payload: &'a [u8],
}

/// Reads the frame at the beginning of `bytes`; `None` where there is none of log `number`.
pub(crate) fn decode_frame(number: u64, bytes: &[u8]) -> Option<Frame<'_>> {
    let mut reader = Reader::new(bytes);
    if reader.u32()? != FRAME_MAGIC {
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
    (checksum(number, covered) == crc).then_some(Frame { sequence, durable, payload })
}

/// The frames of a log from `offset` on, in order, up to the first that is not the expected one.
pub(crate) struct Frames<'a> {
    bytes: &'a [u8],
    number: u64,
    offset: usize,
    expected: u64,
}

impl<'a> Frames<'a> {
    pub(crate) const fn new(bytes: &'a [u8], number: u64, first_sequence: u64) -> Frames<'a> {
        Frames { bytes, number, offset: HEADER_BYTES, expected: first_sequence }
    }

    /// Where the next frame would begin.
    pub(crate) const fn offset(&self) -> usize {
        self.offset
    }

    /// The next frame's sequence.
    pub(crate) const fn expected(&self) -> u64 {
        self.expected
    }

    pub(crate) fn next_frame(&mut self) -> Option<Frame<'a>> {
        let frame = decode_frame(self.number, self.bytes.get(self.offset..)?)?;
        if frame.sequence != self.expected {
            return None;
        }
        self.offset += FRAME_HEADER_BYTES + frame.payload.len();
        self.expected += 1;
        Some(frame)
    }
}

/// What lies behind the place where a log's frames end: the valid frames that are there although they do not follow.
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
    /// Looks through `bytes` of log `number` for frames from `expected` on.
    pub(crate) fn find(bytes: &[u8], number: u64, expected: u64) -> Leftovers {
        let magic = FRAME_MAGIC.to_le_bytes();
        let mut found = Leftovers::default();
        let mut offset = 0;
        while let Some(step) = memchr::memmem::find(&bytes[offset..], &magic) {
            offset += step;
            match decode_frame(number, &bytes[offset..]) {
                Some(frame) if frame.sequence >= expected => {
                    found.frames += u64::from(frame.sequence > expected);
                    found.first = found.first.or(Some(frame.sequence));
                    found.durable = found.durable.max(frame.durable);
                    offset += FRAME_HEADER_BYTES + frame.payload.len();
                }
                _ => offset += 1,
            }
        }
        found
    }
}

/// The error for a frame that was durable and is not there any more.
pub(crate) fn missing_frame(path: &Path, bytes: &[u8], offset: usize, expected: u64) -> Error {
    let found = match bytes.get(offset..offset + FRAME_HEADER_BYTES) {
        Some(header) if u32_at(header, 0) == FRAME_MAGIC => {
            format!("a frame whose checksum {:#010x} does not match", u32_at(header, 4))
        }
        Some(_) => "no frame".to_owned(),
        None => "the end of the file".to_owned(),
    };
    Error::Corruption {
        path: path.into(),
        offset: offset as u64,
        what: "log frame",
        expected: format!("frame {expected}"),
        found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(number: u64, payloads: &[&[u8]], durable: impl Fn(u64) -> u64) -> Vec<u8> {
        let mut bytes = Header { number, first_sequence: 1 }.encode(LogKind::Wal);
        let mut frame = Vec::new();
        for (index, payload) in payloads.iter().enumerate() {
            let sequence = index as u64 + 1;
            encode_frame(&mut frame, number, sequence, durable(sequence), std::iter::once(*payload));
            bytes.extend_from_slice(&frame);
        }
        bytes
    }

    #[test]
    fn frames_come_back_in_order_and_end_at_the_first_broken_one() {
        let mut bytes = log(7, &[b"one", b"two", b"three"], |sequence| sequence - 1);
        let header = Header::decode(LogKind::Wal, Path::new("w"), &bytes).expect("known").expect("one");
        assert_eq!(header, Header { number: 7, first_sequence: 1 });
        let mut frames = Frames::new(&bytes, 7, 1);
        let payloads: Vec<_> =
            std::iter::from_fn(|| frames.next_frame()).map(|frame| frame.payload).collect();
        assert_eq!(payloads, [&b"one"[..], b"two", b"three"]);

        let second = HEADER_BYTES + FRAME_HEADER_BYTES + 3;
        bytes[second + FRAME_HEADER_BYTES] ^= 1;
        let mut frames = Frames::new(&bytes, 7, 1);
        assert!(frames.next_frame().is_some());
        assert!(frames.next_frame().is_none());
        assert_eq!((frames.offset(), frames.expected()), (second, 2));
        let leftovers = Leftovers::find(&bytes[second..], 7, 2);
        assert_eq!(leftovers, Leftovers { frames: 1, first: Some(3), durable: 2 });
    }

    #[test]
    fn a_frame_of_another_log_is_none() {
        let bytes = log(7, &[b"one"], |_| 0);
        assert!(Frames::new(&bytes, 8, 1).next_frame().is_none());
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut bytes = Header { number: 1, first_sequence: 1 }.encode(LogKind::Wal);
        bytes[8] = 9;
        let crc = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        let error = Header::decode(LogKind::Wal, Path::new("w"), &bytes).expect_err("newer");
        assert!(matches!(error, Error::NewerFormat { found: 9, supported: 1, .. }), "{error}");
        assert_eq!(Header::decode(LogKind::Manifest, Path::new("w"), &bytes).expect("other"), None);
    }
}
