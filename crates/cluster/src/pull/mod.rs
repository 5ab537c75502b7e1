//! Pulls from one peer what it has and this node lacks, of the cells that both should hold.
//!
//! ```text
//! we ask Groups, (compare)*, Leaves*, (List, (look up, Cell, apply)*)*      only for what differs
//!    or                              (List, (look up, Cell, apply)*)*      for everything
//! ```
//!
//! The node that asks keeps all state; the node that answers keeps none.
//!
//! - here: the keys that differ, page by page; `compare`: in which partitions they are
//! - `resume`: how one that broke off goes on
//! - `steps`: what the driver has to do; `messages`: the requests to the peer

mod compare;
mod messages;
mod resume;
mod steps;

pub use messages::{
    KeyVersion, LEAF_GROUPS_MAX, LIST_BYTES_MAX, LIST_KEYS_MAX, LIST_SCAN_MAX, PullRequest, PullResponse,
};
pub use steps::{Prune, PullFailure, PullProgress, PullStep};

use std::collections::{HashSet, VecDeque};

use ladoga_model::{Cell, CellMark, Version};

use crate::failure::Refusal;
use crate::merkle_diff::{MerkleDiff, PairLeaves};
use crate::nodes::NodeId;
use crate::placement::{PARTITIONS, Partition};
use crate::slice::AsOf;
use crate::tree::MerkleTree;
use resume::WholePages;

/// Cells that are fetched at the same time.
const FETCHES_MAX: usize = 32;

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
    /// Whether its value was gone once.
    is_asked_again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Looking,
    /// By the request with this number.
    Fetching(u64),
    Applying,
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
    whole: WholePages<B>,
    /// Keys that are being looked up, fetched or written.
    busy: Vec<Busy<B>>,
    asked: u64,
    /// The request whose answer is no cell.
    waiting_for: u64,
    /// Values before this that the peer should hold, and does not, are deleted.
    prune_before: u64,
    is_pruning: bool,
    /// Before this, this node takes nothing any more.
    refused_before: u64,
    /// Cells that are not to be had, or written, now.
    left_out: u64,
    /// Cells that were to be deleted, and are not.
    undeleted: u64,
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
        let mut pull = SyncSession::begun(peer, before, tree);
        pull.ask(PullRequest::Groups(pull.slice), &mut step);
        pull
    }

    /// The same without a look at the trees: whatever the peer lists is looked up.
    pub fn of_everything(
        peer: NodeId,
        before: u64,
        tree: &MerkleTree,
        mut step: impl FnMut(PullStep<B>),
    ) -> SyncSession<B> {
        let mut pull = SyncSession::begun(peer, before, tree);
        pull.partitions.extend(Partition::all());
        pull.list(&mut step);
        pull
    }

    fn begun(peer: NodeId, before: u64, tree: &MerkleTree) -> SyncSession<B> {
        let slice = AsOf { before, dropped_before: tree.dropped_before() };
        SyncSession {
            slice,
            peer,
            ours: None,
            state: State::Groups,
            partitions: Vec::new(),
            page: VecDeque::new(),
            after: None,
            is_last_page: false,
            whole: WholePages::none(),
            busy: Vec::new(),
            asked: 0,
            waiting_for: 0,
            prune_before: 0,
            is_pruning: false,
            refused_before: 0,
            left_out: 0,
            undeleted: 0,
            progress: PullProgress::default(),
        }
    }

    /// Deletes here what the peer, which is complete before this timestamp, should hold and does not.
    #[must_use]
    pub fn pruning(self, prune_before: u64) -> SyncSession<B> {
        SyncSession { prune_before, ..self }
    }

    /// Neither looks nor asks for a cell from before this timestamp: this node is complete before it, and takes nothing older. It lacks one all the same if
    /// it took the place of a node that left the list, and would ask for that in each pull.
    #[must_use]
    pub fn refusing_before(self, refused_before: u64) -> SyncSession<B> {
        SyncSession { refused_before, ..self }
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

    /// The version of a key in this node's store, which was looked up; or none.
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
        self.fetch(at, &mut step);
    }

    /// The large value that was to be made durable is not there any more: the peer is asked for what it has now. Of one that has expired,
    /// that is a deletion of the same version. This node would not know: the peer goes by a clock of its own.
    pub fn gone(&mut self, key: &B, mut step: impl FnMut(PullStep<B>)) {
        let is_it = |busy: &Busy<B>| busy.listed.key == *key && busy.stage == Stage::Applying;
        let Some(at) = self.busy.iter().position(is_it) else { return };
        if !std::mem::replace(&mut self.busy[at].is_asked_again, true) {
            return self.fetch(at, &mut step);
        }
        // Replaced twice since it was listed: what replaced it is listed another time.
        self.busy.swap_remove(at);
        self.go_on(&mut step);
    }

    fn fetch(&mut self, at: usize, step: &mut impl FnMut(PullStep<B>)) {
        self.asked += 1;
        self.busy[at].stage = Stage::Fetching(self.asked);
        step(PullStep::Ask(self.asked, PullRequest::Cell(self.busy[at].listed.key.clone())));
    }

    /// A cell was made durable, or not. One that is too old is not missed: see [`SyncSession::refusing_before`].
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

    /// A cell that is missing here is not to be had now, or not to be written. All others are pulled before that counts as a failure: what
    /// is behind one damaged block would otherwise never be copied.
    pub fn left_out(&mut self, key: &B, mut step: impl FnMut(PullStep<B>)) {
        let Some(at) = self.busy.iter().position(|busy| busy.listed.key == *key) else { return };
        self.busy.swap_remove(at);
        self.left_out += 1;
        self.go_on(&mut step);
    }

    /// What was to be deleted is, but for so many cells that still are not; or could not be.
    pub fn pruned(&mut self, result: Result<u64, Refusal>, mut step: impl FnMut(PullStep<B>)) {
        if !std::mem::take(&mut self.is_pruning) {
            return;
        }
        match result {
            Ok(undeleted) => {
                self.undeleted += undeleted;
                self.go_on(&mut step);
            }
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
        self.failed_with(failure);
        self.busy.clear();
        self.page.clear();
        step(PullStep::Failed(failure));
    }

    fn list(&mut self, step: &mut impl FnMut(PullStep<B>)) {
        self.progress.partitions = self.partitions.len();
        self.state = State::Listing;
        self.pages_are_whole();
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
        // Of two that are the same, nobody could say which of them an event is about.
        let keys: HashSet<&[u8]> = entries.iter().map(|listed| listed.key.as_ref()).collect();
        if !matches!(self.state, State::Listing) || !is_progress || keys.len() < entries.len() {
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
            if listed.mark.stamp.version.timestamp < self.refused_before {
                continue;
            }
            let key = listed.key.clone();
            self.busy.push(Busy { listed, stage: Stage::Looking, is_asked_again: false });
            step(PullStep::Look(key));
        }
        if !self.busy.is_empty() || self.is_pruning || !matches!(self.state, State::Listing) {
            return;
        }
        match (self.is_last_page, self.left_out, self.undeleted) {
            (false, ..) => self.list(step),
            (true, 0, 0) => {
                self.state = State::Over;
                step(PullStep::Done);
            }
            (true, missing, undeleted) => self.fail(PullFailure::Incomplete { missing, undeleted }, step),
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
        let KeyVersion { key, mark } = self.busy[at].listed.clone();
        let is_for_us = |found: CellMark| {
            found.stamp.version == mark.stamp.version || tree.may_hold(Partition::of(key.as_ref()), found)
        };
        match cell {
            Some(cell) if is_for_us(cell.mark()) => {
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
mod left_out_tests;
#[cfg(test)]
mod refused_tests;
#[cfg(test)]
mod tests;
