//! Walking records in key order: over one source, and merged over many.

mod level;
mod merge;

pub(crate) use level::LevelCursor;
pub(crate) use merge::Merge;

use bytes::Bytes;
use ladoga_model::Version;

use crate::error::Error;
use crate::memtable::RunCursor;
use crate::record::Record;
use crate::table::{LONG_BLOCK_BYTES, TableCursor};

/// Anything that has records in key order, each key once.
pub(crate) enum Source {
    Memtable(RunCursor),
    Table(TableCursor),
    Level(LevelCursor),
}

impl Source {
    #[inline]
    pub(crate) fn record(&self) -> Result<Option<Record<'_>>, Error> {
        match self {
            Source::Memtable(cursor) => Ok(cursor.record()),
            Source::Table(cursor) => cursor.record(),
            Source::Level(cursor) => cursor.record(),
        }
    }

    /// The key and the version of the current record, which can be had also where the record was let go of.
    #[inline]
    pub(crate) fn head(&self) -> Result<Option<(&[u8], Version)>, Error> {
        match self {
            Source::Memtable(cursor) => Ok(cursor.record().map(|record| (record.key, record.stamp.version))),
            Source::Table(cursor) => cursor.head(),
            Source::Level(cursor) => cursor.head(),
        }
    }

    /// Bytes of the current record, kept alive without a copy if they are most of their block.
    #[inline]
    pub(crate) fn keep(&self, part: &[u8]) -> Bytes {
        match self.table_cursor() {
            Some(cursor) if part.len() > LONG_BLOCK_BYTES / 2 => cursor.share(part),
            _ => Bytes::copy_from_slice(part),
        }
    }

    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<(), Error> {
        match self {
            Source::Memtable(cursor) => {
                cursor.seek(key);
                Ok(())
            }
            Source::Table(cursor) => cursor.seek(key),
            Source::Level(cursor) => cursor.seek(key),
        }
    }

    pub(crate) fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), Error> {
        match self {
            Source::Memtable(cursor) => {
                cursor.seek_before(key);
                Ok(())
            }
            Source::Table(cursor) => cursor.seek_before(key),
            Source::Level(cursor) => cursor.seek_before(key),
        }
    }

    #[inline]
    pub(crate) fn step(&mut self, forward: bool) -> Result<(), Error> {
        match self {
            Source::Memtable(cursor) if forward => cursor.next(),
            Source::Memtable(cursor) => cursor.previous(),
            Source::Table(cursor) if forward => return cursor.next(),
            Source::Table(cursor) => return cursor.previous(),
            Source::Level(cursor) if forward => return cursor.next(),
            Source::Level(cursor) => return cursor.previous(),
        }
        Ok(())
    }

    /// The walk through a table that the current record is from, unless it is from a memtable.
    #[inline]
    pub(crate) fn table_cursor(&self) -> Option<&TableCursor> {
        match self {
            Source::Memtable(_) => None,
            Source::Table(cursor) => Some(cursor),
            Source::Level(cursor) => cursor.table_cursor(),
        }
    }

    /// The same, to let go of its block or to load that again.
    #[inline]
    pub(crate) const fn table_cursor_mut(&mut self) -> Option<&mut TableCursor> {
        match self {
            Source::Memtable(_) => None,
            Source::Table(cursor) => Some(cursor),
            Source::Level(cursor) => cursor.table_cursor_mut(),
        }
    }

    /// Another reference to a blob file that the current record names.
    pub(crate) fn blob_ref(&self, number: u64) -> Option<crate::blob::BlobRef> {
        match self {
            Source::Memtable(cursor) => cursor.table().blob_ref(number),
            Source::Table(cursor) => cursor.table().blob_ref(number),
            Source::Level(cursor) => cursor.table()?.blob_ref(number),
        }
    }
}
