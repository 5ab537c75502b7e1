//! What the bodies of frames say.
//!
//! ```text
//! request := 1 hello | 2 read { digest u8, key } | 3 write { stamp, what u8, key, [bytes] }
//!          | 4 open_value { version, key } | 5 open_cells { start, end } | 6 next { stream u32 }
//!          | 7 close { stream u32 } | 8 upload {} | 9 push { stream u32, bytes }
//!          | 10 finish { stream u32, stamp, key }
//! answer  := 1 hello | 65 stranger { line } | 66 absent { whole u8 } | 67 cell { whole u8, stamp, what u8, [bytes] }
//!          | 68 done {} | 69 refused { why u8, u64, u64 } | 70 piece { bytes } | 71 end {} | 72 stale { version }
//!          | 73 alive {} | 74 opened { stream u32 } | 75 gone {}
//! what    := 1 value: its bytes | 2 tombstone | 3 large value: its length u64 | 4 digest of a value
//! why     := 1 over capacity | 2 no room | 3 store failed | 4 unreadable | 5 clock ahead: by ms, at most ms
//!          | 6 too old: expected from this timestamp on | 7 rebuilding | 8 draining         (never change these)
//! stamp   := version, expires_at_ms u64, copies u8
//! version := timestamp u64, node u16
//! key     := length u16, bytes        line, start, end := the same
//! bytes   := all that is left
//! ```
//!
//! `alive` answers no request: it says that answers are still to come.

use bytes::{BufMut, Bytes, BytesMut};
use ladoga_cluster::{Cell, Content, ReadAnswer, Refusal};
use ladoga_model::{ClockError, Stamp, Version};

use super::frame::{Frame, FrameError, put_frame};
use super::hello::Hello;
use super::reader::Reader;

/// What one node asks of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Who speaks.
    Hello(Hello),
    /// The newest cell of a key.
    Read {
        /// Which.
        key: Bytes,
        /// Whether the version does instead of a value.
        digest: bool,
    },
    /// To store a cell, unless there is a newer one.
    Write {
        /// Under which key.
        key: Bytes,
        /// Its version.
        stamp: Stamp,
        /// `None` for a tombstone.
        value: Option<Bytes>,
    },
    /// To stream a large value, if it still has this version.
    OpenValue {
        /// Of which key.
        key: Bytes,
        /// Which one.
        version: Version,
    },
    /// To stream cells in the order of their keys, deletions included.
    OpenCells {
        /// The first key.
        start: Bytes,
        /// The key before which it ends; empty for none.
        end: Bytes,
    },
    /// The next piece of a stream.
    Next {
        /// Which stream.
        stream: u32,
    },
    /// To forget a stream. There is no answer.
    Close {
        /// Which stream.
        stream: u32,
    },
    /// A place for a large value.
    Upload,
    /// To append to it.
    Push {
        /// Which upload.
        stream: u32,
        /// A piece.
        bytes: Bytes,
    },
    /// To store it.
    Finish {
        /// Which upload.
        stream: u32,
        /// Its version.
        stamp: Stamp,
        /// Under which key.
        key: Bytes,
    },
}

/// A value, as far as one frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerValue {
    /// All of it.
    Inline(Bytes),
    /// How long it is; to be streamed.
    Large(u64),
}

/// What the other node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Who it is.
    Hello(Hello),
    /// It will not speak with this node.
    Stranger(String),
    /// What it has of a key.
    Read(ReadAnswer<PeerValue>),
    /// It is done, and durable.
    Done,
    /// It is not.
    Refused(Refusal),
    /// The next piece.
    Piece(Bytes),
    /// There are no more.
    End,
    /// It is done, but there was a newer version before.
    Stale(Version),
    /// It is still at it.
    Alive,
    /// The number of a stream.
    Opened(u32),
    /// What is to be streamed is not there any more.
    Gone,
}

const LINE_BYTES_MAX: usize = 4 << 10;

pub(super) fn put_short(out: &mut BytesMut, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("callers bound what they send");
    out.put_u16_le(length);
    out.put_slice(bytes);
}

fn put_line(out: &mut BytesMut, line: &str) {
    put_short(out, &line.as_bytes()[..line.floor_char_boundary(LINE_BYTES_MAX)]);
}

fn put_version(out: &mut BytesMut, version: Version) {
    out.put_u64_le(version.timestamp);
    out.put_u16_le(version.node);
}

fn put_stamp(out: &mut BytesMut, stamp: Stamp) {
    put_version(out, stamp.version);
    out.put_u64_le(stamp.expires_at_ms);
    out.put_u8(stamp.copies);
}

impl Request {
    /// Appends a frame.
    pub fn put(&self, out: &mut BytesMut, number: u32) {
        match self {
            Request::Hello(hello) => put_frame(out, number, 1, |out| hello.put(out)),
            Request::Read { key, digest } => put_frame(out, number, 2, |out| {
                out.put_u8(u8::from(*digest));
                put_short(out, key);
            }),
            Request::Write { key, stamp, value } => put_frame(out, number, 3, |out| {
                put_stamp(out, *stamp);
                out.put_u8(if value.is_some() { 1 } else { 2 });
                put_short(out, key);
                out.put_slice(value.as_deref().unwrap_or_default());
            }),
            Request::OpenValue { key, version } => put_frame(out, number, 4, |out| {
                put_version(out, *version);
                put_short(out, key);
            }),
            Request::OpenCells { start, end } => put_frame(out, number, 5, |out| {
                put_short(out, start);
                put_short(out, end);
            }),
            Request::Next { stream } => put_frame(out, number, 6, |out| out.put_u32_le(*stream)),
            Request::Close { stream } => put_frame(out, number, 7, |out| out.put_u32_le(*stream)),
            Request::Upload => put_frame(out, number, 8, |_| {}),
            Request::Push { stream, bytes } => put_frame(out, number, 9, |out| {
                out.put_u32_le(*stream);
                out.put_slice(bytes);
            }),
            Request::Finish { stream, stamp, key } => put_frame(out, number, 10, |out| {
                out.put_u32_le(*stream);
                put_stamp(out, *stamp);
                put_short(out, key);
            }),
        }
    }

    /// Understands a frame.
    pub(crate) fn of(frame: &Frame) -> Result<Request, FrameError> {
        let mut reader = Reader::new(frame);
        let request = match frame.kind {
            1 => Request::Hello(Hello::take(&mut reader)?),
            2 => {
                let digest = reader.bool()?;
                Request::Read { key: reader.key()?, digest }
            }
            3 => return Request::write(reader),
            4 => {
                let version = reader.version()?;
                Request::OpenValue { key: reader.key()?, version }
            }
            5 => Request::OpenCells { start: reader.short_bytes()?, end: reader.short_bytes()? },
            6 => Request::Next { stream: reader.u32()? },
            7 => Request::Close { stream: reader.u32()? },
            8 => Request::Upload,
            9 => {
                let stream = reader.u32()?;
                return Ok(Request::Push { stream, bytes: reader.rest() });
            }
            10 => {
                let (stream, stamp) = (reader.u32()?, reader.stamp()?);
                Request::Finish { stream, stamp, key: reader.key()? }
            }
            _ => return Err(reader.wrong("there is no such request")),
        };
        reader.end()?;
        Ok(request)
    }

    fn write(mut reader: Reader) -> Result<Request, FrameError> {
        let stamp = reader.stamp()?;
        let what = reader.u8()?;
        let key = reader.key()?;
        let value = match what {
            1 => Some(reader.value()?),
            2 => {
                reader.end()?;
                None
            }
            _ => return Err(reader.wrong("there is no such cell")),
        };
        Ok(Request::Write { key, stamp, value })
    }
}

impl Answer {
    /// Appends a frame.
    pub fn put(&self, out: &mut BytesMut, number: u32) {
        match self {
            Answer::Hello(hello) => put_frame(out, number, 1, |out| hello.put(out)),
            Answer::Stranger(line) => put_frame(out, number, 65, |out| put_line(out, line)),
            Answer::Read(ReadAnswer { cell: None, is_whole }) => {
                put_frame(out, number, 66, |out| out.put_u8(u8::from(*is_whole)));
            }
            Answer::Read(ReadAnswer { cell: Some(cell), is_whole }) => put_frame(out, number, 67, |out| {
                out.put_u8(u8::from(*is_whole));
                put_cell(out, cell);
            }),
            Answer::Done => put_frame(out, number, 68, |_| {}),
            Answer::Refused(refusal) => put_frame(out, number, 69, |out| put_refusal(out, refusal)),
            Answer::Piece(bytes) => put_frame(out, number, 70, |out| out.put_slice(bytes)),
            Answer::End => put_frame(out, number, 71, |_| {}),
            Answer::Stale(version) => put_frame(out, number, 72, |out| put_version(out, *version)),
            Answer::Alive => put_frame(out, number, 73, |_| {}),
            Answer::Opened(stream) => put_frame(out, number, 74, |out| out.put_u32_le(*stream)),
            Answer::Gone => put_frame(out, number, 75, |_| {}),
        }
    }

    /// Understands a frame.
    pub(crate) fn of(frame: &Frame) -> Result<Answer, FrameError> {
        let mut reader = Reader::new(frame);
        let answer = match frame.kind {
            1 => Answer::Hello(Hello::take(&mut reader)?),
            65 => Answer::Stranger(reader.line()?),
            66 => Answer::Read(ReadAnswer { cell: None, is_whole: reader.bool()? }),
            67 => {
                let is_whole = reader.bool()?;
                return Ok(Answer::Read(ReadAnswer { cell: Some(cell(reader)?), is_whole }));
            }
            68 => Answer::Done,
            69 => Answer::Refused(refusal(&mut reader)?),
            70 => return Ok(Answer::Piece(reader.rest())),
            71 => Answer::End,
            72 => Answer::Stale(reader.version()?),
            73 => Answer::Alive,
            74 => Answer::Opened(reader.u32()?),
            75 => Answer::Gone,
            _ => return Err(reader.wrong("there is no such answer")),
        };
        reader.end()?;
        Ok(answer)
    }
}

fn put_cell(out: &mut BytesMut, cell: &Cell<PeerValue>) {
    put_stamp(out, cell.stamp);
    match &cell.content {
        Content::Value(PeerValue::Inline(value)) => {
            out.put_u8(1);
            out.put_slice(value);
        }
        Content::Tombstone => out.put_u8(2),
        Content::Value(PeerValue::Large(bytes)) => {
            out.put_u8(3);
            out.put_u64_le(*bytes);
        }
        Content::Digest => out.put_u8(4),
    }
}

fn cell(mut reader: Reader) -> Result<Cell<PeerValue>, FrameError> {
    let stamp = reader.stamp()?;
    let content = match reader.u8()? {
        1 => return Ok(Cell { stamp, content: Content::Value(PeerValue::Inline(reader.value()?)) }),
        2 => Content::Tombstone,
        3 => Content::Value(PeerValue::Large(reader.value_bytes()?)),
        4 => Content::Digest,
        _ => return Err(reader.wrong("there is no such cell")),
    };
    reader.end()?;
    Ok(Cell { stamp, content })
}

fn put_refusal(out: &mut BytesMut, refusal: &Refusal) {
    let (why, first, second) = match *refusal {
        Refusal::OverCapacity => (1, 0, 0),
        Refusal::NoRoom => (2, 0, 0),
        Refusal::StoreFailed => (3, 0, 0),
        Refusal::Unreadable => (4, 0, 0),
        Refusal::ClockAhead(ClockError { ahead_ms, ahead_ms_max }) => (5, ahead_ms, ahead_ms_max),
        Refusal::TooOld { closed_before } => (6, closed_before, 0),
        Refusal::Rebuilding => (7, 0, 0),
        Refusal::Draining => (8, 0, 0),
    };
    out.put_u8(why);
    out.put_u64_le(first);
    out.put_u64_le(second);
}

fn refusal(reader: &mut Reader) -> Result<Refusal, FrameError> {
    let (why, first, second) = (reader.u8()?, reader.u64()?, reader.u64()?);
    Ok(match why {
        1 => Refusal::OverCapacity,
        2 => Refusal::NoRoom,
        3 => Refusal::StoreFailed,
        4 => Refusal::Unreadable,
        5 => Refusal::ClockAhead(ClockError { ahead_ms: first, ahead_ms_max: second }),
        6 => Refusal::TooOld { closed_before: first },
        7 => Refusal::Rebuilding,
        8 => Refusal::Draining,
        _ => return Err(reader.wrong("there is no such reason")),
    })
}
