//! What happens when: one queue of events for the whole cluster.

mod trouble;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use ladoga_cluster::{Failure, NodeId, NodeList, Placement, Request, Response};
use ladoga_env::Rng;
use ladoga_env::sim::SimRng;

use crate::checker::{Checker, Key};
use crate::clients::Clients;
use crate::faults::Trouble;
use crate::machine::Machine;
use crate::operation::{ClientRequest, Told};
use crate::process::{Effect, REQUEST_MS, Timer};
use crate::{Bug, Summary};

/// How long things go wrong.
const TROUBLE_MS: u64 = 240_000;
/// How long the cluster has to come together afterwards: closing lags by more than a minute, and by the clocks.
const CALM_MS_MAX: u64 = 600_000;
/// How long a client waits: longer than a coordinator that is alive takes, with all its attempts.
const CLIENT_MS: u64 = 10 * REQUEST_MS;

enum Event {
    Ask { from: usize, to: usize, sessions: [u64; 2], number: u64, request: Request<Key> },
    Answer { from: usize, to: usize, sessions: [u64; 2], number: u64, response: Response<Key> },
    Unreachable { node: usize, session: u64, number: u64 },
    Timer { node: usize, session: u64, timer: Timer },
    Start { node: usize },
    Room { node: usize },
    Befall(Trouble),
    ClockGoesWrong,
    ClockIsSet { node: usize },
    Client,
    ClientGivesUp { number: u64 },
    Trouble,
    Compare,
}

pub(crate) struct World {
    rng: SimRng,
    /// Of clocks that go wrong, apart: what else happens in a seed stays the same.
    clock_rng: SimRng,
    now_us: u64,
    /// By time, and by the order in which they were planned.
    events: BTreeMap<(u64, u64), Event>,
    planned: u64,
    machines: Vec<Machine>,
    placement: Arc<Placement>,
    checker: Rc<RefCell<Checker>>,
    clients: Clients,
    /// Until when nothing gets from one node to another.
    cut_until_us: Vec<Vec<u64>>,
    lossy: (u64, u64),
    slow: (u64, u64),
    disk_lost_at_us: Option<u64>,
    /// The newest process of each node that each node has heard.
    sessions: Vec<Vec<u64>>,
    /// Between which processes of a sender and a receiver something has passed, by receiver and sender.
    greeted: Vec<Vec<[u64; 2]>>,
    is_calm: bool,
    calm_clock: u64,
    bug: Option<Bug>,
    traced: bool,
    summary: Summary,
    differences: String,
    is_done: bool,
}

/// Placement takes longer than many a run, and depends on the number of nodes only.
pub(crate) fn placement_of(nodes: usize) -> Arc<Placement> {
    static PLACEMENTS: Mutex<BTreeMap<usize, Arc<Placement>>> = Mutex::new(BTreeMap::new());
    let mut placements = PLACEMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let compute = || {
        let list = NodeList::first((0..nodes).map(|n| format!("http://node-{n}"))).expect("a list");
        Arc::new(Placement::of(&list))
    };
    placements.entry(nodes).or_insert_with(compute).clone()
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, traced: bool) -> World {
        let rng = SimRng::new(seed);
        let nodes = 3 + rng.below(3) as usize;
        let machines = (0..nodes).map(|n| Machine::new(NodeId(n as u16), rng.next_u64())).collect();
        let clients = Clients::new(nodes, &rng);
        let mut world = World {
            rng,
            clock_rng: SimRng::new(seed ^ 0x636c_6f63_6b73),
            now_us: 0,
            events: BTreeMap::new(),
            planned: 0,
            machines,
            placement: placement_of(nodes),
            checker: Rc::new(RefCell::new(Checker::new(nodes))),
            clients,
            cut_until_us: vec![vec![0; nodes]; nodes],
            lossy: (0, 0),
            slow: (0, 0),
            disk_lost_at_us: None,
            sessions: vec![vec![0; nodes]; nodes],
            greeted: vec![vec![[0; 2]; nodes]; nodes],
            is_calm: false,
            calm_clock: 0,
            bug,
            traced,
            summary: Summary::default(),
            differences: String::new(),
            is_done: false,
        };
        for node in 0..nodes {
            world.plan(node as u64, Event::Start { node });
        }
        world.plan(5000, Event::Client);
        world.plan(6000, Event::Trouble);
        // In half of the runs, of which none is one that a test names.
        if matches!(seed % 8, 3 | 5..=7) {
            world.plan(world.clock_rng.below(60_000), Event::ClockGoesWrong);
        }
        world
    }

    /// Runs until the replicas are the same, a promise is broken, or it takes too long.
    pub(crate) fn run(mut self) -> Result<Summary, String> {
        while !self.is_done {
            let Some(((at_us, _), event)) = self.events.pop_first() else {
                return Err("nothing happens".into());
            };
            self.now_us = at_us;
            self.checker.borrow_mut().time_is(at_us / 1000);
            self.happen(event);
            let violation = self.checker.borrow().violation().map(str::to_owned);
            if let Some(violation) = violation {
                return Err(format!("after {} ms: {violation}", self.now_us / 1000));
            }
            if self.now_us > (TROUBLE_MS + CALM_MS_MAX) * 1000 {
                return Err(format!("the replicas do not converge: {}", self.differences));
            }
        }
        let large_stored = self.checker.borrow().large_stored();
        Ok(Summary { large_stored, ..self.summary })
    }

    fn plan(&mut self, after_ms: u64, event: Event) {
        self.plan_us(after_ms * 1000, event);
    }

    fn plan_us(&mut self, after_us: u64, event: Event) {
        self.planned += 1;
        self.events.insert((self.now_us + after_us, self.planned), event);
    }

    fn trace(&self, text: impl FnOnce() -> String) {
        if self.traced {
            println!("{:>9} ms  {}", self.now_us / 1000, text());
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Ask { from, to, sessions, number, request } => {
                if self.is_paused(to) {
                    return self.postpone(to, Event::Ask { from, to, sessions, number, request });
                }
                if self.arrives(from, to, sessions) {
                    self.trace(|| format!("{from} asks {to}: {request:?}"));
                    self.with_process(to, |process| process.asked(NodeId(from as u16), number, request));
                }
            }
            Event::Answer { from, to, sessions, number, response } => {
                if self.is_paused(to) {
                    return self.postpone(to, Event::Answer { from, to, sessions, number, response });
                }
                if self.arrives(from, to, sessions) {
                    self.trace(|| format!("{from} answers {to}: {response:?}"));
                    self.with_process(to, |process| {
                        process.answered(NodeId(from as u16), number, Ok(response));
                    });
                }
            }
            Event::Unreachable { node, session, number } => {
                if self.machines[node].session == session {
                    let failure = Err(Failure::Unreachable);
                    self.with_process(node, |process| process.answered(NodeId(node as u16), number, failure));
                }
            }
            Event::Timer { node, session, timer } => {
                if self.is_paused(node) {
                    return self.postpone(node, Event::Timer { node, session, timer });
                }
                if self.machines[node].session == session {
                    self.with_process(node, |process| process.timer(timer));
                    self.maybe_replace(node);
                }
            }
            Event::Start { node } => self.start(node),
            Event::Room { node } => self.machines[node].disk.set_capacity(None),
            Event::Befall(trouble) if !self.is_calm => self.befall(trouble),
            Event::Befall(_) => {}
            Event::ClockGoesWrong => self.clock_goes_wrong(),
            Event::ClockIsSet { node } => self.clock_is_set(node),
            Event::Client => self.client(),
            Event::ClientGivesUp { number } => self.clients.ended(number),
            Event::Trouble => self.trouble(),
            Event::Compare => self.compare(),
        }
    }

    fn is_paused(&self, node: usize) -> bool {
        self.machines[node].paused_until_us > self.now_us
    }

    fn postpone(&mut self, node: usize, event: Event) {
        self.plan_us(self.machines[node].paused_until_us - self.now_us, event);
    }

    /// Whether a message arrives: between the processes for which it was sent, and not behind one of a later process.
    fn arrives(&mut self, from: usize, to: usize, sessions: [u64; 2]) -> bool {
        let newest = &mut self.sessions[to][from];
        let is_alive = self.machines[to].session == sessions[1] && self.machines[to].process.is_some();
        if !is_alive || sessions[0] < *newest {
            return false;
        }
        *newest = sessions[0];
        self.summary.messages += 1;
        self.greets(from, to, sessions)
    }

    /// Whether the sender has greeted the receiver, as it does on each connection before anything else.
    fn greets(&mut self, from: usize, to: usize, sessions: [u64; 2]) -> bool {
        if self.greeted[to][from] == sessions {
            return true;
        }
        let sender = &self.machines[from];
        let Some(process) = sender.process.as_ref().filter(|_| sender.session == sessions[0]) else {
            return false;
        };
        let statement = process.replica.statement();
        self.greeted[to][from] = sessions;
        self.with_process(to, |process| process.greeted(NodeId(from as u16), statement));
        // It may have lost its power by that.
        self.machines[to].session == sessions[1] && self.machines[to].process.is_some()
    }

    /// Lets a process do something, and does what it wants.
    fn with_process(&mut self, node: usize, act: impl FnOnce(&mut crate::process::Process)) {
        let machine = &mut self.machines[node];
        machine.catch_up(self.now_us);
        let Some(process) = machine.process.as_mut() else { return };
        act(process);
        let effects = process.take_effects();
        if !machine.disk.is_powered() {
            // It died on the way, and nobody heard of what it did last.
            machine.process = None;
            let down_ms = 100 + self.rng.below(4000);
            self.trace(|| format!("{node} loses its power"));
            return self.plan(down_ms, Event::Start { node });
        }
        for effect in effects {
            self.take_effect(node, effect);
        }
    }

    fn take_effect(&mut self, node: usize, effect: Effect) {
        match effect {
            Effect::Timer(after_ms, timer) => {
                let session = self.machines[node].session;
                self.plan(after_ms, Event::Timer { node, session, timer });
            }
            Effect::Tell(number, told) => {
                self.trace(|| format!("request {number}: {told:?}"));
                self.clients.ended(number);
                match told {
                    Told::Success => self.summary.succeeded += 1,
                    Told::Failure => self.summary.failed += 1,
                }
            }
            Effect::Ask(peer, number, request) => {
                let to = peer.index();
                let sessions = [self.machines[node].session, self.machines[to].session];
                if self.machines[to].process.is_none() && self.rng.below(2) == 0 {
                    let session = sessions[0];
                    return self.plan(1, Event::Unreachable { node, session, number });
                }
                self.send(node, to, || Event::Ask {
                    from: node,
                    to,
                    sessions,
                    number,
                    request: request.clone(),
                });
            }
            Effect::Answer(peer, number, response) => {
                let to = peer.index();
                let sessions = [self.machines[node].session, self.machines[to].session];
                self.send(node, to, || Event::Answer {
                    from: node,
                    to,
                    sessions,
                    number,
                    response: response.clone(),
                });
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, event: impl Fn() -> Event) {
        let is_cut = self.cut_until_us[from][to] > self.now_us;
        let is_lost = self.lossy.1 > self.now_us && self.rng.below(1000) < self.lossy.0;
        if is_cut || is_lost {
            return;
        }
        let copies = if !self.is_calm && self.rng.below(50) == 0 { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay_us = 100 + self.rng.below(5000);
            if self.slow.1 > self.now_us {
                delay_us += self.rng.below(self.slow.0 * 1000);
            }
            self.plan_us(delay_us, event());
        }
    }

    fn start(&mut self, node: usize) {
        self.machines[node].catch_up(self.now_us);
        if self.machines[node].process.is_some() {
            return;
        }
        self.machines[node].disk.clear_faults();
        let nodes = self.machines.len();
        let started = self.machines[node].start(&self.placement, nodes, &self.checker, self.bug);
        match started {
            Ok(()) => {
                self.trace(|| format!("{node} starts"));
                self.with_process(node, |_| ());
            }
            Err(error) => {
                self.trace(|| format!("{node} does not start: {error}"));
                self.machines[node].kill();
                self.plan(300, Event::Start { node });
            }
        }
    }

    /// Somebody looks after a node whose store takes no writes any more.
    fn maybe_replace(&mut self, node: usize) {
        let is_poisoned =
            self.machines[node].process.as_ref().is_some_and(|process| process.replica.is_poisoned());
        if is_poisoned && (self.is_calm || self.rng.below(5) == 0) {
            self.trace(|| format!("{node} is started again, because its disk failed"));
            self.machines[node].kill();
            self.plan(200, Event::Start { node });
        }
    }

    fn client(&mut self) {
        if self.is_calm {
            return;
        }
        let pause_ms = 20 + self.rng.below(800);
        self.plan(pause_ms, Event::Client);
        let node = self.rng.below(self.machines.len() as u64) as usize;
        let (index, number, wish) = self.clients.next(&self.rng);
        let plan = &self.clients.keys[index];
        let (key, replicas) = (plan.key.clone(), plan.replicas);
        let floor = self.checker.borrow().floor(&key);
        self.trace(|| format!("request {number} to {node}: {wish:?} {} {replicas:?}", key.escape_ascii()));
        self.plan(CLIENT_MS, Event::ClientGivesUp { number });
        if self.machines[node].process.is_none() || self.is_paused(node) {
            self.summary.failed += 1;
            return self.clients.ended(number);
        }
        let request = ClientRequest { number, key, wish, replicas, floor };
        self.with_process(node, |process| process.begin(request));
    }
}
