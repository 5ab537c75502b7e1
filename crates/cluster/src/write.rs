//! A write, as its coordinator decides it.
//!
//! ```text
//! calls := new (answered | ask_fenced_again | deadline)* give_up?      all replicas are asked at once, before the first call
//! ```

use crate::failure::{Failure, QuorumError};
use crate::set::ReplicaSet;
use ladoga_model::Replicas;
use ladoga_model::Version;

/// How often a write below a quorum takes a newer version because the one that it had was not the newest. Each time it has
/// learned of the newest, so more than once takes another writer of the same key, and as many in a row as this. A write with a
/// quorum takes one more than once only if conditional writes went over it.
pub const RESTAMPS_MAX: u32 = 8;

/// What the coordinator of a write has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteStep {
    /// Tell the client; comes exactly once, or in its place [`WriteStep::Stale`].
    Decided(Result<(), QuorumError>),
    /// So many replicas had this version or an older one already, and never the one that is written, that no read with a quorum
    /// has returned it or ever will: if it was acknowledged, it could be lost to a write that ended before it began. Write it
    /// again, with a version after this one: a write with a quorum by [`WriteCore::after_newest`]; one below by
    /// [`WriteCore::new`], at most [`RESTAMPS_MAX`] times. Nothing of this attempt has to be kept, neither hints nor its cell.
    Stale(Version),
    /// Without the replicas that hold a promise newer than the write, it cannot be decided; this is their newest one. Call
    /// [`WriteCore::ask_fenced_again`] a bit later, which is also when it comes the next time.
    Fenced(Version),
    /// Keep the write for this replica, which has not got it: a hint.
    Hint(usize),
}

/// A replica's answer to a cell that it was to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteAnswer {
    /// It has the cell, or something newer that came later; and had nothing newer when it was asked.
    Applied,
    /// There was something newer already.
    Superseded {
        /// The newest version that it knows of.
        newest: Version,
        /// Whether it had the cell before.
        had: Had,
    },
    /// It holds a durable promise that is newer than the cell. It has not taken it, and still may: from who repairs.
    Fenced {
        /// The promise.
        fence: Version,
    },
}

/// Whether a replica that has something newer had a cell before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Had {
    /// No; and it never will, having something newer. None of the ballots that it promised was decided on the cell, or on something older.
    Never,
    /// No; and it never will. None of the ballots that it promised was decided on the cell, and one was decided on something older.
    Skipped,
    /// Yes: by a repair, by the same request before, or as what a conditional write that it accepted was decided on, if no other ballot
    /// that it promised was decided on something older.
    Once,
    /// It does not remember that far; or it promised something newer that may have been decided on the cell.
    Unknown,
}

/// A write to the first `from` nodes of a key's preference list, of which `ack` must make it durable.
///
/// Replicas are named by their positions in the list. Answers may come in any order, twice, late, or never; the write is
/// decided as soon as the answers to come can no longer change it. A write that was acknowledged leaves a hint for every
/// replica that failed or did not answer in time. A write that was not leaves none: it may spread from the replicas that have
/// it or not, and the client was told that both may happen.
///
/// # A write takes effect once
///
/// A read with a quorum returns a cell only if a majority of the nodes had it, each at some time. So a version that a majority
/// had may have been seen: the write took effect with it, whatever came after, and is acknowledged. A version that too many
/// replicas never had for a majority, and never will have, was not seen: the write may get a newer version. If neither is
/// known, which takes another writer of the key and a replica that does not answer, the client is told that the write may have
/// happened.
///
/// # It is after all that ended before it began
///
/// What ended before is on a majority, and so on one of the replicas that had nothing newer than this, or of those by whose
/// newest version the next one is given. So that one needs no replica that has nothing newer: what is newer than it is of a
/// write that had not ended, and this one was before that. Unless that is a conditional write: this one cannot have been right
/// before it, if it was decided without this one. So of those that have something newer only those count that had it, or
/// promised no ballot that was decided without it: each majority of promises shows one of them what came before.
#[derive(Debug, Clone, Hash)]
pub struct WriteCore {
    replicas: Replicas,
    order: Order,
    waiting: ReplicaSet,
    /// Have the cell or something newer.
    acked: ReplicaSet,
    /// Of those, whoever may have something conditional that was decided without it.
    passed_over: ReplicaSet,
    /// Had it, each at some time.
    had: ReplicaSet,
    /// Never had it, and never will.
    never: ReplicaSet,
    /// Would not take it for now.
    fenced: ReplicaSet,
    failures: Vec<(usize, Failure)>,
    /// The newest version that a replica had already.
    newer: Option<Version>,
    /// The newest promise of the replicas that would not take it, and whether it was passed on.
    fence: Version,
    is_fence_told: bool,
    outcome: Option<bool>,
}

/// What is known of the version, compared with those of writes that ended before this one began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Order {
    /// Nothing; and the write takes effect once.
    Unknown,
    /// It is newer than each of them.
    AfterAll,
    /// Nothing; and it may take effect more than once.
    Unpromised,
}

/// The outcome, by the answers so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Answers to come decide.
    Open,
    /// It has taken effect.
    Acknowledged,
    /// No client has seen it or will; something newer is in its way.
    Unseen(Version),
    /// Too few have it, or it is unknown whether it was seen.
    Failed,
}

impl WriteCore {
    /// A write that all replicas have been asked for.
    pub const fn new(replicas: Replicas) -> WriteCore {
        let order = if replicas.is_quorum() { Order::Unknown } else { Order::Unpromised };
        WriteCore::with(replicas, order)
    }

    /// The same, with a version that was given since it began, after the newest one of so many replicas that each majority has
    /// one of them: the replicas by which [`WriteStep::Stale`] came, or the quorum of a read.
    pub const fn after_newest(replicas: Replicas) -> WriteCore {
        WriteCore::with(replicas, Order::AfterAll)
    }

    /// The same for a write that may take effect more than once, as all writes below a quorum.
    pub const fn unpromised(replicas: Replicas) -> WriteCore {
        WriteCore::with(replicas, Order::Unpromised)
    }

    const fn with(replicas: Replicas, order: Order) -> WriteCore {
        let nobody = ReplicaSet::first(0);
        WriteCore {
            replicas,
            order,
            waiting: ReplicaSet::first(replicas.from as usize),
            acked: nobody,
            passed_over: nobody,
            had: nobody,
            never: nobody,
            fenced: nobody,
            failures: Vec::new(),
            newer: None,
            fence: Version::ZERO,
            is_fence_told: false,
            outcome: None,
        }
    }

    /// A replica has it, or something newer, or would not take it; or it is known that it will not.
    pub fn answered(
        &mut self,
        replica: usize,
        answer: Result<WriteAnswer, Failure>,
        mut step: impl FnMut(WriteStep),
    ) {
        if !self.waiting.remove(replica) {
            return; // Again, or after the deadline: its hint is on its way.
        }
        match answer {
            Ok(WriteAnswer::Applied) => {
                self.acked.insert(replica);
                self.had.insert(replica);
            }
            Ok(WriteAnswer::Superseded { newest, had }) => {
                self.acked.insert(replica);
                match had {
                    Had::Never => self.never.insert(replica),
                    Had::Skipped => {
                        self.never.insert(replica);
                        self.passed_over.insert(replica);
                    }
                    Had::Once => self.had.insert(replica),
                    Had::Unknown => self.passed_over.insert(replica),
                }
                self.newer = self.newer.max(Some(newest));
            }
            Ok(WriteAnswer::Fenced { fence }) if self.outcome.is_none() => {
                self.fenced.insert(replica);
                self.fence = self.fence.max(fence);
            }
            Ok(WriteAnswer::Fenced { .. }) => self.failed(replica, Failure::Fenced, &mut step),
            Err(failure) => self.failed(replica, failure, &mut step),
        }
        self.maybe_decide(&mut step);
    }

    /// Those that would not take it are asked again: these.
    pub fn ask_fenced_again(&mut self) -> impl Iterator<Item = usize> + use<> {
        let fenced = std::mem::take(&mut self.fenced);
        (self.fence, self.is_fence_told) = (Version::ZERO, false);
        fenced.iter().for_each(|replica| self.waiting.insert(replica));
        fenced.iter()
    }

    /// Whether a replica may have the cell. If none has it, none will: it comes from those that have it, or from who is writing it.
    pub fn may_be_somewhere(&self) -> bool {
        let has_it = self.acked.iter().any(|replica| !self.never.has(replica));
        let mut failures = self.failures.iter();
        has_it || !self.waiting.is_empty() || failures.any(|(_, failure)| failure.may_have_done_it())
    }

    /// Something else decides in place of this write, before it was decided: nobody is asked again, and nothing is kept of it.
    pub fn give_up(&mut self) {
        assert!(self.outcome.is_none(), "it is decided once");
        self.outcome = Some(false);
        self.fenced = ReplicaSet::default();
    }

    /// Nothing is waited for any longer.
    pub fn deadline(&mut self, mut step: impl FnMut(WriteStep)) {
        for replica in std::mem::take(&mut self.waiting).iter() {
            self.failed(replica, Failure::TimedOut, &mut step);
        }
        for replica in std::mem::take(&mut self.fenced).iter() {
            self.failed(replica, Failure::Fenced, &mut step);
        }
        self.maybe_decide(&mut step);
    }

    /// Whether there is nothing left to wait for.
    pub const fn is_finished(&self) -> bool {
        self.waiting.is_empty() && self.fenced.is_empty()
    }

    /// Whether the client has been answered.
    pub const fn is_decided(&self) -> bool {
        self.outcome.is_some()
    }

    fn failed(&mut self, replica: usize, failure: Failure, step: &mut impl FnMut(WriteStep)) {
        self.failures.push((replica, failure));
        if self.outcome == Some(true) {
            step(WriteStep::Hint(replica));
        }
    }

    fn maybe_decide(&mut self, step: &mut impl FnMut(WriteStep)) {
        if self.outcome.is_some() {
            return;
        }
        match self.fate() {
            Fate::Open => {}
            Fate::Acknowledged => {
                self.outcome = Some(true);
                step(WriteStep::Decided(Ok(())));
                // Those that would not take it may: they get it as those do that failed.
                let fenced = std::mem::take(&mut self.fenced);
                self.failures.extend(fenced.iter().map(|replica| (replica, Failure::Fenced)));
                self.failures.iter().for_each(|&(replica, _)| step(WriteStep::Hint(replica)));
            }
            Fate::Unseen(newer) => {
                self.outcome = Some(false);
                self.fenced = ReplicaSet::default();
                step(WriteStep::Stale(newer));
            }
            Fate::Failed if self.fenced.is_empty() => {
                self.outcome = Some(false);
                step(WriteStep::Decided(Err(self.error())));
            }
            // By those that are asked again.
            Fate::Failed => {
                if !std::mem::replace(&mut self.is_fence_told, true) {
                    step(WriteStep::Fenced(self.fence));
                }
            }
        }
    }

    /// The outcome by the answers so far, if the replicas that would not take it never do.
    fn fate(&self) -> Fate {
        let (ack, majority) = (self.replicas.ack as usize, self.replicas.majority());
        let (acked, waiting) = (self.acked.len(), self.waiting.len());
        let may_be_acked = acked + waiting >= ack;
        let open = if may_be_acked { Fate::Open } else { Fate::Failed };
        match self.order {
            Order::Unpromised if acked >= ack => self.newer.map_or(Fate::Acknowledged, Fate::Unseen),
            Order::Unpromised => open,
            Order::AfterAll if !self.replicas.is_quorum() => {
                if acked >= ack {
                    Fate::Acknowledged
                } else {
                    open
                }
            }
            Order::AfterAll | Order::Unknown => {
                let is_after_all = self.order == Order::AfterAll;
                let counted = if is_after_all { acked - self.passed_over.len() } else { self.had.len() };
                if acked >= ack && counted >= majority {
                    return Fate::Acknowledged;
                }
                let is_open = may_be_acked && counted + waiting >= majority;
                let unseen =
                    if is_after_all && self.passed_over.is_empty() { Fate::Failed } else { self.unseen() };
                match unseen {
                    Fate::Failed if is_open => Fate::Open,
                    unseen => unseen,
                }
            }
        }
    }

    /// Whether nobody can have seen it, or that may still turn out.
    fn unseen(&self) -> Fate {
        let lacking = self.replicas.from as usize - self.replicas.majority();
        let waiting = self.waiting.len();
        match self.newer {
            Some(newer) if self.never.len() > lacking => Fate::Unseen(newer),
            _ if waiting > 0 && self.never.len() + waiting > lacking => Fate::Open,
            _ => Fate::Failed,
        }
    }

    /// Why too few replicas have it, or are known to have had it.
    fn error(&self) -> QuorumError {
        let (required, asked) = (self.replicas.ack as usize, self.replicas.from as usize);
        let mut failures = self.failures.clone();
        let mut acked = self.acked.len();
        if acked + self.waiting.len() >= required {
            let overtaken = self.acked.iter().filter(|&replica| !self.had.has(replica));
            failures.extend(overtaken.map(|replica| (replica, Failure::Superseded)));
            acked = self.had.len();
        }
        QuorumError { acked, required, asked, failures }
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
