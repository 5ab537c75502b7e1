//! The frames that logs are made of: the write-ahead log's groups and the manifest's edits.
//!
//! ```text
//! log     := header, frame*, anything                      (the rest is what the file held or was given before)
//! header  := "LADOGA" kind u8 0, format u32, number u64, first_sequence u64, secret u64, crc u32
//! frame   := magic u32, crc u32, length u32, sequence u64, durable u64, payload
//! ```
//!
//! A frame's `crc` is crc32c over the log's number, the store's secret and everything behind the checksum; its `magic` is
//! 0x4c465241, xor the lower half of the secret. So a frame of another log is none, and neither is what clients make up:
//! their values lie between frames that a power cut may tear, and behind the end of a log whose file was another's before.
//! Logs of format 1 have no secret.
//!
//! `sequence` counts frames; `durable` is the sequence up to which everything was known to be on disk when the frame
//! was written. That tells a torn tail from corruption: a frame that is missing although a later one calls it durable
//! was there once.

use std::path::Path;

use crate::coding::{Reader, u32_at};
use crate::error::Error;

/// The newest format of log files that this code reads and the one that it writes.
const FORMAT: u32 = 2;
/// The format without a secret.
const FORMAT_WITHOUT_SECRET: u32 = 1;
const FRAME_MAGIC: u32 = 0x4c46_5241;
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

/// Which log frames are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogId {
    pub number: u64,
    /// What the store's clients do not know; `None` in format 1.
    pub secret: Option<u64>,
}

impl LogId {
    fn magic(self) -> u32 {
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
}

impl Header {
    /// How long it is.
    pub(crate) const fn bytes(&self) -> usize {
        let secret = if self.log.secret.is_some() { 8 } else { 0 };
        8 + 4 + 8 + 8 + secret + 4
    }

    pub(crate) fn encode(&self, kind: LogKind) -> Vec<u8> {
        let format = if self.log.secret.is_some() { FORMAT } else { FORMAT_WITHOUT_SECRET };
        let mut out = Vec::with_capacity(self.bytes());
        out.extend_from_slice(b"LADOGA");
        out.extend_from_slice(&[kind.byte(), 0]);
        out.extend_from_slice(&format.to_le_bytes());
        out.extend_from_slice(&self.log.number.to_le_bytes());
        out.extend_from_slice(&self.first_sequence.to_le_bytes());
        self.log.secret.iter().for_each(|secret| out.extend_from_slice(&secret.to_le_bytes()));
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` where the bytes are no header of this kind; an error where they are one of a newer format.
    pub(crate) fn decode(kind: LogKind, path: &Path, bytes: &[u8]) -> Result<Option<Header>, Error> {
        let mut reader = Reader::new(bytes);
        let parsed = (|| {
            let magic = reader.bytes(8)?;
            let format =
                (magic[..6] == *b"LADOGA" && magic[6..] == [kind.byte(), 0]).then_some(reader.u32()?)?;
            let (number, first_sequence) = (reader.u64()?, reader.u64()?);
            let secret = if format == FORMAT_WITHOUT_SECRET { None } else { Some(reader.u64()?) };
            Some((format, Header { log: LogId { number, secret }, first_sequence }, reader.u32()?))
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

/// Reads the frame at the beginning of `bytes`; `None` where there is none of this log.
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

/// The frames of a log from `offset` on, in order, up to the first that is not the expected one.
pub(crate) struct Frames<'a> {
    bytes: &'a [u8],
    log: LogId,
    offset: usize,
    expected: u64,
}

impl<'a> Frames<'a> {
    pub(crate) const fn new(bytes: &'a [u8], header: Header) -> Frames<'a> {
        Frames { bytes, log: header.log, offset: header.bytes(), expected: header.first_sequence }
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
        let frame = decode_frame(self.log, self.bytes.get(self.offset..)?)?;
        if frame.sequence != self.expected {
            return None;
        }
        // No store lives long enough for the last one.
        self.expected = self.expected.checked_add(1)?;
        self.offset += FRAME_HEADER_BYTES + frame.payload.len();
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
    /// Looks through `bytes` of a log for frames from `expected` on.
    pub(crate) fn find(bytes: &[u8], log: LogId, expected: u64) -> Leftovers {
        let magic = log.magic().to_le_bytes();
        let mut found = Leftovers::default();
        let mut offset = 0;
        while let Some(step) = memchr::memmem::find(&bytes[offset..], &magic) {
            offset += step;
            match decode_frame(log, &bytes[offset..]) {
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
pub(crate) fn missing_frame(path: &Path, bytes: &[u8], log: LogId, offset: usize, expected: u64) -> Error {
    let found = match bytes.get(offset..offset + FRAME_HEADER_BYTES) {
        Some(header) if u32_at(header, 0) == log.magic() => {
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

    const LOG: LogId = LogId { number: 7, secret: Some(0x0123_4567_89ab_cdef) };
    const OLD_LOG: LogId = LogId { number: 7, secret: None };

    fn log(log: LogId, payloads: &[&[u8]], durable: impl Fn(u64) -> u64) -> Vec<u8> {
        let mut bytes = Header { log, first_sequence: 1 }.encode(LogKind::Wal);
        let mut frame = Vec::new();
        for (index, payload) in payloads.iter().enumerate() {
            let sequence = index as u64 + 1;
            encode_frame(&mut frame, log, sequence, durable(sequence), std::iter::once(*payload));
            bytes.extend_from_slice(&frame);
        }
        bytes
    }

    #[test]
    fn frames_come_back_in_order_and_end_at_the_first_broken_one() {
        for id in [LOG, OLD_LOG] {
            let mut bytes = log(id, &[b"one", b"two", b"three"], |sequence| sequence - 1);
            let header = Header::decode(LogKind::Wal, Path::new("w"), &bytes).expect("known").expect("one");
            assert_eq!(header, Header { log: id, first_sequence: 1 });
            let mut frames = Frames::new(&bytes, header);
            let payloads: Vec<_> =
                std::iter::from_fn(|| frames.next_frame()).map(|frame| frame.payload).collect();
            assert_eq!(payloads, [&b"one"[..], b"two", b"three"]);

            let second = header.bytes() + FRAME_HEADER_BYTES + 3;
            bytes[second + FRAME_HEADER_BYTES] ^= 1;
            let mut frames = Frames::new(&bytes, header);
            assert!(frames.next_frame().is_some());
            assert!(frames.next_frame().is_none());
            assert_eq!((frames.offset(), frames.expected()), (second, 2));
            let leftovers = Leftovers::find(&bytes[second..], id, 2);
            assert_eq!(leftovers, Leftovers { frames: 1, first: Some(3), durable: 2 });
        }
    }

    #[test]
    fn a_frame_of_another_log_or_store_is_none() {
        let others = [
            LogId { number: 8, ..LOG },
            OLD_LOG,
            // The magic of one is that of the other.
            LogId { secret: LOG.secret.map(|secret| secret ^ 1 << 60), ..LOG },
            LogId { secret: LOG.secret.map(|secret| secret ^ 1), ..LOG },
        ];
        let mut frame = Vec::new();
        encode_frame(&mut frame, LOG, 1, 0, std::iter::once(&b"one"[..]));
        assert!(decode_frame(LOG, &frame).is_some());
        for other in others {
            assert!(decode_frame(other, &frame).is_none(), "{other:?}");
            assert_eq!(Leftovers::find(&frame, other, 1), Leftovers::default(), "{other:?}");
        }
    }

    #[test]
    fn the_last_sequence_there_is_ends_a_log() {
        let header = Header { log: LOG, first_sequence: u64::MAX };
        let (mut bytes, mut frame) = (header.encode(LogKind::Wal), Vec::new());
        encode_frame(&mut frame, LOG, u64::MAX, 0, std::iter::once(&b"one"[..]));
        bytes.extend_from_slice(&frame);
        assert!(Frames::new(&bytes, header).next_frame().is_none());
    }

    #[test]
    fn a_newer_format_is_named() {
        let header = Header { log: LOG, first_sequence: 1 };
        let mut bytes = header.encode(LogKind::Wal);
        bytes[8] = 9;
        let crc_at = header.bytes() - 4;
        let crc = crc32c::crc32c(&bytes[..crc_at]);
        bytes[crc_at..].copy_from_slice(&crc.to_le_bytes());
        let error = Header::decode(LogKind::Wal, Path::new("w"), &bytes).expect_err("newer");
        assert!(matches!(error, Error::NewerFormat { found: 9, supported: 2, .. }), "{error}");
        assert_eq!(Header::decode(LogKind::Manifest, Path::new("w"), &bytes).expect("other"), None);
    }
}
