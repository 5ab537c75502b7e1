use std::collections::VecDeque;

use bytes::Bytes;
use ladoga_model::KEY_BYTES_MAX;
use ladoga_service::{Error, KeyRange, KeySpan};

use super::record::Record;
use crate::at::{At, Column};
use crate::failure::unreachable;

/// Between so many rows of a bucket are read at a time: the more buckets there are, the fewer.
const PAGE_ROWS_MIN: usize = 16;
const PAGE_ROWS_MAX: usize = 64;
/// The pages of all buckets have no more rows than this, unless each has the fewest.
const ROWS_MAX: usize = 16 << 10;
/// So many bytes of values are read with the pages of all buckets.
const VALUE_BYTES_MAX: u64 = 2 << 20;

/// How buckets are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) is_reverse: bool,
    rows: usize,
    /// So many bytes of values at most are read at once, not when their keys have had their turn in the order of all.
    value_bytes: u64,
}

impl Page {
    /// Short values are read at once if the range goes on for at least a page of each bucket: a shorter one would leave most of them.
    pub(super) fn of(range: &KeyRange, buckets: i32, wants_values: bool) -> Page {
        let (buckets, limit) = (buckets.unsigned_abs(), range.limit.unwrap_or(u64::MAX));
        let rows = (ROWS_MAX / buckets as usize).clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX) as u64;
        let takes_all = limit / u64::from(buckets) >= rows;
        let value_bytes = if wants_values && takes_all { VALUE_BYTES_MAX / u64::from(buckets) } else { 0 };
        Page { is_reverse: range.span.is_reverse, rows: limit.clamp(1, rows) as usize, value_bytes }
    }

    /// How many of these rows, from the first one on, have values that fit.
    fn fitting(self, rows: &[Record]) -> usize {
        let mut left = self.value_bytes;
        let fits = |row: &&Record| match left.checked_sub(row.unread_bytes().unwrap_or(0)) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        if self.value_bytes == 0 { 0 } else { rows.iter().take_while(fits).count() }
    }
}

/// Some keys that follow each other: from the first one on, up to the second one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bounds {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Bounds {
    pub(super) fn of(span: &KeySpan) -> Bounds {
        // Longer than any key, so behind all of them.
        let end = || vec![0xff; KEY_BYTES_MAX + 1];
        Bounds { from: span.start.to_vec(), to: span.end.as_ref().map_or_else(end, |key| key.to_vec()) }
    }

    /// What is left behind this key, or before it.
    fn beyond(self, last: &[u8], is_reverse: bool) -> Bounds {
        if is_reverse {
            return Bounds { to: last.to_vec(), ..self };
        }
        // Nothing is between a key and the same with a zero behind it.
        Bounds { from: [last, &[0]].concat(), ..self }
    }
}

/// The rows of one bucket.
pub(super) struct Slice {
    pub(super) bucket: i32,
    pub(super) rows: VecDeque<Record>,
    /// What is not read yet; none if there is nothing more.
    rest: Option<Bounds>,
}

impl Slice {
    pub(super) fn new(bucket: i32, bounds: Bounds) -> Slice {
        Slice { bucket, rows: VecDeque::new(), rest: Some(bounds) }
    }

    /// Whether its next key is not known, and there may be one.
    pub(super) fn is_starved(&self) -> bool {
        self.rows.is_empty() && self.rest.is_some()
    }

    /// Whether it is soon going to be like that.
    pub(super) fn is_low(&self, page: Page) -> bool {
        self.rows.len() <= page.rows / 2 && self.rest.is_some()
    }

    /// Takes itself along to be read on, and leaves nothing behind.
    pub(super) fn take(&mut self) -> Slice {
        let bucket = self.bucket;
        std::mem::replace(self, Slice { bucket, rows: VecDeque::new(), rest: None })
    }

    /// Reads the next page.
    pub(super) async fn filled(mut self, at: At, page: Page) -> Result<Slice, Error> {
        let Some(bounds) = self.rest.take() else { return Ok(self) };
        let (mut rows, rest) = at.page(self.bucket, bounds, page).await?;
        self.rest = rest;
        let others = rows.split_off(page.fitting(&rows));
        self.rows.extend(at.values_in(self.bucket, rows).await?);
        self.rows.extend(others);
        Ok(self)
    }
}

impl At {
    /// The next rows of a bucket, without their values, and what is left behind them.
    async fn page(
        &self,
        bucket: i32,
        bounds: Bounds,
        page: Page,
    ) -> Result<(Vec<Record>, Option<Bounds>), Error> {
        let entities = &self.keyspace.entities;
        let statement = if page.is_reverse { &entities.page_back } else { &entities.page };
        let values = (bucket, &bounds.from, &bounds.to, page.rows as i32);
        let found = self.rows(statement, values, self.read()).await?;
        let wrong = |error: &dyn std::fmt::Display| unreachable(format_args!("Cassandra's answer: {error}"));
        let (mut rows, mut read, mut last) = (Vec::with_capacity(page.rows), 0, None);
        for row in found.rows::<(Bytes, Column)>().map_err(|error| wrong(&error))? {
            let (key, etag) = row.map_err(|error| wrong(&error))?;
            read += 1;
            // Without it there is only a key left of an INSERT, over which an UPDATE was that has expired.
            if let Some(etag) = etag {
                rows.push(Record::unread(key.clone(), self.mark_of(&key, &etag)?));
            }
            last = Some(key);
        }
        let last = last.filter(|_| read >= page.rows);
        Ok((rows, last.map(|last| bounds.beyond(&last, page.is_reverse))))
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::{Stamp, Version};
    use ladoga_service::Scope;

    use super::*;
    use crate::row::Mark;

    fn page(limit: Option<u64>, buckets: i32, wants_values: bool) -> Page {
        let span = KeySpan { start: Bytes::new(), end: None, is_reverse: false };
        Page::of(&KeyRange { span, limit, scope: Scope::Cluster }, buckets, wants_values)
    }

    fn row(length: u64, is_in_pieces: bool) -> Record {
        let version = Version { timestamp: 1, node: 0 };
        let upload = is_in_pieces.then_some(version);
        Record::unread(Bytes::from("k"), Mark { stamp: Stamp::new(version), length, upload })
    }

    #[test]
    fn a_page_has_no_more_rows_than_are_asked_for_and_values_if_most_of_it_is() {
        let all = PAGE_ROWS_MAX as u64 * 256;
        for (limit, rows, has_values) in [
            (None, PAGE_ROWS_MAX, true),
            (Some(all), PAGE_ROWS_MAX, true),
            (Some(all - 1), PAGE_ROWS_MAX, false),
            (Some(3), 3, false),
            (Some(0), 1, false),
        ] {
            let found = page(limit, 256, true);
            assert_eq!((found.rows, found.value_bytes > 0), (rows, has_values), "{limit:?}");
        }
        assert_eq!(page(None, 256, false).fitting(&[row(1, false)]), 0);
    }

    #[test]
    fn with_more_buckets_a_page_is_smaller() {
        let [few, usual, most] = [1, 256, 4_096].map(|buckets| page(None, buckets, true));
        assert_eq!([few, usual, most].map(|page| page.rows), [64, 64, 16]);
        assert_eq!([few, usual, most].map(|page| page.value_bytes), [2 << 20, 8 << 10, 512]);
    }

    #[test]
    fn values_are_read_with_a_page_for_as_long_as_they_fit() {
        let page = page(None, 256, true);
        let rows = [row(page.value_bytes - 1, false), row(64 << 20, true), row(1, false), row(1, false)];
        assert_eq!(page.fitting(&rows), 3);
        assert_eq!(page.fitting(&[row(page.value_bytes + 1, false)]), 0);
        assert_eq!(page.fitting(&[]), 0);
    }

    #[test]
    fn what_is_left_begins_behind_the_last_key_that_was_read() {
        let span = KeySpan { start: Bytes::from("a"), end: None, is_reverse: false };
        let bounds = Bounds::of(&span);
        assert!(bounds.to > vec![0xff; KEY_BYTES_MAX]);
        let on = bounds.clone().beyond(b"k", false);
        assert_eq!((&on.from[..], &on.to), (&b"k\0"[..], &bounds.to));
        let back = bounds.beyond(b"k", true);
        assert_eq!((&back.from[..], &back.to[..]), (&b"a"[..], &b"k"[..]));
    }
}
