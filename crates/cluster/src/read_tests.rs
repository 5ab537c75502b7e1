//! Every combination of what up to five replicas have, in every order of their answers.

use std::collections::HashSet;

use ladoga_model::{Stamp, Value};

use super::*;
use crate::exhaustive::{each_order, each_replicas};

#[path = "read_repair_tests.rs"]
mod repairs;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    Nothing,
    Old,
    New,
    /// The new cell, but it does not vouch for anything.
    NewNotWhole,
    Fails,
    Silent,
    /// The same as for the new cell.
    OldNotWhole,
}
const ALL: [Has; 7] =
    [Has::Nothing, Has::Old, Has::New, Has::NewNotWhole, Has::Fails, Has::Silent, Has::OldNotWhole];

impl Has {
    fn is_whole(self) -> bool {
        !matches!(self, Has::NewNotWhole | Has::OldNotWhole)
    }
}

/// What becomes of repairs, and of values that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peers {
    Answer,
    Fail,
    Fade,
    /// Every other replica has got something newer when it is repaired. Whether it had the repaired cell before.
    Overtake(Had),
}

#[derive(Debug, Clone, Copy)]
struct Setup {
    replicas: Replicas,
    peers: Peers,
    /// Only the first replica sends values.
    digests: bool,
    /// The new cell is a deletion.
    deleted: bool,
    /// Answers that may spare a repair are not waited for, or as long as any may come.
    hurries: bool,
}

const OLD: Version = Version { timestamp: 1, node: 0 };
const NEW: Version = Version { timestamp: 2, node: 0 };
const NEWER: Version = Version { timestamp: 3, node: 0 };

fn version_of(has: Has) -> Option<Version> {
    match has {
        Has::Old | Has::OldNotWhole => Some(OLD),
        Has::New | Has::NewNotWhole => Some(NEW),
        _ => None,
    }
}

/// A value is the timestamp of its version; none is large.
type TestCell = Cell<u64, ()>;
type TestStep = ReadStep<u64, ()>;

fn cell(version: Version, setup: Setup, sent: bool) -> SentCell<u64, ()> {
    let stamp = Stamp::new(version);
    match version {
        NEW if setup.deleted => SentCell::Whole(Cell::tombstone(stamp)),
        _ if !sent => SentCell::Digest(stamp),
        _ => SentCell::Whole(value(version.timestamp, 0)),
    }
}

struct Run {
    setup: Setup,
    core: ReadCore<u64, ()>,
    has: Vec<Has>,
    held: Vec<Option<Version>>,
    /// Which replica is known to have had which version at some time.
    had: HashSet<(usize, Version)>,
    answered: usize,
    vouching: usize,
    waits: bool,
    /// With how many answers it was made.
    decision: Option<(Decision, usize)>,
}

type Decision = Result<Option<TestCell>, QuorumError>;

impl Run {
    fn new(setup: Setup, has: &[Has]) -> Run {
        let held: Vec<_> = has.iter().map(|&has| version_of(has)).collect();
        let had = held.iter().enumerate().filter_map(|(replica, held)| Some((replica, (*held)?))).collect();
        let mut core = ReadCore::new(setup.replicas);
        if setup.hurries {
            core.hurry(|step| panic!("{step:?}"));
        }
        Run {
            setup,
            core,
            has: has.to_vec(),
            held,
            had,
            answered: 0,
            vouching: 0,
            waits: false,
            decision: None,
        }
    }

    fn answer(&mut self, replica: usize) {
        let has = self.has[replica];
        let answer = match has {
            Has::Silent => return,
            Has::Fails => Err(Failure::Unreachable),
            _ => {
                let sent = !self.setup.digests || replica == 0;
                let cell = version_of(has).map(|version| cell(version, self.setup, sent));
                self.vouching += usize::from(has.is_whole());
                Ok(ReadAnswer { cell, is_whole: has.is_whole() })
            }
        };
        self.answered += 1;
        let mut steps = Vec::new();
        self.core.answered(replica, answer, |step| steps.push(step));
        self.execute(steps);
    }

    fn execute(&mut self, steps: Vec<TestStep>) {
        for step in steps {
            let mut next = Vec::new();
            match step {
                ReadStep::Decided(decision) => {
                    assert!(self.decision.is_none(), "it is decided twice");
                    self.check_decision(&decision);
                    self.decision = Some((decision, self.answered));
                }
                ReadStep::Fetch(replica) => {
                    let answer = match self.setup.peers {
                        Peers::Answer | Peers::Overtake(_) => {
                            let version = self.held[replica].expect("only holders are asked");
                            let is_whole = self.has[replica].is_whole();
                            Ok(ReadAnswer { cell: Some(cell(version, self.setup, true)), is_whole })
                        }
                        Peers::Fail => Err(Failure::Broken),
                        Peers::Fade => continue,
                    };
                    self.core.answered(replica, answer, |step| next.push(step));
                }
                ReadStep::Repair(replica, cell) => {
                    let version = cell.stamp.version;
                    let newer = self.held[replica].filter(|&held| held >= version);
                    assert!(newer.is_none_or(|held| held == NEWER), "only stale replicas are repaired");
                    let answer = match self.setup.peers {
                        _ if newer.is_some() => {
                            Ok(WriteAnswer::Superseded { newest: NEWER, had: Had::Unknown })
                        }
                        Peers::Overtake(had) if version < NEWER && replica % 2 == 1 => {
                            self.has(replica, NEWER);
                            if had == Had::Once {
                                self.had.insert((replica, version));
                            }
                            Ok(WriteAnswer::Superseded { newest: NEWER, had })
                        }
                        Peers::Answer | Peers::Overtake(_) => {
                            self.has(replica, version);
                            Ok(WriteAnswer::Applied)
                        }
                        Peers::Fail => Err(Failure::Broken),
                        Peers::Fade => continue,
                    };
                    self.core.repaired(replica, version, answer, |step| next.push(step));
                }
                ReadStep::Wait => assert!(!std::mem::replace(&mut self.waits, true), "it waits twice"),
            }
            self.execute(next);
        }
    }

    fn has(&mut self, replica: usize, version: Version) {
        self.held[replica] = Some(version);
        self.had.insert((replica, version));
    }

    fn check_decision(&self, decision: &Decision) {
        let replicas = self.setup.replicas;
        let Ok(found) = decision else { return };
        assert!(self.vouching >= replicas.ack as usize, "too few answered");
        let counts =
            |(replica, had): &&(usize, Version), version| *had == version && self.has[*replica].is_whole();
        let holders = |version| self.had.iter().filter(|had| counts(had, version)).count();
        if let Some(found) = found {
            let is_deletion = self.setup.deleted && found.stamp.version == NEW;
            let value = (!is_deletion).then_some(Value::Inline(found.stamp.version.timestamp));
            assert_eq!(found.value, value);
            if self.setup.replicas.is_quorum() {
                assert!(holders(found.stamp.version) >= replicas.majority(), "a later read may miss it");
            }
        }
    }

    fn finish(mut self, order: &[usize]) {
        let mut steps = Vec::new();
        self.core.hurry(|step| steps.push(step));
        assert!(steps.is_empty() || self.waits, "{steps:?}");
        self.execute(steps);
        let in_time = |has: &&Has| !matches!(has, Has::Fails | Has::Silent);
        let agree = order.iter().map(|&n| self.has[n]).filter(|has| in_time(&has));
        let first: Vec<Has> = agree.take(self.setup.replicas.ack as usize).collect();
        let is_plain = first.len() == self.setup.replicas.ack as usize
            && first.iter().all(|has| *has == first[0] && has.is_whole())
            && !(self.setup.digests && matches!(first[0], Has::Old | Has::New));
        if is_plain {
            let position = order.iter().scan(0, |seen, &n| {
                *seen += usize::from(!matches!(self.has[n], Has::Silent));
                Some((*seen, in_time(&&self.has[n])))
            });
            let in_time: Vec<usize> = position.filter(|(_, counts)| *counts).map(|(seen, _)| seen).collect();
            let (_, at) = self.decision.as_ref().expect("it is decided");
            assert_eq!(*at, in_time[first.len() - 1], "answers that agree decide at once");
        }
        let mut steps = Vec::new();
        self.core.deadline(|step| steps.push(step));
        self.execute(steps);
        assert!(self.core.is_finished() && self.core.is_decided());
        let (decision, _) = self.decision.as_ref().expect("it is decided");
        let enough = self.vouching >= self.setup.replicas.ack as usize;
        if matches!(self.setup.peers, Peers::Answer | Peers::Overtake(_)) {
            assert_eq!(decision.is_ok(), enough, "{decision:?}");
            if enough {
                self.check_all_repaired();
            }
        }
        if let Err(error) = decision {
            assert!(error.acked < error.required, "{error:?}");
        }
    }

    /// Everyone who answered has the newest cell by now, but for those that are being rebuilt.
    fn check_all_repaired(&self) {
        let answered = |n: &usize| !matches!(self.has[*n], Has::Fails | Has::Silent | Has::OldNotWhole);
        let newest = self.has.iter().map(|&has| version_of(has)).max().expect("there is a replica");
        let stale: Vec<usize> =
            (0..self.has.len()).filter(answered).filter(|&n| self.held[n] < newest).collect();
        assert_eq!(stale, [0_usize; 0], "not repaired: {:?} {:?} {:?}", self.setup, self.has, self.held);
    }
}

fn each_setup(mut visit: impl FnMut(Setup)) {
    each_replicas(|replicas| {
        let overtaken = [Had::Never, Had::Once, Had::Unknown].map(Peers::Overtake);
        for peers in [Peers::Answer, Peers::Fail, Peers::Fade].into_iter().chain(overtaken) {
            for (digests, deleted) in [(false, false), (true, false), (true, true)] {
                // The largest clusters in the most usual form only: the number of runs is what it costs.
                if replicas.from < 5 || (peers == Peers::Answer && digests && !deleted) {
                    visit(Setup { replicas, peers, digests, deleted, hurries: false });
                }
                let is_costly = matches!(peers, Peers::Overtake(_)) && replicas.from == 4;
                if replicas.from < 5 && !is_costly {
                    visit(Setup { replicas, peers, digests, deleted, hurries: true });
                }
            }
        }
    });
}

#[test]
fn every_order_of_every_answer_up_to_five_replicas() {
    let mut runs = 0_usize;
    each_setup(|setup| {
        let from = setup.replicas.from as usize;
        each_order(from, |order| {
            // The largest clusters without the last: the number of runs is what it costs.
            let kinds = if from < 5 { ALL.len() } else { ALL.len() - 1 };
            for code in 0..kinds.pow(from as u32) {
                let has: Vec<Has> = (0..from).map(|n| ALL[code / kinds.pow(n as u32) % kinds]).collect();
                let mut run = Run::new(setup, &has);
                order.iter().for_each(|&replica| run.answer(replica));
                run.finish(order);
                runs += 1;
            }
        });
    });
    assert!(runs > 1_000_000, "{runs}");
}

fn steps_of(core: &mut ReadCore<u64, ()>, replica: usize, cell: Option<TestCell>) -> Vec<TestStep> {
    let mut steps = Vec::new();
    let cell = cell.map(SentCell::Whole);
    core.answered(replica, Ok(ReadAnswer { cell, is_whole: true }), |step| steps.push(step));
    steps
}

fn value(timestamp: u64, copies: u8) -> TestCell {
    let stamp = Stamp { copies, ..Stamp::new(Version { timestamp, node: 0 }) };
    Cell { stamp, value: Some(Value::Inline(timestamp)) }
}

#[test]
fn a_write_to_one_node_is_never_copied_to_another() {
    let mut core = ReadCore::new(Replicas { ack: 2, from: 3 });
    assert_eq!(steps_of(&mut core, 0, Some(value(2, 1))), []);
    let decided = ReadStep::Decided(Ok(Some(value(2, 1))));
    assert_eq!(steps_of(&mut core, 1, Some(value(1, 0))), [decided]);
    assert_eq!(steps_of(&mut core, 2, None), []);
    assert!(core.is_finished());
}

#[test]
fn a_deletion_reaches_every_replica_whatever_it_was_for() {
    let mut core = ReadCore::new(Replicas { ack: 1, from: 2 });
    let stamp = Stamp { copies: 1, ..Stamp::new(NEW) };
    let tombstone = TestCell::tombstone(stamp);
    assert_eq!(steps_of(&mut core, 0, Some(tombstone)), [ReadStep::Decided(Ok(Some(tombstone)))]);
    assert_eq!(steps_of(&mut core, 1, Some(value(1, 0))), [ReadStep::Repair(1, tombstone)]);
}

#[test]
fn what_answers_late_or_twice_changes_nothing() {
    let mut core = ReadCore::new(Replicas { ack: 2, from: 2 });
    assert_eq!(steps_of(&mut core, 0, None), []);
    assert_eq!(steps_of(&mut core, 0, None), [], "it is one replica");
    let mut steps = Vec::new();
    core.deadline(|step| steps.push(step));
    let failures = vec![(1, Failure::TimedOut)];
    let error = QuorumError { acked: 1, required: 2, asked: 2, failures };
    assert_eq!(steps, [ReadStep::Decided(Err(error))]);
    assert_eq!(steps_of(&mut core, 1, Some(value(1, 0))), []);
}

/// A large value was written after a deletion of which its coordinator was not told: its version was older, and it was
/// acknowledged and lost. (Found by the simulation, seed 26.)
#[test]
fn the_newest_version_is_told_where_it_is_a_deletion() {
    let mut core = ReadCore::new(Replicas { ack: 2, from: 3 });
    let mut decided = Vec::new();
    assert_eq!(core.newest_version(), None);
    let stamp = Stamp::new(Version { timestamp: 7, node: 1 });
    for replica in 0..2 {
        let cell = Some(SentCell::Whole(TestCell::tombstone(stamp)));
        core.answered(replica, Ok(ReadAnswer { cell, is_whole: true }), |step| decided.push(step));
    }
    assert_eq!(decided, [ReadStep::Decided(Ok(Some(TestCell::tombstone(stamp))))], "its version is an ETag");
    assert_eq!(core.newest_version(), Some(stamp.version));
}
