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

/// Rows with their values, by key.
type Found = HashMap<Bytes, (Mark, Column)>;

/// From the first to the last key of those in a bucket whose values are not read yet.
#[derive(Default)]
struct Run(Option<(Bytes, Bytes)>);

impl Run {
    fn add(&mut self, key: &Bytes) {
        let (first, last) = self.0.get_or_insert_with(|| (key.clone(), key.clone()));
        if key < first {
            *first = key.clone();
        } else if key > last {
            *last = key.clone();
        }
    }
}

impl At {
    /// Reads the values that are not read yet. What has been deleted meanwhile is left out, and what was written is as it is now.
    pub(super) async fn values(&self, rows: Vec<MergedRow>) -> Result<Vec<MergedRow>, Error> {
        let mut runs: BTreeMap<i32, Run> = BTreeMap::new();
        for MergedRow { bucket, row } in rows.iter().filter(|merged| merged.row.unread_bytes().is_some()) {
            runs.entry(*bucket).or_default().add(&row.key);
        }
        let reads = runs.into_iter().map(|(bucket, run)| self.clone().run_of_values(bucket, run));
        let reads: Vec<_> = reads.collect();
        let runs: Vec<Found> = iter(reads).buffer_unordered(STATEMENTS_MAX).try_collect().await?;
        let mut found: Found = runs.into_iter().flatten().collect();
        let rows = rows.into_iter().filter_map(|MergedRow { bucket, row }| {
            let row = with_value(row, &mut found).transpose()?;
            Some(row.map(|row| MergedRow { bucket, row }))
        });
        rows.collect()
    }

    /// The same of rows of one bucket.
    pub(super) async fn values_in(self, bucket: i32, rows: Vec<Record>) -> Result<Vec<Record>, Error> {
        let mut run = Run::default();
        for row in rows.iter().filter(|row| row.unread_bytes().is_some()) {
            run.add(&row.key);
        }
        let mut found = self.run_of_values(bucket, run).await?;
        rows.into_iter().filter_map(|row| with_value(row, &mut found).transpose()).collect()
    }

    /// The record of a value in pieces whose turn has come, if there is one still. Those before it may have taken hours, and pieces are
    /// there for one after a value was replaced or deleted.
    pub(super) async fn as_it_is_now(&self, Record { key, .. }: Record) -> Result<Option<Record>, Error> {
        let row = self.row(&key, Part::Whole, consistency(self.replicas)).await?;
        let now_ms = self.shared.clock.wall_ms();
        let Some(row) = row.filter(|row| !row.mark.stamp.is_expired(now_ms)) else { return Ok(None) };
        let mut record = Record::unread(key, row.mark);
        if record.unread_bytes().is_some() {
            record.value = RecordValue::Inline(inline(&record.key, row.value, &row.mark)?);
        }
        Ok(Some(record))
    }

    async fn run_of_values(self, bucket: i32, run: Run) -> Result<Found, Error> {
        let mut found = Found::new();
        let Some((first, last)) = run.0 else { return Ok(found) };
        let values = (bucket, &first[..], &last[..]);
        let rows = self.rows(&self.keyspace.entities.values, values, self.read()).await?;
        let wrong = |error: &dyn std::fmt::Display| unreachable(format_args!("Cassandra's answer: {error}"));
        for row in rows.rows::<(Bytes, Column, Column)>().map_err(|error| wrong(&error))? {
            let (key, etag, value) = row.map_err(|error| wrong(&error))?;
            if let Some(etag) = etag {
                let mark = self.mark_of(&key, &etag)?;
                found.insert(key, (mark, value));
            }
        }
        Ok(found)
    }
}

/// The row as it was found, if its value was not read before; none if it is there no more.
fn with_value(row: Record, found: &mut Found) -> Result<Option<Record>, Error> {
    if row.unread_bytes().is_none() {
        return Ok(Some(row));
    }
    let Some((mark, value)) = found.remove(&row.key) else { return Ok(None) };
    let mut row = Record::unread(row.key, mark);
    if row.unread_bytes().is_some() {
        row.value = RecordValue::Inline(inline(&row.key, value, &mark)?);
    }
    Ok(Some(row))
}
