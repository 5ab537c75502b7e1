use super::*;
use crate::exhaustive::each_order;
use crate::failure::Refusal;
use ladoga_model::{Cell, Stamp, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prepare {
    /// Promises, and has a cell of this version, or none if it is 0.
    Promises(u64),
    Outbid,
    Refuses,
    /// May have promised.
    Breaks,
    /// Promises after the deadline.
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accept {
    Accepts,
    Outbid,
    Refuses,
    /// May have accepted.
    Breaks,
    Never,
}

const PREPARES: [Prepare; 7] = [
    Prepare::Promises(0),
    Prepare::Promises(1),
    Prepare::Promises(2),
    Prepare::Outbid,
    Prepare::Refuses,
    Prepare::Breaks,
    Prepare::Late,
];
const ACCEPTS: [Accept; 5] =
    [Accept::Accepts, Accept::Outbid, Accept::Refuses, Accept::Breaks, Accept::Never];
const NEWER: Version = version_of(9);

const fn version_of(timestamp: u64) -> Version {
    Version { timestamp, node: 0 }
}

fn sent(timestamp: u64) -> Option<SentCell<u64, ()>> {
    let stamp = Stamp::new(version_of(timestamp));
    (timestamp > 0).then_some(SentCell::Whole(Cell { stamp, value: Some(Value::Inline(timestamp)) }))
}

/// What a run has seen.
#[derive(Debug, Default)]
struct Seen {
    promised: Option<(u64, bool)>,
    /// Who was asked to accept, with what base; and who of them has the cell, or may have.
    asked: Vec<(usize, u64)>,
    accepted: Vec<usize>,
    may_have_accepted: Vec<usize>,
    released: Vec<usize>,
    hinted: Vec<usize>,
    decided: Option<Result<(), ProposalError>>,
}

struct Run<'a> {
    core: ProposalCore<u64, ()>,
    fates: &'a [(Prepare, Accept)],
    accepts: bool,
    seen: Seen,
}

impl Run<'_> {
    fn prepare(&mut self, replica: usize) {
        let answer = match self.fates[replica].0 {
            Prepare::Promises(timestamp) => Ok(PrepareAnswer::Promised(sent(timestamp))),
            Prepare::Late => Ok(PrepareAnswer::Promised(None)),
            Prepare::Outbid => Ok(PrepareAnswer::Outbid(NEWER)),
            Prepare::Refuses => Err(Failure::Refused(Refusal::OverCapacity)),
            Prepare::Breaks => Err(Failure::Broken),
        };
        // Twice changes nothing.
        for _ in 0..2 {
            self.step(|core, step| core.prepared(replica, answer.clone(), step));
        }
    }

    fn step(&mut self, act: impl FnOnce(&mut ProposalCore<u64, ()>, &mut dyn FnMut(ProposalStep<u64, ()>))) {
        let mut steps = Vec::new();
        act(&mut self.core, &mut |step| steps.push(step));
        for step in steps {
            self.take(step);
        }
    }

    fn take(&mut self, step: ProposalStep<u64, ()>) {
        match step {
            ProposalStep::Promised { newest, is_stable } => {
                let newest = newest.map_or(0, |cell| cell.stamp().version.timestamp);
                assert_eq!(self.seen.promised.replace((newest, is_stable)), None, "comes once");
                if self.accepts {
                    self.step(|core, step| core.accept(step));
                } else {
                    self.step(|core, step| core.release(step));
                }
            }
            ProposalStep::Accept(replica, base) => {
                self.seen.asked.push((replica, base.map_or(0, |base| base.timestamp)));
                let answer = match self.fates[replica].1 {
                    Accept::Accepts => Ok(AcceptAnswer::Accepted),
                    Accept::Outbid => Ok(AcceptAnswer::Outbid(NEWER)),
                    Accept::Refuses => Err(Failure::Refused(Refusal::NoRoom)),
                    Accept::Breaks => Err(Failure::Broken),
                    Accept::Never => return self.seen.may_have_accepted.push(replica),
                };
                match answer {
                    Ok(AcceptAnswer::Accepted) => self.seen.accepted.push(replica),
                    Err(Failure::Broken) => self.seen.may_have_accepted.push(replica),
                    _ => {}
                }
                for _ in 0..2 {
                    self.step(|core, step| core.accepted(replica, answer, step));
                }
            }
            ProposalStep::Release(replica) => self.seen.released.push(replica),
            ProposalStep::Decided(outcome) => {
                assert_eq!(self.seen.decided.replace(outcome), None, "comes once");
            }
            ProposalStep::Hint(replica) => self.seen.hinted.push(replica),
        }
    }
}

fn check(replicas: Replicas, order: &[usize], fates: &[(Prepare, Accept)], accepts: bool) {
    let mut run = Run { core: ProposalCore::new(replicas), fates, accepts, seen: Seen::default() };
    for &replica in order.iter().filter(|&&replica| fates[replica].0 != Prepare::Late) {
        run.prepare(replica);
    }
    run.step(|core, step| core.deadline(step));
    assert!(run.core.is_finished());
    for &replica in order.iter().filter(|&&replica| fates[replica].0 == Prepare::Late) {
        run.prepare(replica);
    }
    let Run { core, seen, .. } = run;
    let context = format!("{replicas:?} {order:?} {fates:?} {accepts}: {seen:?}");
    let majority = replicas.majority();
    let promises = |replica: &usize| matches!(fates[*replica].0, Prepare::Promises(_));
    let has_majority = order.iter().filter(|replica| promises(replica)).count() >= majority;
    assert_eq!(seen.promised.is_some(), has_majority, "{context}");
    assert_eq!(core.is_decided(), accepts || !has_majority, "{context}");
    if let Some((newest, is_stable)) = seen.promised {
        // Those by which it is decided.
        let timestamps = order.iter().filter_map(|&replica| match fates[replica].0 {
            Prepare::Promises(timestamp) => Some(timestamp),
            _ => None,
        });
        let timestamps: Vec<u64> = timestamps.take(majority).collect();
        assert_eq!(timestamps.iter().max(), Some(&newest), "{context}");
        assert_eq!(is_stable, timestamps.iter().all(|timestamp| *timestamp == newest), "{context}");
        assert!(seen.asked.iter().all(|&(_, base)| base <= newest), "{context}");
        assert!(
            seen.asked.iter().all(|&(replica, base)| fates[replica].0 == Prepare::Promises(base)),
            "{context}"
        );
    }
    let required = majority.max(replicas.ack as usize);
    let may_have_happened = !seen.accepted.is_empty() || !seen.may_have_accepted.is_empty();
    let said = match &seen.decided {
        Some(Err(
            ProposalError::Outbid { may_have_happened, .. } | ProposalError::TooFew { may_have_happened, .. },
        )) => *may_have_happened,
        decided => matches!(decided, Some(Ok(()))),
    };
    match &seen.decided {
        Some(Ok(())) => {
            assert!(seen.accepted.len() >= required, "{context}");
            let mut hinted = seen.hinted.clone();
            hinted.sort_unstable();
            let lack: Vec<usize> =
                (0..fates.len()).filter(|replica| !seen.accepted.contains(replica)).collect();
            assert_eq!(hinted, lack, "{context}");
        }
        Some(Err(_)) => {
            assert!(seen.accepted.len() < required && seen.hinted.is_empty(), "{context}");
            // Who was asked and has not answered yet when it is decided, may.
            assert!(said || !may_have_happened, "{context}");
            assert!(!said || !seen.asked.is_empty(), "{context}");
        }
        None => assert!(!accepts && seen.asked.is_empty(), "{context}"),
    }
    // Every replica that may hold a promise is told once that it is void, unless the cell may be somewhere; and then no replica
    // is told that was asked to accept.
    for (replica, (prepare, _)) in fates.iter().enumerate() {
        let released = seen.released.iter().filter(|&&other| other == replica).count();
        let is_asked = seen.asked.iter().any(|&(other, _)| other == replica);
        let may_hold = matches!(prepare, Prepare::Promises(_) | Prepare::Late | Prepare::Breaks);
        if said && is_asked {
            assert_eq!(released, 0, "{context}");
        } else if may_hold && !(said && *prepare == Prepare::Breaks) {
            assert!(released >= 1, "replica {replica}: {context}");
        }
    }
}

#[test]
fn every_order_of_answers_failures_and_silence_up_to_three_replicas() {
    let mut runs = 0_usize;
    for from in 1..=3_u32 {
        let kinds = PREPARES.len() * ACCEPTS.len();
        each_order(from as usize, |order| {
            for code in 0..kinds.pow(from) {
                let fate = |replica: u32| {
                    let kind = code / kinds.pow(replica) % kinds;
                    (PREPARES[kind % PREPARES.len()], ACCEPTS[kind / PREPARES.len()])
                };
                let fates: Vec<_> = (0..from).map(fate).collect();
                for ack in from / 2 + 1..=from {
                    for accepts in [true, false] {
                        check(Replicas { ack, from }, order, &fates, accepts);
                        runs += 1;
                    }
                }
            }
        });
    }
    assert!(runs > 1_000_000, "{runs}");
}

#[test]
fn one_that_promises_late_is_asked_if_it_has_nothing_that_the_decision_does_not_know() {
    let replicas = Replicas { ack: 2, from: 3 };
    for (late, is_asked) in [(0, true), (1, true), (2, false)] {
        let mut core = ProposalCore::new(replicas);
        let mut steps = Vec::new();
        for replica in [0, 1] {
            core.prepared(replica, Ok(PrepareAnswer::Promised(sent(1))), |step| steps.push(step));
        }
        assert_eq!(steps, [ProposalStep::Promised { newest: sent(1), is_stable: true }]);
        core.accept(|step| steps.push(step));
        steps.clear();
        core.prepared(2, Ok(PrepareAnswer::Promised(sent(late))), |step| steps.push(step));
        let base = sent(late).map(|cell| cell.stamp().version);
        let expected = if is_asked { ProposalStep::Accept(2, base) } else { ProposalStep::Release(2) };
        assert_eq!(steps, [expected]);
    }
}

/// A cell at some of them would be a write that may have happened, although it was known before that it cannot be acknowledged.
#[test]
fn nobody_is_asked_to_accept_what_too_few_can_accept() {
    let mut core = ProposalCore::new(Replicas { ack: 3, from: 3 });
    let mut steps = Vec::new();
    core.prepared(2, Err(Failure::Unreachable), |step| steps.push(step));
    for replica in [0, 1] {
        core.prepared(replica, Ok(PrepareAnswer::Promised(sent(1))), |step| steps.push(step));
    }
    assert_eq!(steps, [ProposalStep::Promised { newest: sent(1), is_stable: true }]);
    steps.clear();
    core.accept(|step| steps.push(step));
    let failures = vec![(2, Failure::Unreachable)];
    let error = QuorumError { acked: 2, required: 3, asked: 3, failures };
    let error = ProposalError::TooFew { error, may_have_happened: false };
    // Also who could not be reached, and may have promised before that.
    let released = [0, 1, 2].map(ProposalStep::Release).into_iter();
    let expected: Vec<_> = released.chain([ProposalStep::Decided(Err(error))]).collect();
    assert_eq!(steps, expected);
}

#[test]
fn one_that_cannot_be_reached_to_accept_has_nothing() {
    for (failure, may_have_it) in [
        (Failure::Unreachable, false),
        (Failure::Refused(Refusal::NoRoom), false),
        (Failure::Refused(Refusal::StoreFailed), true),
        (Failure::Broken, true),
    ] {
        let mut core = ProposalCore::<u64, ()>::new(Replicas { ack: 1, from: 1 });
        let mut steps = Vec::new();
        core.prepared(0, Ok(PrepareAnswer::Promised(None)), |step| steps.push(step));
        core.accept(|step| steps.push(step));
        core.accepted(0, Err(failure), |step| steps.push(step));
        let decided = steps.iter().find_map(|step| match step {
            ProposalStep::Decided(Err(ProposalError::TooFew { may_have_happened, .. })) => {
                Some(*may_have_happened)
            }
            _ => None,
        });
        assert_eq!(decided, Some(may_have_it), "{failure:?}");
        assert_eq!(steps.contains(&ProposalStep::Release(0)), !may_have_it, "{failure:?}");
    }
}

/// Whatever ends the wait for it: an answer, the deadline, or that it is known not to answer.
#[test]
fn one_that_is_asked_to_accept_a_second_time_may_have_it_unless_it_has() {
    for answer in [
        Ok(AcceptAnswer::Outbid(NEWER)),
        Err(Failure::Refused(Refusal::Starting)),
        Err(Failure::Unreachable),
        Ok(AcceptAnswer::Accepted),
    ] {
        let mut core = ProposalCore::<u64, ()>::new(Replicas { ack: 1, from: 1 });
        let mut steps = Vec::new();
        core.prepared(0, Ok(PrepareAnswer::Promised(None)), |step| steps.push(step));
        core.accept(|step| steps.push(step));
        core.asks_to_accept_again(0);
        core.accepted(0, answer, |step| steps.push(step));
        let decided = steps.iter().find_map(|step| match step {
            ProposalStep::Decided(outcome) => Some(outcome.clone()),
            _ => None,
        });
        let may_have_happened = match decided {
            Some(Err(ProposalError::TooFew { may_have_happened, .. })) => may_have_happened,
            decided => decided == Some(Ok(())) && answer == Ok(AcceptAnswer::Accepted),
        };
        assert!(may_have_happened, "{answer:?}");
        assert!(!steps.contains(&ProposalStep::Release(0)), "{answer:?}");
    }
}
