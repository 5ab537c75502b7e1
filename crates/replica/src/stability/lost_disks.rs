use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_cluster::NodeId;

/// Which nodes lost their disks, as this one has met them since it began. To ask whether any did since a request began costs that
/// request two loads.
#[derive(Debug)]
pub(crate) struct LostDisks {
    count: AtomicU64,
    /// The count when a node last lost its disk; zero if it never did. By node.
    last: Vec<AtomicU64>,
}

/// How many disks had been lost at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DisksLost(u64);

impl LostDisks {
    pub(crate) fn new(nodes: usize) -> LostDisks {
        LostDisks { count: AtomicU64::new(0), last: (0..nodes).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A node that was met before is back with another directory. The caller holds the lock of the state.
    pub(super) fn note(&self, node: NodeId) {
        let count = self.count.load(Ordering::Relaxed) + 1;
        self.last[node.index()].store(count, Ordering::Relaxed);
        // After the node's: who sees the count sees whose disk it was.
        self.count.store(count, Ordering::Release);
    }

    pub(crate) fn now(&self) -> DisksLost {
        DisksLost(self.count.load(Ordering::Acquire))
    }

    /// The first of these nodes that lost its disk since then, by its place among them.
    pub(crate) fn place_since(&self, then: DisksLost, nodes: &[NodeId]) -> Option<usize> {
        if self.now() == then {
            return None;
        }
        nodes.iter().position(|node| self.last[node.index()].load(Ordering::Relaxed) > then.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_counts_for_who_began_before_it_was_lost() {
        let lost = LostDisks::new(4);
        let [one, other] = [NodeId(1), NodeId(3)];
        let before = lost.now();
        assert_eq!(lost.place_since(before, &[one, other]), None);
        lost.note(other);
        let between = lost.now();
        assert_eq!(lost.place_since(before, &[one, other]), Some(1));
        assert_eq!(lost.place_since(before, &[one, NodeId(0)]), None, "it is no replica");
        assert_eq!(lost.place_since(between, &[one, other]), None);
        lost.note(one);
        assert_eq!(lost.place_since(between, &[one, other]), Some(0));
        assert_eq!(lost.place_since(lost.now(), &[one, other]), None);
    }
}
