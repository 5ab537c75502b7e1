//! Clients, their coordinators, and the replicas of a key, in one state after the other.
//!
//! - here: the state, and what a step of it is; `choices`: which steps there are; `fingerprint`: which states are one
//! - `plain`: reads and writes, as their coordinators go on; `proposals`: conditional writes, and who takes over

mod choices;
mod fingerprint;
mod plain;
mod proposals;

use ladoga_cluster::{Ballots, ProposalCore, ReadCore, WriteCore};
use ladoga_history::{Input, Operation, Output};
use ladoga_model::Version;

use crate::message::{Choice, Message};
use crate::replica::{Held, Replica};
use crate::scenario::{Ask, Bug, Faults, Scenario};

/// What a request is for.
#[derive(Debug, Clone, Hash)]
enum Purpose {
    Plain,
    Conditional {
        input: Input,
        /// How often it may still be proposed.
        attempts: usize,
        /// Those that may have left a cell somewhere.
        ballots: Ballots<Output>,
        /// Whether a promise keeps the newest cell away from a replica that lacks it: only a newer one gets past that.
        is_kept_out: bool,
    },
    /// That this request, which met a promise, perhaps this one, need not wait for it any longer.
    TakeOver {
        of: usize,
        fence: Option<Version>,
    },
}

#[derive(Debug, Clone, Hash)]
enum Machine {
    Read(ReadCore<u64, ()>),
    /// It met a promise.
    FencedRead,
    Write {
        core: WriteCore,
        held: Held,
    },
    Proposal {
        core: ProposalCore<u64, ()>,
        ballot: Version,
        /// How many disks had been lost when it began.
        lost: usize,
        /// What is to be accepted, what that was decided on, and what is answered then, if it is more than to keep older ones out.
        cell: Option<(Held, Option<Version>, Option<Output>)>,
    },
    Over,
}

/// A request of a client, and what became of it; or what one of them needs to go on.
#[derive(Debug, Clone, Hash)]
struct Request {
    process: usize,
    purpose: Purpose,
    machine: Machine,
    /// Whether its coordinator is gone.
    is_gone: bool,
    /// How many disks had been lost when it began: what was said before another one was lost is void once all know of that.
    lost: usize,
}

impl Request {
    fn new(process: usize) -> Request {
        Request { process, purpose: Purpose::Plain, machine: Machine::Over, is_gone: false, lost: 0 }
    }
}

const NOT_ASKED: Operation = Operation { invoked: 0, input: Input::Read, answer: None };

#[derive(Debug, Clone)]
pub(crate) struct System {
    replicas: Vec<Replica>,
    /// Which replicas nothing has come to yet: each is like the others.
    untouched: Vec<bool>,
    clocks: Vec<u64>,
    /// How far each process is.
    asked: Vec<usize>,
    busy: Vec<bool>,
    /// First those of the clients, in the order of the processes, whenever they are asked: so the order does not tell states apart.
    requests: Vec<Request>,
    messages: Vec<Message>,
    /// What has just sent its first messages: see [`System::choices`].
    fresh: Option<usize>,
    faults: Faults,
    /// How many disks were lost, and of how many of them everybody knows.
    lost: usize,
    known_lost: usize,
    /// Versions of which coordinators said that nobody has seen them or ever will.
    given_up: Vec<Version>,
    /// Versions that reads returned.
    returned: Vec<Version>,
    /// By request. One that is not asked yet is a read of which nobody knows what became of it, which means nothing.
    pub(crate) history: Vec<Operation>,
    /// How many clients were told something, or that nobody knows.
    pub(crate) told: usize,
    now: u64,
}

impl System {
    pub(crate) fn of(scenario: &Scenario) -> System {
        let from = scenario.replicas.from as usize;
        let processes = scenario.processes.len();
        let requests = scenario.processes.iter().enumerate();
        let requests = requests.flat_map(|(process, asks)| asks.iter().map(move |_| Request::new(process)));
        let requests: Vec<Request> = requests.collect();
        System {
            replicas: vec![Replica::new(scenario.bug); from],
            // One that sends values where others send digests is not like the others.
            untouched: (0..from).map(|replica| replica > 0 || !scenario.digests).collect(),
            clocks: scenario.clocks.clone(),
            asked: vec![0; processes],
            busy: vec![false; processes],
            history: vec![NOT_ASKED; requests.len()],
            requests,
            messages: Vec::new(),
            fresh: None,
            faults: scenario.faults,
            lost: 0,
            known_lost: 0,
            given_up: Vec::new(),
            returned: Vec::new(),
            told: 0,
            now: 0,
        }
    }

    /// A version that a read returned and that had been given up, or was afterwards.
    pub(crate) fn resurrected(&self) -> Option<Version> {
        self.returned.iter().copied().find(|version| self.given_up.contains(version))
    }

    pub(crate) fn choose(&mut self, scenario: &Scenario, choice: Choice) {
        self.now += 1;
        self.fresh = None;
        match choice {
            Choice::Ask(process) => self.ask(scenario, process),
            Choice::Arrive(message) => self.arrive(scenario, message, true),
            Choice::ArriveUnanswered(message) => {
                self.faults.lost_answers -= 1;
                self.arrive(scenario, message, false);
            }
            Choice::Admit(message) => self.admit(scenario, message),
            Choice::Deadline(request) => {
                self.faults.deadlines -= 1;
                self.deadline(scenario, request);
            }
            Choice::Crash(request) => {
                self.faults.crashes -= 1;
                self.crash(request);
            }
            Choice::Restart(replica) => {
                self.faults.restarts -= 1;
                self.replicas[replica].restart();
                self.forget_commits(replica);
            }
            Choice::LoseDisk(replica) => self.lose_disk(replica),
            Choice::Pull { to, of } => {
                // Nobody takes over anything before everybody has heard of the new disk.
                self.known_lost = self.lost;
                self.untouched[of] = false;
                let held = self.replicas[of].held();
                self.replicas[to].pulled(of, held);
            }
            Choice::DropFences(replica) => self.replicas[replica].drop_fences(),
        }
        self.forget_what_changes_nothing(scenario);
        self.expect_first_message(choice);
    }

    /// What has just been sent may as well have been sent right before the first of it arrives: nobody can tell, and who was asked
    /// later knows more. So that comes next; unless a disk is lost meanwhile, which makes a difference.
    fn expect_first_message(&mut self, choice: Choice) {
        let is_own = |request: usize| match choice {
            Choice::Ask(process) => self.requests[request].process == process && self.is_under_way(request),
            Choice::Arrive(Message::TakeOver { .. }) => request + 1 == self.requests.len(),
            Choice::Arrive(Message::AskAgain { request: again }) => request == again,
            _ => false,
        };
        let Some(request) = (0..self.requests.len()).find(|&request| is_own(request)) else { return };
        let is_first = |message: &Message| message.request() == Some(request) && message.to().is_some();
        if self.faults.lost_disks == 0 && self.messages.iter().any(is_first) {
            self.fresh = Some(request);
        }
    }

    fn lose_disk(&mut self, replica: usize) {
        self.faults.lost_disks -= 1;
        self.lost += 1;
        let lost_before = self.clocks.iter().copied().max().unwrap_or(0);
        let others = (0..self.replicas.len()).filter(|&other| other != replica).collect();
        self.replicas[replica].lose_disk(lost_before, others);
        self.forget_commits(replica);
        // It said of these that it never had them, having something newer; it is given what the others have, and not what it lost.
        self.given_up.clear();
    }

    /// What was let in and is not durable is gone.
    fn forget_commits(&mut self, replica: usize) {
        self.messages.retain(|message| !matches!(message, Message::Commit { to, .. } if *to == replica));
    }

    fn ask(&mut self, scenario: &Scenario, process: usize) {
        let asks = &scenario.processes;
        let ask = asks[process][self.asked[process]];
        let request = asks[..process].iter().map(Vec::len).sum::<usize>() + self.asked[process];
        self.asked[process] += 1;
        self.busy[process] = true;
        let input = match ask {
            Ask::Read => Input::Read,
            Ask::Write(value) => Input::Write(value),
            Ask::Delete => Input::Delete,
            Ask::CompareAndSet(expected, value) => Input::CompareAndSet { expected, value: Some(value) },
            Ask::Increment => Input::Increment,
        };
        self.history[request] = Operation { invoked: self.now, input, answer: None };
        self.requests[request].lost = self.lost;
        match ask {
            Ask::Read => self.read(scenario, request),
            Ask::Write(value) => self.write(request, first_attempt(scenario), Some(value)),
            Ask::Delete => self.write(request, first_attempt(scenario), None),
            Ask::CompareAndSet(..) | Ask::Increment => {
                let (attempts, ballots) = (scenario.attempts, Ballots::new(None));
                self.requests[request].purpose =
                    Purpose::Conditional { input, attempts, ballots, is_kept_out: false };
                self.propose(scenario, request);
            }
        }
    }

    fn arrive(&mut self, scenario: &Scenario, message: Message, is_answered: bool) {
        self.take(message);
        match message {
            Message::Read { request, to } => {
                let answer = self.replicas[to].read(scenario.digests && to > 0);
                self.step_read(scenario, request, |core, step| core.answered(to, Ok(answer), step));
            }
            Message::Fetch { request, to } => {
                let answer = self.replicas[to].read(false);
                self.step_read(scenario, request, |core, step| core.answered(to, Ok(answer), step));
            }
            Message::Write { request, to, held, from } => {
                let replica = &mut self.replicas[to];
                let said = replica.admit(held, from).map(|was_newest| replica.commit(held, from, was_newest));
                self.answer(scenario, (request, to, held, from), said, is_answered);
            }
            Message::Commit { request, to, held, from } => {
                let said = self.replicas[to].commit(held, from, true);
                self.answer(scenario, (request, to, held, from), Ok(said), is_answered);
            }
            Message::Prepare { request, to, ballot } => {
                self.prepare(scenario, (request, to, ballot), is_answered);
            }
            Message::Accept { request, to, held, base, lost } => {
                self.accept(scenario, (request, to), (held, base, lost), is_answered);
            }
            Message::Release { to, ballot } => self.replicas[to].release(ballot),
            Message::Hurry { request } => self.step_read(scenario, request, |core, step| core.hurry(step)),
            Message::AskAgain { request } => self.ask_again(scenario, request),
            Message::TakeOver { request, fence } => {
                self.faults.take_overs -= 1;
                self.take_over(scenario, request, fence);
            }
        }
    }

    fn take(&mut self, message: Message) {
        self.messages.retain(|other| *other != message);
        if let Some(to) = message.to() {
            self.untouched[to] = false;
        }
    }

    fn admit(&mut self, scenario: &Scenario, message: Message) {
        let Message::Write { request, to, held, from } = message else { return };
        self.take(message);
        match self.replicas[to].admit(held, from) {
            Ok(true) => {
                self.faults.late_commits -= 1;
                self.messages.push(Message::Commit { request, to, held, from });
            }
            // Nothing is to be seen between this and its commit.
            Ok(false) => {
                let said = self.replicas[to].commit(held, from, false);
                self.answer(scenario, (request, to, held, from), Ok(said), true);
            }
            Err(failure) => self.answer(scenario, (request, to, held, from), Err(failure), true),
        }
    }

    fn deadline(&mut self, scenario: &Scenario, request: usize) {
        match &self.requests[request].machine {
            Machine::Read(_) => self.step_read(scenario, request, |core, step| core.deadline(step)),
            Machine::Write { held, .. } => {
                let version = held.version;
                self.step_write(scenario, (request, version), |core, step| core.deadline(step));
            }
            Machine::Proposal { ballot, .. } => {
                let ballot = *ballot;
                self.step_proposal(scenario, (request, ballot), |core, step| core.deadline(step));
            }
            Machine::FencedRead => self.over(request, None),
            Machine::Over => {}
        }
    }

    /// The coordinator of a proposal is gone, with the request that it was for.
    fn crash(&mut self, request: usize) {
        self.requests[request].is_gone = true;
        self.over(request, None);
        if let Purpose::TakeOver { of, .. } = self.requests[request].purpose
            && self.is_under_way(of)
        {
            self.over(of, None);
        }
    }

    /// A client is told what became of its request, or that nobody knows.
    fn over(&mut self, request: usize, output: Option<Output>) {
        assert!(self.is_under_way(request), "it is told once");
        let known = &mut self.requests[request];
        // What it would still repair, others may repair as well.
        known.machine = Machine::Over;
        if !matches!(known.purpose, Purpose::TakeOver { .. }) {
            self.history[request].answer = output.map(|output| (self.now, output));
            self.busy[known.process] = false;
            self.told += 1;
        }
    }

    fn is_under_way(&self, request: usize) -> bool {
        !matches!(self.requests[request].machine, Machine::Over)
    }

    /// Whether a replica lost its disk since this began, and all know of that.
    fn is_void(&self, request: usize) -> bool {
        self.requests[request].lost < self.known_lost
    }
}

fn first_attempt(scenario: &Scenario) -> WriteCore {
    if scenario.bug == Some(Bug::RestampsStale) {
        WriteCore::unpromised(scenario.replicas)
    } else {
        WriteCore::new(scenario.replicas)
    }
}
