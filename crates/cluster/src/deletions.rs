//! The deletions and expiries in a Merkle tree, kept by time: so that those which every node has can be left out.
//!
//! A tombstone is filed under the time of its version, and a value that expires under the end of its time, which may be far
//! ahead. Values with the same time to live end in few windows (see [`ladoga_model::Stamp::ends_at`]), so few windows are
//! ahead.
//!
//! While a node is away, it is unknown what every node has. Then deletions of an ever longer time have to be kept apart, and
//! each window takes as much memory as all leaves. So the oldest windows are joined into spans, and a span can only be left out
//! as a whole. If a span turns out to have deletions on both sides of the time as of which nodes compare, the tree is filled
//! anew, with that time as a boundary; see [`crate::MerkleTree::cuts`]. Windows that are ahead are not joined before their time
//! is over, unless they are too many: otherwise each span would soon be cut by such a time.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use crate::leaves::LeavesByClass;
use crate::window::next_window;

/// Windows of the past that are kept apart: all windows of some minutes, and one span for what was before.
const SPANS_MAX: usize = 8;
/// Windows of the future that are kept apart: enough for values with a handful of times to live.
const AHEAD_MAX: usize = 32;

#[derive(Debug, Clone)]
struct Span {
    end: u64,
    leaves: LeavesByClass,
}

/// Deletions, by the starts of the spans that they are of.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeletionWindows {
    spans: BTreeMap<u64, Span>,
    /// Windows before this are in the past.
    over_before: u64,
    /// No span has times on both sides of this.
    boundary: u64,
}

impl DeletionWindows {
    /// None yet, and none across `boundary`.
    pub(crate) fn apart_at(boundary: u64) -> DeletionWindows {
        DeletionWindows { boundary, ..DeletionWindows::default() }
    }

    /// From now on, windows before this are in the past.
    pub(crate) fn over_before(&mut self, timestamp: u64) {
        self.over_before = self.over_before.max(timestamp);
        self.join();
    }

    /// The start of the span that a window is in; its own start if it is in none.
    pub(crate) fn start_of(&self, window: u64) -> u64 {
        self.around(window).map_or(window, |(start, _)| start)
    }

    /// Whether there are times on both sides of this one in a span.
    pub(crate) fn cuts(&self, timestamp: u64) -> bool {
        self.around(timestamp).is_some_and(|(start, _)| start < timestamp)
    }

    /// Deletions of a window come and go.
    pub(crate) fn toggle_all(&mut self, window: u64, leaves: &LeavesByClass) {
        let start = self.start_of(window);
        match self.spans.get_mut(&start) {
            Some(span) => span.leaves.toggle_all(leaves),
            None => {
                self.spans.insert(start, Span { end: next_window(window), leaves: leaves.clone() });
                self.join();
            }
        }
    }

    /// Takes out the spans before a time that cuts none.
    pub(crate) fn take_before(&mut self, timestamp: u64) -> impl Iterator<Item = LeavesByClass> + use<> {
        assert!(!self.cuts(timestamp), "a span goes as a whole");
        let kept = self.spans.split_off(&timestamp);
        std::mem::replace(&mut self.spans, kept).into_values().map(|span| span.leaves)
    }

    /// The leaves of all spans before a time.
    pub(crate) fn before(&self, timestamp: u64) -> impl Iterator<Item = &LeavesByClass> {
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

    /// Joins the oldest ones, and the latest of those that are ahead, until there are not too many.
    fn join(&mut self) {
        while self.spans.range(..self.over_before).count() > SPANS_MAX {
            let Some(pair) = self.pairs(..self.over_before).next() else { return };
            self.join_pair(pair);
        }
        while self.spans.range(self.over_before..).count() > AHEAD_MAX {
            let Some(pair) = self.pairs(self.over_before..).last() else { return };
            self.join_pair(pair);
        }
    }

    /// Neighbours among these that may be joined.
    fn pairs(&self, starts: impl RangeBounds<u64>) -> impl Iterator<Item = (u64, u64)> {
        let mut starts = self.spans.range(starts).map(|(&start, _)| start).peekable();
        let is_apart = |first: u64, second: u64| first < self.boundary && self.boundary <= second;
        let pairs = std::iter::from_fn(move || Some((starts.next()?, *starts.peek()?)));
        pairs.filter(move |&(first, second)| !is_apart(first, second))
    }

    fn join_pair(&mut self, (first, second): (u64, u64)) {
        let Some(joined) = self.spans.remove(&second) else { return };
        if let Some(span) = self.spans.get_mut(&first) {
            span.leaves.toggle_all(&joined.leaves);
            span.end = joined.end;
        }
    }
}
