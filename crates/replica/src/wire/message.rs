//! The bodies of frames.
//!
//! ```text
//! request := 1 hello | 2 read { digest u8, origin u8, key } | 3 write { origin u8, again u8, stamp, what u8, key, [bytes] }
//!          | 4 open_value { version, key } | 5 open_cells { start, end, [flags u8] } | 6 next { stream u32 }
//!          | 7 close { stream u32 } | 8 upload {} | 9 push { stream u32, bytes }
//!          | 10 finish { stream u32, origin u8, stamp, key } | 11 statement { statement } | 12 groups { slice }
//!          | 13 leaves { slice, groups u8 × n } | 14 list { slice, n u16, partition u16 × n, [after key] }
//!          | 15 prepare { version, key } | 16 accept { stamp, base, what u8, key, [bytes] }
//!          | 17 accept_upload { stream u32, stamp, base, key } | 18 release { version, key } | 19 forward { forward }
//!          | 20 keep_deletions {} | 21 reads { (request u32, digest u8, origin u8, key) × 1 to 128 }     from version 8 on
//!          | 22 traces { (request u32, trace u8 × 16, span u8 × 8) × 1 to 128 }              from version 9 on
//! answer  := 1 hello | 65 stranger { line } | 66 absent { whole u8 } | 67 cell { whole u8, stamp, what u8, [bytes] }
//!          | 68 done {} | 69 refused { why u8, u64, u64 } | 70 piece { bytes } | 71 end {} | 72 superseded { version, had u8 }
//!          | 73 alive {} | 74 opened { stream u32 } | 75 gone {} | 76 statement { statement }
//!          | 77 groups { dropped_before u64, hash u64 × n } | 78 leaves { hash u64 × n }
//!          | 79 list { n u16, (key, stamp, tombstone u8) × n, [next key] } | 80 fenced { version }
//!          | 81 outbid { version } | 82 forwarded { forwarded }
//! flags   := 1 the last key first | 2 without values         their sum; left out if it is 0
//! origin  := 1 client | 2 hint | 3 repair | 4 exchange
//! had     := 1 never | 2 once | 3 unknown | 4 skipped
//! slice   := before u64, dropped_before u64
//! base    := version, version, n u16, incarnation u64 × n        what the replica had, what the cell was decided on (0 for nothing),
//!                                                                whom of the key's replicas the coordinator had met
//! statement := incarnation u64, write_floor u64, synced_before u64, whole u8, clock u64, n u16,
//!              (incarnation u64, replacement u8) × n, wall_ms u64
//! what    := 1 value: its bytes | 2 tombstone | 3 large value: its length u64 | 4 digest of a value
//! why     := 1 over capacity | 2 no room | 3 store failed | 4 unreadable | 5 clock ahead: by ms, at most ms
//!          | 6 too old: expected from this timestamp on | 7 rebuilding | 8 draining | 9 starting
//!                                                                                          (never change these)
//! stamp   := version, expires_at_ms u64, copies u8
//! version := timestamp u64, node u16
//! key     := length u16, bytes        line, start, end := the same
//! bytes   := all that is left
//! ```
//!
//! `alive` answers no request: it tells that answers are still to come. `traces` says of which spans requests are parts that come
//! behind it, by their numbers; it has no answer.

use bytes::{BufMut, Bytes, BytesMut};
use ladoga_cluster::{Refusal, SentCell};
use ladoga_model::{Cell, ClockError, Stamp, Value, Version};

use super::frame::FrameError;
use super::reader::Reader;

/// A cell in one frame: a large value has its length only, and is to be streamed.
pub type PeerCell = Cell<Bytes, u64>;

const LINE_BYTES_MAX: usize = 4 << 10;

pub(super) fn put_short(out: &mut BytesMut, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("callers bound what they send");
    out.put_u16_le(length);
    out.put_slice(bytes);
}

pub(super) fn put_line(out: &mut BytesMut, line: &str) {
    put_short(out, &line.as_bytes()[..line.floor_char_boundary(LINE_BYTES_MAX)]);
}

pub(super) fn put_version(out: &mut BytesMut, version: Version) {
    out.put_u64_le(version.timestamp);
    out.put_u16_le(version.node);
}

pub(super) fn put_stamp(out: &mut BytesMut, stamp: Stamp) {
    put_version(out, stamp.version);
    out.put_u64_le(stamp.expires_at_ms);
    out.put_u8(stamp.copies);
}

pub(super) fn put_sent_cell(out: &mut BytesMut, cell: &SentCell<Bytes, u64>) {
    put_stamp(out, cell.stamp());
    match cell {
        SentCell::Whole(Cell { value: Some(Value::Inline(value)), .. }) => {
            out.put_u8(1);
            out.put_slice(value);
        }
        SentCell::Whole(Cell { value: None, .. }) => out.put_u8(2),
        SentCell::Whole(Cell { value: Some(Value::Large(bytes)), .. }) => {
            out.put_u8(3);
            out.put_u64_le(*bytes);
        }
        SentCell::Digest(_) => out.put_u8(4),
    }
}

pub(super) fn sent_cell(mut reader: Reader) -> Result<SentCell<Bytes, u64>, FrameError> {
    let stamp = reader.stamp()?;
    let value = match reader.u8()? {
        1 => {
            let value = Some(Value::Inline(reader.value()?));
            return Ok(SentCell::Whole(Cell { stamp, value }));
        }
        2 => None,
        3 => Some(Value::Large(reader.value_bytes()?)),
        4 => {
            reader.end()?;
            return Ok(SentCell::Digest(stamp));
        }
        _ => return Err(reader.wrong("there is no such cell")),
    };
    reader.end()?;
    Ok(SentCell::Whole(Cell { stamp, value }))
}

pub(super) fn put_refusal(out: &mut BytesMut, refusal: &Refusal) {
    let (why, first, second) = match *refusal {
        Refusal::OverCapacity => (1, 0, 0),
        Refusal::NoRoom => (2, 0, 0),
        Refusal::StoreFailed => (3, 0, 0),
        Refusal::Unreadable => (4, 0, 0),
        Refusal::ClockAhead(ClockError { ahead_ms, ahead_ms_max }) => (5, ahead_ms, ahead_ms_max),
        Refusal::TooOld { write_floor } => (6, write_floor, 0),
        Refusal::Rebuilding => (7, 0, 0),
        Refusal::Draining => (8, 0, 0),
        Refusal::Starting => (9, 0, 0),
    };
    out.put_u8(why);
    out.put_u64_le(first);
    out.put_u64_le(second);
}

pub(super) fn refusal(reader: &mut Reader) -> Result<Refusal, FrameError> {
    let (why, first, second) = (reader.u8()?, reader.u64()?, reader.u64()?);
    Ok(match why {
        1 => Refusal::OverCapacity,
        2 => Refusal::NoRoom,
        3 => Refusal::StoreFailed,
        4 => Refusal::Unreadable,
        5 => Refusal::ClockAhead(ClockError { ahead_ms: first, ahead_ms_max: second }),
        6 => Refusal::TooOld { write_floor: first },
        7 => Refusal::Rebuilding,
        8 => Refusal::Draining,
        9 => Refusal::Starting,
        _ => return Err(reader.wrong("there is no such reason")),
    })
}
