//! Blob files: one large value each, written as it arrives and read piece by piece, never rewritten. Two cells of a key may name
//! the same file: what only changes when a value expires copies none of it.
//!
//! ```text
//! blob  := "LADOGAB" format u8, number u64, piece*
//! piece := up to 256 KiB of the value, crc u32 over number, index of the piece, bytes
//! ```

mod reader;
mod registry;
mod writer;

pub use reader::Blob;
pub(crate) use reader::missing_blob;
pub(crate) use registry::{BlobRef, BlobRegistry};
pub use writer::{BlobWriter, FinishedBlob};

/// The bytes of a value in one piece; all pieces but the last are full.
pub const BLOB_PIECE_BYTES: usize = 256 << 10;

const MAGIC: &[u8; 7] = b"LADOGAB";
const FORMAT: u8 = 1;
const HEADER_BYTES: u64 = 16;

/// How long the file of a value of so many bytes is.
pub(crate) const fn file_bytes(bytes: u64) -> u64 {
    HEADER_BYTES + bytes + 4 * bytes.div_ceil(BLOB_PIECE_BYTES as u64)
}

fn header(number: u64) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..7].copy_from_slice(MAGIC);
    header[7] = FORMAT;
    header[8..].copy_from_slice(&number.to_le_bytes());
    header
}

/// Where the piece with this index begins in the file.
const fn piece_offset(index: u64) -> u64 {
    HEADER_BYTES + index * (BLOB_PIECE_BYTES as u64 + 4)
}

/// Ties a piece to its place, so that a piece of another file or position is none.
fn piece_crc(number: u64, index: u64, bytes: &[u8]) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&number.to_le_bytes());
    place[8..].copy_from_slice(&index.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), bytes)
}
