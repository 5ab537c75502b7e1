//! What goes wrong, and how it ends.

use std::time::Duration;

use ladoga_cluster::Partition;
use ladoga_env::Rng;

use super::{Event, World};
use crate::faults::{self, Hands, Loss, Trouble};
use crate::values::Key;

/// How long a node that lost its disk is alone with one that knows less than the rest.
const ALONE_MS: u64 = 8_000;
/// From when on a node is away for long.
const LONG_MS: u64 = 20_000;

impl World {
    fn hands(&self) -> Vec<Hands> {
        self.common.members.iter().map(|&member| self.machines[member].hands).collect()
    }

    /// Whether something that was planned still goes wrong.
    pub(super) fn may_befall(&self, trouble: Trouble) -> bool {
        let is_gone = |node: usize| !self.common.members.contains(&node);
        let of_gone = match trouble {
            Trouble::Kill { node, .. } | Trouble::Isolate { node, .. } | Trouble::LoseDisk { node, .. } => {
                is_gone(node)
            }
            _ => false,
        };
        !self.is_calm && !self.relisting.is_quiet && !of_gone
    }

    pub(super) fn trouble(&mut self) {
        if self.now_us() > self.relisting.ends_ms() * 1000 {
            return self.calm_down();
        }
        let pause_ms = 300 + self.rng.below(8000);
        self.plan(pause_ms, Event::Trouble);
        let is_first = self.disk_lost_at_us.is_none_or(|at| at + 60_000_000 < self.now_us());
        let may_lose_disk =
            is_first && self.are_all_whole() && !self.relisting.is_quiet && self.relisting.may_lose_disk();
        let trouble = faults::next(&self.rng, &self.hands(), may_lose_disk).of(&self.common.members);
        if self.relisting.is_quiet {
            return;
        }
        self.shared.trace(|| format!("{trouble:?}"));
        self.shared.summary.borrow_mut().faults += 1;
        self.befall(trouble);
    }

    /// Whether the answers of all nodes count.
    pub(super) fn are_all_whole(&self) -> bool {
        self.common.members.iter().all(|&member| self.machines[member].is_whole())
    }

    fn cut(&mut self, from: usize, to: usize, ms: u64) {
        self.cut_until_us[from][to] = self.now_us() + ms * 1000;
        self.net.cut(self.machines[from].address, self.machines[to].address);
        self.plan(ms, Event::NetworkIsBetter);
    }

    /// Ends what of the network's trouble has had its time.
    pub(super) fn mend_network(&mut self) {
        let now_us = self.now_us();
        for (from, row) in self.cut_until_us.iter().enumerate() {
            for (to, &until_us) in row.iter().enumerate() {
                if until_us <= now_us {
                    self.net.heal(self.machines[from].address, self.machines[to].address);
                }
            }
        }
        if self.lossy_until_us <= now_us {
            self.net.set_loss(0);
        }
        if self.slow_until_us <= now_us {
            self.net.set_delay(Duration::from_micros(100), Duration::from_millis(5));
        }
    }

    pub(super) fn befall(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Cut { from, to, ms } => self.cut(from, to, ms),
            Trouble::Isolate { node, ms } => self.isolate(node, ms),
            Trouble::Lossy { per_mille, ms } => {
                self.lossy_until_us = self.now_us() + ms * 1000;
                self.net.set_loss(per_mille);
                self.plan(ms, Event::NetworkIsBetter);
            }
            Trouble::Slow { delay_ms, ms } => {
                self.slow_until_us = self.now_us() + ms * 1000;
                self.net.set_delay(Duration::from_micros(100), Duration::from_millis(5 + delay_ms));
                self.plan(ms, Event::NetworkIsBetter);
            }
            Trouble::Kill { node, down_ms } => {
                self.machines[node].kill();
                self.miss_deletions(node, down_ms);
                self.plan(down_ms, Event::Start { node });
            }
            Trouble::PowerCut { node, down_ms } => {
                let policy = faults::policy(&self.rng);
                self.machines[node].disk.power_cut(policy);
                self.machines[node].lose_power(&self.net);
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
            Trouble::Pause { node, ms } => {
                self.machines[node].paused_until_us = self.now_us() + ms * 1000;
                self.plan(ms, Event::Resume);
            }
            Trouble::Jump { node, by_ms } => {
                let now_ms = self.now_us() / 1000;
                let machine = &mut self.machines[node];
                if faults::is_wrong(machine.hands.skew_ms) {
                    machine.hands.wrong_until_ms = now_ms + faults::REMEMBERED_MS;
                }
                machine.clock.jump_wall_ms(by_ms);
                machine.hands.skew_ms += by_ms;
            }
            Trouble::LoseDiskAfterOutage { node, absent, ms, loss } => {
                self.befall(Trouble::Isolate { node: absent, ms });
                // What the absent one misses, and the other is going to lose.
                self.plan(ms / 2, Event::WriteAround { node });
                self.disk_lost_at_us = Some(self.now_us() + ms * 1000);
                self.plan(ms, Event::Befall(Trouble::LoseDisk { node, down_ms: 100, loss }));
                for other in (0..self.machines.len()).filter(|&other| other != node && other != absent) {
                    self.plan(ms, Event::Befall(Trouble::Isolate { node: other, ms: ALONE_MS }));
                }
                for after_ms in (500..ALONE_MS).step_by(500) {
                    self.plan(ms + after_ms, Event::LookAround { node });
                    self.plan(ms + after_ms + 250, Event::LookAround { node: absent });
                }
            }
            Trouble::LoseDisk { node, down_ms, loss } => self.lose_disk(node, down_ms, loss),
        }
    }

    /// Nothing gets from or to a node.
    pub(super) fn cut_off(&mut self, node: usize, ms: u64) {
        for other in (0..self.machines.len()).filter(|&other| other != node) {
            self.cut(node, other, ms);
            self.cut(other, node, ms);
        }
    }

    fn isolate(&mut self, node: usize, ms: u64) {
        self.cut_off(node, ms);
        self.miss_deletions(node, ms);
        // As soon as it is back, and does not know yet what it missed.
        self.plan(ms + 20, Event::LookAround { node });
    }

    /// A node that is away for long misses that everything is deleted. Once it is back, somebody looks whether it brings anything
    /// back: what reads are told that go to it and to one other node.
    fn miss_deletions(&mut self, absent: usize, ms: u64) {
        if ms < LONG_MS {
            return;
        }
        let members = &self.common.members;
        let place = members.iter().position(|&member| member == absent).unwrap_or(0);
        let node = members[(place + 1) % members.len()];
        self.plan(ms / 4, Event::DeleteAround { node });
        for after_ms in (500..4_000).step_by(500) {
            self.plan(ms + after_ms, Event::LookAround { node: absent });
        }
    }

    pub(super) fn lose_disk(&mut self, node: usize, down_ms: u64, loss: Loss) {
        self.shared.trace(|| format!("{node} loses its disk"));
        self.disk_lost_at_us = Some(self.now_us());
        match loss {
            // What no peer remembers, no peer can hold against it.
            Loss::Older { age, is_copied, was_whole }
                if self.machines[node].is_remembered_by(&self.machines, &self.common.members)
                    && !self.relisting.has_changed() =>
            {
                self.shared.summary.borrow_mut().backups_restored += 1;
                self.machines[node].restore_backup((age, was_whole), is_copied);
            }
            Loss::All | Loss::Older { .. } => {
                self.shared.summary.borrow_mut().disks_lost += 1;
                self.machines[node].lose_disk();
            }
        }
        self.shared.checker.lock().lost_disk(node);
        let placement = &self.common.placement;
        let first_of = |key: &Key| placement.preference_list(Partition::of(key))[0].index();
        self.shared.one_copy.borrow_mut().lose(|key| self.common.members[first_of(key)] == node);
        self.relisting.lost_disk(node);
        self.plan(down_ms, Event::Start { node });
    }

    /// The clock of a node is minutes or a day off, for a while.
    pub(super) fn clock_goes_wrong(&mut self) {
        if self.is_calm || self.relisting.is_quiet {
            return;
        }
        self.plan(10_000 + self.clock_rng.below(50_000), Event::ClockGoesWrong);
        let now_ms = self.now_us() / 1000;
        let Some((trouble, ms)) = faults::wrong_clock(&self.clock_rng, &self.hands(), now_ms) else { return };
        let trouble = trouble.of(&self.common.members);
        let Trouble::Jump { node, .. } = trouble else { return };
        self.shared.trace(|| format!("{trouble:?} for {ms} ms"));
        self.shared.summary.borrow_mut().clocks_wrong += 1;
        self.befall(trouble);
        self.plan(ms, Event::ClockIsSet { node });
    }

    /// An operator sets the clock right.
    pub(super) fn clock_is_set(&mut self, node: usize) {
        if !self.is_calm {
            let hands: Vec<Hands> = self.machines.iter().map(|machine| machine.hands).collect();
            let trouble = faults::right_clock(&self.clock_rng, node, &hands);
            self.shared.trace(|| format!("{trouble:?} sets it right"));
            self.befall(trouble);
        }
    }

    /// Nothing goes wrong any more. Clocks stay as they are.
    fn calm_down(&mut self) {
        self.shared.trace(|| "it calms down".to_owned());
        self.is_calm = true;
        self.shared.clients.borrow_mut().calm_down();
        self.end_trouble();
        for node in self.common.members.clone() {
            self.plan(1000, Event::Start { node });
        }
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        self.calm_clock = processes.map(|process| process.node.view().clock).max().unwrap_or(0);
        self.plan(2000, Event::Compare);
    }

    /// Ends what goes wrong at present. Clocks stay as they are.
    pub(super) fn end_trouble(&mut self) {
        let (nodes, now_us) = (self.machines.len(), self.now_us());
        self.cut_until_us = vec![vec![0; nodes]; nodes];
        (self.lossy_until_us, self.slow_until_us) = (0, 0);
        self.mend_network();
        for machine in &mut self.machines {
            machine.paused_until_us = machine.paused_until_us.min(now_us);
            machine.disk.clear_faults();
            machine.disk.set_capacity(None);
        }
    }
}
