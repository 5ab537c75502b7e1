//! The cells of a range, as in the pieces of its stream; a piece has whole records.
//!
//! ```text
//! record := length u32, crc u32, what u8, stamp, key, content            length, crc: of what follows
//! content := the value | nothing | its length u64                        what: 1 value | 2 tombstone | 3 large
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use ladoga_model::{Cell, Value};

use super::frame::{FRAME_BYTES_MAX, Frame, FrameError};
use super::message::PeerCell;
use super::reader::Reader;

/// A cell and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Bytes,
    pub(crate) cell: PeerCell,
}

const PREFIX_BYTES: usize = 8;

/// Appends a record.
pub fn put_record(out: &mut Vec<u8>, key: &[u8], cell: Cell<&[u8], u64>) {
    let Cell { stamp, value } = cell;
    let start = out.len();
    out.put_u64_le(0);
    out.put_u8(match value {
        Some(Value::Inline(_)) => 1,
        None => 2,
        Some(Value::Large(_)) => 3,
    });
    out.put_u64_le(stamp.version.timestamp);
    out.put_u16_le(stamp.version.node);
    out.put_u64_le(stamp.expires_at_ms);
    out.put_u8(stamp.copies);
    out.put_u16_le(key.len() as u16);
    out.put_slice(key);
    match value {
        Some(Value::Inline(bytes)) => out.put_slice(bytes),
        None => {}
        Some(Value::Large(bytes)) => out.put_u64_le(bytes),
    }
    let (prefix, rest) = out[start..].split_at_mut(PREFIX_BYTES);
    prefix[..4].copy_from_slice(&(rest.len() as u32).to_le_bytes());
    prefix[4..].copy_from_slice(&crc32c::crc32c(rest).to_le_bytes());
}

/// The same of a cell whose value is not wanted: that it has one does.
pub(crate) fn put_mark(out: &mut Vec<u8>, key: &[u8], cell: Cell<&[u8], u64>) {
    let value = cell.value.map(|_| Value::Large(0));
    put_record(out, key, Cell { stamp: cell.stamp, value });
}

/// Takes a record off the front; `None` if it is not complete.
pub(crate) fn take_record(input: &mut Bytes) -> Result<Option<Record>, FrameError> {
    let Some(prefix) = input.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let [l0, l1, l2, l3, c0, c1, c2, c3] = *prefix;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::Length { found: length as u64 });
    }
    if input.len() < PREFIX_BYTES + length {
        return Ok(None);
    }
    let body = input.split_to(PREFIX_BYTES + length).split_off(PREFIX_BYTES);
    let (expected, found) = (crc32c::crc32c(&body), u32::from_le_bytes([c0, c1, c2, c3]));
    if expected != found {
        return Err(FrameError::Checksum { expected, found });
    }
    understand(body).map(Some)
}

fn understand(body: Bytes) -> Result<Record, FrameError> {
    let mut reader = Reader::new(&Frame { request: 0, kind: 0, body });
    let what = reader.u8()?;
    let stamp = reader.stamp()?;
    let key = reader.key()?;
    let value = match what {
        1 => Some(Value::Inline(reader.value()?)),
        2 => {
            reader.end()?;
            None
        }
        3 => {
            let bytes = reader.value_bytes()?;
            reader.end()?;
            Some(Value::Large(bytes))
        }
        _ => return Err(reader.wrong("there is no such cell")),
    };
    Ok(Record { key, cell: Cell { stamp, value } })
}

/// Decodes whatever is in `bytes`: what a fuzzer calls.
pub(super) fn decode_records(bytes: &[u8]) {
    let mut input = Bytes::copy_from_slice(bytes);
    while let Ok(Some(_)) = take_record(&mut input) {}
    // Checksums keep fuzzers out; so once more without.
    let _ = understand(BytesMut::from(bytes).freeze());
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_model::{Stamp, Version};

    #[test]
    fn records_come_out_as_they_went_in_or_are_found_out() {
        let stamp = Stamp { expires_at_ms: 7, copies: 2, ..Stamp::new(Version { timestamp: 3, node: 1 }) };
        let mut out = Vec::new();
        put_record(&mut out, b"a", Cell { stamp, value: Some(Value::Inline(b"value")) });
        let first_bytes = out.len();
        put_record(&mut out, b"b", Cell::tombstone(stamp));
        put_record(&mut out, b"c", Cell { stamp, value: Some(Value::Large(1 << 20)) });
        let mut input = Bytes::from(out.clone());
        let mut take = || take_record(&mut input).expect("whole records");
        let values = [Some(Value::Inline(Bytes::from_static(b"value"))), None, Some(Value::Large(1 << 20))];
        for (key, value) in [b"a", b"b", b"c"].into_iter().zip(values) {
            let cell = Cell { stamp, value };
            assert_eq!(take(), Some(Record { key: Bytes::from_static(key), cell }));
        }
        assert_eq!(take(), None);
        out.truncate(first_bytes);
        for bit in 0..out.len() * 8 {
            let mut changed = out.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(take_record(&mut Bytes::from(changed)), Ok(Some(_))), "bit {bit}");
        }
    }
}
