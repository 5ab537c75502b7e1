//! What goes wrong, and how it ends.

use std::collections::BTreeMap;

use ladoga_cluster::{NodeId, Partition};
use ladoga_env::Rng;

use super::{Event, TROUBLE_MS, World};
use crate::faults::{self, Hands, Loss, Trouble};
use crate::machine::Machine;

impl World {
    fn hands(&self) -> Vec<Hands> {
        self.machines.iter().map(|machine| machine.hands).collect()
    }

    pub(super) fn trouble(&mut self) {
        if self.now_us > TROUBLE_MS * 1000 {
            return self.calm_down();
        }
        let pause_ms = 300 + self.rng.below(8000);
        self.plan(pause_ms, Event::Trouble);
        let is_first = self.disk_lost_at_us.is_none_or(|at| at + 60_000_000 < self.now_us);
        let may_lose_disk = is_first && self.machines.iter().all(Machine::is_whole);
        let trouble = faults::next(&self.rng, &self.hands(), may_lose_disk);
        self.trace(|| format!("{trouble:?}"));
        self.summary.faults += 1;
        self.befall(trouble);
    }

    pub(super) fn befall(&mut self, trouble: Trouble) {
        let until = |world: &World, ms: u64| world.now_us + ms * 1000;
        match trouble {
            Trouble::Cut { from, to, ms } => self.cut_until_us[from][to] = until(self, ms),
            Trouble::Isolate { node, ms } => {
                for other in 0..self.machines.len() {
                    self.cut_until_us[node][other] = until(self, ms);
                    self.cut_until_us[other][node] = until(self, ms);
                }
            }
            Trouble::Lossy { per_mille, ms } => self.lossy = (per_mille, until(self, ms)),
            Trouble::Slow { delay_ms, ms } => self.slow = (delay_ms, until(self, ms)),
            Trouble::Kill { node, down_ms } => {
                self.machines[node].kill();
                self.plan(down_ms, Event::Start { node });
            }
            Trouble::PowerCut { node, down_ms } => {
                let policy = faults::policy(&self.rng);
                self.machines[node].disk.power_cut(policy);
                self.machines[node].process = None;
                self.plan(down_ms, Event::Start { node });
            }
            Trouble::PowerCutSoon { node, operation } => {
                let policy = faults::policy(&self.rng);
                self.machines[node].disk.cut_power_at_operation(operation, policy);
            }
            Trouble::DiskFails { node, operation } => {
                self.machines[node].disk.fail_operation(operation, faults::disk_fault());
            }
            Trouble::DiskFull { node, ms } => {
                let used = self.machines[node].disk_bytes();
                self.machines[node].disk.set_capacity(used + 4096);
                self.plan(ms, Event::Room { node });
            }
            Trouble::Pause { node, ms } => self.machines[node].paused_until_us = until(self, ms),
            Trouble::Jump { node, by_ms } => {
                let now_ms = self.now_us / 1000;
                let machine = &mut self.machines[node];
                if faults::is_wrong(machine.hands.skew_ms) {
                    machine.hands.wrong_until_ms = now_ms + faults::REMEMBERED_MS;
                }
                machine.clock.jump_wall_ms(by_ms);
                machine.hands.skew_ms += by_ms;
            }
            Trouble::LoseDiskAfterOutage { node, absent, ms, loss } => {
                self.befall(Trouble::Isolate { node: absent, ms });
                self.disk_lost_at_us = Some(until(self, ms));
                self.plan(ms, Event::Befall(Trouble::LoseDisk { node, down_ms: 100, loss }));
                for other in (0..self.machines.len()).filter(|&other| other != node && other != absent) {
                    self.plan(ms, Event::Befall(Trouble::Isolate { node: other, ms: 8000 }));
                }
            }
            Trouble::LoseDisk { node, down_ms, loss } => {
                self.disk_lost_at_us = Some(self.now_us);
                match loss {
                    // What nobody remembers, nobody can hold against it.
                    Loss::Older { age, is_copied }
                        if self.machines[node].is_remembered_by(&self.machines) =>
                    {
                        self.summary.backups_restored += 1;
                        self.machines[node].restore_backup(age, is_copied);
                    }
                    Loss::All | Loss::Older { .. } => {
                        self.summary.disks_lost += 1;
                        self.machines[node].lose_disk();
                    }
                }
                self.checker.borrow_mut().lost_disk(node);
                self.plan(down_ms, Event::Start { node });
            }
        }
    }

    /// The clock of a node is minutes or a day off, for a while.
    pub(super) fn clock_goes_wrong(&mut self) {
        if self.is_calm {
            return;
        }
        self.plan(10_000 + self.clock_rng.below(50_000), Event::ClockGoesWrong);
        let Some((trouble, ms)) = faults::wrong_clock(&self.clock_rng, &self.hands(), self.now_us / 1000)
        else {
            return;
        };
        let Trouble::Jump { node, .. } = trouble else { return };
        self.trace(|| format!("{trouble:?} for {ms} ms"));
        self.summary.clocks_wrong += 1;
        self.befall(trouble);
        self.plan(ms, Event::ClockIsSet { node });
    }

    /// Somebody sets it right.
    pub(super) fn clock_is_set(&mut self, node: usize) {
        if !self.is_calm {
            let trouble = faults::right_clock(&self.clock_rng, node, &self.hands());
            self.trace(|| format!("{trouble:?} sets it right"));
            self.befall(trouble);
        }
    }

    /// Nothing goes wrong any more. Clocks stay as they are: nobody sets them.
    fn calm_down(&mut self) {
        self.trace(|| "it calms down".to_owned());
        self.is_calm = true;
        let nodes = self.machines.len();
        self.cut_until_us = vec![vec![0; nodes]; nodes];
        (self.lossy, self.slow) = ((0, 0), (0, 0));
        for node in 0..nodes {
            self.machines[node].paused_until_us = self.machines[node].paused_until_us.min(self.now_us);
            self.machines[node].disk.clear_faults();
            self.machines[node].disk.set_capacity(None);
            self.plan(1000, Event::Start { node });
        }
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        self.calm_clock = processes.map(|process| process.replica.now()).max().unwrap_or(0);
        self.plan(2000, Event::Compare);
    }

    /// Whether all replicas are the same, every hint is delivered, and everything is settled.
    pub(super) fn compare(&mut self) {
        self.differences = self.difference().unwrap_or_default();
        if self.differences.is_empty() {
            self.is_done = true;
        } else {
            self.plan(5000, Event::Compare);
        }
    }

    fn difference(&mut self) -> Option<String> {
        let mut all = Vec::new();
        let mut tombstones = 0;
        for machine in &self.machines {
            let Some(process) = &machine.process else { return Some(format!("{} is down", machine.id)) };
            let tracker = &process.replica.tracker;
            if process.hints_waiting() > 0 {
                return Some(format!("{} has {} hints", machine.id, process.hints_waiting()));
            }
            if !tracker.is_whole() || tracker.droppable_before() <= self.calm_clock {
                let droppable = tracker.droppable_before();
                return Some(format!(
                    "{}: settled before {droppable}, expected {}",
                    machine.id, self.calm_clock
                ));
            }
            let cells: BTreeMap<_, _> = process.replica.cells().into_iter().collect();
            let checker = self.checker.borrow();
            let keys = self.clients.keys.iter().map(|plan| &plan.key);
            let gone =
                keys.filter(|key| checker.ever_held(machine.id.index(), key) && !cells.contains_key(*key));
            tombstones += gone.count() as u64;
            all.push(cells);
        }
        self.summary.tombstones_dropped = tombstones;
        for plan in &self.clients.keys {
            let list = self.placement.preference_list(Partition::of(&plan.key));
            let nodes = &list[..plan.replicas.from as usize];
            let live = |node: &NodeId| all[node.index()].get(&plan.key).filter(|cell| !cell.is_tombstone);
            let first = live(&nodes[0]);
            if let Some(other) = nodes.iter().find(|node| live(node) != first) {
                let key = plan.key.escape_ascii();
                return Some(format!("{key}: {} has {first:?}, {other} has {:?}", nodes[0], live(other)));
            }
        }
        None
    }
}
