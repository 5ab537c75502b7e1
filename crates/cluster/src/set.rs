use crate::nodes::NODES_MAX;

/// Some of the replicas of a key, by their places in its preference list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct ReplicaSet(u64);

const _: () = assert!(NODES_MAX <= u64::BITS as usize);

impl ReplicaSet {
    /// The first `count` replicas.
    pub(crate) const fn first(count: usize) -> ReplicaSet {
        assert!(count <= NODES_MAX);
        ReplicaSet(if count == 64 { u64::MAX } else { (1 << count) - 1 })
    }

    pub(crate) const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn has(self, replica: usize) -> bool {
        self.0 & (1 << replica) != 0
    }

    pub(crate) const fn insert(&mut self, replica: usize) {
        self.0 |= 1 << replica;
    }

    /// Whether it was there.
    pub(crate) const fn remove(&mut self, replica: usize) -> bool {
        let was = self.has(replica);
        self.0 &= !(1 << replica);
        was
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..NODES_MAX).filter(move |&replica| self.has(replica))
    }
}
