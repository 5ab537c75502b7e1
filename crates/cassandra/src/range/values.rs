use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use futures::stream::{StreamExt, TryStreamExt, iter};
use ladoga_service::Error;

use super::merge::{MergedRow, STATEMENTS_MAX};
use crate::at::{At, Column};
use crate::failure::unreachable;
use crate::keyspace::UploadName;
use crate::read::{inline, not_ours};
use crate::row::Mark;

/// The value of a record.
pub(super) enum RecordValue {
    Inline(Bytes),
    InPieces(UploadName),
    /// Nobody wants to know.
    Unread,
}

/// A record of a range.
pub(super) struct Record {
    pub(super) key: Bytes,
    pub(super) mark: Mark,
    pub(super) value: RecordValue,
}

/// Rows with their values, by key.
type Found = HashMap<Bytes, (Mark, Bytes)>;

impl At {
    /// The records of these keys, in their order. What has been deleted meanwhile is left out, and what was written is as it is now.
    pub(super) async fn records(&self, rows: Vec<MergedRow>) -> Result<Vec<Record>, Error> {
        // From the first to the last key of each bucket that has its value in its row.
        let mut runs: BTreeMap<i32, (Bytes, Bytes)> = BTreeMap::new();
        for MergedRow { bucket, row: (key, mark) } in &rows {
            if mark.upload.is_none() {
                let run = runs.entry(*bucket).or_insert_with(|| (key.clone(), key.clone()));
                if *key < run.0 {
                    run.0 = key.clone();
                } else if *key > run.1 {
                    run.1 = key.clone();
                }
            }
        }
        let reads = runs.into_iter().map(|(bucket, run)| self.clone().run_of_values(bucket, run));
        let reads: Vec<_> = reads.collect();
        let runs: Vec<Found> = iter(reads).buffer_unordered(STATEMENTS_MAX).try_collect().await?;
        let mut found: Found = runs.into_iter().flatten().collect();
        let records = rows.into_iter().filter_map(|MergedRow { row: (key, mark), .. }| {
            let (mark, value) = match mark.upload {
                Some(_) => (mark, None),
                None => found.remove(&key).map(|(mark, value)| (mark, Some(value)))?,
            };
            Some(record(key, mark, value))
        });
        records.collect()
    }

    async fn run_of_values(self, bucket: i32, (first, last): (Bytes, Bytes)) -> Result<Found, Error> {
        let values = (bucket, &first[..], &last[..]);
        let found = self.rows(&self.keyspace.entities.values, values, self.read()).await?;
        let wrong = |error: &dyn std::fmt::Display| unreachable(format_args!("Cassandra's answer: {error}"));
        let rows = found.rows::<(Bytes, Column, Column)>().map_err(|error| wrong(&error))?;
        let mut found = Found::new();
        for row in rows {
            let (key, etag, value) = row.map_err(|error| wrong(&error))?;
            let mark = etag.as_deref().and_then(Mark::decode).ok_or_else(|| not_ours(&key))?;
            found.insert(key, (mark, value.unwrap_or_default()));
        }
        Ok(found)
    }
}

fn record(key: Bytes, mark: Mark, column: Column) -> Result<Record, Error> {
    let value = match mark.upload {
        Some(upload) => RecordValue::InPieces(UploadName { key: Bytes::copy_from_slice(&key), upload }),
        None => RecordValue::Inline(inline(&key, column, &mark)?),
    };
    Ok(Record { key, mark, value })
}
