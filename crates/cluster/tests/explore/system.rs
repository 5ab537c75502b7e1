use std::collections::HashSet;

use ladoga_cluster::{ReadAnswer, ReadCore, ReadStep, SentCell, WriteCore, WriteStep};
use ladoga_history::{Input, Operation, Output, Verdict, check};
use ladoga_model::{Cell, Replicas, Stamp, Value, Version};
use xxhash_rust::xxh3::xxh3_128;

/// What a client asks for. Values are numbers of which no two are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Read,
    Write(u64),
}

/// Clients, each of which asks one thing after the other, through a coordinator of its own.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) replicas: Replicas,
    pub(crate) processes: Vec<Vec<Ask>>,
    /// What the clocks of the coordinators show at first.
    pub(crate) clocks: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    /// The first history that is not linearizable, and how it came about.
    pub(crate) violation: Option<String>,
}

/// What a replica has, or what is written to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    version: Version,
    value: u64,
}

/// What is on its way to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Message {
    Read {
        request: usize,
        to: usize,
    },
    Write {
        request: usize,
        to: usize,
        held: Held,
        is_repair: bool,
    },
    /// To nobody: a read that was to wait has waited.
    Hurry {
        request: usize,
    },
}

/// What can happen next.
#[derive(Debug, Clone, Copy)]
enum Choice {
    /// A client asks for the next thing.
    Ask(usize),
    /// A message arrives, and its answer at once. That an answer comes later adds nothing: its message could have come later,
    /// or the coordinator waited for another one anyway.
    Arrive(Message),
    /// A write arrives, and its answer is lost.
    ArriveUnanswered(Message),
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
}

#[derive(Debug, Clone)]
struct System {
    /// The newest cell that each has.
    replicas: Vec<Option<Held>>,
    clocks: Vec<u64>,
    /// How far each process is.
    asked: Vec<usize>,
    busy: Vec<bool>,
    requests: Vec<Request>,
    messages: Vec<Message>,
    /// By request.
    history: Vec<Operation>,
    now: u64,
}

pub(crate) fn explore(scenario: &Scenario) -> Explored {
    let processes = scenario.processes.len();
    let start = System {
        replicas: vec![None; scenario.replicas.from as usize],
        clocks: scenario.clocks.clone(),
        asked: vec![0; processes],
        busy: vec![false; processes],
        requests: Vec::new(),
        messages: Vec::new(),
        history: Vec::new(),
        now: 0,
    };
    let mut known = HashSet::from([start.fingerprint()]);
    let mut trail = vec![(start.choices(scenario), start)];
    let mut happened = Vec::new();
    // Depth first: what happened up to the state at the end of the trail.
    while let Some((choices, system)) = trail.last_mut() {
        let Some(choice) = choices.pop() else {
            trail.pop();
            happened.pop();
            continue;
        };
        let mut then = system.clone();
        then.choose(scenario, choice);
        if !known.insert(then.fingerprint()) {
            continue;
        }
        happened.push(choice);
        if let Verdict::Violation(violation) = check(&then.history) {
            return Explored { states: known.len(), violation: Some(format!("{violation}\n{happened:#?}")) };
        }
        trail.push((then.choices(scenario), then));
    }
    Explored { states: known.len(), violation: None }
}

impl System {
    fn fingerprint(&self) -> u128 {
        xxh3_128(
            format!(
                "{:?}",
                (&self.replicas, &self.clocks, &self.asked, &self.requests, &self.messages, self.order())
            )
            .as_bytes(),
        )
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

    fn choices(&self, scenario: &Scenario) -> Vec<Choice> {
        let is_idle =
            |&process: &usize| !self.busy[process] && self.asked[process] < scenario.processes[process].len();
        let ask = (0..self.busy.len()).filter(is_idle).map(Choice::Ask);
        let arrive = self.messages.iter().copied().map(Choice::Arrive);
        let writes = self.messages.iter().copied().filter(|message| matches!(message, Message::Write { .. }));
        // The last is tried first.
        writes.map(Choice::ArriveUnanswered).chain(arrive).chain(ask).collect()
    }

    fn choose(&mut self, scenario: &Scenario, choice: Choice) {
        self.now += 1;
        match choice {
            Choice::Ask(process) => self.ask(scenario, process),
            Choice::Arrive(message) => self.arrive(scenario, message, true),
            Choice::ArriveUnanswered(message) => self.arrive(scenario, message, false),
        }
        let requests = &self.requests;
        let is_over = |request: usize| matches!(requests[request].machine, Machine::Over);
        self.messages.retain(|message| match *message {
            Message::Write { .. } => true,
            // It would change nothing any more.
            Message::Read { request, .. } | Message::Hurry { request } => !is_over(request),
        });
        self.messages.sort_unstable();
    }

    fn ask(&mut self, scenario: &Scenario, process: usize) {
        let ask = scenario.processes[process][self.asked[process]];
        self.asked[process] += 1;
        self.busy[process] = true;
        let request = self.requests.len();
        let input = match ask {
            Ask::Read => Input::Read,
            Ask::Write(value) => Input::Write(value),
        };
        self.history.push(Operation { invoked: self.now, input, answer: None });
        self.requests.push(Request { process, machine: Machine::Over });
        match ask {
            Ask::Read => {
                self.requests[request].machine = Machine::Read(ReadCore::new(scenario.replicas));
                self.messages.extend((0..self.replicas.len()).map(|to| Message::Read { request, to }));
            }
            Ask::Write(value) => self.write(scenario, request, value),
        }
    }

    fn write(&mut self, scenario: &Scenario, request: usize, value: u64) {
        let process = self.requests[request].process;
        self.clocks[process] += 1;
        let version = Version { timestamp: self.clocks[process], node: process as u16 };
        let held = Held { version, value };
        self.requests[request].machine = Machine::Write { core: WriteCore::new(scenario.replicas), held };
        let write = |to| Message::Write { request, to, held, is_repair: false };
        self.messages.extend((0..self.replicas.len()).map(write));
    }

    fn arrive(&mut self, scenario: &Scenario, message: Message, is_answered: bool) {
        self.messages.retain(|other| *other != message);
        match message {
            Message::Read { request, to } => {
                let answer = ReadAnswer { cell: self.replicas[to].map(cell), is_whole: true };
                self.step_read(request, |core, step| core.answered(to, Ok(answer), step));
            }
            Message::Write { request, to, held, is_repair } => {
                let newer =
                    self.replicas[to].map(|known| known.version).filter(|known| *known > held.version);
                if newer.is_none() {
                    self.replicas[to] = Some(held);
                }
                match (is_answered, is_repair) {
                    (false, _) => {}
                    (true, true) => {
                        self.step_read(request, |core, step| core.repaired(to, held.version, Ok(()), step));
                    }
                    (true, false) => self.step_write(scenario, request, (to, held.version, newer)),
                }
            }
            Message::Hurry { request } => self.step_read(request, |core, step| core.hurry(step)),
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
        if core.is_finished() {
            self.requests[request].machine = Machine::Over;
        }
        for step in steps {
            match step {
                ReadStep::Decided(decided) => {
                    let cell = decided.expect("nothing fails");
                    let value = cell.map(|cell| held(&cell).value);
                    self.over(request, Output::Value(value));
                }
                ReadStep::Repair(to, cell) => {
                    let held = held(&cell);
                    self.messages.push(Message::Write { request, to, held, is_repair: true });
                }
                ReadStep::Wait => self.messages.push(Message::Hurry { request }),
                ReadStep::Fetch(_) => unreachable!("there are no digests"),
            }
        }
    }

    fn step_write(
        &mut self,
        scenario: &Scenario,
        request: usize,
        (from, version, newer): (usize, Version, Option<Version>),
    ) {
        let Machine::Write { core, held } = &mut self.requests[request].machine else { return };
        if held.version != version {
            return; // Of an attempt before.
        }
        let (mut decided, value) = (None, held.value);
        core.answered(from, Ok(newer), |step| match step {
            WriteStep::Decided(outcome) => decided = Some(Ok(outcome)),
            WriteStep::Stale(newer) => decided = Some(Err(newer)),
            WriteStep::Hint(_) => unreachable!("nothing fails"),
        });
        if core.is_finished() {
            self.requests[request].machine = Machine::Over;
        }
        match decided {
            Some(Ok(outcome)) => {
                outcome.expect("nothing fails");
                self.over(request, Output::Done);
            }
            Some(Err(newer)) => {
                let clock = &mut self.clocks[self.requests[request].process];
                *clock = newer.timestamp.max(*clock);
                self.write(scenario, request, value);
            }
            None => {}
        }
    }

    fn over(&mut self, request: usize, output: Output) {
        self.history[request].answer = Some((self.now, output));
        self.busy[self.requests[request].process] = false;
        // What it would still repair, others may repair as well.
        self.requests[request].machine = Machine::Over;
    }
}

fn cell(held: Held) -> SentCell<u64, ()> {
    SentCell::Whole(Cell { stamp: Stamp::new(held.version), value: Some(Value::Inline(held.value)) })
}

fn held(cell: &Cell<u64, ()>) -> Held {
    let Some(Value::Inline(value)) = cell.value else { unreachable!("nothing is deleted or large") };
    Held { version: cell.stamp.version, value }
}
