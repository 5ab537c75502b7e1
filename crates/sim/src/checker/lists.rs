//! Which machines have been nodes, and under which numbers.

use std::collections::BTreeMap;

use ladoga_model::Version;

use super::Checker;
use crate::written::Written;

/// The list of nodes, and what has become of those before it.
#[derive(Debug, Default)]
pub(super) struct ListHistory {
    /// The machines that are nodes, by their numbers in the list.
    members: Vec<usize>,
    /// When the list was changed last.
    changed_ms: u64,
    /// What was for at least so many nodes was for all of them by a list before this one: those that are new have it, too.
    copies_of_all: Option<usize>,
}

impl ListHistory {
    pub(super) fn new(members: &[usize]) -> ListHistory {
        ListHistory { members: members.to_vec(), ..ListHistory::default() }
    }

    /// Whose version it is, if it is given out by this list of nodes.
    pub(super) fn machine_of(&self, version: Version) -> Option<usize> {
        self.members.get(usize::from(version.node)).copied()
    }

    /// Whether any node may have a copy. What was written before the list was changed may be on its way to a node that it is not for any
    /// more.
    pub(super) fn may_be_anywhere(&self, written: &Written) -> bool {
        let was_for_all = self.copies_of_all.is_some_and(|copies| written.copies >= copies);
        was_for_all || written.at_ms < self.changed_ms
    }
}

impl Checker {
    /// All nodes are stopped, and those that are started next are these machines.
    pub(crate) fn lists(&mut self, members: &[usize]) {
        let before = std::mem::replace(&mut self.lists.members, members.to_vec());
        self.lists.changed_ms = self.now_ms;
        if members.iter().any(|machine| !before.contains(machine)) {
            let least = self.lists.copies_of_all.map_or(before.len(), |copies| copies.min(before.len()));
            self.lists.copies_of_all = Some(least);
        }
        self.nodes = members.len();
        // What only a machine has that has left counts as lost with its disk.
        for gone in before.into_iter().filter(|machine| !members.contains(machine)) {
            self.lost_disk(gone);
            self.durable[gone] = BTreeMap::new();
        }
    }

    /// A promise is broken that nobody but the world knows of.
    pub(crate) fn breaks(&mut self, promise: String) {
        self.check(false, || promise);
    }

    /// When what there is under a version was written.
    pub(crate) fn written_at_ms(&self, version: Version) -> Option<u64> {
        Some(self.versions.get(&version)?.at_ms)
    }
}
