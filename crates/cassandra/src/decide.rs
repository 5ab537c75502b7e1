//! Writes that Cassandra decides about: each is a lightweight transaction on the row of its key.
//!
//! What a write comes to is decided here, by the row that was read; Cassandra writes it only if that row is still the same, which the
//! column `etag` tells. Else Cassandra tells the new one, and that is decided about. If the write can only happen where there is no row, none
//! is read before: there most likely is none.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_service::{Error, Precondition, Sum, may_expire, may_write, sum};
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::value::{CqlValue, Row as AnyRow};

use crate::at::At;
use crate::failure::Asked;
use crate::keyspace::{Prepared, UploadName};
use crate::lifetime::{lifetime, seconds_left};
use crate::read::{Part, Row, inline};
use crate::write::Written;

/// So often is a row read and decided about again because others were faster.
const ATTEMPTS_MAX: usize = 32;

/// What becomes of a row.
enum Change {
    /// This value, which expires then; 0 if it never does.
    Put(Written, u64),
    Delete,
}

/// Over what a row may be written.
#[derive(Debug, PartialEq, Eq)]
enum Over {
    Anything,
    /// Over the row with this column `etag`; over none, if it has none.
    Only(Option<Bytes>),
}

impl Over {
    /// How to write over whatever is there, if that was in vain because the row has this column `etag`. No door writes one without a byte,
    /// but anybody may, and `Anything` is all but that.
    fn whatever(etag: Option<Bytes>) -> Over {
        match etag {
            Some(etag) if etag.is_empty() => Over::Only(Some(etag)),
            _ => Over::Anything,
        }
    }
}

/// What a row is, as far as it is known.
enum Known {
    Unread,
    Read(Option<Row>),
}

/// What became of a write.
enum Applied {
    Yes,
    /// The row was another one, with this column `etag`; or there was none.
    No(Option<Bytes>),
}

/// A cell as decisions see it: its value is what would be written again.
type Before = Cell<Bytes, (UploadName, u64)>;

impl At {
    /// Stores a value if the precondition is met.
    pub(crate) async fn put_decided(
        &self,
        key: &[u8],
        value: Written,
        expires_at_ms: u64,
        precondition: &Precondition,
    ) -> Result<Version, Error> {
        if precondition.is_none() {
            let stamp = Stamp { expires_at_ms, ..Stamp::new(self.shared.clock.next()) };
            let mut over = Over::Anything;
            for _ in 0..ATTEMPTS_MAX {
                match self.write_row(key, &value, stamp, over).await? {
                    Applied::Yes => return Ok(stamp.version),
                    Applied::No(etag) => over = Over::whatever(etag),
                }
            }
            return Err(contended());
        }
        let put = |before: Option<&Before>, now_ms| {
            may_write(precondition, before, now_ms)?;
            Ok((Change::Put(value.clone(), expires_at_ms), ()))
        };
        // A row that is written only if there is none, is not there.
        let is_new = matches!(precondition, Precondition::IfNoneMatchAny);
        let guess = if is_new { Known::Read(None) } else { Known::Unread };
        Ok(self.decide(key, Part::Mark, guess, put).await?.0.version)
    }

    /// Deletes a key if the precondition is met.
    pub(crate) async fn delete_decided(
        &self,
        key: &[u8],
        precondition: &Precondition,
    ) -> Result<Version, Error> {
        if precondition.is_none() {
            let version = self.shared.clock.next();
            let mut over = Over::Anything;
            for _ in 0..ATTEMPTS_MAX {
                match self.delete_row(key, over).await? {
                    Applied::Yes => return Ok(version),
                    Applied::No(etag) => over = Over::whatever(etag),
                }
            }
            return Err(contended());
        }
        let delete = |before: Option<&Before>, now_ms| {
            may_write(precondition, before, now_ms)?;
            Ok((Change::Delete, ()))
        };
        Ok(self.decide(key, Part::Mark, Known::Unread, delete).await?.0.version)
    }

    /// Adds to the number under a key.
    pub(crate) async fn add(
        &self,
        key: &[u8],
        by: i64,
        precondition: &Precondition,
    ) -> Result<(i64, Stamp), Error> {
        let add = |before: Option<&Before>, now_ms| {
            let Sum { number, expires_at_ms } = sum(precondition, before, by, now_ms)?;
            let text = Bytes::from(number.to_string());
            Ok((Change::Put(Written::Inline(text), expires_at_ms), number))
        };
        let (stamp, number) = self.decide(key, Part::Whole, Known::Unread, add).await?;
        Ok((number, stamp))
    }

    /// Changes when a value expires. Its row is written again: in Cassandra each column has its own time to live.
    pub(crate) async fn change_expiry(
        &self,
        key: &[u8],
        ttl: Option<ladoga_model::Ttl>,
        precondition: &Precondition,
    ) -> Result<Stamp, Error> {
        let change = |before: Option<&Before>, now_ms| {
            may_expire(precondition, before, now_ms)?;
            let value =
                before.and_then(|before| before.value.clone()).ok_or(Error::NotFound { current: None })?;
            let value = match value {
                Value::Inline(bytes) => Written::Inline(bytes),
                Value::Large((name, length)) => Written::InPieces(name, length),
            };
            Ok((Change::Put(value, lifetime(ttl, now_ms).0), ()))
        };
        Ok(self.decide(key, Part::Whole, Known::Unread, change).await?.0)
    }

    /// Fails unless the precondition is met now.
    pub(crate) async fn check(&self, key: &[u8], precondition: &Precondition) -> Result<(), Error> {
        let row = self.row(key, Part::Mark, Consistency::Serial).await?;
        let newest = row.as_ref().map(|row| before(key, row, Part::Mark)).transpose()?;
        may_write(precondition, newest.as_ref(), self.shared.clock.wall_ms())
    }

    /// Reads, decides and writes, until nobody comes in between. Answers the stamp of what was written. The first time, nothing is read if
    /// there is a guess what the row is.
    async fn decide<T>(
        &self,
        key: &[u8],
        part: Part,
        guess: Known,
        mut decide: impl FnMut(Option<&Before>, u64) -> Result<(Change, T), Error>,
    ) -> Result<(Stamp, T), Error> {
        let (mut known, mut is_guess) = (guess, true);
        for _ in 0..ATTEMPTS_MAX {
            let row = match std::mem::replace(&mut known, Known::Unread) {
                Known::Read(row) => row,
                Known::Unread => {
                    is_guess = false;
                    self.row(key, part, Consistency::Serial).await?
                }
            };
            let newest = row.as_ref().map(|row| before(key, row, part)).transpose()?;
            let (change, answer) = decide(newest.as_ref(), self.shared.clock.wall_ms())?;
            let over = Over::Only(row.map(|row| row.etag));
            let stamp = Stamp::new(self.shared.clock.next());
            let (stamp, applied) = match change {
                Change::Put(value, expires_at_ms) => {
                    let stamp = Stamp { expires_at_ms, ..stamp };
                    (stamp, self.write_row(key, &value, stamp, over).await?)
                }
                Change::Delete => (stamp, self.delete_row(key, over).await?),
            };
            match applied {
                Applied::Yes => return Ok((stamp, answer)),
                // Of a row that is read as a whole, this is not enough.
                Applied::No(etag) if part == Part::Mark => {
                    known = Known::Read(etag.map(|etag| self.row_of(key, etag, None)).transpose()?);
                }
                Applied::No(_) => {}
            }
            if !is_guess {
                self.shared.counts.contended.fetch_add(1, Ordering::Relaxed);
            }
            is_guess = false;
        }
        Err(contended())
    }

    /// Writes a row: whatever is there, or only if it is this one.
    async fn write_row(
        &self,
        key: &[u8],
        value: &Written,
        stamp: Stamp,
        over: Over,
    ) -> Result<Applied, Error> {
        let seconds = seconds_left(stamp.expires_at_ms, self.shared.clock.wall_ms());
        let (etag, column) = (value.mark(stamp).encode(), value.column(stamp.version));
        let (bucket, entities) = (self.keyspace.bucket(key), &self.keyspace.entities);
        match over {
            Over::Anything => self.apply(&entities.put_decided, (seconds, etag, column, bucket, key)).await,
            Over::Only(before) => {
                self.apply(&entities.put_if, (seconds, etag, column, bucket, key, before)).await
            }
        }
    }

    async fn delete_row(&self, key: &[u8], over: Over) -> Result<Applied, Error> {
        let (bucket, entities) = (self.keyspace.bucket(key), &self.keyspace.entities);
        match over {
            Over::Anything => self.apply(&entities.delete_decided, (bucket, key)).await,
            Over::Only(before) => self.apply(&entities.delete_if, (bucket, key, before)).await,
        }
    }

    async fn apply(&self, statement: &Prepared, values: impl SerializeRow) -> Result<Applied, Error> {
        let asked = self.decided();
        is_applied(self.run(statement, values, asked).await?, asked)
    }
}

const fn contended() -> Error {
    Error::Contended("other requests changed the key each time, before this one could")
}

/// The cell of a row.
fn before(key: &[u8], row: &Row, part: Part) -> Result<Before, Error> {
    let value = match (row.mark.upload, part) {
        (Some(upload), _) => {
            let name = UploadName { key: Bytes::copy_from_slice(key), upload };
            Value::Large((name, row.mark.length))
        }
        (None, Part::Whole) => Value::Inline(inline(key, row.value.clone(), &row.mark)?),
        // Nobody looks at it.
        (None, Part::Mark) => Value::Inline(Bytes::new()),
    };
    Ok(Cell { stamp: row.mark.stamp, value: Some(value) })
}

/// The first column of the answer to a lightweight transaction says whether it was done; if not, the others are those that it depends on.
fn is_applied(result: QueryResult, asked: Asked) -> Result<Applied, Error> {
    let wrong = |error: &dyn std::fmt::Display| asked.unclear(format!("its answer cannot be read: {error}"));
    let found = result.into_rows_result().map_err(|error| wrong(&error))?;
    let row = found.first_row::<AnyRow>().map_err(|error| wrong(&error))?;
    match &row.columns[..] {
        [Some(CqlValue::Boolean(true)), ..] => Ok(Applied::Yes),
        [Some(CqlValue::Boolean(false)), Some(CqlValue::Blob(etag))] => {
            Ok(Applied::No(Some(Bytes::copy_from_slice(etag))))
        }
        [Some(CqlValue::Boolean(false))] | [Some(CqlValue::Boolean(false)), None] => Ok(Applied::No(None)),
        other => Err(wrong(&format_args!("{other:?}, expected whether it was applied, and an etag"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_a_byte_of_etag_is_written_over_as_that() {
        let etag = |bytes| Some(Bytes::from_static(bytes));
        assert_eq!(Over::whatever(etag(b"")), Over::Only(etag(b"")));
        assert_eq!(Over::whatever(etag(b"0")), Over::Anything);
        assert_eq!(Over::whatever(None), Over::Anything);
    }
}
