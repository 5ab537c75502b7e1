//! The sequence of events: one seed, on one thread, on paused time, which advances when nothing is left to do.
//!
//! - `following`: a client follows changes
//! - `shared`: what clients and the world share; `asking`: clients ask
//! - `trouble`: what goes wrong, and how it ends; `converge`: whether the nodes agree in the end
//! - `ending`: in the end, everybody answers
//! - `processes`: they start, and do their work in the background
//! - `relisting`: how the list of nodes changes; `reading`: whether everything is read afterwards
//! - `targeted`: in the place of all that, scenes, one after the other

mod asking;
mod converge;
mod ending;
mod following;
mod processes;
mod reading;
mod relisting;
mod shared;
mod targeted;
mod trouble;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ladoga_cluster::NodeId;
use ladoga_env::sim::{SimClock, SimNet, SimRng};
use ladoga_env::{Clock, Rng};
use ladoga_replica::simulated::plant;
use ladoga_storage::Durability;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::checker::Checker;
use crate::clients::Clients;
use crate::faults::Trouble;
use crate::lists::{Lists, MACHINES};
use crate::machine::{Common, Machine};
use crate::scenes::Step;
use crate::written::Tolerance;
use crate::{Bug, Load, Settings, Summary};
use relisting::{Relist, Relisting};
use shared::Shared;

/// The numbers of nodes. Most clusters have three nodes, of which two are still a majority.
const NODES: [usize; 4] = [3, 3, 4, 5];
/// How long things go wrong.
const TROUBLE_MS: u64 = 240_000;
/// How long the cluster has to come together afterwards: closing lags by more than a minute, and by the clocks, of which one may be ten
/// minutes ahead and followed.
const CALM_MS_MAX: u64 = 800_000;

#[derive(Clone, Copy)]
enum Event {
    Start { node: usize },
    Room { node: usize },
    Resume,
    Befall(Trouble),
    NetworkIsBetter,
    ClockGoesWrong,
    ClockIsSet { node: usize },
    Client,
    Follow,
    LookAround { node: usize },
    WriteAround { node: usize },
    DeleteAround { node: usize },
    ClientGivesUp { number: u64 },
    Background { node: usize, session: u64, ticks: u64 },
    Trouble,
    Contention,
    Relist(Relist),
    Scene { number: usize },
    Step { number: usize, step: Step },
    Compare,
    AskAgain { left: u64, is_conditional_first: bool },
    End,
}

pub(crate) struct World {
    rng: SimRng,
    /// Of clocks that go wrong, apart: what else happens in a seed stays the same.
    clock_rng: SimRng,
    /// Of who follows changes: the same.
    follower_rng: SimRng,
    /// By time, and by the order in which they were planned.
    events: BTreeMap<(u64, u64), Event>,
    planned: u64,
    machines: Vec<Machine>,
    common: Common,
    relisting: Relisting,
    net: SimNet,
    shared: Rc<Shared>,
    /// Until when nothing gets from one node to another.
    cut_until_us: Vec<Vec<u64>>,
    lossy_until_us: u64,
    slow_until_us: u64,
    disk_lost_at_us: Option<u64>,
    is_calm: bool,
    calm_clock: u64,
    differences: String,
    is_done: bool,
}

/// Runs one seed.
pub(crate) fn run(seed: u64, settings: Settings) -> Result<Summary, String> {
    plant(settings.bug);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    let ran = runtime.block_on(async { World::new(seed, settings).run().await });
    plant(None);
    ran
}

impl World {
    fn new(seed: u64, settings: Settings) -> World {
        let rng = SimRng::new(seed);
        let drawn = NODES[rng.below(NODES.len() as u64) as usize];
        let nodes = if settings.load == Load::Targeted { 3 } else { drawn };
        let net = SimNet::new(rng.next_u64());
        net.set_delay(Duration::from_micros(100), Duration::from_millis(5));
        let is_relisted = settings.load == Load::Relisted;
        let lists_rng = SimRng::new(seed ^ 0x6c69_7374_7300);
        let lists = if is_relisted { Lists::draw(&lists_rng) } else { Lists::fixed(nodes) };
        let members = lists.first.clone();
        let (nodes, machines) = (members.len(), if is_relisted { MACHINES } else { nodes });
        let new = |index| Machine::new(index, &net, rng.next_u64());
        let mut all: Vec<Machine> = (0..machines).map(new).collect();
        if settings.bug == Some(Bug::NeverSync) {
            all.iter_mut().for_each(|machine| machine.durability = Durability::Never);
        }
        for (place, &machine) in members.iter().enumerate() {
            all[machine].id = NodeId(place as u16);
        }
        let clients = Clients::new(nodes, &rng, (seed, settings.load), lists.are_all_on_all);
        let is_targeted = settings.load == Load::Targeted;
        let tolerance = if is_targeted { Tolerance::OF_RIGHT_CLOCKS } else { Tolerance::default() };
        let checker = Checker::new(machines, &members, SimClock::new().wall_ms(), tolerance);
        let checker = Arc::new(Mutex::new(checker));
        for plan in &clients.keys {
            checker.lock().expects_copies(&plan.key, plan.copies());
        }
        let shared = Shared {
            clients: RefCell::new(clients),
            summary: RefCell::default(),
            checker: Arc::clone(&checker),
            histories: RefCell::default(),
            one_copy: RefCell::default(),
            follower: RefCell::default(),
            unread: RefCell::default(),
            questions: RefCell::default(),
            trace: RefCell::new(seed),
            settings,
            began: Instant::now(),
        };
        let mut world = World {
            rng,
            clock_rng: SimRng::new(seed ^ 0x636c_6f63_6b73),
            follower_rng: SimRng::new(seed ^ 0x666f_6c6c_6f77),
            events: BTreeMap::new(),
            planned: 0,
            machines: all,
            common: Common::new(members, checker),
            relisting: Relisting::new(lists, lists_rng),
            net,
            shared: Rc::new(shared),
            cut_until_us: vec![vec![0; machines]; machines],
            lossy_until_us: 0,
            slow_until_us: 0,
            disk_lost_at_us: None,
            is_calm: false,
            calm_clock: 0,
            differences: String::new(),
            is_done: false,
        };
        world.plan_first(seed);
        world
    }

    /// What happens first.
    fn plan_first(&mut self, seed: u64) {
        let (members, settings) = (self.common.members.clone(), self.shared.settings);
        for node in members {
            self.plan(node as u64, Event::Start { node });
        }
        if settings.load == Load::Targeted {
            self.plan(5000, Event::Scene { number: 0 });
            return;
        }
        self.plan(5000, Event::Client);
        self.plan(6000, Event::Trouble);
        self.plan(7000, Event::Contention);
        // Deletions are kept for who follows: so in half of the seeds nobody does.
        if is_followed(seed, settings) {
            self.plan(5500, Event::Follow);
        }
        if settings.load == Load::Relisted {
            self.plan_change();
        }
        if seed % 8 >= 5 || seed % 8 == 3 {
            let after_ms = self.clock_rng.below(60_000);
            self.plan(after_ms, Event::ClockGoesWrong);
        }
    }

    /// A machine that is in the list of nodes.
    fn any(&self, rng: &SimRng) -> usize {
        let members = &self.common.members;
        members[rng.below(members.len() as u64) as usize]
    }

    fn now_us(&self) -> u64 {
        self.shared.now_us()
    }

    fn plan(&mut self, after_ms: u64, event: Event) {
        self.planned += 1;
        self.events.insert((self.now_us() + after_ms * 1000, self.planned), event);
    }

    /// Runs until the replicas are the same, a promise is broken, or it takes too long.
    async fn run(mut self) -> Result<Summary, String> {
        while !self.is_done {
            let Some(next) = self.events.first_entry() else { return Err("nothing happens".into()) };
            let at = self.shared.began + Duration::from_micros(next.key().0);
            self.run_machines_until(at).await;
            if let Some(violation) = self.violation() {
                return Err(format!("after {} ms: {violation}", self.now_us() / 1000));
            }
            self.let_contenders_ask();
            if at <= Instant::now()
                && let Some((_, event)) = self.events.pop_first()
            {
                self.happen(event);
            }
            if self.now_us() > (self.relisting.ends_ms_max() + CALM_MS_MAX) * 1000 {
                self.trace_reports();
                return Err(format!("the replicas do not converge: {}", self.differences));
            }
        }
        if let Some(untold) = self.shared.follower.borrow().untold() {
            return Err(untold);
        }
        if let Some(disorder) = self.disorder() {
            return Err(disorder);
        }
        let (large_stored, told_expired) = {
            let checker = self.shared.checker.lock();
            (checker.large_stored(), checker.told_expired())
        };
        let (messages, trace) = (self.net.packets(), *self.shared.trace.borrow());
        let changes_told = self.shared.follower.borrow().changes;
        let histories_cut_short = self.shared.histories.borrow().cut_short();
        let summary = *self.shared.summary.borrow();
        Ok(Summary {
            messages,
            large_stored,
            told_expired,
            changes_told,
            histories_cut_short,
            trace,
            ..summary
        })
    }

    fn disorder(&self) -> Option<String> {
        let expiries = self.shared.checker.lock().expiries();
        let histories = self.shared.histories.borrow();
        if self.shared.settings.skips_histories { None } else { histories.disorder(&expiries) }
    }

    /// For who looks why it does not come together.
    fn trace_reports(&self) {
        for machine in &self.machines {
            if let Some(process) = &machine.process {
                self.shared.trace(|| format!("{}: {}", machine.index, process.node.report()));
            }
        }
    }

    /// Lets all processes run until this time, or until one of them has lost its power, or a client that contends is answered.
    async fn run_machines_until(&mut self, at: Instant) {
        let mut until = pin!(sleep_until(at));
        // What happened between two turns may have taken the power of any.
        let mut is_first = true;
        poll_fn(|context| {
            let now_us = self.now_us();
            self.shared.checker.lock().time_is(now_us / 1000);
            let mut is_one_dead = false;
            for machine in &mut self.machines {
                let has_run = machine.run(now_us, context);
                is_one_dead |= (has_run || is_first) && has_died(machine);
            }
            is_first = false;
            let is_one_free = self.shared.clients.borrow().is_one_free();
            if is_one_dead || is_one_free || self.shared.checker.lock().violation().is_some() {
                return Poll::Ready(());
            }
            until.as_mut().poll(context)
        })
        .await;
        for node in 0..self.machines.len() {
            if has_died(&self.machines[node]) {
                self.machines[node].lose_power(&self.net);
                self.shared.trace(|| format!("{node} loses its power"));
                let down_ms = 100 + self.rng.below(4000);
                self.plan(down_ms, Event::Start { node });
            }
        }
    }

    fn violation(&self) -> Option<String> {
        let panicked =
            |machine: &Machine| machine.process.as_ref().and_then(|process| process.node.panicked());
        let violation = self.shared.checker.lock().violation().map(str::to_owned);
        let seen_twice = || {
            let histories = self.shared.histories.borrow();
            histories.violation().filter(|_| !self.shared.settings.skips_histories).map(str::to_owned)
        };
        violation
            .or_else(|| self.machines.iter().find_map(panicked))
            .or_else(crate::taken_panic)
            .or_else(seen_twice)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start { node } => self.start(node),
            Event::Room { node } => self.machines[node].disk.set_capacity(None),
            Event::Befall(trouble) if self.may_befall(trouble) => self.befall(trouble),
            // A suspended process resumes by itself: it was only not polled.
            Event::Befall(_) | Event::Resume => {}
            Event::NetworkIsBetter => self.mend_network(),
            Event::ClockGoesWrong => self.clock_goes_wrong(),
            Event::ClockIsSet { node } => self.clock_is_set(node),
            Event::Client => self.client(),
            Event::Follow => self.follow(),
            Event::LookAround { node } => self.look_around(node),
            Event::WriteAround { node } => self.write_around(node),
            Event::DeleteAround { node } => self.delete_around(node),
            Event::ClientGivesUp { number } => self.shared.clients.borrow_mut().ended(number),
            Event::Background { node, session, ticks } => self.background(node, session, ticks),
            Event::Trouble => self.trouble(),
            Event::Contention => self.contention(),
            Event::Relist(step) => self.relist(step),
            Event::Scene { number } => self.scene(number),
            Event::Step { number, step } => self.step(number, step),
            Event::Compare => self.compare(),
            Event::AskAgain { left, is_conditional_first } => self.ask_again(left, is_conditional_first),
            Event::End => self.is_done = true,
        }
    }
}

/// Whether somebody follows changes in this run.
fn is_followed(seed: u64, settings: Settings) -> bool {
    seed.is_multiple_of(2) && settings.bug.is_none() && settings.load != Load::Targeted
}

fn has_died(machine: &Machine) -> bool {
    machine.process.is_some() && !machine.disk.is_powered()
}

#[cfg(test)]
mod node_tests;
