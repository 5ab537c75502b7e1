use std::collections::BTreeMap;

use bytes::Bytes;
use futures::stream::{StreamExt, TryStreamExt, iter};
use ladoga_service::{Error, KeySpan};

use super::slice::{Bounds, KeyRow, PAGE_ROWS, Slice};
use crate::at::At;

/// So many statements of a range are under way at a time.
pub(super) const STATEMENTS_MAX: usize = 32;

/// The keys of all buckets, in their order.
pub(super) struct Merge {
    slices: Vec<Slice>,
    /// The next key of each slice that has one, and whose it is.
    heads: BTreeMap<Bytes, usize>,
    /// Whether a slice has to be read on before the next key is known.
    is_starved: bool,
    is_reverse: bool,
    /// So many keys of a bucket are read at a time.
    page_rows: usize,
}

/// A key of a range, and in which bucket it is.
pub(super) struct MergedRow {
    pub(super) bucket: i32,
    pub(super) row: KeyRow,
}

impl Merge {
    pub(super) fn new(buckets: i32, span: &KeySpan, limit: Option<u64>) -> Merge {
        let bounds = Bounds::of(span);
        let slices = (0..buckets).map(|bucket| Slice::new(bucket, bounds.clone())).collect();
        let page_rows = limit.map_or(PAGE_ROWS, |limit| (limit as usize).clamp(1, PAGE_ROWS));
        Merge { slices, heads: BTreeMap::new(), is_starved: true, is_reverse: span.is_reverse, page_rows }
    }

    /// Reads until the next key of each slice is known. Those that are low are read at the same time, so that this happens seldom.
    pub(super) async fn feed(&mut self, at: &At) -> Result<(), Error> {
        if !self.is_starved {
            return Ok(());
        }
        let (is_reverse, page_rows) = (self.is_reverse, self.page_rows);
        let low = self.slices.iter_mut().enumerate().filter(|(_, slice)| slice.is_low());
        // Each owns what it needs, so that all of them can run on any thread.
        let reads = low.map(|(index, slice)| {
            let (was_starved, slice, at) = (slice.is_starved(), slice.take(), at.clone());
            async move { Ok::<_, Error>((index, was_starved, slice.filled(at, is_reverse, page_rows).await?)) }
        });
        let reads: Vec<_> = reads.collect();
        let filled: Vec<(usize, bool, Slice)> =
            iter(reads).buffer_unordered(STATEMENTS_MAX).try_collect().await?;
        for (index, was_starved, slice) in filled {
            self.slices[index] = slice;
            if was_starved {
                self.show_head(index);
            }
        }
        self.is_starved = false;
        Ok(())
    }

    fn show_head(&mut self, index: usize) {
        if let Some((key, _)) = self.slices[index].rows.front() {
            self.heads.insert(key.clone(), index);
        }
    }

    /// The next key; none if it is not known, or there is none.
    pub(super) fn next(&mut self) -> Option<MergedRow> {
        // A slice whose next key is not known may have any.
        if self.is_starved {
            return None;
        }
        let head = if self.is_reverse { self.heads.pop_last() } else { self.heads.pop_first() };
        let (_, index) = head?;
        let slice = &mut self.slices[index];
        let (bucket, row) = (slice.bucket, slice.rows.pop_front().expect("it was its head"));
        self.is_starved = slice.is_starved();
        self.show_head(index);
        Some(MergedRow { bucket, row })
    }

    /// Whether there is no key any more.
    pub(super) fn is_at_end(&self) -> bool {
        !self.is_starved && self.heads.is_empty()
    }
}
