//! Tombstones of a tree by the time that they are of, so that those that everybody has can be left out.
//!
//! While a node is away, nothing is known of what everybody has, and tombstones of ever more time are kept apart, each
//! window as large as all leaves. So the oldest windows are joined into spans: what is of one span can be left out as a
//! whole only. Where it turns out that a span has tombstones on both sides of a time as of which nodes compare, the tree
//! is filled anew, with that time as a boundary; see [`crate::MerkleTree::cuts`].

use std::collections::BTreeMap;

use crate::leaves::Leaves;
use crate::window::next_window;

/// Windows that are kept apart: all windows of some minutes, and what was before.
const SPANS_MAX: usize = 8;

#[derive(Debug, Clone)]
struct Span {
    end: u64,
    leaves: Leaves,
}

/// Tombstones, by the starts of the spans that they are of.
#[derive(Debug, Clone, Default)]
pub(crate) struct TombstoneWindows {
    spans: BTreeMap<u64, Span>,
    /// No span has times on both sides of this.
    boundary: u64,
}

impl TombstoneWindows {
    /// None yet, and none across `boundary`.
    pub(crate) fn apart_at(boundary: u64) -> TombstoneWindows {
        TombstoneWindows { spans: BTreeMap::new(), boundary }
    }

    /// The start of the span that a window is in; its own where there is none.
    pub(crate) fn start_of(&self, window: u64) -> u64 {
        self.around(window).map_or(window, |(start, _)| start)
    }

    /// Whether there are times on both sides of this one in a span.
    pub(crate) fn cuts(&self, timestamp: u64) -> bool {
        self.around(timestamp).is_some_and(|(start, _)| start < timestamp)
    }

    /// Tombstones of a window come and go.
    pub(crate) fn toggle_all(&mut self, window: u64, leaves: &Leaves) {
        let start = self.start_of(window);
        let span = self.spans.entry(start);
        let span = span.or_insert_with(|| Span { end: next_window(window), leaves: Leaves::default() });
        span.leaves.toggle_all(leaves);
        self.join_down_to(SPANS_MAX);
    }

    /// Takes out what is before a time that no span cuts.
    pub(crate) fn take_before(&mut self, timestamp: u64) -> impl Iterator<Item = Leaves> + use<> {
        assert!(!self.cuts(timestamp), "a span goes as a whole");
        let kept = self.spans.split_off(&timestamp);
        std::mem::replace(&mut self.spans, kept).into_values().map(|span| span.leaves)
    }

    /// The leaves of all spans before a time.
    pub(crate) fn before(&self, timestamp: u64) -> impl Iterator<Item = &Leaves> {
        self.spans.range(..timestamp).map(|(_, span)| &span.leaves)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.spans.values().map(|span| span.leaves.bytes()).sum()
    }

    /// The span around a timestamp.
    fn around(&self, timestamp: u64) -> Option<(u64, &Span)> {
        let (start, span) = self.spans.range(..=timestamp).next_back()?;
        (timestamp < span.end).then_some((*start, span))
    }

    /// Joins the oldest ones until so many are left.
    fn join_down_to(&mut self, count: usize) {
        while self.spans.len() > count {
            let starts = self.spans.keys().zip(self.spans.keys().skip(1));
            let is_apart = |first: u64, second: u64| first < self.boundary && self.boundary <= second;
            let mut pairs = starts.filter(|&(&first, &second)| !is_apart(first, second));
            let Some((&first, &second)) = pairs.next() else { return };
            let Some(joined) = self.spans.remove(&second) else { return };
            if let Some(span) = self.spans.get_mut(&first) {
                span.leaves.toggle_all(&joined.leaves);
                span.end = joined.end;
            }
        }
    }
}
