use std::path::Path;

use bytes::Bytes;

use super::BLOCK_BYTES_MAX;
use super::TRAILER_BYTES;
use super::pages::padding;
use crate::coding::{u16_at, u32_at};
use crate::error::Error;
use crate::options::Compression;

/// Behind padding: its length.
const PADDING_LEN_BYTES: usize = 2;

/// The place of a block in its file; the size includes the trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BlockHandle {
    pub offset: u64,
    pub size: u32,
}

// Persisted: never change these.
const PLAIN: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;
/// A flag beside the compression: padding lies between the payload and the trailer.
const PADDED: u8 = 0x80;

const ZSTD_LEVEL: i32 = 1;

fn checksum(table: u64, offset: u64, covered: &[u8]) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&table.to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), covered)
}

/// A block that was appended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub handle: BlockHandle,
    /// Without padding and trailer.
    pub payload_bytes: usize,
}

/// Appends a block as stored at `offset`, padded to the end of its page if little is missing.
///
/// A block that is longer than `packed_max` after compression is stored plain.
pub(super) fn encode_stored(
    out: &mut Vec<u8>,
    table: u64,
    offset: u64,
    raw: &[u8],
    compression: Compression,
    packed_max: usize,
) -> Stored {
    assert!(raw.len() <= BLOCK_BYTES_MAX, "callers bound a block");
    let start = out.len();
    let tag = match compression {
        Compression::None => PLAIN,
        Compression::Lz4 => append_if_short(out, LZ4, &lz4_flex::block::compress(raw), packed_max),
        Compression::Zstd => match zstd::bulk::compress(raw, ZSTD_LEVEL) {
            Ok(packed) => append_if_short(out, ZSTD, &packed, packed_max),
            Err(_) => PLAIN,
        },
    };
    if tag == PLAIN {
        out.extend_from_slice(raw);
    }
    let payload_bytes = out.len() - start;
    let padding = padding(offset + (payload_bytes + TRAILER_BYTES) as u64);
    if let Some(zeros) = padding.checked_sub(PADDING_LEN_BYTES) {
        out.resize(out.len() + zeros, 0);
        out.extend_from_slice(&(zeros as u16).to_le_bytes());
        out.push(tag | PADDED);
    } else {
        out.push(tag);
    }
    out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    let crc = checksum(table, offset, &out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
    Stored { handle: BlockHandle { offset, size: (out.len() - start) as u32 }, payload_bytes }
}

/// Stored bytes with a valid checksum.
pub(crate) fn with_checksum(table: u64, offset: u64, covered: &[u8]) -> Vec<u8> {
    let crc = checksum(table, offset, covered);
    [covered, &crc.to_le_bytes()].concat()
}

fn append_if_short(out: &mut Vec<u8>, tag: u8, packed: &[u8], packed_max: usize) -> u8 {
    if packed.len() > packed_max {
        return PLAIN;
    }
    out.extend_from_slice(packed);
    tag
}

/// What a block was made from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    pub bytes: Bytes,
    /// The size of the allocation: bytes that were stored plain are used where they were read, with trailer and padding behind
    /// them.
    pub held_bytes: usize,
}

/// Checks a block as it was read from the file and gives back what it was made from.
pub(crate) fn decode_stored(
    path: &Path,
    table: u64,
    offset: u64,
    stored: Vec<u8>,
) -> Result<Unpacked, Error> {
    let corrupt = |what, expected: String, found: String| Error::Corruption {
        path: path.into(),
        offset,
        what,
        expected,
        found,
    };
    let Some(trailer) = stored.len().checked_sub(TRAILER_BYTES) else {
        let expected = format!("at least {TRAILER_BYTES} bytes");
        return Err(corrupt("block size", expected, stored.len().to_string()));
    };
    let crc = u32_at(&stored, trailer + 5);
    let computed = checksum(table, offset, &stored[..trailer + 5]);
    if crc != computed {
        return Err(corrupt("block checksum", format!("{computed:#010x}"), format!("{crc:#010x}")));
    }
    let (tag, raw_len) = (stored[trailer], u32_at(&stored, trailer + 1) as usize);
    let Some(payload) = payload_bytes(&stored[..trailer], tag) else {
        let expected = "less padding than the block is long".to_owned();
        return Err(corrupt("block padding", expected, trailer.to_string()));
    };
    if raw_len > BLOCK_BYTES_MAX {
        return Err(corrupt("block length", format!("at most {BLOCK_BYTES_MAX}"), raw_len.to_string()));
    }
    let raw = match tag & !PADDED {
        PLAIN => {
            let mut stored = stored;
            stored.truncate(payload);
            stored
        }
        LZ4 => lz4_flex::block::decompress(&stored[..payload], raw_len)
            .map_err(|error| corrupt("LZ4 block", "compressed bytes".to_owned(), error.to_string()))?,
        ZSTD => zstd::bulk::decompress(&stored[..payload], raw_len)
            .map_err(|error| corrupt("Zstandard block", "compressed bytes".to_owned(), error.to_string()))?,
        other => return Err(corrupt("compression", "0, 1 or 2".to_owned(), other.to_string())),
    };
    if raw.len() != raw_len {
        return Err(corrupt("block length", raw_len.to_string(), raw.len().to_string()));
    }
    let held_bytes = raw.capacity();
    Ok(Unpacked { bytes: Bytes::from(raw), held_bytes })
}

/// How much of what precedes the trailer is payload; `None` if there is more padding than bytes.
fn payload_bytes(stored: &[u8], tag: u8) -> Option<usize> {
    if tag & PADDED == 0 {
        return Some(stored.len());
    }
    let zeros_end = stored.len().checked_sub(PADDING_LEN_BYTES)?;
    zeros_end.checked_sub(usize::from(u16_at(stored, zeros_end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_found() {
        let raw = b"the same words, the same words, the same words, the same words".repeat(2);
        let compressions = [Compression::None, Compression::Lz4, Compression::Zstd];
        // In the middle of a page, and near its end.
        let cases = compressions.into_iter().flat_map(|compression| [(compression, 40), (compression, 3900)]);
        for (compression, offset) in cases {
            let mut stored = Vec::new();
            let block = encode_stored(&mut stored, 3, offset, &raw, compression, raw.len());
            assert_eq!(block.handle, BlockHandle { offset, size: stored.len() as u32 });
            assert_eq!(compression == Compression::None, block.payload_bytes == raw.len());
            let path = Path::new("t");
            let unpacked = decode_stored(path, 3, offset, stored.clone()).expect("intact");
            assert_eq!(unpacked.bytes, raw);
            let is_plain = compression == Compression::None;
            assert_eq!(unpacked.held_bytes, if is_plain { stored.len() } else { raw.len() });
            assert!(decode_stored(path, 3, 41, stored.clone()).is_err(), "a block in the wrong place");
            assert!(decode_stored(path, 4, offset, stored.clone()).is_err(), "a block of another table");
            for bit in 0..stored.len() * 8 {
                let mut flipped = stored.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(decode_stored(path, 3, offset, flipped).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn more_padding_than_there_are_bytes_is_found() {
        for before in [&[][..], &[0], &[1, 0], &[0, 9, 0]] {
            let covered = [before, &[PLAIN | PADDED, 0, 0, 0, 0]].concat();
            let result = decode_stored(Path::new("t"), 3, 0, with_checksum(3, 0, &covered));
            assert!(matches!(result, Err(Error::Corruption { what: "block padding", .. })), "{before:?}");
        }
    }
}
