//! Every combination of what up to five replicas answer to a write, in every order of their answers.

use super::*;
use crate::exhaustive::{each_order, each_replicas};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Applied,
    /// Has something newer, and never had it.
    Never,
    Fails,
    Silent,
    /// Has something newer, and had it.
    Once,
    /// Has something newer, never had it, and something conditional went over it.
    Skipped,
    /// Has something newer, and does not know.
    Unknown,
    /// Answers with success after the deadline.
    Late,
}
use Says::{Applied, Fails, Late, Never, Once, Silent, Skipped, Unknown};
const ALL: [Says; 8] = [Applied, Never, Fails, Silent, Once, Skipped, Unknown, Late];

impl Says {
    fn has_newer(self) -> bool {
        matches!(self, Never | Once | Skipped | Unknown)
    }

    fn is_acked(self) -> bool {
        self == Applied || self.has_newer()
    }

    fn answer(self, replica: usize) -> Option<Result<WriteAnswer, Failure>> {
        let superseded = |had| Some(Ok(WriteAnswer::Superseded { newest: version_at(replica), had }));
        match self {
            Applied => Some(Ok(WriteAnswer::Applied)),
            Never => superseded(Had::Never),
            Once => superseded(Had::Once),
            Skipped => superseded(Had::Skipped),
            Unknown => superseded(Had::Unknown),
            Fails => Some(Err(Failure::Unreachable)),
            Silent | Late => None,
        }
    }
}

fn version_at(replica: usize) -> Version {
    Version { timestamp: 100 - replica as u64, node: 0 }
}

/// The outcome of these replicas' answers, if they decide.
fn decided(core: &WriteCore, answered: &[(usize, Says)]) -> Option<WriteStep> {
    let Replicas { ack, from } = core.replicas;
    let majority = core.replicas.majority();
    let count = |is: fn(Says) -> bool| answered.iter().filter(|(_, says)| is(*says)).count();
    let newest = answered.iter().filter(|(_, says)| says.has_newer()).map(|(n, _)| version_at(*n)).max();
    let is_acked = count(Says::is_acked) >= ack as usize;
    let was_none = from as usize - count(|says| matches!(says, Never | Skipped)) < majority;
    let acknowledged = Some(WriteStep::Decided(Ok(())));
    match core.order {
        Order::Unpromised if is_acked => newest.map(WriteStep::Stale).or(acknowledged),
        Order::Unpromised => None,
        Order::AfterAll if !core.replicas.is_quorum() => acknowledged.filter(|_| is_acked),
        Order::AfterAll => {
            let is_in_order = count(|says| matches!(says, Applied | Once | Never)) >= majority;
            let is_passed_over = count(|says| matches!(says, Skipped | Unknown)) > 0;
            if is_acked && is_in_order {
                acknowledged
            } else {
                newest.filter(|_| was_none && is_passed_over).map(WriteStep::Stale)
            }
        }
        Order::Unknown => {
            let was_majority = count(|says| matches!(says, Applied | Once)) >= majority;
            assert!(!(was_majority && was_none), "one excludes the other");
            if is_acked && was_majority {
                acknowledged
            } else {
                newest.filter(|_| was_none).map(WriteStep::Stale)
            }
        }
    }
}

/// One run: answers in this order, the deadline after all that are in time, then the late ones.
fn check(mut core: WriteCore, order: &[usize], says: &[Says]) {
    let (asked, replicas) = (core.clone(), core.replicas);
    let mut steps = Vec::new();
    let (mut answered, mut expected) = (Vec::new(), None);
    for &replica in order {
        let Some(answer) = says[replica].answer(replica) else { continue };
        core.answered(replica, answer, |step| steps.push(step));
        core.answered(replica, Ok(WriteAnswer::Applied), |step| steps.push(step)); // Twice changes nothing.
        answered.push((replica, says[replica]));
        let has_failed = matches!(steps.first(), Some(WriteStep::Decided(Err(_))));
        // One that is after all, and that nothing was known to go over, does not wait for that once it has failed.
        if !(has_failed && asked.order == Order::AfterAll) {
            expected = expected.or_else(|| decided(&asked, &answered));
        }
        assert!(core.is_decided() == (expected.is_some() || has_failed), "as soon as it can be: {steps:?}");
    }
    let context = format!("{asked:?} {order:?} {says:?}: {steps:?}");
    assert_eq!(core.is_finished(), !says.iter().any(|says| matches!(says, Late | Silent)));
    core.deadline(|step| steps.push(step));
    assert!(core.is_finished() && core.is_decided());
    let steps_in_time = steps.len();
    for &replica in order.iter().filter(|&&replica| says[replica] == Late) {
        core.answered(replica, Ok(WriteAnswer::Applied), |step| steps.push(step));
    }
    assert_eq!(steps.len(), steps_in_time, "late answers change nothing");

    let (hints, decisions): (Vec<_>, Vec<_>) =
        steps.into_iter().partition(|step| matches!(step, WriteStep::Hint(_)));
    assert_eq!(decisions.len(), 1, "{context}");
    let mut missed = Vec::new();
    match (&decisions[0], expected) {
        (WriteStep::Decided(Err(error)), None) => check_error(error, replicas, says, &context),
        (found, expected) => {
            assert_eq!(Some(found), expected.as_ref(), "{context}");
            if *found == WriteStep::Decided(Ok(())) {
                missed.extend((0..says.len()).filter(|&n| !says[n].is_acked()).map(WriteStep::Hint));
            }
        }
    }
    assert!(hints.len() == missed.len() && missed.iter().all(|hint| hints.contains(hint)), "{context}");
}

fn check_error(error: &QuorumError, replicas: Replicas, says: &[Says], context: &str) {
    let (ack, from) = (replicas.ack as usize, replicas.from as usize);
    assert!(error.acked < ack && error.required == ack && error.asked == from, "{context}");
    assert!(error.acked <= says.iter().filter(|says| says.is_acked()).count(), "{context}");
    assert!(error.failures.len() > from - ack, "every reason that made it impossible: {context}");
}

#[test]
fn every_order_of_answers_failures_and_silence_up_to_five_replicas() {
    let mut runs = 0_usize;
    each_replicas(|replicas| {
        let from = replicas.from as usize;
        // The largest clusters with the most usual answers, to writes with a quorum: the number of runs is what it costs.
        let kinds = if from < 5 { ALL.len() } else { 5 };
        if from == 5 && !replicas.is_quorum() {
            return;
        }
        each_order(from, |order| {
            for code in 0..kinds.pow(from as u32) {
                let says: Vec<Says> = (0..from).map(|n| ALL[code / kinds.pow(n as u32) % kinds]).collect();
                check(WriteCore::new(replicas), order, &says);
                runs += 1;
                if from < 5 {
                    check(WriteCore::after_newest(replicas), order, &says);
                    check(WriteCore::unpromised(replicas), order, &says);
                    runs += 2;
                }
            }
        });
    });
    assert!(runs > 1_500_000, "{runs}");
}

/// Those that promised not to take it are asked once more, and then do what they do.
#[test]
fn every_order_of_answers_with_promises_up_to_four_replicas() {
    let kinds = [Applied, Never, Fails, Silent];
    each_replicas(|replicas| {
        let from = replicas.from as usize;
        if from == 5 {
            return;
        }
        let combinations = kinds.len().pow(from as u32);
        each_order(from, |order| {
            for (code, fenced) in (0..combinations).flat_map(|code| (1..1 << from).map(move |f| (code, f))) {
                let says = |n: usize| kinds[code / kinds.len().pow(n as u32) % kinds.len()];
                let is_fenced = |n: usize| fenced & (1 << n) != 0;
                check_fenced(replicas, order, &says, &is_fenced);
            }
        });
    });
}

fn check_fenced(
    replicas: Replicas,
    order: &[usize],
    says: &dyn Fn(usize) -> Says,
    is_fenced: &dyn Fn(usize) -> bool,
) {
    let asked = WriteCore::new(replicas);
    let (mut core, mut steps) = (asked.clone(), Vec::new());
    let mut answered = Vec::new();
    for &n in order {
        let fence = Version { timestamp: 200 + n as u64, node: 1 };
        let answer = if is_fenced(n) {
            Some(Ok(WriteAnswer::Fenced { fence }))
        } else {
            answered.extend(says(n).answer(n).map(|_| (n, says(n))));
            says(n).answer(n)
        };
        if let Some(answer) = answer {
            core.answered(n, answer, |step| steps.push(step));
        }
    }
    let context = format!("{replicas:?} {order:?} {steps:?}");
    let told = steps.iter().filter(|step| matches!(step, WriteStep::Fenced(_))).count();
    assert!(told <= 1, "{context}");
    assert!(told == 0 || !core.is_decided(), "it is decided without them: {context}");
    let again: Vec<usize> = core.ask_fenced_again().collect();
    assert!(core.is_decided() || again.iter().copied().eq((0..order.len()).filter(|&n| is_fenced(n))));
    for &n in order.iter().filter(|&n| again.contains(n)) {
        if let Some(answer) = says(n).answer(n) {
            core.answered(n, answer, |step| steps.push(step));
            answered.push((n, says(n)));
        }
    }
    core.deadline(|step| steps.push(step));
    assert!(core.is_finished() && core.is_decided(), "{context}");
    let decisions = steps.iter().filter(|step| matches!(step, WriteStep::Decided(_) | WriteStep::Stale(_)));
    let decisions: Vec<_> = decisions.collect();
    assert_eq!(decisions.len(), 1, "{context}");
    let is_ok = !matches!(decisions[0], WriteStep::Decided(Err(_)));
    assert_eq!(is_ok, decided(&asked, &answered).is_some(), "{context}");
    if *decisions[0] == WriteStep::Decided(Ok(())) {
        let hints = steps.iter().filter(|step| matches!(step, WriteStep::Hint(_))).count();
        let missed = (0..order.len()).filter(|n| !answered.iter().any(|(m, says)| m == n && says.is_acked()));
        assert_eq!(hints, missed.count(), "{context}");
    }
}

#[test]
fn promises_are_told_once_until_they_were_asked_about_again() {
    let mut core = WriteCore::new(Replicas { ack: 2, from: 3 });
    let fenced = |timestamp| Ok(WriteAnswer::Fenced { fence: Version { timestamp, node: 0 } });
    let told = |timestamp| WriteStep::Fenced(Version { timestamp, node: 0 });
    let mut steps = Vec::new();
    core.answered(0, fenced(7), |step| steps.push(step));
    assert_eq!(steps, [], "the others may do");
    core.answered(1, fenced(9), |step| steps.push(step));
    assert_eq!(steps, [told(9)]);
    core.answered(2, fenced(8), |step| steps.push(step));
    assert_eq!(steps, [told(9)]);
    assert!(core.ask_fenced_again().eq(0..3) && !core.is_finished());
    core.answered(0, fenced(11), |step| steps.push(step));
    core.answered(1, fenced(10), |step| steps.push(step));
    assert_eq!(steps, [told(9), told(11)]);
    core.deadline(|step| steps.push(step));
    let failures = vec![(2, Failure::TimedOut), (0, Failure::Fenced), (1, Failure::Fenced)];
    let error = QuorumError { acked: 0, required: 2, asked: 3, failures };
    assert_eq!(steps[2..], [WriteStep::Decided(Err(error))]);
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

/// One has it, one never had it, and the third is unknown.
#[test]
fn nobody_knows_whether_it_was_seen() {
    let mut core = WriteCore::new(Replicas { ack: 2, from: 3 });
    let mut steps = Vec::new();
    core.answered(0, Ok(WriteAnswer::Applied), |step| steps.push(step));
    let superseded = WriteAnswer::Superseded { newest: version_at(1), had: Had::Never };
    core.answered(1, Ok(superseded), |step| steps.push(step));
    assert_eq!(steps, [], "the third decides");
    core.answered(2, Err(Failure::Unreachable), |step| steps.push(step));
    let failures = vec![(2, Failure::Unreachable), (1, Failure::Superseded)];
    let error = QuorumError { acked: 1, required: 2, asked: 3, failures };
    assert_eq!(steps, [WriteStep::Decided(Err(error))]);
}

/// A write that gives way to two rounds has to say whether its first version is to be looked for.
#[test]
fn a_write_that_nobody_took_is_nowhere() {
    let fenced = || Ok(WriteAnswer::Fenced { fence: Version { timestamp: 9, node: 1 } });
    let never = || Ok(WriteAnswer::Superseded { newest: Version { timestamp: 8, node: 1 }, had: Had::Never });
    let unknown =
        || Ok(WriteAnswer::Superseded { newest: Version { timestamp: 8, node: 1 }, had: Had::Unknown });
    let is_somewhere = |answers: Vec<Result<WriteAnswer, Failure>>| {
        let mut core = WriteCore::new(Replicas { ack: 2, from: 3 });
        let mut steps = Vec::new();
        for (replica, answer) in answers.into_iter().enumerate() {
            core.answered(replica, answer, |step| steps.push(step));
        }
        let is_somewhere = core.may_be_somewhere();
        if !core.is_decided() {
            core.give_up();
            assert!(core.is_decided() && core.ask_fenced_again().next().is_none());
        }
        is_somewhere
    };
    assert!(!is_somewhere(vec![fenced(), fenced(), fenced()]));
    assert!(!is_somewhere(vec![fenced(), never(), Err(Failure::Unreachable)]));
    assert!(!is_somewhere(vec![fenced(), fenced(), Err(Failure::Refused(crate::Refusal::NoRoom))]));
    assert!(is_somewhere(vec![fenced(), fenced()]), "one has not answered");
    for may_have_it in [Ok(WriteAnswer::Applied), unknown(), Err(Failure::Broken), Err(Failure::TimedOut)] {
        assert!(is_somewhere(vec![fenced(), fenced(), may_have_it]), "{may_have_it:?}");
    }
}

/// A conditional write that was decided without it went over it, so it cannot have come right before that: see
/// `tests/explore`. It is written once more, or nobody knows.
#[test]
fn what_a_conditional_write_went_over_is_not_acknowledged_by_that() {
    let mut core = WriteCore::after_newest(Replicas { ack: 2, from: 3 });
    let mut steps = Vec::new();
    let superseded = |had| Ok(WriteAnswer::Superseded { newest: version_at(1), had });
    core.answered(0, Ok(WriteAnswer::Applied), |step| steps.push(step));
    core.answered(1, superseded(Had::Skipped), |step| steps.push(step));
    assert_eq!(steps, [], "the third decides");
    for (had, expected) in [
        (Had::Skipped, Some(WriteStep::Stale(version_at(1)))),
        (Had::Never, Some(WriteStep::Decided(Ok(())))),
        (Had::Once, Some(WriteStep::Decided(Ok(())))),
        (Had::Unknown, None),
    ] {
        let (mut core, mut steps) = (core.clone(), Vec::new());
        core.answered(2, superseded(had), |step| steps.push(step));
        let decided = steps.into_iter().next().expect("it is decided");
        match expected {
            Some(expected) => assert_eq!(decided, expected, "{had:?}"),
            None => assert!(matches!(decided, WriteStep::Decided(Err(_))), "{had:?}: {decided:?}"),
        }
    }
}
