//! One peer is pulled from: what it has and this node lacks, of the cells that both should hold.
//!
//! ```text
//! we ask Groups, (compare)*, Leaves*, (List, (look here, Cell, apply)*)*      only for what differs
//! ```
//!
//! The one who asks keeps all state; whoever answers keeps none.

use std::collections::VecDeque;

use ladoga_model::{Cell, CellMark, Version};

use crate::failure::Refusal;
use crate::merkle_diff::{GROUP, MerkleDiff, PairLeaves};
use crate::nodes::NodeId;
use crate::placement::{PARTITIONS, Partition};
use crate::pull_messages::{KeyVersion, LEAF_GROUPS_MAX, PullRequest, PullResponse};
use crate::slice::AsOf;
use crate::tree::MerkleTree;

/// Cells that are fetched at the same time.
const FETCHES_MAX: usize = 32;

/// What the driver has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullStep<B> {
    /// Ask the peer; its answer goes to [`SyncSession::answered`], with this number.
    Ask(u64, PullRequest<B>),
    /// Look at a part of the tree: [`SyncSession::compare`]. Other things may be done before.
    Compare,
    /// Look which version of this key is here; the answer goes to [`SyncSession::found`].
    Look(B),
    /// Make this cell durable, as [`crate::Origin::Exchange`]; the answer goes to [`SyncSession::applied`].
    Apply(B, Cell<B, u64>),
    /// Delete what the peer does not have and should: [`Prune`]. Whether that worked out goes to [`SyncSession::pruned`].
    Prune(Prune<B>),
    /// Everything is here. The last step.
    Done,
    /// It did not work out. The last step.
    Failed(PullFailure),
}

/// Why a pull does not work out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PullFailure {
    /// This node cannot compare as of that time any more.
    #[error("it is too late to compare as of this time")]
    TooLate,
    /// This node does not tell tombstones before this from later ones: its tree has to be filled anew, see
    /// [`MerkleTree::emptied`].
    #[error(
        "deletions before and after this time are not told apart here any more: the tree has to be filled anew"
    )]
    NotToldApart {
        /// Which timestamp.
        at: u64,
    },
    /// The peer cannot, or will not.
    #[error("the peer refused: {0}")]
    Refused(Refusal),
    /// The peer's answer is not one to what it was asked.
    #[error("the peer's answer does not fit what it was asked")]
    Malformed,
    /// What it sent could not be written here.
    #[error("a cell could not be written: {0}")]
    NotWritten(Refusal),
}

/// Cells of this node that were deleted while its directory was not in use, and whose deletion nobody knows of any more.
/// The peer is complete before a time: of what is older it has all that there is, or something newer. So what it should
/// hold and does not list is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune<B> {
    /// In these partitions; none named means all.
    pub partitions: Vec<Partition>,
    /// Only keys behind this one.
    pub after: Option<B>,
    /// And up to this one.
    pub until: Option<B>,
    /// Only values before this timestamp.
    pub before: u64,
    /// What the peer has in there, in the order of the keys.
    pub listed: Vec<B>,
}

impl<B: AsRef<[u8]>> Prune<B> {
    /// Whether a cell that is here, and that both nodes should hold, is to be deleted.
    pub fn takes(&self, key: &[u8], cell: CellMark) -> bool {
        let is_named =
            self.partitions.is_empty() || self.partitions.binary_search(&Partition::of(key)).is_ok();
        let is_missing = || self.listed.binary_search_by(|listed| listed.as_ref().cmp(key)).is_err();
        !cell.is_tombstone && cell.stamp.version.timestamp < self.before && is_named && is_missing()
    }
}

#[derive(Debug)]
enum State {
    Groups,
    /// With the hashes of the peer.
    Comparing {
        scan: MerkleDiff,
        theirs: Vec<u64>,
    },
    Leaves {
        asked: Vec<u8>,
        more: Vec<u8>,
    },
    Listing,
    Over,
}

/// A key that is being worked on.
#[derive(Debug)]
struct Busy<B> {
    listed: KeyVersion<B>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Looking,
    /// By the request with this number.
    Fetching(u64),
    Applying,
}

/// Progress of a pull, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PullProgress {
    /// Partitions that differ.
    pub partitions: usize,
    /// Keys that were compared.
    pub compared: u64,
    /// Cells that were taken over.
    pub applied: u64,
}

/// A pull from one peer.
#[derive(Debug)]
pub struct SyncSession<B> {
    slice: AsOf,
    peer: NodeId,
    ours: Option<PairLeaves>,
    state: State,
    partitions: Vec<Partition>,
    /// Of the page that is being worked on.
    page: VecDeque<KeyVersion<B>>,
    /// Keys up to this one have been listed.
    after: Option<B>,
    is_last_page: bool,
    /// Keys that are being looked up, fetched or written.
    busy: Vec<Busy<B>>,
    asked: u64,
    /// The request whose answer is no cell.
    waiting_for: u64,
    /// Values before this that the peer should hold, and does not, are deleted.
    prune_before: u64,
    is_pruning: bool,
    progress: PullProgress,
}

impl<B: AsRef<[u8]> + Clone + PartialEq> SyncSession<B> {
    /// Begins to pull all cells before `before` from `peer`.
    pub fn new(
        peer: NodeId,
        before: u64,
        tree: &MerkleTree,
        mut step: impl FnMut(PullStep<B>),
    ) -> SyncSession<B> {
        let slice = AsOf { before, dropped_before: tree.dropped_before() };
        let mut pull = SyncSession {
            slice,
            peer,
            ours: None,
            state: State::Groups,
            partitions: Vec::new(),
            page: VecDeque::new(),
            after: None,
            is_last_page: false,
            busy: Vec::new(),
            asked: 0,
            waiting_for: 0,
            prune_before: 0,
            is_pruning: false,
            progress: PullProgress::default(),
        };
        pull.ask(PullRequest::Groups(slice), &mut step);
        pull
    }

    /// Has it delete what the peer, which is complete before this timestamp, should hold and does not.
    #[must_use]
    pub fn pruning(self, prune_before: u64) -> SyncSession<B> {
        SyncSession { prune_before, ..self }
    }

    /// Whom it pulls from.
    pub const fn peer(&self) -> NodeId {
        self.peer
    }

    /// How far it is.
    pub const fn progress(&self) -> PullProgress {
        self.progress
    }

    /// The peer answered the request with this number.
    pub fn answered(
        &mut self,
        number: u64,
        response: PullResponse<B>,
        tree: &MerkleTree,
        mut step: impl FnMut(PullStep<B>),
    ) {
        if let Some(at) = self.busy.iter().position(|busy| busy.stage == Stage::Fetching(number)) {
            return self.fetched(at, response, tree, &mut step);
        }
        if number != self.waiting_for || matches!(self.state, State::Over) {
            return;
        }
        match response {
            PullResponse::Refused(refusal) => self.fail(PullFailure::Refused(refusal), &mut step),
            PullResponse::Groups { dropped_before, hashes } => {
                self.begin_to_compare(dropped_before, hashes, &mut step);
            }
            PullResponse::Leaves(leaves) => self.compare_leaves(&leaves, &mut step),
            PullResponse::List { entries, next } => self.take_page(entries, next, &mut step),
            PullResponse::Cell(_) => self.fail(PullFailure::Malformed, &mut step),
        }
    }

    /// This version of a key that was to be looked up is here, or none.
    pub fn found(&mut self, key: &B, version: Option<Version>, mut step: impl FnMut(PullStep<B>)) {
        let is_it = |busy: &Busy<B>| busy.listed.key == *key && busy.stage == Stage::Looking;
        let Some(at) = self.busy.iter().position(is_it) else { return };
        let CellMark { stamp, is_tombstone } = self.busy[at].listed.mark;
        if version >= Some(stamp.version) {
            self.busy.swap_remove(at);
            return self.go_on(&mut step);
        }
        if is_tombstone {
            // Not asked for: by now the peer may have something newer, which is not for this node.
            self.busy[at].stage = Stage::Applying;
            return step(PullStep::Apply(key.clone(), Cell::tombstone(stamp)));
        }
        self.asked += 1;
        self.busy[at].stage = Stage::Fetching(self.asked);
        step(PullStep::Ask(self.asked, PullRequest::Cell(key.clone())));
    }

    /// A cell was made durable, or not. One that is too old is not missed: this node has it or something newer.
    pub fn applied(&mut self, key: &B, result: Result<(), Refusal>, mut step: impl FnMut(PullStep<B>)) {
        let is_it = |busy: &Busy<B>| busy.listed.key == *key && busy.stage == Stage::Applying;
        let Some(at) = self.busy.iter().position(is_it) else { return };
        self.busy.swap_remove(at);
        match result {
            Ok(()) => self.progress.applied += 1,
            Err(Refusal::TooOld { .. }) => {}
            Err(refusal) => return self.fail(PullFailure::NotWritten(refusal), &mut step),
        }
        self.go_on(&mut step);
    }

    /// What was to be deleted is, or could not be.
    pub fn pruned(&mut self, result: Result<(), Refusal>, mut step: impl FnMut(PullStep<B>)) {
        if !std::mem::take(&mut self.is_pruning) {
            return;
        }
        match result {
            Ok(()) => self.go_on(&mut step),
            Err(refusal) => self.fail(PullFailure::NotWritten(refusal), &mut step),
        }
    }

    fn ask(&mut self, request: PullRequest<B>, step: &mut impl FnMut(PullStep<B>)) {
        self.asked += 1;
        self.waiting_for = self.asked;
        step(PullStep::Ask(self.asked, request));
    }

    fn fail(&mut self, failure: PullFailure, step: &mut impl FnMut(PullStep<B>)) {
        self.state = State::Over;
        self.busy.clear();
        self.page.clear();
        step(PullStep::Failed(failure));
    }

    fn begin_to_compare(
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

    fn compare_leaves(&mut self, theirs: &[u64], step: &mut impl FnMut(PullStep<B>)) {
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

    fn list(&mut self, step: &mut impl FnMut(PullStep<B>)) {
        self.progress.partitions = self.partitions.len();
        self.state = State::Listing;
        if self.partitions.is_empty() {
            self.is_last_page = true;
            return self.go_on(step);
        }
        let partitions = self.asked_partitions();
        self.ask(PullRequest::List { slice: self.slice, partitions, after: self.after.clone() }, step);
    }

    /// All of them are as good as most of them, and need not be named.
    fn asked_partitions(&self) -> Vec<Partition> {
        if self.partitions.len() > PARTITIONS / 2 { Vec::new() } else { self.partitions.clone() }
    }

    fn take_page(
        &mut self,
        entries: Vec<KeyVersion<B>>,
        next: Option<B>,
        step: &mut impl FnMut(PullStep<B>),
    ) {
        let is_progress = next.is_none() || next != self.after;
        if !matches!(self.state, State::Listing) || !is_progress {
            return self.fail(PullFailure::Malformed, step);
        }
        if self.prune_before > 0 {
            self.is_pruning = true;
            let mut listed: Vec<B> = entries.iter().map(|listed| listed.key.clone()).collect();
            listed.sort_by(|one, other| one.as_ref().cmp(other.as_ref()));
            step(PullStep::Prune(Prune {
                partitions: self.asked_partitions(),
                after: self.after.clone(),
                until: next.clone(),
                before: self.prune_before,
                listed,
            }));
        }
        self.is_last_page = next.is_none();
        self.after = next;
        self.progress.compared += entries.len() as u64;
        self.page = entries.into();
        self.go_on(step);
    }

    /// Looks at the next keys, asks for the next page, or is done.
    fn go_on(&mut self, step: &mut impl FnMut(PullStep<B>)) {
        while self.busy.len() < FETCHES_MAX
            && let Some(listed) = self.page.pop_front()
        {
            let key = listed.key.clone();
            self.busy.push(Busy { listed, stage: Stage::Looking });
            step(PullStep::Look(key));
        }
        if !self.busy.is_empty() || self.is_pruning || !matches!(self.state, State::Listing) {
            return;
        }
        if self.is_last_page {
            self.state = State::Over;
            step(PullStep::Done);
        } else {
            self.list(step);
        }
    }

    fn fetched(
        &mut self,
        at: usize,
        response: PullResponse<B>,
        tree: &MerkleTree,
        step: &mut impl FnMut(PullStep<B>),
    ) {
        let cell = match response {
            PullResponse::Cell(cell) => cell,
            PullResponse::Refused(refusal) => return self.fail(PullFailure::Refused(refusal), step),
            _ => return self.fail(PullFailure::Malformed, step),
        };
        let key = self.busy[at].listed.key.clone();
        match cell {
            Some(cell) if tree.may_hold(Partition::of(key.as_ref()), cell.mark()) => {
                self.busy[at].stage = Stage::Applying;
                step(PullStep::Apply(key, cell));
            }
            // Replaced since it was listed, by something that is not for this node, or that all had and is gone.
            _ => {
                self.busy.swap_remove(at);
                self.go_on(step);
            }
        }
    }
}

#[cfg(test)]
#[path = "pull_tests.rs"]
mod tests;
