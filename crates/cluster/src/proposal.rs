//! A conditional write, decided by its coordinator: two rounds on the replicas of the key.
//!
//! ```text
//! calls := new (prepared | deadline)* [(accept | release) (prepared | accepted | deadline)*]
//!          all replicas are asked to prepare before the first call; accept or release follows Promised
//! ```
//!
//! The protocol is `CASPaxos` (Rystsov: "`CASPaxos`: Replicated State Machines without logs", 2018) on the registers that plain
//! writes use; its ballot is the version that the new cell gets. A replica that *promises* a ballot takes no older cell of the
//! key any more, by whichever path it arrives. It keeps a *fence*, durably, until it has a cell that is not older, or until the
//! coordinator releases it. So every cell between the newest one that a majority of promises shows and the ballot is on a
//! minority and stays there: no read with a quorum has returned it or will, and no plain write of it is acknowledged.
//!
//! A replica accepts in one of two cases:
//!
//! - *In time*: the ballot is its newest promise, and its newest cell is still the one that it had when it promised. It takes the cell.
//!   So no version between the newest cell that the coordinator knew of and the ballot was ever on it.
//! - *Overtaken*: a newer cell has come meanwhile, as plain writes do; the ballot was the newest promise until then, and its cell was
//!   decided on what the replica had. It keeps what it has: it is as if the cell of the ballot had come right before. Whoever was promised
//!   something newer by this replica was told of that newer cell.
//!
//! Those that accept are a majority: so none of the versions in between was on a majority. If a coordinator disappears, another one
//! outbids it, and has a cell of its own accepted: what the first one left on a minority is older than that, and stays there.

use ladoga_model::{Replicas, Version};

use crate::failure::{Failure, QuorumError};
use crate::sent::SentCell;
use crate::set::ReplicaSet;

/// A replica's answer to a ballot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepareAnswer<B, L> {
    /// It promises, and this is its newest cell.
    Promised(Option<SentCell<B, L>>),
    /// It has promised, or has, something that is not older: this.
    Outbid(Version),
}

/// A replica's answer to the cell of a ballot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptAnswer {
    /// It has it; or something newer, which came while the ballot was its newest promise.
    Accepted,
    /// It has not taken it and never will: it has promised, or has, something newer, or its promise is gone. The newest
    /// version that it knows of.
    Outbid(Version),
}

/// What the coordinator of a conditional write has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposalStep<B, L> {
    /// A majority has promised. Call [`ProposalCore::accept`] to put a cell in the place of the newest one, or
    /// [`ProposalCore::release`] to leave it. Comes once at most.
    Promised {
        /// The newest cell of the majority, with its value if a replica sent it.
        newest: Option<SentCell<B, L>>,
        /// Whether each of the majority has it: then it is what a read with a quorum returns.
        is_stable: bool,
    },
    /// Ask this replica to accept the cell if it still has this version, or none; the answer goes to
    /// [`ProposalCore::accepted`].
    Accept(usize, Option<Version>),
    /// Tell this replica that its promise, if it gave one, is void.
    Release(usize),
    /// The outcome. Comes once at most, and not after [`ProposalCore::release`].
    Decided(Result<(), ProposalError>),
    /// Keep the cell for this replica, which has not got it: a hint.
    Hint(usize),
}

/// Why a proposal came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposalError {
    /// Something that is not older was promised, or is there.
    Outbid {
        /// The newest version in any replica's answer.
        newest: Version,
        /// Whether a replica has taken the cell, or may have.
        may_have_happened: bool,
    },
    /// Too few replicas answered.
    TooFew {
        /// Who did not, and why.
        error: QuorumError,
        /// Whether a replica has taken the cell, or may have.
        may_have_happened: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// The ballot is on its way.
    Preparing,
    /// A majority has promised, and the coordinator has to say what follows.
    Promised,
    /// The cell is on its way.
    Accepting,
    /// The promises are void.
    Released,
}

/// A conditional write to the first `from` nodes of a key's preference list, of which a majority, and at least `ack`, must
/// make it durable.
///
/// Replicas are named by their places in the list. Answers may come in any order, twice, late, or never.
#[derive(Debug, Clone, Hash)]
pub struct ProposalCore<B, L> {
    replicas: Replicas,
    phase: Phase,
    preparing: ReplicaSet,
    accepting: ReplicaSet,
    /// Who promised, and what it had then.
    promised: Vec<(usize, Option<SentCell<B, L>>)>,
    /// Who was asked to promise, and did not say whether it does.
    may_have_promised: ReplicaSet,
    /// The version that the decision is based on.
    base: Option<Version>,
    accepted: ReplicaSet,
    /// Who was asked to accept, and did not say whether it does.
    may_have_accepted: ReplicaSet,
    /// Who was asked to accept a second time, since the connection broke before it answered.
    asked_again: ReplicaSet,
    outbid: Option<Version>,
    failures: Vec<(usize, Failure)>,
    outcome: Option<bool>,
}

impl<B: Clone, L: Clone> ProposalCore<B, L> {
    /// A proposal that all replicas have been asked to promise.
    pub fn new(replicas: Replicas) -> ProposalCore<B, L> {
        ProposalCore {
            replicas,
            phase: Phase::Preparing,
            preparing: ReplicaSet::first(replicas.from as usize),
            accepting: ReplicaSet::default(),
            promised: Vec::new(),
            may_have_promised: ReplicaSet::default(),
            base: None,
            accepted: ReplicaSet::default(),
            may_have_accepted: ReplicaSet::default(),
            asked_again: ReplicaSet::default(),
            outbid: None,
            failures: Vec::new(),
            outcome: None,
        }
    }

    /// A replica answered to the ballot, or it is known that it will not.
    pub fn prepared(
        &mut self,
        replica: usize,
        answer: Result<PrepareAnswer<B, L>, Failure>,
        mut step: impl FnMut(ProposalStep<B, L>),
    ) {
        let is_awaited = self.preparing.remove(replica);
        match answer {
            Ok(PrepareAnswer::Promised(cell)) => {
                if is_awaited && self.is_asked_to_accept(cell.as_ref()) {
                    let version = version(cell.as_ref());
                    self.promised.push((replica, cell));
                    if self.phase == Phase::Accepting {
                        self.ask_to_accept(replica, version, &mut step);
                    }
                } else if !self.promised.iter().any(|&(other, _)| other == replica) {
                    // Late, or with something that the decision is not based on: others keep older cells out.
                    step(ProposalStep::Release(replica));
                    if is_awaited {
                        self.lacks(replica, &mut step);
                    }
                }
            }
            _ if !is_awaited => {}
            Ok(PrepareAnswer::Outbid(version)) => {
                self.outbid = self.outbid.max(Some(version));
                self.lacks(replica, &mut step);
            }
            Err(failure) => {
                self.failures.push((replica, failure));
                if !matches!(failure, Failure::Refused(_)) {
                    self.may_have_promised.insert(replica);
                    if self.phase == Phase::Released {
                        step(ProposalStep::Release(replica));
                    }
                }
                self.lacks(replica, &mut step);
            }
        }
        self.advance(&mut step);
    }

    /// The cell of the ballot takes the place of the newest one; or of none, if it is known by now that too few will answer. After
    /// [`ProposalStep::Promised`].
    pub fn accept(&mut self, mut step: impl FnMut(ProposalStep<B, L>)) {
        assert_eq!(self.phase, Phase::Promised, "follows a majority of promises, once");
        if self.promised.len() + self.preparing.len() < self.required() {
            self.give_up(&mut step);
            return self.fail(self.promised.len(), &mut step);
        }
        self.phase = Phase::Accepting;
        let promised: Vec<_> =
            self.promised.iter().map(|(replica, cell)| (*replica, version(cell.as_ref()))).collect();
        for (replica, base) in promised {
            self.ask_to_accept(replica, base, &mut step);
        }
        self.advance(&mut step);
    }

    /// Gives up without a change. Called after [`ProposalStep::Promised`], unless another proposal of the same request may have
    /// left its cell somewhere.
    pub fn release(&mut self, mut step: impl FnMut(ProposalStep<B, L>)) {
        assert_eq!(self.phase, Phase::Promised, "follows a majority of promises, once");
        self.give_up(&mut step);
    }

    /// A replica is asked to accept a second time: the connection broke before it answered.
    pub fn asks_to_accept_again(&mut self, replica: usize) {
        self.asked_again.insert(replica);
    }

    /// A replica answered to the cell, or it is known that it will not.
    pub fn accepted(
        &mut self,
        replica: usize,
        answer: Result<AcceptAnswer, Failure>,
        mut step: impl FnMut(ProposalStep<B, L>),
    ) {
        if !self.accepting.remove(replica) {
            return; // Again, or after the deadline.
        }
        // Whatever else it says now: it may have accepted when it was asked first.
        let is_certain = answer == Ok(AcceptAnswer::Accepted) || !self.asked_again.has(replica);
        match if is_certain { answer } else { Err(Failure::Broken) } {
            Ok(AcceptAnswer::Accepted) => self.accepted.insert(replica),
            Ok(AcceptAnswer::Outbid(version)) => {
                self.outbid = self.outbid.max(Some(version));
                self.lacks(replica, &mut step);
            }
            Err(failure) => {
                self.failures.push((replica, failure));
                if failure.may_have_done_it() {
                    self.may_have_accepted.insert(replica);
                }
                self.lacks(replica, &mut step);
            }
        }
        self.advance(&mut step);
    }

    /// Nothing is waited for any longer.
    pub fn deadline(&mut self, mut step: impl FnMut(ProposalStep<B, L>)) {
        for replica in self.accepting.iter() {
            self.accepted(replica, Err(Failure::TimedOut), &mut step);
        }
        for replica in self.preparing.iter() {
            self.prepared(replica, Err(Failure::TimedOut), &mut step);
        }
    }

    /// Whether there is nothing left to wait for.
    pub const fn is_finished(&self) -> bool {
        self.preparing.is_empty() && self.accepting.is_empty()
    }

    /// Whether the outcome is known.
    pub const fn is_decided(&self) -> bool {
        self.outcome.is_some()
    }

    /// Whether who promises now, with this cell, is asked to accept. What is newer than the base of the decision is on a
    /// minority; there it must not be replaced as if it had not been.
    fn is_asked_to_accept(&self, cell: Option<&SentCell<B, L>>) -> bool {
        match self.phase {
            Phase::Preparing => true,
            Phase::Promised | Phase::Accepting => self.outcome != Some(false) && version(cell) <= self.base,
            Phase::Released => false,
        }
    }

    fn ask_to_accept(
        &mut self,
        replica: usize,
        base: Option<Version>,
        step: &mut impl FnMut(ProposalStep<B, L>),
    ) {
        self.accepting.insert(replica);
        step(ProposalStep::Accept(replica, base));
    }

    /// A replica has not got the cell, or did not say.
    fn lacks(&self, replica: usize, step: &mut impl FnMut(ProposalStep<B, L>)) {
        if self.outcome == Some(true) {
            step(ProposalStep::Hint(replica));
        }
    }

    fn advance(&mut self, step: &mut impl FnMut(ProposalStep<B, L>)) {
        let majority = self.replicas.majority();
        match self.phase {
            Phase::Preparing if self.promised.len() >= majority => {
                self.phase = Phase::Promised;
                let cells = || self.promised.iter().map(|(_, cell)| cell.as_ref());
                let newest = cells()
                    .max_by_key(|cell| (version(*cell), matches!(cell, Some(SentCell::Whole(_)))))
                    .flatten()
                    .cloned();
                self.base = version(newest.as_ref());
                let is_stable = cells().all(|cell| version(cell) == self.base);
                step(ProposalStep::Promised { newest, is_stable });
            }
            Phase::Preparing if self.promised.len() + self.preparing.len() < majority => {
                self.give_up(step);
                self.fail(self.promised.len(), step);
            }
            Phase::Accepting if self.outcome.is_none() => self.maybe_decide(step),
            _ => {}
        }
    }

    fn maybe_decide(&mut self, step: &mut impl FnMut(ProposalStep<B, L>)) {
        let required = self.required();
        if self.accepted.len() >= required {
            self.outcome = Some(true);
            step(ProposalStep::Decided(Ok(())));
            let is_waited_for = |replica| self.preparing.has(replica) || self.accepting.has(replica);
            for replica in 0..self.replicas.from as usize {
                if !self.accepted.has(replica) && !is_waited_for(replica) {
                    step(ProposalStep::Hint(replica));
                }
            }
        } else if self.accepted.len() + self.accepting.len() + self.preparing.len() < required {
            if !self.may_have_happened() {
                self.give_up(step);
            }
            self.fail(self.accepted.len(), step);
        }
    }

    /// How many have to accept.
    fn required(&self) -> usize {
        self.replicas.majority().max(self.replicas.ack as usize)
    }

    const fn may_have_happened(&self) -> bool {
        !self.accepted.is_empty() || !self.may_have_accepted.is_empty() || !self.accepting.is_empty()
    }

    /// The cell is nowhere, and will not be.
    fn give_up(&mut self, step: &mut impl FnMut(ProposalStep<B, L>)) {
        self.phase = Phase::Released;
        let promised = self.promised.iter().map(|&(replica, _)| replica);
        promised
            .chain(self.may_have_promised.iter())
            .for_each(|replica| step(ProposalStep::Release(replica)));
    }

    /// It ends after `acked` have promised, or accepted, whichever was in turn.
    fn fail(&mut self, acked: usize, step: &mut impl FnMut(ProposalStep<B, L>)) {
        self.outcome = Some(false);
        let may_have_happened = self.may_have_happened();
        let error = self.outbid.map_or_else(
            || {
                let (required, asked) = (self.required(), self.replicas.from as usize);
                let error = QuorumError { acked, required, asked, failures: self.failures.clone() };
                ProposalError::TooFew { error, may_have_happened }
            },
            |newest| ProposalError::Outbid { newest, may_have_happened },
        );
        step(ProposalStep::Decided(Err(error)));
    }
}

fn version<B, L>(cell: Option<&SentCell<B, L>>) -> Option<Version> {
    cell.map(|cell| cell.stamp().version)
}

#[cfg(test)]
#[path = "proposal_tests.rs"]
mod tests;
