//! Whether the cluster has come together.

use std::collections::BTreeMap;

use ladoga_cluster::{NodeId, Partition};
use ladoga_env::Rng;
use ladoga_model::CellMark;

use super::following::LATE_MS;
use super::{Event, World};
use crate::machine::REQUEST_MS;

impl World {
    /// Whether all replicas are the same, every hint is delivered, and everything is stable.
    pub(super) fn compare(&mut self) {
        self.differences = self.difference().unwrap_or_default();
        if !self.differences.is_empty() {
            return self.plan(5000, Event::Compare);
        }
        // The last answers to clients have to fit each key's history as well.
        let node = self.rng.below(self.machines.len() as u64) as usize;
        self.look_at_all(node);
        self.expect_to_be_told();
        let is_followed = self.shared.follower.borrow().connection > 0;
        self.plan(if is_followed { LATE_MS } else { 2 * REQUEST_MS }, Event::End);
    }

    fn difference(&mut self) -> Option<String> {
        let mut all = Vec::new();
        let (mut tombstones, mut dropped_before) = (0, 0);
        let clients = self.shared.clients.borrow();
        for machine in &self.machines {
            let Some(process) = &machine.process else { return Some(format!("{} is down", machine.id)) };
            let view = process.node.view();
            if view.hints_waiting > 0 {
                return Some(format!("{} has {} hints", machine.id, view.hints_waiting));
            }
            if !view.is_whole || view.droppable_before <= self.calm_clock {
                let (droppable, expected) = (view.droppable_before, self.calm_clock);
                return Some(format!(
                    "{}: stable before {droppable}, expected {expected}, whole: {}",
                    machine.id, view.is_whole
                ));
            }
            dropped_before = dropped_before.max(view.droppable_before);
            let cells: BTreeMap<_, _> = process.store.inner.all_cells().into_iter().collect();
            let checker = self.shared.checker.lock();
            let gone = clients.keys.iter().map(|plan| &plan.key);
            let gone =
                gone.filter(|key| checker.ever_held(machine.id.index(), key) && !cells.contains_key(*key));
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
            let first = live(&nodes[0]);
            if let Some(other) = nodes.iter().find(|node| live(node) != first) {
                let key = plan.key.escape_ascii();
                return Some(format!("{key}: {} has {first:?}, {other} has {:?}", nodes[0], live(other)));
            }
        }
        None
    }
}
