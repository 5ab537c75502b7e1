use std::collections::BTreeSet;

use bytes::Bytes;
use futures::stream::{StreamExt, TryStreamExt, iter};
use ladoga_service::{Error, KeySpan};

use super::record::{MergedRow, STATEMENTS_MAX};
use super::slice::{Bounds, Page, Slice};
use crate::at::At;

/// The keys of all buckets, in their order.
pub(super) struct Merge {
    slices: Vec<Slice>,
    /// The next key of each slice that has one, and whose it is. Two have the same one if somebody has changed the number of buckets.
    heads: BTreeSet<(Bytes, usize)>,
    /// Whether a slice has to be read on before the next key is known.
    is_starved: bool,
    page: Page,
}

impl Merge {
    pub(super) fn new(buckets: i32, span: &KeySpan, page: Page) -> Merge {
        let bounds = Bounds::of(span);
        let slices = (0..buckets).map(|bucket| Slice::new(bucket, bounds.clone())).collect();
        Merge { slices, heads: BTreeSet::new(), is_starved: true, page }
    }

    /// Reads until the next key of each slice is known. Those that are low are read at the same time, so that this happens seldom.
    pub(super) async fn feed(&mut self, at: &At) -> Result<(), Error> {
        // Again, if all rows of a page were deleted before their values were read.
        while self.is_starved {
            self.read_low(at).await?;
            self.is_starved = self.slices.iter().any(Slice::is_starved);
        }
        Ok(())
    }

    async fn read_low(&mut self, at: &At) -> Result<(), Error> {
        let page = self.page;
        let low = self.slices.iter_mut().enumerate().filter(|(_, slice)| slice.is_low(page));
        // Each owns what it needs, so that all of them can run on any thread.
        let reads = low.map(|(index, slice)| {
            let (was_starved, slice, at) = (slice.is_starved(), slice.take(), at.clone());
            async move { Ok::<_, Error>((index, was_starved, slice.filled(at, page).await?)) }
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
        Ok(())
    }

    fn show_head(&mut self, index: usize) {
        if let Some(row) = self.slices[index].rows.front() {
            self.heads.insert((row.key.clone(), index));
        }
    }

    /// The next key; none if it is not known, or there is none.
    pub(super) fn next(&mut self) -> Option<MergedRow> {
        // A slice whose next key is not known may have any.
        if self.is_starved {
            return None;
        }
        let head = if self.page.is_reverse { self.heads.pop_last() } else { self.heads.pop_first() };
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

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
