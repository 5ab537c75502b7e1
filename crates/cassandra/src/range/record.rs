use bytes::Bytes;

use crate::keyspace::UploadName;
use crate::row::Mark;

/// So many statements of a range are under way at a time.
pub(super) const STATEMENTS_MAX: usize = 32;

/// The value of a record.
pub(super) enum RecordValue {
    Inline(Bytes),
    InPieces(UploadName),
    /// Not read yet, or nobody wants to know.
    Unread,
}

/// A record of a range.
pub(super) struct Record {
    pub(super) key: Bytes,
    pub(super) mark: Mark,
    pub(super) value: RecordValue,
}

impl Record {
    /// What a row says without its value.
    pub(super) fn unread(key: Bytes, mark: Mark) -> Record {
        let value = mark.upload.map_or(RecordValue::Unread, |upload| {
            RecordValue::InPieces(UploadName { key: Bytes::copy_from_slice(&key), upload })
        });
        Record { key, mark, value }
    }

    /// How long its value is, if that is in the row and not read yet.
    pub(super) fn unread_bytes(&self) -> Option<u64> {
        matches!(self.value, RecordValue::Unread).then_some(self.mark.length)
    }
}

/// A row of a range, and in which bucket it is.
pub(super) struct MergedRow {
    pub(super) bucket: i32,
    pub(super) row: Record,
}
