//! After a change of the list of nodes, everything is read by any majority of the nodes that are left.

use ladoga_env::Rng;
use ladoga_model::Replicas;

use super::relisting::Relist;
use super::{Event, World};
use crate::clients::Wish;
use crate::faults::Loss;
use crate::values::Key;

/// How often it is tried, and how long it is waited between: as long as others take to find out that nodes are gone, and to end
/// promises that nobody else does.
const TRIES: u64 = 30;
const PAUSE_MS: u64 = 1_000;

impl World {
    /// As many nodes as may be are gone, one of them maybe with its disk.
    pub(super) fn begin_reading(&mut self) {
        if !self.relisting.is_quiet {
            self.be_quiet();
        }
        if self.relisting.has_lost_disk {
            // Values that were for fewer nodes than there are now are not copied to every node again (docs/cluster.md).
            return self.end_change();
        }
        let mut members = self.common.members.clone();
        for number in 0..(members.len() - 1) / 2 {
            let node = members.swap_remove(self.relisting.rng.below(members.len() as u64) as usize);
            self.shared.trace(|| format!("{node} is gone"));
            if number == 0 && self.relisting.rng.below(2) == 0 {
                self.lose_disk(node, PAUSE_MS, Loss::All);
            } else {
                self.machines[node].kill();
                self.relisting.gone.insert(node);
            }
        }
        let clients = self.shared.clients.borrow();
        let of_all = clients.keys.iter().filter(|plan| plan.is_on_all());
        *self.shared.unread.borrow_mut() = of_all.map(|plan| plan.key.clone()).collect();
        drop(clients);
        self.plan(2 * PAUSE_MS, Event::Relist(Relist::Read { left: TRIES }));
    }

    /// Reads by a majority what was not read yet.
    pub(super) fn read_everything(&mut self, left: u64) {
        let unread: Vec<Key> = self.shared.unread.borrow().iter().cloned().collect();
        if unread.is_empty() {
            for node in std::mem::take(&mut self.relisting.gone) {
                self.plan(PAUSE_MS, Event::Start { node });
            }
            return self.end_change();
        }
        if left == 0 {
            let keys: Vec<String> = unread.iter().map(|key| key.escape_ascii().to_string()).collect();
            let broken = format!("{} cannot be read after a change of the list of nodes", keys.join(", "));
            return self.shared.checker.lock().breaks(broken);
        }
        let replicas = Replicas::majority_of(self.common.members.len() as u32);
        let alive: Vec<usize> =
            self.common.members.iter().copied().filter(|node| !self.relisting.gone.contains(node)).collect();
        let node = alive[self.relisting.rng.below(alive.len() as u64) as usize];
        for key in unread {
            let mut clients = self.shared.clients.borrow_mut();
            let index = clients.keys.iter().position(|plan| plan.key == key);
            let number = clients.next_number();
            drop(clients);
            if let Some(index) = index {
                self.ask_of(node, index, (number, Wish::Get), replicas);
            }
        }
        self.plan(PAUSE_MS, Event::Relist(Relist::Read { left: left - 1 }));
    }
}
