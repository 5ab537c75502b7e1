//! A read, decided by its coordinator.
//!
//! ```text
//! calls := new (answered | repaired | replaced | hurry | deadline)*   all replicas are asked at once, before the first call
//! ```
//!
//! The answers that a quorum needs may disagree: a write reached some replicas and failed, or is in flight. If the read
//! returned its value while too few replicas have it, a later read could miss it, and the value would come and go. So such a
//! read first writes the newest cell to the replicas that lack it (the second phase of Attiya, Bar-Noy, Dolev: "Sharing Memory
//! Robustly in Message-Passing Systems", 1995). If the answers agree, which is nearly always, there is no second phase; and a
//! read below a quorum promises nothing that would need one. If the answers that are still to come can show that enough
//! replicas have the newest cell, the read waits for them a moment: otherwise a replica that missed writes while it was down
//! would be written to by each read for which it happens to be among the first to answer.

use ladoga_model::{Cell, Replicas, Stamp, Version};

use crate::failure::{Failure, QuorumError, Refusal};
use crate::sent::{ReadAnswer, SentCell};
use crate::set::ReplicaSet;
use crate::write::{Had, WriteAnswer};

/// How long a read waits for answers that may spare it a second phase: longer than a replica that is well takes.
pub const READ_WAIT_MS: u64 = 20;

/// What the coordinator of a read has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadStep<B, L> {
    /// Tell the client: the newest cell, which may be a deletion. Comes exactly once.
    Decided(Result<Option<Cell<B, L>>, QuorumError>),
    /// Ask this replica for its value; the answer goes to [`ReadCore::answered`].
    Fetch(usize),
    /// Write this cell to this replica; the answer goes to [`ReadCore::repaired`], or to [`ReadCore::replaced`].
    Repair(usize, Cell<B, L>),
    /// Call [`ReadCore::hurry`] in [`READ_WAIT_MS`], if it is not decided before. Comes once at most.
    Wait,
}

#[derive(Debug, Clone, Hash)]
enum ReplicaState<B, L> {
    Waiting,
    Answered(ReadAnswer<B, L>),
    Failed,
}

/// A read of the first `from` nodes of a key's preference list, of which `ack` must answer.
///
/// Replicas are named by their places in the list. The read is decided as soon as the answers to come can no longer
/// change it; it goes on afterwards, to repair those that turn out to be stale. A replica that said which version it
/// has, and cannot give its value when asked, is treated as if it had not answered.
#[derive(Debug, Clone, Hash)]
pub struct ReadCore<B, L> {
    replicas: Replicas,
    states: Vec<ReplicaState<B, L>>,
    /// Replicas that are being asked for the value.
    fetching: ReplicaSet,
    /// The version that repairs write.
    repair: Version,
    repairing: ReplicaSet,
    repaired: ReplicaSet,
    /// How often its value was not there any more for a repair.
    replaced: usize,
    /// Replicas that did not take a repair. They are not asked to take another one.
    unrepaired: ReplicaSet,
    failures: Vec<(usize, Failure)>,
    patience: Patience,
    decided: bool,
    over: bool,
}

/// Whether answers are waited for that may spare a second phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Patience {
    Unasked,
    Waits,
    Over,
}

impl<B: Clone, L: Clone> ReadCore<B, L> {
    /// A read that all replicas have been asked for.
    pub fn new(replicas: Replicas) -> ReadCore<B, L> {
        ReadCore {
            replicas,
            states: vec![ReplicaState::Waiting; replicas.from as usize],
            fetching: ReplicaSet::default(),
            repair: Version::ZERO,
            repairing: ReplicaSet::default(),
            repaired: ReplicaSet::default(),
            replaced: 0,
            unrepaired: ReplicaSet::default(),
            failures: Vec::new(),
            patience: Patience::Unasked,
            decided: false,
            over: false,
        }
    }

    /// A replica answered, or it is known that it will not.
    pub fn answered(
        &mut self,
        replica: usize,
        answer: Result<ReadAnswer<B, L>, Failure>,
        mut step: impl FnMut(ReadStep<B, L>),
    ) {
        let fetched = self.fetching.remove(replica);
        if self.over || (!fetched && !matches!(self.states[replica], ReplicaState::Waiting)) {
            return; // Again, or after the deadline.
        }
        self.states[replica] = match answer {
            Ok(answer) if fetched && (answer.is_digest() || answer.version() < self.version_of(replica)) => {
                self.failed(replica, Failure::Broken)
            }
            Ok(answer) => {
                if !answer.is_whole {
                    self.failures.push((replica, Failure::Refused(Refusal::Rebuilding)));
                }
                ReplicaState::Answered(answer)
            }
            Err(failure) => self.failed(replica, failure),
        };
        self.advance(&mut step);
    }

    /// A replica answered to the repair that wrote this version, or it is known that it will not. If it has something newer,
    /// and is not known to have had this version, it does not count as a holder: its newer cell is the newest now, and is read.
    pub fn repaired(
        &mut self,
        replica: usize,
        version: Version,
        answer: Result<WriteAnswer, Failure>,
        mut step: impl FnMut(ReadStep<B, L>),
    ) {
        if self.over || version != self.repair || !self.repairing.remove(replica) {
            return;
        }
        match answer {
            Ok(WriteAnswer::Applied | WriteAnswer::Superseded { had: Had::Once, .. }) => {
                self.repaired.insert(replica);
            }
            // The client has its answer already, and the newer cell needs no repair.
            Ok(WriteAnswer::Superseded { .. }) if self.decided => self.repaired.insert(replica),
            Ok(WriteAnswer::Superseded { newest, had: Had::Never | Had::Skipped | Had::Unknown }) => {
                self.note_newer(replica, newest);
            }
            Ok(WriteAnswer::Fenced { .. }) => self.repair_failed(replica, Failure::Fenced),
            Err(failure) => self.repair_failed(replica, failure),
        }
        self.advance(&mut step);
    }

    /// A replica was not repaired, as the value of this version is not there any more: who had it is asked for what it has now. No
    /// more often than there are replicas: one may show what it cannot give.
    pub fn replaced(&mut self, replica: usize, version: Version, mut step: impl FnMut(ReadStep<B, L>)) {
        if self.over || version != self.repair || !self.repairing.remove(replica) {
            return;
        }
        if self.decided || self.replaced == self.states.len() {
            self.repair_failed(replica, Failure::Superseded);
        } else {
            self.replaced += 1;
            self.holders(Stamp::new(version)).iter().for_each(|holder| self.note_newer(holder, version));
        }
        self.advance(&mut step);
    }

    fn repair_failed(&mut self, replica: usize, failure: Failure) {
        self.unrepaired.insert(replica);
        self.failures.push((replica, failure));
    }

    /// Whatever is of that version is asked for where it is the newest: a value, or that it is deleted.
    fn note_newer(&mut self, replica: usize, newest: Version) {
        if let ReplicaState::Answered(answer) = &mut self.states[replica] {
            answer.cell = Some(SentCell::Digest(Stamp::new(newest)));
        }
    }

    /// Answers that may spare a second phase were waited for long enough.
    pub fn hurry(&mut self, mut step: impl FnMut(ReadStep<B, L>)) {
        self.patience = Patience::Over;
        if !self.over && !self.decided {
            self.advance(&mut step);
        }
    }

    /// Nothing is waited for any longer.
    pub fn deadline(&mut self, mut step: impl FnMut(ReadStep<B, L>)) {
        for replica in 0..self.states.len() {
            if matches!(self.states[replica], ReplicaState::Waiting) || self.fetching.remove(replica) {
                self.states[replica] = self.failed(replica, Failure::TimedOut);
            } else if self.repairing.remove(replica) {
                self.failures.push((replica, Failure::TimedOut));
            }
        }
        if !self.decided {
            // Replicas that did not give their value are left out, and no other is asked.
            self.advance(&mut |next| {
                if let ReadStep::Decided(_) = next {
                    step(next);
                }
            });
        }
        self.over = true;
        self.maybe_fail(&mut step);
    }

    /// Whether there is nothing left to wait for.
    pub fn is_finished(&self) -> bool {
        self.over || (self.fetching.is_empty() && self.repairing.is_empty() && self.waiting() == 0)
    }

    /// Whether the client has been answered.
    pub const fn is_decided(&self) -> bool {
        self.decided
    }

    /// The newest version of all answers so far, also if it is that of a deletion.
    pub fn newest_version(&self) -> Option<Version> {
        self.cells().filter_map(|(_, cell)| cell).map(|cell| cell.stamp().version).max()
    }

    fn failed(&mut self, replica: usize, failure: Failure) -> ReplicaState<B, L> {
        self.failures.push((replica, failure));
        ReplicaState::Failed
    }

    fn advance(&mut self, step: &mut impl FnMut(ReadStep<B, L>)) {
        let required = self.replicas.ack as usize;
        if self.vouching() < required {
            if self.vouching() + self.waiting() < required {
                self.maybe_fail(step);
            }
            return;
        }
        let newest = match self.newest() {
            None => return self.decide(None, step),
            Some(SentCell::Digest(stamp)) => return self.fetch(stamp, step),
            Some(SentCell::Whole(cell)) => cell,
        };
        let (holders, needed) = self.witnesses(&newest);
        if holders < needed && holders + self.waiting() >= needed && self.waits(step) {
            return;
        }
        self.repair_stale(&newest, holders >= needed, step);
        if holders >= needed {
            self.decide(Some(newest), step);
        } else if holders + self.waiting() + self.repairing.len() < needed {
            self.maybe_fail(step);
        }
    }

    /// Whether answers that may spare a second phase are waited for.
    fn waits(&mut self, step: &mut impl FnMut(ReadStep<B, L>)) -> bool {
        if self.patience == Patience::Unasked {
            self.patience = Patience::Waits;
            step(ReadStep::Wait);
        }
        self.patience == Patience::Waits
    }

    fn cells(&self) -> impl Iterator<Item = (usize, Option<&SentCell<B, L>>)> {
        self.states.iter().enumerate().filter_map(|(replica, state)| match state {
            ReplicaState::Answered(answer) => Some((replica, answer.cell.as_ref())),
            ReplicaState::Waiting | ReplicaState::Failed => None,
        })
    }

    /// The newest cell of all answers, with its value if one of them has it.
    fn newest(&self) -> Option<SentCell<B, L>> {
        let cells = self.cells().filter_map(|(_, cell)| cell);
        cells.max_by_key(|cell| (cell.stamp().version, matches!(cell, SentCell::Whole(_)))).cloned()
    }

    /// The version that this replica said last that it has.
    fn version_of(&self, replica: usize) -> Option<Version> {
        match &self.states[replica] {
            ReplicaState::Answered(answer) => answer.version(),
            ReplicaState::Waiting | ReplicaState::Failed => None,
        }
    }

    /// How many answers count.
    fn vouching(&self) -> usize {
        (0..self.states.len()).filter(|&replica| self.is_whole(replica)).count()
    }

    /// Whether this replica answered, and vouches for its answer.
    fn is_whole(&self, replica: usize) -> bool {
        matches!(self.states[replica], ReplicaState::Answered(ReadAnswer { is_whole: true, .. }))
    }

    fn waiting(&self) -> usize {
        self.states.iter().filter(|state| matches!(state, ReplicaState::Waiting)).count()
    }

    /// Replicas that are known to have the newest cell.
    fn holders(&self, newest: Stamp) -> ReplicaSet {
        let version = newest.version;
        let mut holders = if self.repair == version { self.repaired } else { ReplicaSet::default() };
        for (replica, cell) in self.cells() {
            if cell.is_some_and(|cell| cell.stamp().version == version) {
                holders.insert(replica);
            }
        }
        holders
    }

    /// How many replicas count that have the newest cell, and how many must: a majority, so that every later read with a quorum
    /// meets one of them, also one that asks fewer of them, and also if a disk is lost meanwhile; and so that its writer knows
    /// that it may have been seen: see [`crate::WriteCore`].
    fn witnesses(&self, newest: &Cell<B, L>) -> (usize, usize) {
        let holders = self.holders(newest.stamp);
        if self.takes_a_majority(newest) {
            return (
                holders.iter().filter(|&replica| self.is_whole(replica)).count(),
                self.replicas.majority(),
            );
        }
        let needed = if self.replicas.is_quorum() { self.may_hold(newest).max(1) } else { 1 };
        (holders.len(), needed)
    }

    /// Whether a majority has to have this cell. Then one that is being rebuilt does not count: it has lost its promises, and what
    /// it is given meanwhile may be what it had promised not to take.
    fn takes_a_majority(&self, newest: &Cell<B, L>) -> bool {
        self.replicas.is_quorum() && self.may_hold(newest) >= self.replicas.majority()
    }

    fn may_hold(&self, newest: &Cell<B, L>) -> usize {
        (0..self.states.len()).filter(|&replica| newest.mark().belongs_on(replica)).count()
    }

    /// Asks one replica after another for the newest value, until one gives it.
    fn fetch(&mut self, newest: Stamp, step: &mut impl FnMut(ReadStep<B, L>)) {
        if !self.fetching.is_empty() {
            return;
        }
        if let Some(replica) = self.holders(newest).iter().next() {
            self.fetching.insert(replica);
            step(ReadStep::Fetch(replica));
        }
    }

    /// Writes the newest cell to the replicas that lack it. A replica that is being rebuilt lacks nearly everything: it pulls
    /// that by itself, at the pace of repair, and is left alone if later reads do not depend on it.
    fn repair_stale(&mut self, newest: &Cell<B, L>, is_held: bool, step: &mut impl FnMut(ReadStep<B, L>)) {
        if self.repair != newest.stamp.version {
            self.repair = newest.stamp.version;
            (self.repairing, self.repaired) = (ReplicaSet::default(), ReplicaSet::default());
            self.replaced = 0;
        }
        let is_left_alone = is_held || self.takes_a_majority(newest);
        let stale: Vec<usize> = self
            .cells()
            .filter(|(_, cell)| cell.is_none_or(|cell| cell.stamp().version < newest.stamp.version))
            .map(|(replica, _)| replica)
            .collect();
        for replica in stale {
            let tried = [&self.repairing, &self.repaired, &self.unrepaired];
            let is_tried = tried.iter().any(|replicas| replicas.has(replica));
            let is_left_alone = is_left_alone && !self.is_whole(replica);
            if !is_tried && !is_left_alone && !self.has_failed(replica) && newest.mark().belongs_on(replica) {
                self.repairing.insert(replica);
                step(ReadStep::Repair(replica, newest.clone()));
            }
        }
    }

    /// Whether this replica did not do something that it was asked for, be it after its answer.
    fn has_failed(&self, replica: usize) -> bool {
        let mut failures = self.failures.iter();
        failures.any(|&(other, failure)| other == replica && failure != Failure::Refused(Refusal::Rebuilding))
    }

    fn decide(&mut self, cell: Option<Cell<B, L>>, step: &mut impl FnMut(ReadStep<B, L>)) {
        if !self.decided {
            self.decided = true;
            step(ReadStep::Decided(Ok(cell)));
        }
    }

    fn maybe_fail(&mut self, step: &mut impl FnMut(ReadStep<B, L>)) {
        if self.decided {
            return;
        }
        self.decided = true;
        let vouches = |replica: &usize| self.is_whole(*replica) && !self.has_failed(*replica);
        let required = self.replicas.ack as usize;
        step(ReadStep::Decided(Err(QuorumError {
            // Enough may have answered, of which one was still to give its value.
            acked: (0..self.states.len()).filter(vouches).count().min(required - 1),
            required,
            asked: self.states.len(),
            failures: self.failures.clone(),
        })));
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
