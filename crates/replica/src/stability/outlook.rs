use ladoga_cluster::{NODES_MAX, NodeId};

/// What requests may have to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Outlook {
    /// Whether this node may coordinate them.
    pub(crate) may_coordinate: bool,
    /// Peers whose answers count by their last report, as a bit set.
    whole_peers: u64,
}

const _: () = assert!(NODES_MAX <= u64::BITS as usize);

impl Outlook {
    pub(crate) fn new(may_coordinate: bool, whole_peers: impl IntoIterator<Item = NodeId>) -> Outlook {
        let whole_peers = whole_peers.into_iter().fold(0, |peers, peer| peers | 1 << peer.0);
        Outlook { may_coordinate, whole_peers }
    }

    /// Whether the answers of a peer count.
    pub(crate) const fn is_whole_peer(self, peer: NodeId) -> bool {
        self.whole_peers & (1 << peer.0) != 0
    }
}
