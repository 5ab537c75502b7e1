//! A pull that broke off goes on with the page that it was at: a list of everything takes hours.

use super::steps::{PullFailure, PullStep};
use super::{State, SyncSession};

/// The pages of a list of which everything is here.
#[derive(Debug)]
pub(super) struct WholePages<B> {
    /// Up to this key; `None` if there are none.
    until: Option<B>,
    /// But for so many cells, see [`SyncSession::left_out`],
    left_out: u64,
    /// and so many that are still to be deleted.
    undeleted: u64,
}

impl<B> WholePages<B> {
    pub(super) const fn none() -> WholePages<B> {
        WholePages { until: None, left_out: 0, undeleted: 0 }
    }
}

impl<B: AsRef<[u8]> + Clone + PartialEq> SyncSession<B> {
    /// All pages before the one that is asked for now are.
    pub(super) fn pages_are_whole(&mut self) {
        let (until, left_out, undeleted) = (self.after.clone(), self.left_out, self.undeleted);
        self.whole = WholePages { until, left_out, undeleted };
    }

    /// One that has come to its end begins anew, as does one with a peer that says what makes no sense.
    pub(super) fn failed_with(&mut self, failure: PullFailure) {
        if matches!(failure, PullFailure::Incomplete { .. } | PullFailure::Malformed) {
            self.whole = WholePages::none();
        }
    }

    /// Whether it need not begin anew, now that it broke off.
    pub const fn can_resume(&self) -> bool {
        self.whole.until.is_some()
    }

    /// Goes on. Nothing that it had asked for counts any more. The peer still has all that it had when it told of the pages before: if its
    /// directory is another one by now, the pass has ended, and whoever drives this does not go on with it.
    pub fn resume(&mut self, mut step: impl FnMut(PullStep<B>)) {
        assert!(self.can_resume(), "what has no whole page begins anew");
        let WholePages { until, left_out, undeleted } = &self.whole;
        (self.after, self.left_out, self.undeleted) = (until.clone(), *left_out, *undeleted);
        self.busy.clear();
        self.page.clear();
        (self.is_last_page, self.is_pruning) = (false, false);
        self.state = State::Listing;
        self.list(&mut step);
    }
}

#[cfg(test)]
#[path = "resume_tests.rs"]
mod tests;
