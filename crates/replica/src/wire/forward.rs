//! Conditional requests that a node has another one decide.
//!
//! ```text
//! forward      := replicas, durability u8, left_ms u32, expires_at_ms u64, precondition, change
//! replicas     := ack u8, from u8
//! precondition := 1 none | 2 if_match { n u16, version × n } | 3 if_match_any | 4 if_none_match_any | 5 never
//! change       := 1 put { key, bytes } | 2 delete { key } | 3 increment { by i64, key } | 4 expire { key }
//! forwarded    := shared u8, outcome
//! outcome      := 1 changed { stamp, sum i64 } | 2 precondition failed { version } | 3 not found { version }
//!               | 4 not a number { line } | 5 overflow { number i64, by i64 }
//!               | 6 too few { acked u16, required u16, asked u16, may_have_happened u8, n u8, (line, line) × n }
//!               | 7 undecided | 8 contended { why u8 } | 9 not decided                      (never change these)
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use ladoga_cluster::NODES_MAX;
use ladoga_model::{Durability, Replicas, Stamp, Version};
use ladoga_service::{Error, Precondition, TooFewReplicas};

use super::frame::{FrameError, INLINE_BYTES_MAX};
use super::message::{put_short, put_stamp, put_version};
use super::parts::{durability, durability_byte};
use super::reader::Reader;

/// The longest value that is forwarded.
pub(crate) const FORWARD_BYTES_MAX: usize = 64 << 10;
/// The most versions of a condition that is.
pub(crate) const FORWARD_VERSIONS_MAX: usize = 1_024;
/// The most that an answer takes.
pub(crate) const FORWARDED_BYTES_MAX: usize = 4 << 10;
/// Of the replicas that did not answer, so many are named, in so many bytes each, and the reason in as many.
const FAILURES_MAX: usize = 8;
const FAILURE_BYTES_MAX: usize = 200;

const _: () = assert!(FORWARD_BYTES_MAX as u64 <= INLINE_BYTES_MAX);
const _: () = assert!(2 * FAILURES_MAX * (FAILURE_BYTES_MAX + 2) + 64 <= FORWARDED_BYTES_MAX);

/// Why too many others were there: what [`Error::Contended`] says.
pub(crate) const CONTENDED: [&str; 3] = [
    "other conditional requests of the same key were faster each time",
    "too many conditional requests wait for the same key, or for all keys",
    "the conditional requests of the same key that came before took too long",
];

/// A conditional request that another node is to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Of which key.
    pub key: Bytes,
    /// On how many nodes it lives, and how many of them have to answer.
    pub replicas: Replicas,
    /// How durable each of them has to make what it writes, if that is more than it does by itself.
    pub durability: Option<Durability>,
    /// For how long its client waits.
    pub left_ms: u32,
    /// When what it writes expires; 0 if it never does.
    pub expires_at_ms: u64,
    /// What has to be true.
    pub precondition: Precondition,
    /// What it does.
    pub change: Change,
}

/// What a conditional request does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It stores a value.
    Put(Bytes),
    /// It deletes.
    Delete,
    /// It adds this to a number.
    Increment(i64),
    /// It has a value expire at another time.
    Expire,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// Whether the key is asked for through several nodes.
    pub is_shared: bool,
    /// What the client is to be told; none if nothing happened, and another node may decide it.
    pub outcome: Option<Result<Changed, Error>>,
}

/// What a conditional request has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// Its version and expiry.
    pub stamp: Stamp,
    /// What was added to; 0 if nothing was.
    pub sum: i64,
}

impl Forward {
    pub(super) fn put(&self, out: &mut BytesMut) {
        let Forward { key, replicas, durability, left_ms, expires_at_ms, precondition, change } = self;
        out.put_u8(replicas.ack as u8);
        out.put_u8(replicas.from as u8);
        out.put_u8(durability_byte(*durability));
        out.put_u32_le(*left_ms);
        out.put_u64_le(*expires_at_ms);
        put_precondition(out, precondition);
        match change {
            Change::Put(value) => {
                out.put_u8(1);
                put_short(out, key);
                out.put_slice(value);
            }
            Change::Delete => {
                out.put_u8(2);
                put_short(out, key);
            }
            Change::Increment(by) => {
                out.put_u8(3);
                out.put_i64_le(*by);
                put_short(out, key);
            }
            Change::Expire => {
                out.put_u8(4);
                put_short(out, key);
            }
        }
    }

    pub(super) fn take(mut reader: Reader) -> Result<Forward, FrameError> {
        let replicas = Replicas { ack: u32::from(reader.u8()?), from: u32::from(reader.u8()?) };
        if replicas.ack == 0 || replicas.ack > replicas.from || replicas.from as usize > NODES_MAX {
            return Err(reader.wrong("there are no such replicas"));
        }
        let durability = durability(&mut reader)?;
        let (left_ms, expires_at_ms) = (reader.u32()?, reader.u64()?);
        let precondition = precondition(&mut reader)?;
        let what = reader.u8()?;
        let by = if what == 3 { reader.i64()? } else { 0 };
        let key = reader.key()?;
        let change = match what {
            1 => {
                let value = reader.value()?;
                return Ok(Forward {
                    key,
                    replicas,
                    durability,
                    left_ms,
                    expires_at_ms,
                    precondition,
                    change: Change::Put(value),
                });
            }
            2 => Change::Delete,
            3 => Change::Increment(by),
            4 => Change::Expire,
            _ => return Err(reader.wrong("there is no such change")),
        };
        reader.end()?;
        Ok(Forward { key, replicas, durability, left_ms, expires_at_ms, precondition, change })
    }
}

fn put_precondition(out: &mut BytesMut, precondition: &Precondition) {
    match precondition {
        Precondition::None => out.put_u8(1),
        Precondition::IfMatch(versions) => {
            out.put_u8(2);
            out.put_u16_le(u16::try_from(versions.len()).expect("callers bound what they send"));
            versions.iter().for_each(|version| put_version(out, *version));
        }
        Precondition::IfMatchAny => out.put_u8(3),
        Precondition::IfNoneMatchAny => out.put_u8(4),
        Precondition::Never => out.put_u8(5),
    }
}

fn precondition(reader: &mut Reader) -> Result<Precondition, FrameError> {
    Ok(match reader.u8()? {
        1 => Precondition::None,
        2 => {
            let count = usize::from(reader.u16()?);
            if count > FORWARD_VERSIONS_MAX {
                return Err(reader.wrong("it names too many versions"));
            }
            let versions = (0..count).map(|_| reader.version()).collect::<Result<Vec<_>, _>>()?;
            Precondition::IfMatch(versions.into())
        }
        3 => Precondition::IfMatchAny,
        4 => Precondition::IfNoneMatchAny,
        5 => Precondition::Never,
        _ => return Err(reader.wrong("there is no such condition")),
    })
}

impl Forwarded {
    pub(super) fn put(&self, out: &mut BytesMut) {
        out.put_u8(u8::from(self.is_shared));
        match &self.outcome {
            Some(Ok(Changed { stamp, sum })) => {
                out.put_u8(1);
                put_stamp(out, *stamp);
                out.put_i64_le(*sum);
            }
            Some(Err(error)) => put_error(out, error),
            None => out.put_u8(9),
        }
    }

    pub(super) fn take(reader: &mut Reader) -> Result<Forwarded, FrameError> {
        let is_shared = reader.bool()?;
        let error = match reader.u8()? {
            1 => {
                let changed = Changed { stamp: reader.stamp()?, sum: reader.i64()? };
                return Ok(Forwarded { is_shared, outcome: Some(Ok(changed)) });
            }
            2 => Error::PreconditionFailed { current: current(reader)? },
            3 => Error::NotFound { current: current(reader)? },
            4 => Error::NotANumber { found: reader.line()? },
            5 => Error::Overflow { number: reader.i64()?, by: reader.i64()? },
            6 => Error::TooFewReplicas(Box::new(too_few(reader)?)),
            7 => Error::Undecided,
            8 => {
                let why = CONTENDED.get(usize::from(reader.u8()?)).copied();
                Error::Contended(why.ok_or_else(|| reader.wrong("there is no such reason"))?)
            }
            9 => return Ok(Forwarded { is_shared, outcome: None }),
            _ => return Err(reader.wrong("there is no such outcome")),
        };
        Ok(Forwarded { is_shared, outcome: Some(Err(error)) })
    }
}

/// The version that a condition was checked against, if there was one.
fn current(reader: &mut Reader) -> Result<Option<Version>, FrameError> {
    Ok(Some(reader.version()?).filter(|version| *version != Version::ZERO))
}

/// An error that says what became of the request. One that is about the node that was to decide it says only that it did not.
fn put_error(out: &mut BytesMut, error: &Error) {
    match error {
        Error::PreconditionFailed { current } => {
            out.put_u8(2);
            put_version(out, current.unwrap_or(Version::ZERO));
        }
        Error::NotFound { current } => {
            out.put_u8(3);
            put_version(out, current.unwrap_or(Version::ZERO));
        }
        Error::NotANumber { found } => {
            out.put_u8(4);
            put_cut(out, found);
        }
        Error::Overflow { number, by } => {
            out.put_u8(5);
            out.put_i64_le(*number);
            out.put_i64_le(*by);
        }
        Error::TooFewReplicas(too_few) => {
            out.put_u8(6);
            put_too_few(out, too_few);
        }
        Error::Undecided | Error::Overtaken => out.put_u8(7),
        Error::Contended(text) => match CONTENDED.iter().position(|known| known == text) {
            Some(why) => {
                out.put_u8(8);
                out.put_u8(why as u8);
            }
            None => out.put_u8(9),
        },
        _ => out.put_u8(9),
    }
}

fn put_too_few(out: &mut BytesMut, too_few: &TooFewReplicas) {
    let TooFewReplicas { acked, required, asked, failures, may_have_happened } = too_few;
    for count in [acked, required, asked] {
        out.put_u16_le(*count as u16);
    }
    out.put_u8(u8::from(*may_have_happened));
    let failures = &failures[..failures.len().min(FAILURES_MAX)];
    out.put_u8(failures.len() as u8);
    for (node, why) in failures {
        put_cut(out, node);
        put_cut(out, why);
    }
}

fn too_few(reader: &mut Reader) -> Result<TooFewReplicas, FrameError> {
    let [acked, required, asked] = [reader.u16()?, reader.u16()?, reader.u16()?].map(usize::from);
    let (may_have_happened, count) = (reader.bool()?, usize::from(reader.u8()?));
    if count > FAILURES_MAX {
        return Err(reader.wrong("it names too many replicas"));
    }
    let failures = (0..count).map(|_| Ok((reader.line()?, reader.line()?)));
    let failures = failures.collect::<Result<_, FrameError>>()?;
    Ok(TooFewReplicas { acked, required, asked, failures, may_have_happened })
}

fn put_cut(out: &mut BytesMut, line: &str) {
    put_short(out, &line.as_bytes()[..line.floor_char_boundary(FAILURE_BYTES_MAX)]);
}
