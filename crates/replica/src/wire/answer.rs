use bytes::{BufMut, Bytes, BytesMut};
use ladoga_cluster::{
    AcceptAnswer, Had, KeyVersion, PrepareAnswer, ReadAnswer, Refusal, Statement, WriteAnswer,
};
use ladoga_model::{CellMark, Version};

use super::forward::Forwarded;
use super::frame::{Frame, FrameError, put_frame};
use super::hello::Hello;
use super::message::{
    put_line, put_refusal, put_sent_cell, put_short, put_stamp, put_version, refusal, sent_cell,
};
use super::parts::{had, had_byte, optional_key, put_optional_key, put_statement, statement};
use super::reader::Reader;

/// An answer of another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Who it is.
    Hello(Box<Hello>),
    /// It will not speak with this node.
    Stranger(String),
    /// What it has of a key.
    Read(ReadAnswer<Bytes, u64>),
    /// It is done, and durable.
    Done,
    /// It is not.
    Refused(Refusal),
    /// The next piece.
    Piece(Bytes),
    /// The end of the stream.
    End,
    /// It is done, but there was something newer already.
    Superseded {
        /// The newest version.
        newest: Version,
        /// Whether it had the cell before.
        had: Had,
    },
    /// It is not done: there is a promise to take nothing that is older than this.
    Fenced(Version),
    /// It is not done: something was promised, or is there, that is not older. The newest version that is known.
    Outbid(Version),
    /// It is still at it.
    Alive,
    /// The number of a stream.
    Opened(u32),
    /// What is to be streamed is not there any more.
    Gone,
    /// Its statement.
    Statement(Box<Statement>),
    /// The upper hashes of its tree.
    Groups {
        /// Tombstones before this are not in them.
        dropped_before: u64,
        /// All of them.
        hashes: Vec<u64>,
    },
    /// Leaves of its tree.
    Leaves(Vec<u64>),
    /// Keys and versions.
    List {
        /// In the order of the keys.
        entries: Vec<KeyVersion<Bytes>>,
        /// The last key that was scanned, if there are more.
        next: Option<Bytes>,
    },
    /// What became of a conditional request.
    Forwarded(Box<Forwarded>),
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
                put_sent_cell(out, cell);
            }),
            Answer::Done => put_frame(out, number, 68, |_| {}),
            Answer::Refused(refusal) => put_frame(out, number, 69, |out| put_refusal(out, refusal)),
            Answer::Piece(bytes) => put_frame(out, number, 70, |out| out.put_slice(bytes)),
            Answer::End => put_frame(out, number, 71, |_| {}),
            Answer::Superseded { newest, had } => put_frame(out, number, 72, |out| {
                put_version(out, *newest);
                out.put_u8(had_byte(*had));
            }),
            Answer::Alive => put_frame(out, number, 73, |_| {}),
            Answer::Opened(stream) => put_frame(out, number, 74, |out| out.put_u32_le(*stream)),
            Answer::Gone => put_frame(out, number, 75, |_| {}),
            Answer::Statement(statement) => put_frame(out, number, 76, |out| put_statement(out, statement)),
            Answer::Groups { dropped_before, hashes } => put_frame(out, number, 77, |out| {
                out.put_u64_le(*dropped_before);
                hashes.iter().for_each(|hash| out.put_u64_le(*hash));
            }),
            Answer::Leaves(leaves) => put_frame(out, number, 78, |out| {
                leaves.iter().for_each(|leaf| out.put_u64_le(*leaf));
            }),
            Answer::List { entries, next } => put_frame(out, number, 79, |out| {
                out.put_u16_le(entries.len() as u16);
                for KeyVersion { key, mark: CellMark { stamp, is_tombstone } } in entries {
                    put_short(out, key);
                    put_stamp(out, *stamp);
                    out.put_u8(u8::from(*is_tombstone));
                }
                put_optional_key(out, next.as_ref());
            }),
            Answer::Fenced(fence) => put_frame(out, number, 80, |out| put_version(out, *fence)),
            Answer::Outbid(newest) => put_frame(out, number, 81, |out| put_version(out, *newest)),
            Answer::Forwarded(forwarded) => put_frame(out, number, 82, |out| forwarded.put(out)),
        }
    }

    /// The answer of a replica to a write.
    pub(crate) fn of_write(answer: WriteAnswer) -> Answer {
        match answer {
            WriteAnswer::Applied => Answer::Done,
            WriteAnswer::Superseded { newest, had } => Answer::Superseded { newest, had },
            WriteAnswer::Fenced { fence } => Answer::Fenced(fence),
        }
    }

    /// A replica's answer to a write; otherwise the answer, which does not fit.
    pub(crate) fn into_write_answer(self) -> Result<WriteAnswer, Answer> {
        match self {
            Answer::Done => Ok(WriteAnswer::Applied),
            Answer::Superseded { newest, had } => Ok(WriteAnswer::Superseded { newest, had }),
            Answer::Fenced(fence) => Ok(WriteAnswer::Fenced { fence }),
            other => Err(other),
        }
    }

    /// What a replica says to a ballot; otherwise the answer, which is of no use for that.
    pub(crate) fn into_prepare_answer(self) -> Result<PrepareAnswer<Bytes, u64>, Answer> {
        match self {
            Answer::Read(ReadAnswer { cell, is_whole: true }) => Ok(PrepareAnswer::Promised(cell)),
            Answer::Outbid(newest) => Ok(PrepareAnswer::Outbid(newest)),
            other => Err(other),
        }
    }

    /// What a replica says to the cell of a ballot; otherwise the answer, which is of no use for that.
    pub(crate) fn into_accept_answer(self) -> Result<AcceptAnswer, Answer> {
        match self {
            Answer::Done => Ok(AcceptAnswer::Accepted),
            Answer::Outbid(newest) => Ok(AcceptAnswer::Outbid(newest)),
            other => Err(other),
        }
    }

    /// The same, as frames.
    pub(crate) fn of_prepare(answer: PrepareAnswer<Bytes, u64>) -> Answer {
        match answer {
            PrepareAnswer::Promised(cell) => Answer::Read(ReadAnswer { cell, is_whole: true }),
            PrepareAnswer::Outbid(newest) => Answer::Outbid(newest),
        }
    }

    /// The same.
    pub(crate) const fn of_accept(answer: AcceptAnswer) -> Answer {
        match answer {
            AcceptAnswer::Accepted => Answer::Done,
            AcceptAnswer::Outbid(newest) => Answer::Outbid(newest),
        }
    }

    /// Understands a frame.
    pub fn of(frame: &Frame) -> Result<Answer, FrameError> {
        let mut reader = Reader::new(frame);
        let answer = match frame.kind {
            1 => Answer::Hello(Box::new(Hello::take(&mut reader)?)),
            65 => Answer::Stranger(reader.line()?),
            66 => Answer::Read(ReadAnswer { cell: None, is_whole: reader.bool()? }),
            67 => {
                let is_whole = reader.bool()?;
                return Ok(Answer::Read(ReadAnswer { cell: Some(sent_cell(reader)?), is_whole }));
            }
            68 => Answer::Done,
            69 => Answer::Refused(refusal(&mut reader)?),
            70 => return Ok(Answer::Piece(reader.rest())),
            71 => Answer::End,
            72 => Answer::Superseded { newest: reader.version()?, had: had(&mut reader)? },
            73 => Answer::Alive,
            74 => Answer::Opened(reader.u32()?),
            75 => Answer::Gone,
            76 => Answer::Statement(Box::new(statement(&mut reader)?)),
            77 => Answer::Groups { dropped_before: reader.u64()?, hashes: reader.hashes()? },
            78 => Answer::Leaves(reader.hashes()?),
            79 => {
                let count = reader.u16()?;
                let entry = |_| {
                    let key = reader.key()?;
                    let mark = CellMark { stamp: reader.stamp()?, is_tombstone: reader.bool()? };
                    Ok(KeyVersion { key, mark })
                };
                let entries = (0..count).map(entry).collect::<Result<_, FrameError>>()?;
                Answer::List { entries, next: optional_key(&mut reader)? }
            }
            80 => Answer::Fenced(reader.version()?),
            81 => Answer::Outbid(reader.version()?),
            82 => Answer::Forwarded(Box::new(Forwarded::take(&mut reader)?)),
            _ => return Err(reader.wrong("there is no such answer")),
        };
        reader.end()?;
        Ok(answer)
    }
}
