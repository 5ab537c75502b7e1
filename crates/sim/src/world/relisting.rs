//! The list of nodes changes, as `docs/cluster.md` says: an operator waits until all nodes are up, repairs those that stay, stops them
//! all, and starts those of the new list. Clients ask meanwhile, and things go wrong before and after.

use std::collections::{BTreeSet, VecDeque};

use ladoga_cluster::NodeId;
use ladoga_env::Rng;
use ladoga_env::sim::SimRng;

use super::{Event, TROUBLE_MS, World};
use crate::faults::{self, Loss, Trouble};
use crate::lists::{Change, Lists};

/// The first change comes so long after the beginning, on average, and each other one after the end of the one before.
const FIRST_MS: u64 = 60_000;
const NEXT_MS: u64 = 30_000;
/// How often it is looked how far it is.
const LOOK_MS: u64 = 500;
/// As long as clients wait for answers, and a little more.
const ANSWERED_MS: u64 = 12_000;
/// How long it takes to stop all nodes, and to start them again.
const STOP_MS: u64 = 6_000;
const START_MS: u64 = 10_000;
/// How long things go wrong while new nodes copy the data of the others. Then they have to come to an end with it.
const JOINING_TROUBLE_MS: u64 = 60_000;
/// How long things go wrong after the last change.
const AFTER_MS: u64 = 60_000;
/// By when all changes have been made: each waits for floors of writes, which clocks hold up.
const CHANGES_MS_MAX: u64 = 700_000;

#[derive(Clone, Copy)]
pub(super) enum Relist {
    /// From now on nothing goes wrong any more, so that all nodes are up.
    Announce,
    /// The nodes that stay take over what they missed, once all are up.
    Repair,
    /// They have, or not yet.
    Repaired,
    Stop {
        node: usize,
    },
    /// All are stopped: the others are started.
    Change,
    /// Somebody's disk is lost while new nodes copy the data of the others.
    LoseDisk {
        node: usize,
    },
    /// Whether the answers of all count.
    Settle,
    /// Whether all is read without as many nodes as may be down, which is tried as often.
    Read {
        left: u64,
    },
}

/// How far a change is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is none under way.
    Between,
    Preparing,
    /// Nodes are stopped, and not started before there is another list.
    Stopping,
    /// Those of the new list are there.
    Settling,
}

pub(super) struct Relisting {
    pub(super) rng: SimRng,
    changes: VecDeque<Change>,
    /// When things stop to go wrong; none while there are changes to be made.
    ends_ms: Option<u64>,
    ends_ms_max: u64,
    /// Whether nothing goes wrong at present.
    pub(super) is_quiet: bool,
    phase: Phase,
    /// Who is stopped first, and misses what is written until the others are.
    absent: usize,
    /// Who is not there while all is read.
    pub(super) gone: BTreeSet<usize>,
    /// Repairs of a machine in a session, by their numbers.
    repairs: Vec<(usize, u64, u64)>,
    /// Machines that had all their data when they were stopped, and stay.
    vouching: BTreeSet<usize>,
    changed_at_ms: Option<u64>,
    /// When a node left the list for the last time.
    left_at_ms: Option<u64>,
    /// What the clocks of versions showed when the last change was over.
    settled_clock: Option<u64>,
    /// Whether a disk was lost since the list was changed.
    pub(super) has_lost_disk: bool,
}

impl Relisting {
    pub(super) fn new(lists: Lists, rng: SimRng) -> Relisting {
        let is_fixed = lists.changes.is_empty();
        Relisting {
            rng,
            changes: lists.changes,
            ends_ms: is_fixed.then_some(TROUBLE_MS),
            ends_ms_max: if is_fixed { TROUBLE_MS } else { CHANGES_MS_MAX },
            is_quiet: false,
            phase: Phase::Between,
            absent: 0,
            gone: BTreeSet::new(),
            repairs: Vec::new(),
            vouching: BTreeSet::new(),
            changed_at_ms: None,
            left_at_ms: None,
            settled_clock: None,
            has_lost_disk: false,
        }
    }

    pub(super) fn ends_ms(&self) -> u64 {
        self.ends_ms.unwrap_or(self.ends_ms_max)
    }

    pub(super) const fn ends_ms_max(&self) -> u64 {
        self.ends_ms_max
    }

    /// Whether the list was changed.
    pub(super) const fn has_changed(&self) -> bool {
        self.changed_at_ms.is_some()
    }

    /// Whether a node has left the list since.
    pub(super) fn has_left_since(&self, at_ms: u64) -> bool {
        self.left_at_ms.is_some_and(|left_at_ms| at_ms < left_at_ms)
    }

    /// After a change, what was acknowledged may be on one node less than a majority until all have repaired.
    pub(super) fn may_lose_disk(&self) -> bool {
        self.phase == Phase::Between
    }

    pub(super) fn lost_disk(&mut self, node: usize) {
        self.vouching.remove(&node);
        self.has_lost_disk = true;
    }
}

impl World {
    pub(super) fn plan_change(&mut self) {
        let after_ms = FIRST_MS / 2 + self.relisting.rng.below(FIRST_MS);
        self.plan(after_ms, Event::Relist(Relist::Announce));
    }

    /// Whether a machine is a node, and is not to be stopped.
    pub(super) fn may_start(&self, machine: usize) -> bool {
        let is_away = self.relisting.phase == Phase::Stopping || self.relisting.gone.contains(&machine);
        !is_away && self.common.members.contains(&machine)
    }

    pub(super) fn relist(&mut self, step: Relist) {
        match step {
            Relist::Announce => self.announce(),
            Relist::Repair => self.repair(),
            Relist::Repaired => self.look_at_repairs(),
            Relist::Stop { node } => self.stop(node),
            Relist::Change => self.change(),
            Relist::LoseDisk { node } => self.lose_disk_while_joining(node),
            Relist::Settle => self.settle(),
            Relist::Read { left } => self.read_everything(left),
        }
    }

    fn announce(&mut self) {
        self.relisting.phase = Phase::Preparing;
        self.be_quiet();
        for node in self.common.members.clone() {
            if faults::is_wrong(self.machines[node].hands.skew_ms) {
                let hands: Vec<_> = self.machines.iter().map(|machine| machine.hands).collect();
                self.befall(faults::right_clock(&self.clock_rng, node, &hands));
            }
        }
        let leaves = self.relisting.changes.front().is_some_and(|change| !change.removed.is_empty());
        // What is on fewer nodes than all must not be missed by one that stays: it is not copied to others.
        let nodes = self.common.members.len();
        let is_paused = leaves && self.shared.clients.borrow_mut().pause_few(nodes, true);
        self.plan(if is_paused { ANSWERED_MS } else { 2_000 }, Event::Relist(Relist::Repair));
    }

    /// Nothing goes wrong from now on, and all nodes are up soon.
    pub(super) fn be_quiet(&mut self) {
        self.shared.trace(|| "nothing goes wrong".to_owned());
        self.relisting.is_quiet = true;
        self.end_trouble();
        for node in self.common.members.clone() {
            self.plan(1000, Event::Start { node });
        }
    }

    fn repair(&mut self) {
        if !self.are_all_whole() {
            self.differences = String::from("not all nodes are whole before a change");
            return self.plan(LOOK_MS, Event::Relist(Relist::Repair));
        }
        let Some(next) = self.relisting.changes.front() else { return };
        let staying = self.common.members.iter().filter(|member| !next.removed.contains(member));
        let request = |&member: &usize| {
            let machine = &self.machines[member];
            Some((member, machine.session, machine.process.as_ref()?.node.request_repair()))
        };
        self.relisting.repairs = staying.filter_map(request).collect();
        self.plan(LOOK_MS, Event::Relist(Relist::Repaired));
    }

    fn look_at_repairs(&mut self) {
        let mut is_under_way = false;
        for &(member, session, number) in &self.relisting.repairs {
            let machine = &self.machines[member];
            let repaired = machine.process.as_ref().filter(|_| machine.session == session);
            match repaired.map(|process| process.node.repaired(number)) {
                Some(None) => is_under_way = true,
                Some(Some(Ok(()))) => {}
                None | Some(Some(Err(_))) => return self.plan(LOOK_MS, Event::Relist(Relist::Repair)),
            }
        }
        if is_under_way {
            return self.plan(LOOK_MS, Event::Relist(Relist::Repaired));
        }
        self.stop_all();
    }

    /// Stops one of those that stay at once, and the others while it misses what is written.
    fn stop_all(&mut self) {
        self.relisting.phase = Phase::Stopping;
        self.relisting.vouching.clear();
        let Some(next) = self.relisting.changes.front() else { return };
        let staying: Vec<usize> =
            self.common.members.iter().copied().filter(|member| !next.removed.contains(member)).collect();
        let absent = staying[self.relisting.rng.below(staying.len() as u64) as usize];
        self.relisting.absent = absent;
        let others: Vec<usize> =
            self.common.members.iter().copied().filter(|&member| member != absent).collect();
        self.plan(0, Event::Relist(Relist::Stop { node: absent }));
        let asked = others[self.relisting.rng.below(others.len() as u64) as usize];
        if self.relisting.rng.below(4) > 0 {
            self.plan(500, Event::WriteAround { node: asked });
        }
        if self.relisting.rng.below(3) == 0 {
            self.plan(1_500, Event::DeleteAround { node: asked });
        }
        for node in others {
            let after_ms = STOP_MS / 2 + self.relisting.rng.below(STOP_MS / 3);
            self.plan(after_ms, Event::Relist(Relist::Stop { node }));
        }
        self.plan(STOP_MS, Event::Relist(Relist::Change));
    }

    fn stop(&mut self, node: usize) {
        self.shared.trace(|| format!("{node} is stopped"));
        if self.machines[node].is_whole() {
            self.relisting.vouching.insert(node);
        }
        if self.relisting.rng.below(4) == 0 {
            self.machines[node].disk.power_cut(faults::policy(&self.relisting.rng));
            self.machines[node].lose_power(&self.net);
        } else {
            self.machines[node].kill();
        }
    }

    fn change(&mut self) {
        let Some(Change { members, removed, added }) = self.relisting.changes.pop_front() else { return };
        self.shared.trace(|| format!("the list is {members:?} without {removed:?} and with {added:?}"));
        self.shared.summary.borrow_mut().lists_changed += 1;
        self.shared.checker.lock().lists(&members);
        // What only one node has stays there, also if the key has another first node now.
        self.shared.one_copy.borrow_mut().lose(|_| true);
        for &node in &added {
            // It may have been in the list once, and has to come with an empty directory.
            self.machines[node].lose_disk();
        }
        self.common = self.common.listing(members.clone());
        for (place, &node) in members.iter().enumerate() {
            self.machines[node].takes_place(NodeId(place as u16));
        }
        self.relist_clients(members.len());
        let now_ms = self.now_us() / 1000;
        let relisting = &mut self.relisting;
        relisting.vouching.retain(|node| members.contains(node));
        relisting.changed_at_ms = Some(now_ms);
        if !removed.is_empty() {
            relisting.left_at_ms = Some(now_ms);
        }
        (relisting.is_quiet, relisting.has_lost_disk) = (false, false);
        relisting.phase = Phase::Settling;
        relisting.settled_clock = None;
        self.start_all(&members, &added, removed.is_empty());
    }

    fn relist_clients(&self, nodes: usize) {
        let mut clients = self.shared.clients.borrow_mut();
        clients.pause_few(usize::MAX, false);
        clients.relist(nodes);
        let mut checker = self.shared.checker.lock();
        for plan in &clients.keys {
            checker.expects_copies(&plan.key, plan.copies());
        }
    }

    /// Starts the new nodes and the one that missed something; often, only they are there for a while.
    fn start_all(&mut self, members: &[usize], added: &[usize], may_lose_disk: bool) {
        let is_late = self.relisting.rng.below(3) > 0;
        for &node in members {
            let is_first = node == self.relisting.absent || added.contains(&node);
            let late_ms = if is_late && !is_first { START_MS / 2 } else { 0 };
            let after_ms = late_ms + self.relisting.rng.below(START_MS / 10 + late_ms);
            self.plan(after_ms, Event::Start { node });
            if is_first {
                for after_ms in (1_500..START_MS).step_by(1_500) {
                    self.plan(after_ms, Event::LookAround { node });
                }
            }
        }
        if may_lose_disk && self.relisting.rng.below(3) == 0 {
            let node = members[self.relisting.rng.below(members.len() as u64) as usize];
            let after_ms = self.relisting.rng.below(START_MS);
            self.plan(after_ms, Event::Relist(Relist::LoseDisk { node }));
        }
        self.plan(LOOK_MS, Event::Relist(Relist::Settle));
    }

    fn lose_disk_while_joining(&mut self, node: usize) {
        if self.relisting.phase == Phase::Settling && !self.relisting.is_quiet {
            self.befall(Trouble::LoseDisk { node, down_ms: 100, loss: Loss::All });
        }
    }

    /// Waits until everybody's answers count; and if nodes have left, until all have what any of them had.
    fn settle(&mut self) {
        self.check_vouching();
        let trouble_ends_ms = self.relisting.changed_at_ms.unwrap_or(0) + JOINING_TROUBLE_MS;
        if !self.relisting.is_quiet && self.now_us() / 1000 > trouble_ends_ms {
            self.be_quiet();
        }
        if let Some(missing) = self.unsettled() {
            self.differences = missing;
            return self.plan(LOOK_MS, Event::Relist(Relist::Settle));
        }
        self.begin_reading();
    }

    fn unsettled(&mut self) -> Option<String> {
        let members = &self.common.members;
        let is_whole = |&&member: &&usize| self.machines[member].is_whole();
        if let Some(node) = members.iter().find(|member| !is_whole(member)) {
            return Some(format!("{node} is not whole after a change of the list"));
        }
        let left_at_ms = self.relisting.left_at_ms?;
        if Some(left_at_ms) != self.relisting.changed_at_ms {
            return None;
        }
        let processes = members.iter().filter_map(|&member| self.machines[member].process.as_ref());
        let clocks = processes.clone().map(|process| process.node.view().clock);
        let clock = *self.relisting.settled_clock.get_or_insert(clocks.max().unwrap_or(0));
        let synced = processes.map(|process| process.node.synced_before()).min().unwrap_or(0);
        (synced <= clock).then(|| format!("synced before {synced} after a change, expected {clock}"))
    }

    /// Nobody who had all its data and stays takes itself for one that has lost any.
    fn check_vouching(&self) {
        let doubts =
            |&&node: &&usize| self.machines[node].process.is_some() && !self.machines[node].is_whole();
        if let Some(node) = self.relisting.vouching.iter().find(doubts) {
            let broken = format!("{node} takes itself for one that lost data because the list was changed");
            self.shared.checker.lock().breaks(broken);
        }
    }

    /// Everything is read: the next change comes, or the end.
    pub(super) fn end_change(&mut self) {
        self.relisting.phase = Phase::Between;
        self.relisting.is_quiet = false;
        if self.relisting.changes.is_empty() {
            self.relisting.ends_ms = Some(self.now_us() / 1000 + AFTER_MS);
        } else {
            let after_ms = self.relisting.rng.below(2 * NEXT_MS);
            self.plan(after_ms, Event::Relist(Relist::Announce));
        }
    }
}
