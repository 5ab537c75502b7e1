//! Reads of one key.

use bytes::Bytes;
use ladoga_model::{Cell, Quote, Value};
use ladoga_service::{Error, LargeValue, StoredCell};
use scylla::statement::Consistency;

use crate::at::{At, Column, rows};
use crate::consistency::consistency;
use crate::failure::{unreachable, unreadable};
use crate::keyspace::UploadName;
use crate::pieces::ValuePieces;
use crate::row::{Mark, value_in};

/// A row of a key, as it was read.
pub(crate) struct Row {
    /// The column `etag` as it is: by this the row is recognised.
    pub(crate) etag: Bytes,
    pub(crate) mark: Mark,
    /// The column `value`, if it was read.
    pub(crate) value: Column,
}

/// What of a row is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// All but the value.
    Mark,
}

impl At {
    /// The newest cell of a key, without what has expired.
    pub(crate) async fn cell(&self, key: &[u8]) -> Result<Option<StoredCell>, Error> {
        let found = self.row(key, Part::Whole, consistency(self.replicas)).await?;
        let cell = found.map(|row| self.cell_of(key, row)).transpose()?;
        Ok(cell.map(|cell| cell.as_of_ms(|| self.shared.clock.wall_ms())))
    }

    /// The row of a key, if there is one.
    pub(crate) async fn row(
        &self,
        key: &[u8],
        part: Part,
        consistency: Consistency,
    ) -> Result<Option<Row>, Error> {
        self.row_in(self.keyspace.bucket(key), key, part, consistency).await
    }

    /// The same of a bucket that may be another one than where this door has the key: somebody may have changed how many there are.
    pub(crate) async fn row_in(
        &self,
        bucket: i32,
        key: &[u8],
        part: Part,
        consistency: Consistency,
    ) -> Result<Option<Row>, Error> {
        let statement = match part {
            Part::Whole => &self.keyspace.entities.get,
            Part::Mark => &self.keyspace.entities.get_mark,
        };
        let values = (bucket, key);
        let found = rows(self.run_at(consistency, statement, values, self.read()).await?)?;
        let wrong = |error: &dyn std::fmt::Display| unreachable(format_args!("Cassandra's answer: {error}"));
        let (etag, value) = match part {
            Part::Whole => {
                let row = found.maybe_first_row::<(Column, Column)>().map_err(|error| wrong(&error))?;
                row.unwrap_or_default()
            }
            Part::Mark => {
                let row = found.maybe_first_row::<(Column,)>().map_err(|error| wrong(&error))?;
                (row.unwrap_or_default().0, None)
            }
        };
        etag.map(|etag| self.row_of(key, etag, value)).transpose()
    }

    /// The row with these columns.
    pub(crate) fn row_of(&self, key: &[u8], etag: Bytes, value: Column) -> Result<Row, Error> {
        let mark = self.mark_of(key, &etag)?;
        Ok(Row { etag, mark, value })
    }

    /// What the column `etag` of a row says. What this door writes from now on is newer, unless a clock is wrong.
    pub(crate) fn mark_of(&self, key: &[u8], etag: &[u8]) -> Result<Mark, Error> {
        let mark = Mark::decode(etag).ok_or_else(|| not_ours(key))?;
        if let Err(ahead) = self.shared.clock.observe(mark.stamp.version) {
            self.shared.note_ahead(key, &ahead);
        }
        Ok(mark)
    }

    /// The cell of a row that was read as a whole.
    pub(crate) fn cell_of(&self, key: &[u8], Row { mark, value, .. }: Row) -> Result<StoredCell, Error> {
        let value = match mark.upload {
            None => Value::Inline(inline(key, value, &mark)?),
            Some(upload) => {
                let name = UploadName { key: Bytes::copy_from_slice(key), upload };
                let pieces = Box::new(ValuePieces::new(self.clone(), name, mark.length));
                Value::Large(LargeValue { bytes: mark.length, pieces })
            }
        };
        Ok(Cell { stamp: mark.stamp, value: Some(value) })
    }
}

/// The bytes of a value that is in its row.
pub(crate) fn inline(key: &[u8], value: Column, mark: &Mark) -> Result<Bytes, Error> {
    value.and_then(|value| value_in(&value, mark)).ok_or_else(|| not_ours(key))
}

/// Somebody else has written the row.
pub(crate) fn not_ours(key: &[u8]) -> Error {
    let key = Quote::of(key);
    Error::Store(unreadable(format_args!(
        "the row of the key {key} is not as docs/cassandra.md describes; DELETE it, or write it again"
    )))
}
