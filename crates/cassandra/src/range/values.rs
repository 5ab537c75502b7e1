use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use futures::stream::{StreamExt, TryStreamExt, iter};
use ladoga_service::Error;

use super::record::{MergedRow, Record, RecordValue, STATEMENTS_MAX};
use crate::at::{At, Column};
use crate::consistency::consistency;
use crate::failure::unreachable;
use crate::read::{Part, inline};
use crate::row::Mark;

/// Rows with their values, by bucket and key: a key may be in two buckets.
type Found = HashMap<(i32, Bytes), (Mark, Column)>;

/// The values of so many rows of a bucket are read at a time, as many as a page has.
const KEYS_MAX: usize = 64;

/// Rows of one bucket whose values are read at a time.
type Wanted = (i32, Vec<Bytes>);

/// The rows whose values are not read yet, some of a bucket at a time: these and no others. Between two of them there may be any number by
/// now.
fn wanted<'r>(rows: impl IntoIterator<Item = (i32, &'r Record)>) -> Vec<Wanted> {
    let mut keys: BTreeMap<i32, Vec<Bytes>> = BTreeMap::new();
    for (bucket, row) in rows.into_iter().filter(|(_, row)| row.unread_bytes().is_some()) {
        keys.entry(bucket).or_default().push(row.key.clone());
    }
    let some = |(bucket, keys): (i32, Vec<Bytes>)| {
        let some: Vec<Wanted> = keys.chunks(KEYS_MAX).map(|keys| (bucket, keys.to_vec())).collect();
        some
    };
    keys.into_iter().flat_map(some).collect()
}

impl At {
    /// Reads the values that are not read yet. What has been deleted meanwhile is left out, and what was written is as it is now.
    pub(super) async fn values(&self, rows: Vec<MergedRow>) -> Result<Vec<MergedRow>, Error> {
        let wanted = wanted(rows.iter().map(|MergedRow { bucket, row }| (*bucket, row)));
        let mut found = self.found(wanted).await?;
        let rows = rows.into_iter().filter_map(|MergedRow { bucket, row }| {
            let row = with_value((bucket, row), &mut found).transpose()?;
            Some(row.map(|row| MergedRow { bucket, row }))
        });
        rows.collect()
    }

    /// The same of rows of one bucket.
    pub(super) async fn values_in(self, bucket: i32, rows: Vec<Record>) -> Result<Vec<Record>, Error> {
        let mut found = self.found(wanted(rows.iter().map(|row| (bucket, row)))).await?;
        rows.into_iter().filter_map(|row| with_value((bucket, row), &mut found).transpose()).collect()
    }

    /// The record of a value in pieces whose turn has come, if there is one still. Those before it may have taken hours, and pieces are
    /// there for one after a value was replaced or deleted.
    pub(super) async fn as_it_is_now(&self, merged: MergedRow) -> Result<Option<Record>, Error> {
        let MergedRow { bucket, row: Record { key, .. } } = merged;
        let row = self.row_in(bucket, &key, Part::Whole, consistency(self.replicas)).await?;
        let now_ms = self.shared.clock.wall_ms();
        let Some(row) = row.filter(|row| !row.mark.stamp.is_expired(now_ms)) else { return Ok(None) };
        let mut record = Record::unread(key, row.mark);
        if record.unread_bytes().is_some() {
            record.value = RecordValue::Inline(inline(&record.key, row.value, &row.mark)?);
        }
        Ok(Some(record))
    }

    async fn found(&self, wanted: Vec<Wanted>) -> Result<Found, Error> {
        let reads: Vec<_> = wanted.into_iter().map(|wanted| self.clone().some_values(wanted)).collect();
        let found: Vec<Found> = iter(reads).buffer_unordered(STATEMENTS_MAX).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn some_values(self, (bucket, keys): Wanted) -> Result<Found, Error> {
        let mut found = Found::with_capacity(keys.len());
        let rows = self.rows(&self.keyspace.entities.values, (bucket, keys), self.read()).await?;
        let wrong = |error: &dyn std::fmt::Display| unreachable(format_args!("Cassandra's answer: {error}"));
        for row in rows.rows::<(Bytes, Column, Column)>().map_err(|error| wrong(&error))? {
            let (key, etag, value) = row.map_err(|error| wrong(&error))?;
            if let Some(etag) = etag {
                let mark = self.mark_of(&key, &etag)?;
                found.insert((bucket, key), (mark, value));
            }
        }
        Ok(found)
    }
}

/// The row as it was found, if its value was not read before; none if it is there no more.
fn with_value((bucket, row): (i32, Record), found: &mut Found) -> Result<Option<Record>, Error> {
    if row.unread_bytes().is_none() {
        return Ok(Some(row));
    }
    let Some(((_, key), (mark, value))) = found.remove_entry(&(bucket, row.key)) else { return Ok(None) };
    let mut row = Record::unread(key, mark);
    if row.unread_bytes().is_some() {
        row.value = RecordValue::Inline(inline(&row.key, value, &mark)?);
    }
    Ok(Some(row))
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
