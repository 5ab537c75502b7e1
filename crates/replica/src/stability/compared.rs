use ladoga_cluster::{AsOf, MerkleDiff, MerkleTree, NodeId, PairLeaves};
use ladoga_local::store::CellChange;
use parking_lot::Mutex;

#[cfg(feature = "simulation")]
use crate::planted::{Bug, has};

/// The tree over what this node has, as peers compare it with theirs. It has a lock of its own: to compare trees takes
/// longer than a write should wait for anything else.
pub(crate) struct ComparedTree(Mutex<Filled>);

/// The tree, and how far it can be relied on.
struct Filled {
    tree: MerkleTree,
    /// Whether every cell of the store is in it.
    is_whole: bool,
    /// A time as of which peers compare and that cuts a span of deletions: the tree has to be filled anew, with that time as a
    /// boundary.
    cut_at: Option<u64>,
}

impl ComparedTree {
    /// One that the cells are still to be put into.
    pub(super) const fn new(tree: MerkleTree) -> ComparedTree {
        ComparedTree(Mutex::new(Filled { tree, is_whole: false, cut_at: None }))
    }

    /// Whether every cell of the store is in it.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.lock().is_whole
    }

    /// Looks at the tree, unless cells are missing in it.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&MerkleTree) -> T) -> Option<T> {
        let filled = self.0.lock();
        filled.is_whole.then(|| look(&filled.tree))
    }

    /// What it takes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().tree.bytes()
    }

    /// Leaves tombstones before this out from now on. Answers before which they are.
    pub(super) fn drop_before(&self, timestamp: u64) -> u64 {
        let tree = &mut self.0.lock().tree;
        tree.drop_before(timestamp);
        tree.dropped_before()
    }

    /// The tree has to be filled anew, so that tombstones from before this are kept apart from later ones.
    pub(crate) fn refill_from(&self, at: u64) {
        self.0.lock().cut_at = Some(at);
    }

    /// Whether that was found out.
    pub(crate) fn is_to_be_filled(&self) -> bool {
        let filled = self.0.lock();
        filled.is_whole && filled.cut_at.is_some()
    }

    /// The hashes that a peer asked for.
    pub(crate) async fn groups(&self, peer: NodeId, slice: AsOf) -> Option<(u64, Vec<u64>)> {
        let dropped_before = self.with(|tree| slice.dropped_before.max(tree.dropped_before()))?;
        if self.with(|tree| tree.cuts(dropped_before))? {
            self.refill_from(dropped_before);
            return None;
        }
        let pair = self.scan(MerkleDiff::of_all(peer, AsOf { dropped_before, ..slice })).await?;
        Some((dropped_before, pair.groups().to_vec()))
    }

    /// The leaves that a peer asked for.
    pub(crate) async fn leaves(&self, peer: NodeId, slice: AsOf, groups: &[u8]) -> Option<Vec<u64>> {
        let pair = self.scan(MerkleDiff::of_groups(peer, slice, groups.to_vec())).await?;
        Some(groups.iter().flat_map(|&group| pair.group(group)).copied().collect())
    }

    /// Lets everything else have its turn between two steps: requests, and the writes that wait for the tree.
    async fn scan(&self, mut scan: MerkleDiff) -> Option<PairLeaves> {
        while self.with(|tree| scan.step(tree))?? {
            tokio::task::yield_now().await;
        }
        Some(scan.finish())
    }

    /// Begins anew, without any cell.
    pub(super) fn empty(&self) {
        let mut filled = self.0.lock();
        let boundary = filled.cut_at.take().unwrap_or(0);
        (filled.tree, filled.is_whole) = (filled.tree.emptied(boundary), false);
    }

    /// Cells took the place of others.
    pub(super) fn replaced(&self, changes: &[CellChange]) {
        let tree = &mut self.0.lock().tree;
        for CellChange { key_hash, old, new } in changes {
            #[cfg(feature = "simulation")]
            if has(Bug::ExpiryNotInTrees) {
                tree.replaced_without_expiring(*key_hash, *old, *new);
                continue;
            }
            tree.replaced(*key_hash, *old, *new);
        }
    }

    /// Every cell of the store is in it.
    pub(super) fn mark_whole(&self) {
        self.0.lock().is_whole = true;
    }
}
