//! A node: drives the state machines of `ladoga_cluster` by messages and timers.

mod effect;
mod large;
mod repair;

use std::collections::{BTreeMap, VecDeque};

use ladoga_cluster::{
    Content, Failure, HintQueue, NodeId, Origin, READ_WAIT_MS, RESTAMPS_MAX, ReadCore, ReadStep, Refusal,
    Request, Response, Statement, SyncSession, Want, WriteCore, WriteStep,
};
use ladoga_model::Version;

use crate::Bug;
use crate::checker::Key;
use crate::keep::KeptHint;
use crate::operation::{ClientRequest, Core, Operation, Reads, Told, Wish, cell_of};
use crate::replica::Replica;

use effect::Asked;
pub(crate) use effect::{Effect, Timer};

/// How long a request of a client may take.
pub(crate) const REQUEST_MS: u64 = 1000;
const PEER_TIMEOUT_MS: u64 = 2000;
const TICK_MS: u64 = 1000;

struct Pulling {
    id: u64,
    pass: u64,
    pull: SyncSession<Key>,
}

pub(crate) struct Process {
    pub(crate) replica: Replica,
    nodes: usize,
    operations: BTreeMap<u64, Operation>,
    asked: BTreeMap<u64, Asked>,
    next: u64,
    hints: Vec<HintQueue>,
    kept: BTreeMap<(usize, u64), KeptHint>,
    pulling: Option<Pulling>,
    ticks: u64,
    effects: Vec<Effect>,
}

impl Process {
    pub(crate) fn new(replica: Replica, nodes: usize, session: u64) -> Result<Process, String> {
        let mut process = Process {
            replica,
            nodes,
            operations: BTreeMap::new(),
            asked: BTreeMap::new(),
            // What a process before this one asked is not taken for what this one asks.
            next: session << 32,
            hints: (0..nodes).map(|_| HintQueue::new()).collect(),
            kept: BTreeMap::new(),
            pulling: None,
            ticks: 0,
            effects: vec![Effect::Timer(TICK_MS, Timer::Tick)],
        };
        process.recover_hints()?;
        process.replica.maybe_persist();
        Ok(process)
    }

    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn hints_waiting(&self) -> usize {
        self.hints.iter().map(HintQueue::len).sum()
    }

    /// A client asks.
    pub(crate) fn begin(&mut self, request: ClientRequest) {
        // A quorum of peers that were not heard yet would not answer either.
        let needs_majority = request.wish != Wish::Get && request.replicas.ack as usize > self.nodes / 2;
        let may_stamp = !needs_majority || !self.replica.is_unverified();
        if !self.replica.tracker.may_coordinate() || !may_stamp {
            return self.effects.push(Effect::Tell(request.number, Told::Failure));
        }
        let nodes = self.replica.placement.replicas(&request.key, request.replicas.from as usize).to_vec();
        if request.wish == Wish::Get {
            self.begin_read(request, &nodes, Reads::ForClient);
        } else if matches!(&request.wish, Wish::Put(value) if crate::is_large(value)) {
            self.begin_large(request, &nodes);
        } else {
            self.begin_write(request, &nodes, 0);
        }
    }

    fn begin_write(&mut self, request: ClientRequest, nodes: &[NodeId], attempts: u32) {
        let number = request.number;
        self.operations.remove(&number);
        let Some(version) = self.replica.next_version().filter(|_| attempts < RESTAMPS_MAX) else {
            return self.effects.push(Effect::Tell(number, Told::Failure));
        };
        let mut cell = cell_of(&request.wish, version, request.replicas, self.nodes);
        let value = if let Content::Value(value) = &cell.content { Some(value) } else { None };
        self.replica.checker.borrow_mut().stamped(&request.key, cell.stamp, value);
        if self.replica.bug == Some(Bug::ForgetCopies) {
            cell.stamp.copies = 0;
        }
        let core = Core::Write { core: WriteCore::new(request.replicas), cell: cell.clone() };
        let key = request.key.clone();
        self.operations.insert(
            number,
            Operation { request, nodes: nodes.to_vec(), core, attempts, asked_before: false },
        );
        self.effects.push(Effect::Timer(REQUEST_MS, Timer::Deadline(number, attempts)));
        for (place, &node) in nodes.iter().enumerate() {
            if node != self.replica.me {
                let request = Request::Write { key: key.clone(), cell: cell.clone(), origin: Origin::Client };
                self.ask(node, request, Asked::Write { operation: number, attempt: attempts, place });
            }
        }
        if let Some(place) = nodes.iter().position(|&node| node == self.replica.me) {
            let applied = self.replica.apply(&key, &cell, Origin::Client).map_err(Failure::Refused);
            self.written(number, attempts, place, applied);
        }
    }

    /// Asks all replicas of a read.
    fn ask_all(&mut self, number: u64) {
        let Some(Operation { request, nodes, .. }) = self.operations.get(&number) else { return };
        let (key, nodes) = (request.key.clone(), nodes.clone());
        let own = nodes.iter().position(|&node| node == self.replica.me);
        for (place, &node) in nodes.iter().enumerate().filter(|(place, _)| Some(*place) != own) {
            // The value from one of them, digests from the rest.
            let want = if place == 0 && own.is_none() { Want::Value } else { Want::Digest };
            self.ask(
                node,
                Request::Read { key: key.clone(), want },
                Asked::Read { operation: number, place },
            );
        }
        if let Some(place) = own {
            let answer = self.replica.read(&key, Want::Value).map_err(Failure::Refused);
            self.step_read(number, |core, steps| core.answered(place, answer, |step| steps.push_back(step)));
        }
    }

    fn ask(&mut self, node: NodeId, request: Request<Key>, asked: Asked) {
        let number = self.next;
        self.next += 1;
        self.asked.insert(number, asked);
        self.effects.push(Effect::Ask(node, number, request));
        self.effects.push(Effect::Timer(PEER_TIMEOUT_MS, Timer::Unanswered(number)));
    }

    /// A replica has a write, or has not.
    fn written(&mut self, number: u64, attempt: u32, place: usize, answer: Result<Option<Version>, Failure>) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let Core::Write { core, cell } = &mut operation.core else { return };
        if operation.attempts != attempt {
            return;
        }
        if answer.is_ok() {
            let timestamp = cell.stamp.version.timestamp;
            self.replica.tracker.acknowledged(operation.nodes[place], timestamp);
        }
        let ignores = self.replica.bug == Some(Bug::IgnoreNewerVersions);
        let answer = answer.map(|newer| newer.filter(|_| !ignores));
        let mut steps = Vec::new();
        core.answered(place, answer, |step| steps.push(step));
        self.execute_write(number, steps);
    }

    fn execute_write(&mut self, number: u64, steps: Vec<WriteStep>) {
        for step in steps {
            let Some(operation) = self.operations.get(&number) else { return };
            let Core::Write { cell, .. } = &operation.core else { return };
            let cell = cell.clone();
            match step {
                WriteStep::Stale(_) if operation.is_large() => return self.large_is_stale(number),
                WriteStep::Stale(newer) => return self.write_again(number, newer),
                WriteStep::Decided(Ok(())) => {
                    let ClientRequest { key, replicas, floor, .. } = &operation.request;
                    let mut checker = self.replica.checker.borrow_mut();
                    checker.acknowledged(key, *replicas, cell.stamp.version, *floor);
                    drop(checker);
                    self.effects.push(Effect::Tell(number, Told::Success));
                }
                WriteStep::Decided(Err(_)) => self.effects.push(Effect::Tell(number, Told::Failure)),
                WriteStep::Hint(place) => {
                    let (node, key) = (operation.nodes[place], operation.request.key.clone());
                    self.keep_hint(node, Process::hint_of(KeptHint { key, cell }));
                }
            }
        }
        self.maybe_forget(number);
    }

    /// What is under way of the attempt before is forgotten; its hints would be of a version that loses.
    fn write_again(&mut self, number: u64, newer: Version) {
        let Some(operation) = self.operations.remove(&number) else { return };
        let Operation { request, nodes, attempts, .. } = operation;
        match self.replica.observe(newer.timestamp) {
            Ok(()) => self.begin_write(request, &nodes, attempts + 1),
            Err(_) => self.effects.push(Effect::Tell(number, Told::Failure)),
        }
    }

    fn maybe_forget(&mut self, number: u64) {
        if self.operations.get(&number).is_some_and(Operation::is_finished) {
            self.operations.remove(&number);
        }
    }

    fn step_read(
        &mut self,
        number: u64,
        act: impl FnOnce(&mut ReadCore<Vec<u8>>, &mut VecDeque<ReadStep<Vec<u8>>>),
    ) {
        let mut steps = VecDeque::new();
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let Core::Read(core, _) = &mut operation.core else { return };
        act(core, &mut steps);
        while let Some(step) = steps.pop_front() {
            self.execute_read(number, step, &mut steps);
        }
        self.maybe_forget(number);
    }

    fn execute_read(&mut self, number: u64, step: ReadStep<Vec<u8>>, next: &mut VecDeque<ReadStep<Vec<u8>>>) {
        let Some(operation) = self.operations.get_mut(&number) else { return };
        let ClientRequest { key, replicas, floor, .. } = operation.request.clone();
        let me = self.replica.me;
        match step {
            ReadStep::Decided(decided) => {
                let Core::Read(core, reads) = &operation.core else { return };
                let newest = core.newest_version();
                match (*reads, decided) {
                    (Reads::ForClient, Ok(cell)) => {
                        self.replica.checker.borrow_mut().read(&key, replicas, cell.as_ref(), floor);
                        self.effects.push(Effect::Tell(number, Told::Success));
                    }
                    (Reads::ForClient, Err(_)) => self.effects.push(Effect::Tell(number, Told::Failure)),
                    (Reads::BeforeWrite, decided) => {
                        self.write_large(number, newest, decided.is_ok());
                    }
                    (Reads::ForHint { peer, number }, decided) => {
                        self.hint_settled(peer, number, decided.is_ok());
                    }
                }
            }
            ReadStep::Fetch(place) if operation.nodes[place] == me => {
                let answer = self.replica.read(&key, Want::Value).map_err(Failure::Refused);
                let Core::Read(core, _) = &mut operation.core else { return };
                core.answered(place, answer, |step| next.push_back(step));
            }
            ReadStep::Fetch(place) => {
                let node = operation.nodes[place];
                let request = Request::Read { key, want: Want::Value };
                self.ask(node, request, Asked::Read { operation: number, place });
            }
            ReadStep::Repair(place, cell) => {
                let (node, version) = (operation.nodes[place], cell.stamp.version);
                if node == me {
                    let applied = self.replica.apply(&key, &cell, Origin::Repair);
                    let applied = applied.map(|_| ()).map_err(Failure::Refused);
                    let Core::Read(core, _) = &mut operation.core else { return };
                    core.repaired(place, version, applied, |step| next.push_back(step));
                } else {
                    let request = Request::Write { key, cell, origin: Origin::Repair };
                    self.ask(node, request, Asked::Repair { operation: number, place, version });
                }
            }
            ReadStep::Wait => self.effects.push(Effect::Timer(READ_WAIT_MS, Timer::Hurry(number))),
        }
    }

    /// A peer asks.
    pub(crate) fn asked(&mut self, peer: NodeId, number: u64, request: Request<Key>) {
        let response = self.respond(peer, request).unwrap_or_else(Response::Refused);
        self.effects.push(Effect::Answer(peer, number, response));
        self.replica.maybe_persist();
    }

    fn respond(&mut self, peer: NodeId, request: Request<Key>) -> Result<Response<Key>, Refusal> {
        Ok(match request {
            Request::Read { key, want } => Response::Read(self.replica.read(&key, want)?),
            Request::Write { key, cell, origin } => {
                Response::Written { newer: self.replica.apply(&key, &cell, origin)? }
            }
            Request::Statement(statement) => {
                self.heard(peer, statement, None);
                Response::Statement(self.replica.statement())
            }
            Request::Groups(slice) => self.replica.groups(peer, slice),
            Request::Leaves { slice, groups } => self.replica.leaves(peer, slice, &groups),
            Request::List { slice, partitions, after } => {
                self.replica.list(peer, slice, &partitions, after.as_ref())?
            }
        })
    }

    /// The first thing that passes between two processes: each hears what the other says about itself.
    pub(crate) fn greeted(&mut self, peer: NodeId, statement: Statement) {
        self.heard(peer, statement, None);
        self.replica.maybe_persist();
    }

    /// What this node said for its own part of a request does not hold any more.
    fn take_back_all(&mut self) {
        for (number, operation) in std::mem::take(&mut self.operations) {
            match operation.core {
                Core::Read(_, Reads::ForHint { peer, number }) => self.hint_settled(peer, number, false),
                Core::Write { .. } | Core::Read(..) => {
                    self.effects.push(Effect::Tell(number, Told::Failure));
                }
            }
        }
    }

    fn heard(&mut self, peer: NodeId, statement: Statement, asked_at_ms: Option<u64>) {
        let was_regressed = self.replica.tracker.regression().is_some();
        self.replica.heard(peer, statement, asked_at_ms);
        if self.replica.tracker.regression().is_some() && !was_regressed {
            self.take_back_all();
        }
        let mut steps = Vec::new();
        self.hints[peer.index()].peer_is_up(|step| steps.push(step));
        self.execute_hints(peer, steps);
    }

    /// A peer answers, or it is known that it does not.
    pub(crate) fn answered(&mut self, peer: NodeId, number: u64, answer: Result<Response<Key>, Failure>) {
        let Some(asked) = self.asked.remove(&number) else { return };
        let answer = match answer {
            Ok(Response::Refused(refusal)) => Err(Failure::Refused(refusal)),
            answer => answer,
        };
        if let Err(Failure::Refused(Refusal::TooOld { write_floor })) = answer {
            let _ = self.replica.observe(write_floor);
        }
        match asked {
            Asked::Write { operation, attempt, place } => {
                let written = answer.map(|response| match response {
                    Response::Written { newer } => newer,
                    other => panic!("a write is answered with {other:?}"),
                });
                self.written(operation, attempt, place, written);
            }
            Asked::Read { operation, place } => {
                let answer = answer.map(|response| match response {
                    Response::Read(answer) => answer,
                    other => panic!("a read is answered with {other:?}"),
                });
                self.step_read(operation, |core, steps| {
                    core.answered(place, answer, |step| steps.push_back(step));
                });
            }
            Asked::Repair { operation, place, version } => {
                let answer = answer.map(|_| ());
                self.step_read(operation, |core, steps| {
                    core.repaired(place, version, answer, |step| steps.push_back(step));
                });
            }
            Asked::Hint { peer, number } => self.hint_answered(peer, number, &answer),
            Asked::Statement { at_ms } => {
                if let Ok(Response::Statement(statement)) = answer {
                    self.heard(peer, statement, Some(at_ms));
                }
            }
            Asked::SyncSession { pull, number } => self.pull_answered(pull, number, answer),
        }
        self.replica.maybe_persist();
    }

    pub(crate) fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Tick => self.tick(),
            Timer::Deadline(number, attempt) => self.deadline(number, attempt),
            Timer::Hurry(number) => {
                self.step_read(number, |core, steps| core.hurry(|step| steps.push_back(step)));
            }
            Timer::Compare(pull) => self.compare(pull),
            Timer::Unanswered(number) => self.answered(self.replica.me, number, Err(Failure::TimedOut)),
        }
    }

    fn deadline(&mut self, number: u64, attempt: u32) {
        let Some(operation) = self.operations.get_mut(&number).filter(|op| op.attempts == attempt) else {
            return;
        };
        match &mut operation.core {
            Core::Write { core, .. } => {
                let mut steps = Vec::new();
                core.deadline(|step| steps.push(step));
                self.execute_write(number, steps);
            }
            Core::Read(..) => {
                self.step_read(number, |core, steps| core.deadline(|step| steps.push_back(step)));
            }
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        self.effects.push(Effect::Timer(TICK_MS, Timer::Tick));
        let oldest_hint = self.hints.iter().filter_map(HintQueue::oldest_timestamp).min();
        self.replica.tick(oldest_hint);
        self.replica.maybe_persist();
        self.replica.maintain(self.ticks.is_multiple_of(20));
        let (statement, at_ms) = (self.replica.statement(), self.replica.monotonic_ms());
        let me = self.replica.me;
        for peer in (0..self.nodes as u16).map(NodeId).filter(|&peer| peer != me) {
            self.ask(peer, Request::Statement(statement.clone()), Asked::Statement { at_ms });
        }
        if self.ticks.is_multiple_of(3) {
            self.maybe_pull();
        }
    }
}
