//! Whether the cluster has come together.

use ladoga_cluster::{NodeId, Partition};
use ladoga_model::{CellMark, Stamp, Version};

use super::{Event, World};
use crate::clients::KeyPlan;

impl World {
    /// Whether all replicas are the same, every hint is delivered, and everything is stable.
    pub(super) fn compare(&mut self) {
        self.differences = self.difference().unwrap_or_default();
        if !self.differences.is_empty() {
            return self.plan(5000, Event::Compare);
        }
        self.expect_to_be_told();
        // The last answers to clients have to fit each key's history as well.
        self.expect_answers();
    }

    fn difference(&mut self) -> Option<String> {
        let mut all = Vec::new();
        let (mut tombstones, mut dropped_before) = (0, 0);
        let clients = self.shared.clients.borrow();
        for machine in self.common.members.iter().map(|&member| &self.machines[member]) {
            let Some(process) = &machine.process else { return Some(format!("{} is down", machine.index)) };
            let view = process.node.view();
            if view.hints_waiting > 0 {
                return Some(format!("{} has {} hints", machine.index, view.hints_waiting));
            }
            if !view.is_whole || view.droppable_before <= self.calm_clock {
                let (droppable, expected) = (view.droppable_before, self.calm_clock);
                return Some(format!(
                    "{}: stable before {droppable}, expected {expected}, whole: {}",
                    machine.index, view.is_whole
                ));
            }
            dropped_before = dropped_before.max(view.droppable_before);
            let cells = match machine.cells() {
                Ok(cells) => cells,
                Err(error) => return Some(format!("{} cannot read its cells: {error}", machine.index)),
            };
            let checker = self.shared.checker.lock();
            let gone = clients.keys.iter().map(|plan| &plan.key);
            let gone = gone.filter(|key| checker.ever_held(machine.index, key) && !cells.contains_key(*key));
            tombstones += gone.count() as u64;
            all.push(cells);
        }
        self.shared.summary.borrow_mut().tombstones_dropped = tombstones;
        for plan in &clients.keys {
            let list = self.common.placement.preference_list(Partition::of(&plan.key));
            let nodes = &list[..plan.copies()];
            // What has expired, each node drops when it gets to it.
            let is_kept = |cell: &&CellMark| {
                !cell.is_tombstone && cell.deleted_at().is_none_or(|at| at >= dropped_before)
            };
            let live = |node: &NodeId| all[node.index()].get(&plan.key).filter(is_kept);
            if self.relisting.has_changed() {
                let held: Vec<_> = nodes.iter().map(|node| live(node).map(|cell| cell.stamp)).collect();
                if let Some(difference) = self.differ_after_change(plan, &held) {
                    return Some(difference);
                }
                continue;
            }
            let first = live(&nodes[0]);
            if let Some(other) = nodes.iter().find(|node| live(node) != first) {
                let key = plan.key.escape_ascii();
                return Some(format!("{key}: {} has {first:?}, {other} has {:?}", nodes[0], live(other)));
            }
        }
        None
    }

    /// How nodes differ in a key although the list of nodes was changed, by what each of those that it is for has, in their order.
    fn differ_after_change(&self, plan: &KeyPlan, held: &[Option<Stamp>]) -> Option<String> {
        let newest = held.iter().flatten().max_by_key(|stamp| stamp.version)?;
        if self.may_be_on_few(plan, newest.version) {
            return None;
        }
        // A value stays for as many nodes as it was written for.
        let must_have = held.iter().take(usize::from(newest.copies));
        let differs = must_have.clone().any(|stamp| stamp.as_ref() != Some(newest));
        differs.then(|| format!("{}: the nodes that it is for have {held:?}", plan.key.escape_ascii()))
    }

    /// Whether the newest version of a key may be on some of its nodes only, for good: what was on fewer nodes than all does not move when
    /// one leaves, and the others refuse older values (docs/cluster.md).
    pub(super) fn may_be_on_few(&self, plan: &KeyPlan, newest: Version) -> bool {
        let at_ms = self.shared.checker.lock().written_at_ms(newest).unwrap_or(0);
        !plan.is_on_all() && self.relisting.has_left_since(at_ms)
    }
}
