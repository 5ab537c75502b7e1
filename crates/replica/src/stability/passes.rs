//! The passes in which this node pulls from its peers what it does not have, and which tombstones may go after them.

use ladoga_cluster::{NodeId, SyncRound};

use super::state::Stability;

impl Stability {
    /// The pass that is to be made, once the tree can be compared.
    pub(crate) fn pass(&self) -> Option<SyncRound> {
        if self.tree.is_whole() { self.state.lock().tracker.pass().cloned() } else { None }
    }

    /// Whether what is missing is looked for in lists of everything.
    pub(crate) fn lists_all(&self) -> bool {
        self.state.lock().tracker.lists_all()
    }

    /// Whether a peer is told of all that it should hold, also of what this node should not; and of what is for at least so many
    /// nodes.
    pub(crate) fn tells_of_all(&self) -> Option<u8> {
        self.state.lock().tracker.tells_of_all()
    }

    /// Whether a peer has to wait with what it wants to pull.
    pub(crate) fn holds_up_pulls_of(&self, peer: NodeId) -> bool {
        self.state.lock().tracker.holds_up_pulls_of(peer)
    }

    /// All of a pass was pulled from a peer.
    pub(crate) fn pulled(&self, number: u64, peer: NodeId) {
        self.change(|state| state.tracker.pulled(number, peer));
    }

    /// Values from before this that a peer should hold and does not have were deleted; 0 if none are looked for.
    pub(crate) fn prune_before(&self, peer: NodeId) -> u64 {
        self.state.lock().tracker.prune_before(peer)
    }

    /// Tombstones before this may go; they are left out of the tree from now on.
    pub(crate) fn drop_tombstones(&self) -> u64 {
        let before = self.state.lock().tracker.droppable_before();
        self.tree.drop_before(before)
    }

    /// Tombstones before this may go.
    pub(crate) fn droppable_before(&self) -> u64 {
        self.state.lock().tracker.droppable_before()
    }

    /// A pass cannot be made any more.
    pub(crate) fn abandon(&self, number: u64) {
        self.change(|state| state.tracker.abandon(number));
    }
}
