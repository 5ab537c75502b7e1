use bytes::{BufMut, Bytes, BytesMut};
use ladoga_cluster::{AsOf, LEAF_GROUPS_MAX, Origin, Partition, Statement};
use ladoga_model::{Durability, Stamp, TraceContext, Version};

use super::forward::Forward;
use super::frame::{Frame, FrameError, put_frame};
use super::hello::Hello;
use super::message::{put_short, put_stamp, put_version};
use super::parts::{
    Base, base, cells_flags, durability, durability_byte, next, optional_key, origin, origin_byte, put_base,
    put_next, put_optional_key, put_slice, put_span, put_statement, slice, statement,
};
use super::reader::Reader;
use super::reads::{READ_KIND, READS_KIND, Read, put_read, take_read, take_reads};
use super::traces::{TRACES_KIND, put_traces, take_traces};

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
        /// What for.
        origin: Origin,
    },
    /// To store a cell, unless there is a newer one.
    Write {
        /// Under which key.
        key: Bytes,
        /// Its version.
        stamp: Stamp,
        /// `None` for a tombstone.
        value: Option<Bytes>,
        /// Where it is from.
        origin: Origin,
        /// Whether it may have been asked before.
        is_again: bool,
        /// How durable it has to be before the answer, if that is more than the replica makes it.
        durability: Option<Durability>,
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
        /// Whether the last key comes first.
        is_reverse: bool,
        /// Whether the values are wanted. If not, cells come as large ones without a byte.
        has_values: bool,
    },
    /// The next piece of a stream.
    Next {
        /// Which stream.
        stream: u32,
        /// Bytes of a value that are passed over first.
        skip: u64,
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
        /// Where it is from.
        origin: Origin,
        /// As of a write.
        durability: Option<Durability>,
    },
    /// What does the sender say about itself; answered with the same.
    Statement(Statement),
    /// The upper hashes of the tree over what both nodes hold.
    Groups(AsOf),
    /// The leaves below some of them.
    Leaves {
        /// Over which cells.
        slice: AsOf,
        /// Which ones.
        groups: Vec<u8>,
    },
    /// The keys and versions in some partitions, or in all if none is named.
    List {
        /// Over which cells.
        slice: AsOf,
        /// Which ones.
        partitions: Vec<Partition>,
        /// Only keys behind this one; empty for all.
        after: Bytes,
    },
    /// To take no cell of a key that is older than this from now on, and to say which is the newest.
    Prepare {
        /// Of which key.
        key: Bytes,
        /// The version that the new cell is to get.
        ballot: Version,
        /// How durable what the replica has is to be before it says so.
        durability: Option<Durability>,
    },
    /// To store a cell that was promised room, if nothing came between.
    Accept {
        /// Under which key.
        key: Bytes,
        /// Its version is the ballot.
        stamp: Stamp,
        /// What it takes the place of.
        base: Base,
        /// `None` for a tombstone.
        value: Option<Bytes>,
        /// As of a write.
        durability: Option<Durability>,
    },
    /// The same with a large value.
    AcceptUpload {
        /// Which upload.
        stream: u32,
        /// Its version is the ballot.
        stamp: Stamp,
        /// What it takes the place of.
        base: Base,
        /// Under which key.
        key: Bytes,
        /// As of a write.
        durability: Option<Durability>,
    },
    /// To forget a promise, if there was one: its cell is nowhere, and will not be. There is no answer.
    Release {
        /// For which key.
        key: Bytes,
        /// Which.
        ballot: Version,
    },
    /// To decide a conditional request.
    Forward(Box<Forward>),
    /// To keep deletions for those who follow changes, at whichever node.
    KeepDeletions,
    /// Of which spans requests are parts that come behind it, by their numbers. There is no answer.
    Traces(Vec<(u32, TraceContext)>),
}

fn put_key_version(out: &mut BytesMut, version: Version, key: &[u8]) {
    put_version(out, version);
    put_short(out, key);
}

/// What a cell that is to be accepted has in common, small or large.
fn put_accepted(out: &mut BytesMut, durability: Option<Durability>, stamp: Stamp, base: &Base) {
    out.put_u8(durability_byte(durability));
    put_stamp(out, stamp);
    put_base(out, base);
}

fn accepted(reader: &mut Reader) -> Result<(Stamp, Base), FrameError> {
    let stamp = reader.stamp()?;
    Ok((stamp, base(reader, stamp.version)?))
}

impl Request {
    /// Appends a frame.
    pub fn put(&self, out: &mut BytesMut, number: u32) {
        match self {
            Request::Hello(hello) => put_frame(out, number, 1, |out| hello.put(out)),
            Request::Read { key, digest, origin } => put_frame(out, number, READ_KIND, |out| {
                put_read(out, key, (*digest, *origin));
            }),
            Request::Write { key, stamp, value, origin, is_again, durability } => {
                put_frame(out, number, 3, |out| {
                    out.put_u8(origin_byte(*origin));
                    out.put_u8(u8::from(*is_again));
                    out.put_u8(durability_byte(*durability));
                    put_stamp(out, *stamp);
                    put_cell(out, key, value.as_ref());
                });
            }
            Request::OpenValue { key, version } => put_frame(out, number, 4, |out| {
                put_key_version(out, *version, key);
            }),
            Request::OpenCells { start, end, is_reverse, has_values } => put_frame(out, number, 5, |out| {
                put_span(out, (start, end), *is_reverse, *has_values);
            }),
            Request::Next { stream, skip } => put_frame(out, number, 6, |out| put_next(out, *stream, *skip)),
            Request::Close { stream } => put_frame(out, number, 7, |out| out.put_u32_le(*stream)),
            Request::Upload => put_frame(out, number, 8, |_| {}),
            Request::Push { stream, bytes } => put_frame(out, number, 9, |out| {
                out.put_u32_le(*stream);
                out.put_slice(bytes);
            }),
            Request::Finish { stream, stamp, key, origin, durability } => put_frame(out, number, 10, |out| {
                out.put_u32_le(*stream);
                out.put_u8(origin_byte(*origin));
                out.put_u8(durability_byte(*durability));
                put_stamp(out, *stamp);
                put_short(out, key);
            }),
            Request::Statement(statement) => put_frame(out, number, 11, |out| put_statement(out, statement)),
            Request::Groups(slice) => put_frame(out, number, 12, |out| put_slice(out, *slice)),
            Request::Leaves { slice, groups } => put_frame(out, number, 13, |out| {
                put_slice(out, *slice);
                out.put_slice(groups);
            }),
            Request::List { slice, partitions, after } => put_frame(out, number, 14, |out| {
                put_slice(out, *slice);
                out.put_u16_le(partitions.len() as u16);
                partitions.iter().for_each(|partition| out.put_u16_le(partition.0));
                put_optional_key(out, Some(after).filter(|after| !after.is_empty()));
            }),
            Request::Prepare { key, ballot, durability } => put_frame(out, number, 15, |out| {
                out.put_u8(durability_byte(*durability));
                put_key_version(out, *ballot, key);
            }),
            Request::Accept { key, stamp, base, value, durability } => put_frame(out, number, 16, |out| {
                put_accepted(out, *durability, *stamp, base);
                put_cell(out, key, value.as_ref());
            }),
            Request::AcceptUpload { stream, stamp, base, key, durability } => {
                put_frame(out, number, 17, |out| {
                    out.put_u32_le(*stream);
                    put_accepted(out, *durability, *stamp, base);
                    put_short(out, key);
                });
            }
            Request::Release { key, ballot } => put_frame(out, number, 18, |out| {
                put_key_version(out, *ballot, key);
            }),
            Request::Forward(forward) => put_frame(out, number, 19, |out| forward.put(out)),
            Request::KeepDeletions => put_frame(out, number, 20, |_| {}),
            Request::Traces(traces) => put_frame(out, number, TRACES_KIND, |out| put_traces(out, traces)),
        }
    }

    /// What it asks for, in a word.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Request::Hello(_) => "hello",
            Request::Read { .. } => "read",
            Request::Write { .. } => "write",
            Request::OpenValue { .. } => "open value",
            Request::OpenCells { .. } => "open cells",
            Request::Next { .. } => "next",
            Request::Close { .. } => "close",
            Request::Upload => "upload",
            Request::Push { .. } => "push",
            Request::Finish { .. } => "finish",
            Request::Statement(_) => "statement",
            Request::Groups(_) | Request::Leaves { .. } | Request::List { .. } => "compare",
            Request::Prepare { .. } => "prepare",
            Request::Accept { .. } | Request::AcceptUpload { .. } => "accept",
            Request::Release { .. } => "release",
            Request::Forward(_) => "forward",
            Request::KeepDeletions => "keep deletions",
            Request::Traces(_) => "traces",
        }
    }

    /// Understands a frame that may have several requests: hands on each with its number, and how many bytes it takes.
    pub fn all_of(frame: &Frame, mut take: impl FnMut(u32, Request, usize)) -> Result<(), FrameError> {
        if frame.kind == READS_KIND {
            return take_reads(frame, |number, read, bytes| take(number, read.into(), bytes));
        }
        take(frame.request, Request::of(frame)?, frame.whole_bytes());
        Ok(())
    }

    /// Understands a frame of one request.
    pub fn of(frame: &Frame) -> Result<Request, FrameError> {
        let mut reader = Reader::new(frame);
        let request = match frame.kind {
            1 => Request::Hello(Hello::take(&mut reader)?),
            READ_KIND => take_read(&mut reader)?.into(),
            3 => return Request::write(reader),
            4 => {
                let version = reader.version()?;
                Request::OpenValue { key: reader.key()?, version }
            }
            5 => {
                let (start, end) = (reader.short_bytes()?, reader.short_bytes()?);
                let (is_reverse, has_values) = cells_flags(&mut reader)?;
                Request::OpenCells { start, end, is_reverse, has_values }
            }
            6 => {
                let (stream, skip) = next(&mut reader)?;
                Request::Next { stream, skip }
            }
            7 => Request::Close { stream: reader.u32()? },
            8 => Request::Upload,
            9 => {
                let stream = reader.u32()?;
                return Ok(Request::Push { stream, bytes: reader.rest() });
            }
            10 => {
                let (stream, origin) = (reader.u32()?, origin(&mut reader)?);
                let (durability, stamp) = (durability(&mut reader)?, reader.stamp()?);
                Request::Finish { stream, stamp, key: reader.key()?, origin, durability }
            }
            11 => Request::Statement(statement(&mut reader)?),
            12 => Request::Groups(slice(&mut reader)?),
            13 => {
                let slice = slice(&mut reader)?;
                return Request::leaves(slice, reader);
            }
            14 => {
                let slice = slice(&mut reader)?;
                let count = reader.u16()?;
                let partitions = (0..count).map(|_| reader.u16().map(Partition)).collect::<Result<_, _>>()?;
                Request::List { slice, partitions, after: optional_key(&mut reader)?.unwrap_or_default() }
            }
            15 => {
                let (durability, ballot) = (durability(&mut reader)?, reader.ballot()?);
                Request::Prepare { key: reader.key()?, ballot, durability }
            }
            16 => {
                let durability = durability(&mut reader)?;
                let (stamp, base) = accepted(&mut reader)?;
                let (key, value) = cell(reader)?;
                return Ok(Request::Accept { key, stamp, base, value, durability });
            }
            17 => {
                let (stream, durability) = (reader.u32()?, durability(&mut reader)?);
                let (stamp, base) = accepted(&mut reader)?;
                Request::AcceptUpload { stream, stamp, base, key: reader.key()?, durability }
            }
            18 => {
                let ballot = reader.ballot()?;
                Request::Release { key: reader.key()?, ballot }
            }
            19 => return Forward::take(reader).map(|forward| Request::Forward(Box::new(forward))),
            20 => Request::KeepDeletions,
            TRACES_KIND => return take_traces(reader).map(Request::Traces),
            _ => return Err(reader.wrong("there is no such request")),
        };
        reader.end()?;
        Ok(request)
    }

    fn leaves(slice: AsOf, reader: Reader) -> Result<Request, FrameError> {
        let wrong = reader.wrong("it asks for too many groups");
        let groups = reader.rest().to_vec();
        if groups.len() > LEAF_GROUPS_MAX { Err(wrong) } else { Ok(Request::Leaves { slice, groups }) }
    }

    fn write(mut reader: Reader) -> Result<Request, FrameError> {
        let (origin, is_again) = (origin(&mut reader)?, reader.bool()?);
        let (durability, stamp) = (durability(&mut reader)?, reader.stamp()?);
        let (key, value) = cell(reader)?;
        Ok(Request::Write { key, stamp, value, origin, is_again, durability })
    }
}

impl From<Read> for Request {
    fn from(Read { key, digest, origin }: Read) -> Request {
        Request::Read { key, digest, origin }
    }
}

fn put_cell(out: &mut BytesMut, key: &[u8], value: Option<&Bytes>) {
    out.put_u8(if value.is_some() { 1 } else { 2 });
    put_short(out, key);
    out.put_slice(value.map_or(&[][..], |value| &value[..]));
}

/// A key with its value, or with none for a tombstone; up to the end.
fn cell(mut reader: Reader) -> Result<(Bytes, Option<Bytes>), FrameError> {
    let what = reader.u8()?;
    let key = reader.key()?;
    match what {
        1 => Ok((key, Some(reader.value()?))),
        2 => {
            reader.end()?;
            Ok((key, None))
        }
        _ => Err(reader.wrong("there is no such cell")),
    }
}
