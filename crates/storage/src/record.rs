//! A record: one cell of one key, as it stands in the log and in the blocks of a table.
//!
//! ```text
//! record  := kind u8, key_len u16, value_len u32, timestamp u64, node u16, [expires_at_ms u64], [copies u8], key,
//!            value
//! kind    := 1 value | 2 tombstone | 3 blob, + 0x80 if expires_at_ms follows, + 0x40 if copies does
//!            (never change these)
//! value   := the bytes | nothing | blob_file u64, len u64, crc u32                       by kind
//! ```

use ladoga_model::{CellMark, HybridClock, KEY_BYTES_MAX, Stamp, VALUE_BYTES_MAX, Version, check_key};

use crate::coding::Reader;
use crate::paths::NUMBER_MAX;

/// Values at least this long live in files of their own, out of compaction's way.
pub const BLOB_BYTES_MIN: u64 = 256 << 10;

/// The longest value inside a record.
pub(crate) const INLINE_BYTES_MAX: usize = BLOB_BYTES_MIN as usize;

/// What a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A value, in the record.
    Value = 1,
    /// Deleted.
    Tombstone = 2,
    /// A value, in a blob file that the record names.
    Blob = 3,
}

const EXPIRES: u8 = 0x80;
const COPIES: u8 = 0x40;
const HEADER_BYTES: usize = 1 + 2 + 4 + 8 + 2;

impl Kind {
    pub(crate) const fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            1 => Some(Kind::Value),
            2 => Some(Kind::Tombstone),
            3 => Some(Kind::Blob),
            _ => None,
        }
    }
}

/// One cell of one key, borrowed from wherever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Version and expiry.
    pub stamp: Stamp,
    /// What the value is.
    pub kind: Kind,
    /// The value, or what `kind` has in its place.
    pub value: &'a [u8],
}

impl<'a> Record<'a> {
    /// What it takes at most beside key and value.
    pub(crate) const OVERHEAD_BYTES_MAX: usize = HEADER_BYTES + 8 + 1;

    /// Appends the record.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(check_key(self.key).is_ok() && self.value.len() <= INLINE_BYTES_MAX);
        debug_assert!(self.stamp.version.timestamp <= HybridClock::TIMESTAMP_MAX);
        let Stamp { expires_at_ms, copies, .. } = self.stamp;
        out.reserve(Self::OVERHEAD_BYTES_MAX + self.key.len() + self.value.len());
        let flags = if expires_at_ms == 0 { 0 } else { EXPIRES } | if copies == 0 { 0 } else { COPIES };
        out.push(self.kind as u8 | flags);
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.stamp.version.timestamp.to_le_bytes());
        out.extend_from_slice(&self.stamp.version.node.to_le_bytes());
        if expires_at_ms != 0 {
            out.extend_from_slice(&expires_at_ms.to_le_bytes());
        }
        if copies != 0 {
            out.push(copies);
        }
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
    }

    /// How long [`Record::encode`] makes it.
    pub(crate) const fn encoded_bytes(&self) -> usize {
        let expiry = if self.stamp.expires_at_ms == 0 { 0 } else { 8 };
        let copies = if self.stamp.copies == 0 { 0 } else { 1 };
        HEADER_BYTES + expiry + copies + self.key.len() + self.value.len()
    }

    /// Takes one record off the front; `None` if the bytes are no record.
    #[inline]
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Option<Record<'a>> {
        let byte = reader.u8()?;
        let kind = Kind::from_byte(byte & !(EXPIRES | COPIES))?;
        let key_len = usize::from(reader.u16()?);
        let value_len = reader.u32()? as usize;
        if key_len == 0 || key_len > KEY_BYTES_MAX || value_len > INLINE_BYTES_MAX {
            return None;
        }
        let version = Version { timestamp: reader.u64()?, node: reader.u16()? };
        let expires_at_ms = if byte & EXPIRES == 0 { 0 } else { reader.u64()? };
        let copies = if byte & COPIES == 0 { 0 } else { reader.u8()? };
        let key = reader.bytes(key_len)?;
        let value = reader.bytes(value_len)?;
        let shaped = match kind {
            Kind::Value => true,
            Kind::Tombstone => value.is_empty(),
            Kind::Blob => BlobPointer::decode(value).is_some(),
        };
        let is_possible = shaped && version.timestamp <= HybridClock::TIMESTAMP_MAX;
        is_possible.then_some(Record { key, stamp: Stamp { version, expires_at_ms, copies }, kind, value })
    }

    /// Everything about it but its value.
    pub(crate) fn mark(&self) -> CellMark {
        let is_tombstone = self.kind == Kind::Tombstone && self.stamp.expires_at_ms == 0;
        CellMark { stamp: self.stamp, is_tombstone }
    }

    /// Bytes that this record keeps on disk outside of itself.
    pub(crate) fn blob_bytes(&self) -> u64 {
        self.blob().map_or(0, |blob| blob.len)
    }

    /// Where the value is, if it is not here.
    pub(crate) fn blob(&self) -> Option<BlobPointer> {
        if self.kind == Kind::Blob { BlobPointer::decode(self.value) } else { None }
    }
}

/// Which file holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobPointer {
    pub file: u64,
    pub len: u64,
    /// Of the whole value: ties the pointer to the file's content.
    pub crc: u32,
}

impl BlobPointer {
    pub(crate) const BYTES: usize = 8 + 8 + 4;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.file.to_le_bytes());
        out[8..16].copy_from_slice(&self.len.to_le_bytes());
        out[16..].copy_from_slice(&self.crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<BlobPointer> {
        let mut reader = Reader::new(bytes);
        let pointer = BlobPointer { file: reader.u64()?, len: reader.u64()?, crc: reader.u32()? };
        let is_possible = pointer.file <= NUMBER_MAX && pointer.len <= VALUE_BYTES_MAX;
        (reader.remaining() == 0 && is_possible).then_some(pointer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode_one(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
        let mut reader = Reader::new(bytes);
        let record = Record::decode(&mut reader)?;
        Some((record, reader.remaining()))
    }

    #[test]
    fn lengths_over_their_limits_are_refused_before_they_are_used() {
        let record = Record { key: b"k", stamp: Stamp::default(), kind: Kind::Value, value: b"v" };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert!(decode_one(&bytes).is_some());
        let mut long_key = bytes.clone();
        long_key[1..3].copy_from_slice(&u16::MAX.to_le_bytes());
        assert!(decode_one(&long_key).is_none());
        let mut long_value = bytes.clone();
        long_value[3..7].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decode_one(&long_value).is_none());
        let mut tombstone_with_value = bytes;
        tombstone_with_value[0] = Kind::Tombstone as u8;
        assert!(decode_one(&tombstone_with_value).is_none());
    }

    /// Or else no clock could follow it.
    #[test]
    fn a_timestamp_that_no_clock_gives_is_refused() {
        let record = Record { key: b"k", stamp: Stamp::default(), kind: Kind::Value, value: b"v" };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let mut is_one = |timestamp: u64| {
            bytes[7..15].copy_from_slice(&timestamp.to_le_bytes());
            decode_one(&bytes).is_some()
        };
        assert!(is_one(HybridClock::TIMESTAMP_MAX));
        assert!(!is_one(HybridClock::TIMESTAMP_MAX + 1) && !is_one(u64::MAX));
    }

    #[test]
    fn a_large_value_has_a_number_and_a_length_that_are_possible() {
        let is_one = |file, len| BlobPointer::decode(&BlobPointer { file, len, crc: 7 }.encode()).is_some();
        assert!(is_one(NUMBER_MAX, VALUE_BYTES_MAX));
        assert!(!is_one(NUMBER_MAX + 1, 1) && !is_one(1, VALUE_BYTES_MAX + 1));
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(
            key in proptest::collection::vec(any::<u8>(), 1..64),
            value in proptest::collection::vec(any::<u8>(), 0..64),
            timestamp in 0..=HybridClock::TIMESTAMP_MAX, node: u16, expires_at_ms: u64, copies: u8, tombstone: bool,
        ) {
            let stamp = Stamp { version: Version { timestamp, node }, expires_at_ms, copies };
            let record = if tombstone {
                Record { key: &key, stamp, kind: Kind::Tombstone, value: b"" }
            } else {
                Record { key: &key, stamp, kind: Kind::Value, value: &value }
            };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), record.encoded_bytes());
            prop_assert_eq!(decode_one(&bytes), Some((record, 0)));
            for cut in 0..bytes.len() {
                prop_assert_eq!(decode_one(&bytes[..cut]), None);
            }
        }
    }
}
