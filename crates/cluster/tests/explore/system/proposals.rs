use ladoga_cluster::{
    Ballots, Course, Failure, PrepareAnswer, ProposalCore, ProposalError, ProposalStep, Refusal, SentCell,
};
use ladoga_history::{Input, Output, Register};
use ladoga_model::Version;

use super::{Machine, NOT_ASKED, Purpose, Request, System};
use crate::message::Message;
use crate::replica::{Base, From, Held};
use crate::scenario::{Bug, Scenario};

/// What becomes of a request, by the newest cell of a majority of promises.
enum Decision {
    /// This is written, and then this is answered; or it is decided again, if it only keeps out what the request wrote before.
    Write(Option<u64>, Option<Output>),
    /// A majority has what the request wrote.
    Done(Output),
    /// The condition does not hold, on a cell that a majority has.
    Refuse,
    /// The condition does not hold; it has to be seen whether a majority has what it does not hold for.
    Read,
    /// A cell of its own may have been there, and something newer is.
    Unknown,
    /// What is planted: who took over takes back the promise that it met.
    GiveWay,
}

impl System {
    /// Asks all replicas to promise.
    pub(super) fn propose(&mut self, scenario: &Scenario, request: usize) {
        if let Purpose::Conditional { attempts, .. } = &mut self.requests[request].purpose {
            *attempts -= 1;
        }
        let ballot = self.next_version(request);
        let core = ProposalCore::new(scenario.replicas);
        self.requests[request].machine = Machine::Proposal { core, ballot, lost: self.lost, cell: None };
        self.messages.extend((0..self.replicas.len()).map(|to| Message::Prepare { request, to, ballot }));
    }

    /// Who met a promise puts something newer in the place of whatever it was for.
    pub(super) fn take_over(&mut self, scenario: &Scenario, request: usize, fence: Option<Version>) {
        self.has_waited(request);
        let purpose = Purpose::TakeOver { of: request, fence };
        let process = self.requests[request].process;
        self.requests.push(Request { purpose, lost: self.lost, ..Request::new(process) });
        self.history.push(NOT_ASKED);
        self.propose(scenario, self.requests.len() - 1);
    }

    pub(super) fn prepare(
        &mut self,
        scenario: &Scenario,
        (request, to, ballot): (usize, usize, Version),
        is_answered: bool,
    ) {
        let said = self.replicas[to].prepare(ballot);
        let told = match &said {
            Ok(PrepareAnswer::Promised(cell)) => Some(cell.as_ref().map(|cell| cell.stamp().version)),
            _ => None,
        };
        let said = if is_answered { said } else { Err(Failure::Broken) };
        let release = Message::Release { to, ballot };
        let known = &self.requests[request];
        let is_waited_for =
            matches!(&known.machine, Machine::Proposal { ballot: other, .. } if *other == ballot);
        if is_waited_for {
            self.step_proposal(scenario, (request, ballot), |core, step| core.prepared(to, said, step));
        } else if !known.is_gone && is_answered && told.is_some() {
            self.messages.push(release); // Too late: nobody asks it to accept.
        }
        if scenario.bug == Some(Bug::AcceptsAnythingLate)
            && let Some(had) = told
            && matches!(self.requests[request].machine, Machine::Proposal { cell: Some(_), .. })
            && self.messages.contains(&release)
        {
            self.messages.retain(|message| *message != release);
            self.ask_to_accept(request, to, had);
        }
    }

    pub(super) fn accept(
        &mut self,
        scenario: &Scenario,
        (request, to): (usize, usize),
        (held, base, lost): (Held, Base, usize),
        is_answered: bool,
    ) {
        // One of those that promised may have lost that with its disk.
        let is_void = lost < self.known_lost && scenario.bug != Some(Bug::AcceptsForLostPromise);
        let said = if is_void {
            Err(Failure::Refused(Refusal::Rebuilding))
        } else {
            self.replicas[to].accept(held, base)
        };
        let said = if is_answered { said } else { Err(Failure::Broken) };
        self.step_proposal(scenario, (request, held.version), |core, step| core.accepted(to, said, step));
    }

    pub(super) fn step_proposal(
        &mut self,
        scenario: &Scenario,
        (request, ballot): (usize, Version),
        act: impl FnOnce(&mut ProposalCore<u64, ()>, &mut dyn FnMut(ProposalStep<u64, ()>)),
    ) {
        let Machine::Proposal { core, ballot: current, cell, .. } = &mut self.requests[request].machine
        else {
            return;
        };
        if *current != ballot {
            return; // Of a proposal before.
        }
        let cell = *cell;
        let mut steps = Vec::new();
        act(core, &mut |step| steps.push(step));
        for step in steps {
            match step {
                ProposalStep::Promised { newest, is_stable } => {
                    let newest = newest.as_ref().map(|cell| match cell {
                        SentCell::Whole(cell) => Held::of(cell),
                        SentCell::Digest(_) => unreachable!("who promises sends its cell"),
                    });
                    self.promised(scenario, (request, ballot), newest, is_stable);
                }
                ProposalStep::Accept(to, had) => self.ask_to_accept(request, to, had),
                ProposalStep::Release(to) => self.messages.push(Message::Release { to, ballot }),
                ProposalStep::Decided(outcome) => self.has_proposed(scenario, (request, ballot), &outcome),
                ProposalStep::Hint(to) => {
                    let held = cell.filter(|_| scenario.hints).map(|(held, ..)| held);
                    let hint = held.map(|held| Message::Write { request, to, held, from: From::Hint });
                    self.messages.extend(hint);
                }
            }
        }
    }

    fn ask_to_accept(&mut self, request: usize, to: usize, had: Option<Version>) {
        let Machine::Proposal { lost, cell: Some((held, newest, _)), .. } = self.requests[request].machine
        else {
            unreachable!("there is something to accept");
        };
        self.messages.push(Message::Accept { request, to, held, base: Base { had, newest }, lost });
    }

    /// A majority has promised, and this is the newest cell that it has.
    fn promised(
        &mut self,
        scenario: &Scenario,
        (request, ballot): (usize, Version),
        newest: Option<Held>,
        is_stable: bool,
    ) {
        let is_sure = is_stable || scenario.bug == Some(Bug::RefusesUnstable);
        let decision = match &mut self.requests[request].purpose {
            Purpose::Conditional { input, ballots, is_kept_out, .. } => {
                decide(scenario, (*input, ballots, *is_kept_out), newest, (is_stable, is_sure))
            }
            _ if scenario.bug == Some(Bug::TakesOverByRelease) => Decision::GiveWay,
            _ => Decision::Write(newest.and_then(|held| held.value), Some(Output::Done)),
        };
        if let Decision::Write(value, output) = decision {
            if let Machine::Proposal { cell, .. } = &mut self.requests[request].machine {
                let version = newest.map(|held| held.version);
                *cell = Some((Held { version: ballot, value }, version, output));
            }
            return self.step_proposal(scenario, (request, ballot), |core, step| core.accept(step));
        }
        self.step_proposal(scenario, (request, ballot), |core, step| core.release(step));
        match decision {
            Decision::Read => self.read(scenario, request),
            Decision::Refuse if !self.is_void(request) => self.over(request, Some(Output::Refused)),
            Decision::Done(output) if !self.is_void(request) => self.over(request, Some(output)),
            Decision::GiveWay => self.give_way(scenario, request),
            _ => self.over(request, None),
        }
    }

    fn give_way(&mut self, scenario: &Scenario, request: usize) {
        let Purpose::TakeOver { of, fence } = self.requests[request].purpose else { return };
        if let Some(ballot) = fence {
            self.messages.extend((0..self.replicas.len()).map(|to| Message::Release { to, ballot }));
        }
        self.over(request, None);
        self.ask_again(scenario, of);
    }

    /// It is known what became of a proposal.
    fn has_proposed(
        &mut self,
        scenario: &Scenario,
        (request, ballot): (usize, Version),
        outcome: &Result<(), ProposalError>,
    ) {
        let cell = match &self.requests[request].machine {
            Machine::Proposal { cell, .. } => *cell,
            _ => None,
        };
        let newest_known = match outcome {
            Err(ProposalError::Outbid { newest, .. }) => Some(*newest),
            _ => None,
        };
        if let Some(newest) = newest_known {
            self.observe(request, newest);
        }
        let is_void = self.is_void(request);
        let Purpose::Conditional { attempts, ballots, is_kept_out, .. } = &mut self.requests[request].purpose
        else {
            return self.has_taken_over(scenario, request);
        };
        match outcome {
            Ok(()) => {
                let (_, newest, output) = cell.expect("it was accepted");
                if !ballots.versions().any(|own| Some(own) == newest) {
                    self.given_up.extend(ballots.versions());
                }
                ballots.buried();
                *is_kept_out = false;
                if is_void || output.is_some() {
                    return self.over(request, output.filter(|_| !is_void));
                }
            }
            Err(
                ProposalError::Outbid { may_have_happened, .. }
                | ProposalError::TooFew { may_have_happened, .. },
            ) => match cell {
                Some((_, _, output)) if *may_have_happened => ballots.left(ballot, output),
                _ => self.given_up.push(ballot),
            },
        }
        let goes_on = !matches!(outcome, Err(ProposalError::TooFew { may_have_happened: false, .. }));
        if goes_on && *attempts > 0 {
            self.propose(scenario, request);
        } else if !ballots.carry_something() {
            self.has_not_happened(request);
        } else {
            self.over(request, None);
        }
    }

    fn has_taken_over(&mut self, scenario: &Scenario, request: usize) {
        let Purpose::TakeOver { of, .. } = self.requests[request].purpose else { return };
        self.over(request, None);
        self.ask_again(scenario, of);
    }

    /// A read with a quorum says what the condition is to be held against.
    pub(super) fn decide_by_read(&mut self, scenario: &Scenario, request: usize, value: Option<u64>) {
        let Purpose::Conditional { input, attempts, .. } = self.requests[request].purpose else { return };
        if Register(value).obey(input).1 == Output::Refused {
            self.over(request, Some(Output::Refused));
        } else if attempts > 0 {
            self.propose(scenario, request);
        } else {
            self.has_not_happened(request);
        }
    }

    /// A promise keeps what a read found away from a replica that lacks it. It has written nothing.
    pub(super) fn decide_past_fence(&mut self, scenario: &Scenario, request: usize) {
        let Purpose::Conditional { attempts, is_kept_out, .. } = &mut self.requests[request].purpose else {
            return;
        };
        *is_kept_out = true;
        if *attempts > 0 {
            self.propose(scenario, request);
        } else {
            self.has_not_happened(request);
        }
    }

    /// The client is told that it is to try again, and that nothing happened: so nobody may ever see anything of it.
    pub(super) fn has_not_happened(&mut self, request: usize) {
        self.history[request].input = Input::Read;
        self.over(request, None);
    }
}

fn decide(
    scenario: &Scenario,
    (input, ballots, is_kept_out): (Input, &mut Ballots<Output>, bool),
    newest: Option<Held>,
    (is_stable, is_sure): (bool, bool),
) -> Decision {
    let value = newest.and_then(|held| held.value);
    let is_enough = scenario.replicas.ack as usize <= scenario.replicas.majority();
    match ballots.course(newest.map(|held| held.version), is_stable) {
        Course::Done(output) if is_enough => return Decision::Done(output),
        Course::Done(output) => return Decision::Write(value, Some(output)),
        Course::Again(output) => return Decision::Write(value, output),
        Course::Unknown => return Decision::Unknown,
        Course::Decide => {}
    }
    match Register(value).obey(input) {
        // What is left is to be buried.
        (_, Output::Refused) if !ballots.is_empty() => Decision::Write(value, None),
        // A read would meet the promise again.
        (_, Output::Refused) if is_kept_out && !is_stable => Decision::Write(value, None),
        (_, Output::Refused) if is_sure => Decision::Refuse,
        (_, Output::Refused) => Decision::Read,
        (Register(next), output) => Decision::Write(next, Some(output)),
    }
}
