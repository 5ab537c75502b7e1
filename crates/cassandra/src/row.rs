//! What is in a row of the table `entities`.
//!
//! ```text
//! etag  := node:u16 timestamp:u64 expires_at_ms:u64 length:u64 upload?     big-endian
//! upload := node:u16 timestamp:u64       if the value is in pieces: what they are named by
//! value := node:u16 byte*                the bytes of a value that is not in pieces
//! ```
//!
//! Cassandra decides column by column which of two writes with one timestamp wins: the one with the larger bytes. Both columns
//! begin with the number of the door that wrote them, so the row of one door wins as a whole. This layout must not change;
//! another one gets another number in the table `meta`.

use bytes::{Buf, Bytes};
use ladoga_model::{Stamp, VALUE_BYTES_MAX, Version};
use scylla::frame::response::result::ColumnType;
use scylla::serialize::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};

const PLAIN_BYTES: usize = 26;
const VERSION_BYTES: usize = 10;
const IN_PIECES_BYTES: usize = PLAIN_BYTES + VERSION_BYTES;
/// What is before the bytes of a value.
pub(crate) const PREFIX_BYTES: usize = 2;

/// A row without its key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) stamp: Stamp,
    pub(crate) length: u64,
    /// What the pieces are named by, if the value is in pieces.
    pub(crate) upload: Option<Version>,
}

impl Mark {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(IN_PIECES_BYTES);
        bytes.extend_from_slice(&encode_version(self.stamp.version));
        bytes.extend_from_slice(&self.stamp.expires_at_ms.to_be_bytes());
        bytes.extend_from_slice(&self.length.to_be_bytes());
        if let Some(upload) = self.upload {
            bytes.extend_from_slice(&encode_version(upload));
        }
        bytes
    }

    /// None if the bytes are none of ours.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Mark> {
        if bytes.len() != PLAIN_BYTES && bytes.len() != IN_PIECES_BYTES {
            return None;
        }
        let (mut rest, upload) = bytes.split_at(PLAIN_BYTES);
        let version = Version { node: rest.get_u16(), timestamp: rest.get_u64() };
        let (expires_at_ms, length) = (rest.get_u64(), rest.get_u64());
        if length > VALUE_BYTES_MAX {
            return None;
        }
        let stamp = Stamp { expires_at_ms, ..Stamp::new(version) };
        Some(Mark { stamp, length, upload: decode_version(upload) })
    }
}

pub(crate) fn encode_version(version: Version) -> [u8; VERSION_BYTES] {
    let mut bytes = [0; VERSION_BYTES];
    bytes[..2].copy_from_slice(&version.node.to_be_bytes());
    bytes[2..].copy_from_slice(&version.timestamp.to_be_bytes());
    bytes
}

pub(crate) fn decode_version(mut bytes: &[u8]) -> Option<Version> {
    (bytes.len() == VERSION_BYTES).then(|| Version { node: bytes.get_u16(), timestamp: bytes.get_u64() })
}

/// The value in a row; none if it is not as long as the row says.
pub(crate) fn value_in(column: &Bytes, mark: &Mark) -> Option<Bytes> {
    let length = usize::try_from(mark.length).ok()?;
    (column.len() == length + PREFIX_BYTES).then(|| column.slice(PREFIX_BYTES..))
}

/// The column `value`, written from where the bytes are.
pub(crate) struct ValueColumn<'v> {
    pub(crate) node: u16,
    pub(crate) bytes: &'v [u8],
}

impl SerializeValue for ValueColumn<'_> {
    fn serialize<'b>(
        &self,
        _: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        let mut builder = writer.into_value_builder();
        builder.append_bytes(&self.node.to_be_bytes());
        builder.append_bytes(self.bytes);
        builder.finish().map_err(SerializationError::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(upload: Option<Version>) -> Mark {
        let version = Version { timestamp: 0x0102_0304_0506_0708, node: 0x0a0b };
        Mark { stamp: Stamp { expires_at_ms: 5, ..Stamp::new(version) }, length: 7, upload }
    }

    #[test]
    fn a_row_is_read_as_it_was_written_and_begins_with_its_door() {
        for upload in [None, Some(Version { timestamp: 9, node: 1 })] {
            let bytes = mark(upload).encode();
            assert_eq!(bytes[..2], [0x0a, 0x0b]);
            assert_eq!(Mark::decode(&bytes), Some(mark(upload)));
        }
    }

    #[test]
    fn what_is_none_of_ours_is_not_read() {
        let bytes = mark(None).encode();
        for cut in 0..bytes.len() {
            assert_eq!(Mark::decode(&bytes[..cut]), None, "{cut}");
        }
        let longer = Mark { length: VALUE_BYTES_MAX + 1, ..mark(None) };
        assert_eq!(Mark::decode(&longer.encode()), None);
        let column = Bytes::from_static(b"\x0a\x0b1234567");
        assert_eq!(value_in(&column, &mark(None)), Some(Bytes::from_static(b"1234567")));
        for other in [&b""[..], b"\x0a", b"\x0a\x0b", b"\x0a\x0b123456", b"\x0a\x0b12345678"] {
            assert_eq!(value_in(&Bytes::copy_from_slice(other), &mark(None)), None);
        }
    }
}
