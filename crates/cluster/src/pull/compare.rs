//! The first part of a pull: which partitions differ, by the hashes of both trees.

use super::messages::{LEAF_GROUPS_MAX, PullRequest};
use super::steps::{PullFailure, PullStep};
use super::{State, SyncSession};
use crate::merkle_diff::{GROUP, MerkleDiff};
use crate::tree::MerkleTree;

impl<B: AsRef<[u8]> + Clone + PartialEq> SyncSession<B> {
    pub(super) fn begin_to_compare(
        &mut self,
        dropped_before: u64,
        theirs: Vec<u64>,
        step: &mut impl FnMut(PullStep<B>),
    ) {
        let is_fit = theirs.len() == GROUP && dropped_before >= self.slice.dropped_before;
        if !matches!(self.state, State::Groups) || !is_fit {
            return self.fail(PullFailure::Malformed, step);
        }
        self.slice.dropped_before = dropped_before;
        self.state = State::Comparing { scan: MerkleDiff::of_all(self.peer, self.slice), theirs };
        step(PullStep::Compare);
    }

    /// Looks at a part of the tree, as it was asked to; at most [`crate::SCAN_LEAVES_MAX`] leaves.
    pub fn compare(&mut self, tree: &MerkleTree, mut step: impl FnMut(PullStep<B>)) {
        let State::Comparing { scan, .. } = &mut self.state else { return };
        match scan.step(tree) {
            None if tree.cuts(self.slice.dropped_before) => {
                let at = self.slice.dropped_before;
                return self.fail(PullFailure::NotToldApart { at }, &mut step);
            }
            None => return self.fail(PullFailure::TooLate, &mut step),
            Some(true) => return step(PullStep::Compare),
            Some(false) => {}
        }
        let State::Comparing { scan, theirs } = std::mem::replace(&mut self.state, State::Groups) else {
            unreachable!("as before")
        };
        let ours = scan.finish();
        let Some(differing) = ours.differing_groups(&theirs) else {
            return self.fail(PullFailure::Malformed, &mut step);
        };
        self.ours = Some(ours);
        self.ask_leaves(differing, &mut step);
    }

    fn ask_leaves(&mut self, mut groups: Vec<u8>, step: &mut impl FnMut(PullStep<B>)) {
        if groups.is_empty() {
            self.ours = None;
            return self.list(step);
        }
        let more = groups.split_off(groups.len().min(LEAF_GROUPS_MAX));
        self.state = State::Leaves { asked: groups.clone(), more };
        self.ask(PullRequest::Leaves { slice: self.slice, groups }, step);
    }

    pub(super) fn compare_leaves(&mut self, theirs: &[u64], step: &mut impl FnMut(PullStep<B>)) {
        let State::Leaves { asked, more } = &mut self.state else {
            return self.fail(PullFailure::Malformed, step);
        };
        let differing = self.ours.as_ref().and_then(|ours| ours.differing_partitions(asked, theirs));
        let more = std::mem::take(more);
        match differing {
            Some(differing) => {
                self.partitions.extend(differing);
                self.ask_leaves(more, step);
            }
            None => self.fail(PullFailure::Malformed, step),
        }
    }
}
