//! A write, as its coordinator decides it.
//!
//! ```text
//! calls := new (answered | deadline)*      all replicas are asked at once, before the first call
//! ```

use crate::failure::{Failure, QuorumError};
use crate::set::ReplicaSet;
use ladoga_model::Replicas;
use ladoga_model::Version;

/// How often a write takes a newer version because the one that it had was not the newest. Each time it has learned of
/// the newest, so more than once takes another writer of the same key, and as many in a row as this.
pub const RESTAMPS_MAX: u32 = 8;

/// What the coordinator of a write has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteStep {
    /// Tell the client; comes exactly once, or in its place [`WriteStep::Stale`].
    Decided(Result<(), QuorumError>),
    /// Enough replicas have it, but one of them had this version already, which is newer: acknowledged, the write would
    /// have lost to one that came before it. Write it again, with a version after this one; at most [`RESTAMPS_MAX`]
    /// times. Of this attempt nothing is kept: nobody needs its cell.
    Stale(Version),
    /// Keep the write for this replica, which has not got it: a hint.
    Hint(usize),
}

/// A write to the first `from` nodes of a key's preference list, of which `ack` must make it durable.
///
/// Replicas are named by their places in the list. Answers may come in any order, twice, late, or never; the write is
/// decided as soon as the answers to come can no longer change it. A write that was acknowledged leaves a hint for
/// every replica that failed or did not answer in time. One that was not leaves none: whoever has it spreads it or not,
/// and the client was told that both may be.
#[derive(Debug, Clone)]
pub struct WriteCore {
    replicas: Replicas,
    waiting: ReplicaSet,
    acked: ReplicaSet,
    failures: Vec<(usize, Failure)>,
    /// The newest version that a replica had already.
    newer: Option<Version>,
    outcome: Option<bool>,
}

impl WriteCore {
    /// A write that all replicas have been asked for.
    pub const fn new(replicas: Replicas) -> WriteCore {
        WriteCore {
            replicas,
            waiting: ReplicaSet::first(replicas.from as usize),
            acked: ReplicaSet::first(0),
            failures: Vec::new(),
            newer: None,
            outcome: None,
        }
    }

    /// A replica has it, and the version with which it had something newer already; or it is known that it will not.
    pub fn answered(
        &mut self,
        replica: usize,
        answer: Result<Option<Version>, Failure>,
        mut step: impl FnMut(WriteStep),
    ) {
        if !self.waiting.remove(replica) {
            return; // Again, or after the deadline: its hint is on its way.
        }
        match answer {
            Ok(newer) => {
                self.acked.insert(replica);
                self.newer = self.newer.max(newer);
            }
            Err(failure) => {
                self.failures.push((replica, failure));
                if self.outcome == Some(true) {
                    step(WriteStep::Hint(replica));
                }
            }
        }
        self.maybe_decide(&mut step);
    }

    /// Nothing is waited for any longer.
    pub fn deadline(&mut self, mut step: impl FnMut(WriteStep)) {
        let late = std::mem::take(&mut self.waiting);
        for replica in late.iter() {
            self.failures.push((replica, Failure::TimedOut));
            if self.outcome == Some(true) {
                step(WriteStep::Hint(replica));
            }
        }
        self.maybe_decide(&mut step);
    }

    /// Whether there is nothing left to wait for.
    pub const fn is_finished(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the client has been told.
    pub const fn is_decided(&self) -> bool {
        self.outcome.is_some()
    }

    fn maybe_decide(&mut self, step: &mut impl FnMut(WriteStep)) {
        if self.outcome.is_some() {
            return;
        }
        let required = self.replicas.ack as usize;
        if self.acked.len() >= required
            && let Some(newer) = self.newer
        {
            self.outcome = Some(false);
            step(WriteStep::Stale(newer));
        } else if self.acked.len() >= required {
            self.outcome = Some(true);
            step(WriteStep::Decided(Ok(())));
            for &(replica, _) in &self.failures {
                step(WriteStep::Hint(replica));
            }
        } else if self.acked.len() + self.waiting.len() < required {
            self.outcome = Some(false);
            step(WriteStep::Decided(Err(QuorumError {
                acked: self.acked.len(),
                required,
                asked: self.replicas.from as usize,
                failures: self.failures.clone(),
            })));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exhaustive::{each_order, each_replicas};

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Fate {
        Acks,
        /// Has it, and something newer.
        Stale,
        Fails,
        /// Answers with success after the deadline.
        Late,
        Never,
    }
    const FATES: [Fate; 5] = [Fate::Acks, Fate::Stale, Fate::Fails, Fate::Late, Fate::Never];

    /// One run: answers in this order, the deadline after all that are in time, then the late ones.
    fn run(replicas: Replicas, order: &[usize], fates: &[Fate]) -> (Vec<WriteStep>, usize) {
        let mut core = WriteCore::new(replicas);
        let mut steps = Vec::new();
        let mut answers_until_decided = 0;
        for &replica in order {
            let answer = match fates[replica] {
                Fate::Acks => Ok(None),
                Fate::Stale => Ok(Some(version_at(replica))),
                Fate::Fails => Err(Failure::Unreachable),
                Fate::Late | Fate::Never => continue,
            };
            if !core.is_decided() {
                answers_until_decided += 1;
            }
            core.answered(replica, answer, |step| steps.push(step));
            core.answered(replica, Ok(None), |step| steps.push(step)); // Twice changes nothing.
        }
        let finished = core.is_finished();
        assert_eq!(finished, fates.iter().all(|fate| !matches!(fate, Fate::Late | Fate::Never)));
        core.deadline(|step| steps.push(step));
        assert!(core.is_finished() && core.is_decided());
        let steps_in_time = steps.len();
        for &replica in order.iter().filter(|&&replica| fates[replica] == Fate::Late) {
            core.answered(replica, Ok(None), |step| steps.push(step));
        }
        assert_eq!(steps.len(), steps_in_time, "late answers change nothing");
        (steps, answers_until_decided)
    }

    fn version_at(replica: usize) -> Version {
        Version { timestamp: 100 - replica as u64, node: 0 }
    }

    /// How many answers there are up to that of the last replica that is needed.
    fn answers_needed(ack: usize, order: &[usize], fates: &[Fate]) -> usize {
        let mut acked = 0;
        let answering = order.iter().filter(|&&n| matches!(fates[n], Fate::Acks | Fate::Stale | Fate::Fails));
        let needed = answering.take_while(|&&n| {
            let undecided = acked < ack;
            acked += usize::from(fates[n] != Fate::Fails);
            undecided
        });
        needed.count()
    }

    fn check(replicas: Replicas, order: &[usize], fates: &[Fate]) {
        let (steps, answers) = run(replicas, order, fates);
        let context = format!("{replicas:?} {order:?} {fates:?}: {steps:?}");
        let has_it = |fate: Fate| matches!(fate, Fate::Acks | Fate::Stale);
        let acks = fates.iter().filter(|&&fate| has_it(fate)).count();
        let (ack, from) = (replicas.ack as usize, replicas.from as usize);
        let decisions: Vec<_> = steps.iter().filter(|step| !matches!(step, WriteStep::Hint(_))).collect();
        // Those by whose answers it is decided: as early as possible, with the one that was the last one needed.
        let mut quorum = order.iter().copied().filter(|&n| has_it(fates[n]));
        let newest = quorum.by_ref().take(ack).filter(|&n| fates[n] == Fate::Stale).map(version_at).max();
        assert_eq!(decisions.len(), 1, "{context}");
        let mut hints: Vec<usize> = steps
            .iter()
            .filter_map(|step| if let WriteStep::Hint(n) = step { Some(*n) } else { None })
            .collect();
        hints.sort_unstable();
        match decisions[0] {
            WriteStep::Decided(Ok(())) => {
                assert!(acks >= ack, "{context}");
                assert_eq!(newest, None, "{context}");
                let missed: Vec<usize> = (0..from).filter(|&n| !has_it(fates[n])).collect();
                assert_eq!(hints, missed, "{context}");
                assert_eq!(answers, answers_needed(ack, order, fates), "{context}");
            }
            WriteStep::Stale(version) => {
                assert!(acks >= ack && newest == Some(*version), "{newest:?} {context}");
                assert_eq!(hints, [0_usize; 0], "{context}");
                assert_eq!(answers, answers_needed(ack, order, fates), "{context}");
            }
            WriteStep::Decided(Err(error)) => {
                assert!(acks < ack, "{context}");
                assert_eq!(hints, [0_usize; 0], "{context}");
                assert!(error.acked <= acks && error.required == ack && error.asked == from, "{context}");
                assert!(error.failures.len() > from - ack, "every reason that made it impossible: {context}");
            }
            WriteStep::Hint(_) => unreachable!("it was filtered"),
        }
    }

    #[test]
    fn every_order_of_answers_failures_and_silence_up_to_five_replicas() {
        let mut runs = 0_usize;
        each_replicas(|replicas| {
            let from = replicas.from as usize;
            let combinations = FATES.len().pow(from as u32);
            each_order(from, |order| {
                for code in 0..combinations {
                    let fate = |n: usize| FATES[code / FATES.len().pow(n as u32) % FATES.len()];
                    let fates: Vec<Fate> = (0..from).map(fate).collect();
                    check(replicas, order, &fates);
                    runs += 1;
                }
            });
        });
        assert!(runs > 600_000, "{runs}");
    }

    #[test]
    fn a_majority_that_cannot_be_is_known_at_once() {
        let mut core = WriteCore::new(Replicas { ack: 2, from: 3 });
        let mut steps = Vec::new();
        core.answered(0, Err(Failure::Unreachable), |step| steps.push(step));
        assert!(steps.is_empty());
        core.answered(2, Err(Failure::Broken), |step| steps.push(step));
        let failures = vec![(0, Failure::Unreachable), (2, Failure::Broken)];
        let error = QuorumError { acked: 0, required: 2, asked: 3, failures };
        assert_eq!(steps, [WriteStep::Decided(Err(error))]);
        assert!(!core.is_finished());
    }
}
