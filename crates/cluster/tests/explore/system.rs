//! Clients, their coordinators, and the replicas of a key, in one state after the other.

use std::fmt::{self, Write as _};

use ladoga_cluster::{Failure, ReadAnswer, ReadCore, ReadStep, WriteAnswer, WriteCore, WriteStep};
use ladoga_history::{Input, Operation, Output};
use ladoga_model::{Replicas, Version};
use xxhash_rust::xxh3::Xxh3;

use super::replica::{From, Held, Replica};

/// What a client asks for. Values are numbers of which no two are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Read,
    Write(u64),
    Delete,
}

/// When a write is written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// If nobody can have seen it.
    Unseen,
    /// If something newer was there: what is planted.
    Stale,
}

/// How often what goes wrong goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Faults {
    /// A write arrives, and its answer is lost with the connection.
    pub(crate) lost_answers: usize,
    /// A write is let in where nothing newer is, and something newer comes before it is durable.
    pub(crate) late_commits: usize,
    /// A client's request takes too long.
    pub(crate) deadlines: usize,
    /// A replica forgets what it had.
    pub(crate) restarts: usize,
    /// A replica loses what it has.
    pub(crate) lost_disks: usize,
}

/// Clients, each of which asks one thing after the other, through a coordinator of its own.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) replicas: Replicas,
    pub(crate) processes: Vec<Vec<Ask>>,
    /// What the clocks of the coordinators show at first.
    pub(crate) clocks: Vec<u64>,
    /// Only the first replica sends values with its first answer.
    pub(crate) digests: bool,
    pub(crate) rule: Rule,
    pub(crate) faults: Faults,
}

/// What is on its way to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Message {
    Read {
        request: usize,
        to: usize,
    },
    Fetch {
        request: usize,
        to: usize,
    },
    Write {
        request: usize,
        to: usize,
        held: Held,
        from: From,
    },
    /// Was let in when nothing newer was there.
    Commit {
        request: usize,
        to: usize,
        held: Held,
        from: From,
    },
    /// To nobody: a read that was to wait has waited.
    Hurry {
        request: usize,
    },
}

/// What can happen next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    /// A client asks for the next thing.
    Ask(usize),
    /// A message arrives, and its answer at once. That an answer comes later adds nothing: its message could have come later,
    /// or the coordinator waited for another one anyway.
    Arrive(Message),
    /// A write arrives, and its answer is lost. A client's write is sent once more.
    ArriveUnanswered(Message),
    /// A write is let in, and committed later.
    Admit(Message),
    /// This takes too long.
    Deadline(usize),
    Restart(usize),
    LoseDisk(usize),
    /// A replica that lost its disk takes over what another one has.
    Pull {
        to: usize,
        of: usize,
    },
}

#[derive(Debug, Clone)]
enum Machine {
    Read(ReadCore<u64, ()>),
    Write { core: WriteCore, held: Held },
    Over,
}

/// A request of a client, and what became of it.
#[derive(Debug, Clone)]
struct Request {
    process: usize,
    machine: Machine,
    /// Whether a replica that lost its disk came back meanwhile: what it said before is void.
    is_void: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct System {
    replicas: Vec<Replica>,
    /// Which replicas nothing has come to yet: each is like the others.
    untouched: Vec<bool>,
    clocks: Vec<u64>,
    /// How far each process is.
    asked: Vec<usize>,
    busy: Vec<bool>,
    requests: Vec<Request>,
    messages: Vec<Message>,
    faults: Faults,
    /// By request.
    pub(crate) history: Vec<Operation>,
    now: u64,
}

/// What is formatted into it, as a number.
struct Fingerprint(Xxh3);

impl fmt::Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

impl System {
    pub(crate) fn of(scenario: &Scenario) -> System {
        let from = scenario.replicas.from as usize;
        let processes = scenario.processes.len();
        System {
            replicas: vec![Replica::default(); from],
            // One that sends values where others send digests is not like the others.
            untouched: (0..from).map(|replica| replica > 0 || !scenario.digests).collect(),
            clocks: scenario.clocks.clone(),
            asked: vec![0; processes],
            busy: vec![false; processes],
            requests: Vec::new(),
            messages: Vec::new(),
            faults: scenario.faults,
            history: Vec::new(),
            now: 0,
        }
    }

    pub(crate) fn fingerprint(&self) -> u128 {
        let mut fingerprint = Fingerprint(Xxh3::new());
        let System { replicas, clocks, asked, requests, messages, faults, .. } = self;
        write!(fingerprint, "{:?}", (replicas, clocks, asked, requests, messages, faults, self.order()))
            .expect("hashing does not fail");
        fingerprint.0.digest128()
    }

    /// The history without its times: which operations were over when another began, and what they were told.
    fn order(&self) -> Vec<(Operation, u64)> {
        let is_before =
            |one: &Operation, other: &Operation| one.answer.is_some_and(|(at, _)| at < other.invoked);
        let one = |operation: &Operation| {
            let before = self.history.iter().enumerate();
            let before = before
                .filter(|(_, other)| is_before(other, operation))
                .fold(0, |bits, (index, _)| bits | 1 << index);
            let answer = operation.answer.map(|(_, output)| (0, output));
            (Operation { invoked: 0, answer, ..*operation }, before)
        };
        self.history.iter().map(one).collect()
    }

    pub(crate) fn choices(&self, scenario: &Scenario) -> Vec<Choice> {
        let is_idle =
            |&process: &usize| !self.busy[process] && self.asked[process] < scenario.processes[process].len();
        let mut choices = Vec::new();
        let has_more =
            |process: usize| self.busy[process] || self.asked[process] < scenario.processes[process].len();
        if !(0..self.busy.len()).any(has_more) {
            return choices; // Nobody is told anything any more.
        }
        let first_untouched = self.untouched.iter().position(|untouched| *untouched);
        // Of replicas that nothing has come to, one does for all.
        let may_touch = |replica: usize| !self.untouched[replica] || first_untouched == Some(replica);
        for &message in self.messages.iter().filter(|message| message.to().is_none_or(may_touch)) {
            choices.push(Choice::Arrive(message));
            let is_write = matches!(message, Message::Write { .. });
            if self.faults.lost_answers > 0 && (is_write || matches!(message, Message::Commit { .. })) {
                choices.push(Choice::ArriveUnanswered(message));
            }
            if self.faults.late_commits > 0 && is_write {
                choices.push(Choice::Admit(message));
            }
        }
        if self.faults.deadlines > 0 {
            let is_under_way = |&request: &usize| !matches!(self.requests[request].machine, Machine::Over);
            choices.extend((0..self.requests.len()).filter(is_under_way).map(Choice::Deadline));
        }
        let touched = || (0..self.replicas.len()).filter(|&replica| !self.untouched[replica]);
        if self.faults.restarts > 0 {
            choices.extend(touched().map(Choice::Restart));
        }
        if self.faults.lost_disks > 0 {
            choices.extend(touched().map(Choice::LoseDisk));
        }
        for (to, replica) in self.replicas.iter().enumerate() {
            let of = replica.pulls_from().iter().copied().filter(|&of| may_touch(of));
            choices.extend(of.map(|of| Choice::Pull { to, of }));
        }
        // The last is tried first.
        choices.extend((0..self.busy.len()).filter(is_idle).map(Choice::Ask));
        choices
    }

    pub(crate) fn choose(&mut self, scenario: &Scenario, choice: Choice) {
        self.now += 1;
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
            Choice::Restart(replica) => {
                self.faults.restarts -= 1;
                self.replicas[replica].restart();
                self.forget_commits(replica);
            }
            Choice::LoseDisk(replica) => {
                self.faults.lost_disks -= 1;
                let lost_before = self.clocks.iter().copied().max().unwrap_or(0);
                let others = (0..self.replicas.len()).filter(|&other| other != replica).collect();
                self.replicas[replica].lose_disk(lost_before, others);
                self.forget_commits(replica);
            }
            Choice::Pull { to, of } => {
                let is_first = self.replicas[to].pulls_from().len() + 1 == self.replicas.len();
                // Every coordinator has met the new disk by then.
                self.requests.iter_mut().for_each(|request| request.is_void |= is_first);
                self.untouched[of] = false;
                let held = self.replicas[of].held();
                self.replicas[to].pulled(of, held);
            }
        }
        self.forget_what_changes_nothing();
        self.messages.sort_unstable();
    }

    /// What was let in and is not durable is gone.
    fn forget_commits(&mut self, replica: usize) {
        self.messages.retain(|message| !matches!(message, Message::Commit { to, .. } if *to == replica));
    }

    fn forget_what_changes_nothing(&mut self) {
        let requests = &self.requests;
        let is_over = |request: usize| matches!(requests[request].machine, Machine::Over);
        let (replicas, no_disk_is_lost) = (&self.replicas, self.faults.lost_disks == 0);
        self.messages.retain(|message| match *message {
            // Nobody waits for what is said, and what is there is never older again.
            Message::Write { request, to, held, from: From::Client | From::ClientAgain }
                if is_over(request) && no_disk_is_lost && replicas[to].pulls_from().is_empty() =>
            {
                replicas[to].held().is_none_or(|known| known.version < held.version)
            }
            Message::Write { .. } | Message::Commit { .. } => true,
            Message::Read { request, .. } | Message::Fetch { request, .. } | Message::Hurry { request } => {
                !is_over(request)
            }
        });
    }

    fn ask(&mut self, scenario: &Scenario, process: usize) {
        let ask = scenario.processes[process][self.asked[process]];
        self.asked[process] += 1;
        self.busy[process] = true;
        let request = self.requests.len();
        let input = match ask {
            Ask::Read => Input::Read,
            Ask::Write(value) => Input::Write(value),
            Ask::Delete => Input::Delete,
        };
        self.history.push(Operation { invoked: self.now, input, answer: None });
        self.requests.push(Request { process, machine: Machine::Over, is_void: false });
        let core = match scenario.rule {
            Rule::Unseen => WriteCore::new(scenario.replicas),
            Rule::Stale => WriteCore::unpromised(scenario.replicas),
        };
        match ask {
            Ask::Read => {
                self.requests[request].machine = Machine::Read(ReadCore::new(scenario.replicas));
                self.messages.extend((0..self.replicas.len()).map(|to| Message::Read { request, to }));
            }
            Ask::Write(value) => self.write(request, core, Some(value)),
            Ask::Delete => self.write(request, core, None),
        }
    }

    fn write(&mut self, request: usize, core: WriteCore, value: Option<u64>) {
        let process = self.requests[request].process;
        self.clocks[process] += 1;
        let version = Version { timestamp: self.clocks[process], node: process as u16 };
        let held = Held { version, value };
        self.requests[request].machine = Machine::Write { core, held };
        let write = |to| Message::Write { request, to, held, from: From::Client };
        self.messages.extend((0..self.replicas.len()).map(write));
    }

    fn take(&mut self, message: Message) {
        self.messages.retain(|other| *other != message);
        if let Some(to) = message.to() {
            self.untouched[to] = false;
        }
    }

    fn arrive(&mut self, scenario: &Scenario, message: Message, is_answered: bool) {
        self.take(message);
        match message {
            Message::Read { request, to } => {
                let answer = self.replicas[to].read(scenario.digests && to > 0);
                self.step_read(request, |core, step| core.answered(to, Ok(answer), step));
            }
            Message::Fetch { request, to } => {
                let answer: ReadAnswer<u64, ()> = self.replicas[to].read(false);
                self.step_read(request, |core, step| core.answered(to, Ok(answer), step));
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
            Message::Hurry { request } => self.step_read(request, |core, step| core.hurry(step)),
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

    fn answer(
        &mut self,
        scenario: &Scenario,
        (request, to, held, from): (usize, usize, Held, From),
        said: Result<WriteAnswer, Failure>,
        is_answered: bool,
    ) {
        let said = match (is_answered, from) {
            (true, _) => said,
            (false, From::Client) => {
                return self.messages.push(Message::Write { request, to, held, from: From::ClientAgain });
            }
            (false, From::ClientAgain | From::Repair) => Err(Failure::Broken),
        };
        if from == From::Repair {
            self.step_read(request, |core, step| core.repaired(to, held.version, said, step));
        } else {
            self.step_write(scenario, (request, held.version), |core, step| core.answered(to, said, step));
        }
    }

    fn deadline(&mut self, scenario: &Scenario, request: usize) {
        match &self.requests[request].machine {
            Machine::Read(_) => self.step_read(request, |core, step| core.deadline(step)),
            Machine::Write { held, .. } => {
                let version = held.version;
                self.step_write(scenario, (request, version), |core, step| core.deadline(step));
            }
            Machine::Over => {}
        }
    }

    fn step_read(
        &mut self,
        request: usize,
        act: impl FnOnce(&mut ReadCore<u64, ()>, &mut dyn FnMut(ReadStep<u64, ()>)),
    ) {
        let Machine::Read(core) = &mut self.requests[request].machine else { return };
        let mut steps = Vec::new();
        act(core, &mut |step| steps.push(step));
        for step in steps {
            match step {
                ReadStep::Decided(decided) => {
                    let value = |cell: Option<_>| cell.and_then(|cell| Held::of(&cell).value);
                    let is_void = self.requests[request].is_void;
                    let found = decided.ok().filter(|_| !is_void);
                    self.over(request, found.map(|cell| Output::Value(value(cell))));
                }
                ReadStep::Repair(to, cell) => {
                    let held = Held::of(&cell);
                    self.messages.push(Message::Write { request, to, held, from: From::Repair });
                }
                ReadStep::Wait => self.messages.push(Message::Hurry { request }),
                ReadStep::Fetch(to) => self.messages.push(Message::Fetch { request, to }),
            }
        }
    }

    fn step_write(
        &mut self,
        scenario: &Scenario,
        (request, version): (usize, Version),
        act: impl FnOnce(&mut WriteCore, &mut dyn FnMut(WriteStep)),
    ) {
        let Machine::Write { core, held } = &mut self.requests[request].machine else { return };
        if held.version != version {
            return; // Of an attempt before.
        }
        let (mut decided, value) = (None, held.value);
        act(core, &mut |step| match step {
            WriteStep::Decided(outcome) => decided = Some(Ok(outcome)),
            WriteStep::Stale(newer) => decided = Some(Err(newer)),
            WriteStep::Fenced(_) => unreachable!("nobody promises anything"),
            WriteStep::Hint(_) => {} // What it would bring, a repair does as well.
        });
        match decided {
            Some(_) if self.requests[request].is_void => self.over(request, None),
            Some(Ok(outcome)) => self.over(request, outcome.ok().map(|()| Output::Done)),
            Some(Err(newer)) => {
                let clock = &mut self.clocks[self.requests[request].process];
                *clock = newer.timestamp.max(*clock);
                self.write(request, WriteCore::after_newest(scenario.replicas), value);
            }
            None => {}
        }
    }

    /// A client is told what became of its request, or that nobody knows.
    fn over(&mut self, request: usize, output: Option<Output>) {
        self.history[request].answer = output.map(|output| (self.now, output));
        self.busy[self.requests[request].process] = false;
        // What it would still repair, others may repair as well.
        self.requests[request].machine = Machine::Over;
    }
}

impl Message {
    fn to(&self) -> Option<usize> {
        match *self {
            Message::Read { to, .. }
            | Message::Fetch { to, .. }
            | Message::Write { to, .. }
            | Message::Commit { to, .. } => Some(to),
            Message::Hurry { .. } => None,
        }
    }
}
