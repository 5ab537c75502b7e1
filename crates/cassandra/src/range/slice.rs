use std::collections::VecDeque;

use bytes::Bytes;
use ladoga_model::KEY_BYTES_MAX;
use ladoga_service::{Error, KeySpan};

use crate::at::{At, Column};
use crate::failure::unreachable;
use crate::read::not_ours;
use crate::row::Mark;

/// So many keys of a bucket are read at a time.
pub(super) const PAGE_ROWS: usize = 32;

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

/// A key, and what its row says without the value.
pub(super) type KeyRow = (Bytes, Mark);

/// The keys of one bucket.
pub(super) struct Slice {
    pub(super) bucket: i32,
    pub(super) rows: VecDeque<KeyRow>,
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
    pub(super) fn is_low(&self) -> bool {
        self.rows.len() < PAGE_ROWS / 2 && self.rest.is_some()
    }

    /// Takes itself along to be read on, and leaves nothing behind.
    pub(super) fn take(&mut self) -> Slice {
        let bucket = self.bucket;
        std::mem::replace(self, Slice { bucket, rows: VecDeque::new(), rest: None })
    }

    /// Reads the next page.
    pub(super) async fn filled(mut self, at: At, is_reverse: bool, rows_max: usize) -> Result<Slice, Error> {
        let Some(bounds) = self.rest.take() else { return Ok(self) };
        let page = at.page(self.bucket, &bounds, is_reverse, rows_max).await?;
        self.rest = match page.last() {
            Some((last, _)) if page.len() >= rows_max => Some(bounds.beyond(last, is_reverse)),
            _ => None,
        };
        self.rows.extend(page);
        Ok(self)
    }
}

impl At {
    async fn page(
        &self,
        bucket: i32,
        bounds: &Bounds,
        is_reverse: bool,
        rows_max: usize,
    ) -> Result<Vec<KeyRow>, Error> {
        let entities = &self.keyspace.entities;
        let statement = if is_reverse { &entities.page_back } else { &entities.page };
        let values = (bucket, &bounds.from, &bounds.to, rows_max as i32);
        let found = self.rows(statement, values, self.read()).await?;
        let wrong = |error: &dyn std::fmt::Display| unreachable(format_args!("Cassandra's answer: {error}"));
        let rows = found.rows::<(Bytes, Column)>().map_err(|error| wrong(&error))?;
        let mut page = Vec::with_capacity(rows_max);
        for row in rows {
            let (key, etag) = row.map_err(|error| wrong(&error))?;
            let mark = etag.as_deref().and_then(Mark::decode).ok_or_else(|| not_ours(&key))?;
            page.push((key, mark));
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
