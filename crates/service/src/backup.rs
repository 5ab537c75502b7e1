use bytes::Bytes;

/// What a backup asks a node for. In between, the node keeps a checkpoint: a copy of itself at one moment, by hard links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupStep {
    /// A checkpoint, with everything that was acknowledged before.
    Begin,
    /// Bytes of one of its files.
    Read {
        /// Which checkpoint.
        id: u64,
        /// Which file, as its listing names it; or `listing`.
        file: Box<str>,
        /// From where on.
        offset: u64,
        /// How many at most; none at its end.
        bytes_max: u64,
    },
    /// It is not needed any more.
    End {
        /// Which checkpoint.
        id: u64,
    },
}

/// What a node answers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupAnswer {
    /// The checkpoint is there.
    Begun(Begun),
    /// These bytes.
    Bytes(Bytes),
    /// It is released.
    Ended,
}

/// A checkpoint of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// How it is called.
    pub id: u64,
    /// The length of its listing.
    pub listing_bytes: u64,
    /// When it was complete, in milliseconds since 1970, by the clock of the node.
    pub taken_ms: u64,
    /// What it is in its cluster, if the node is of one.
    pub cut: Option<ClusterCut>,
}

/// What a checkpoint of one node is, among those of the other nodes of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterCut {
    /// The URLs of all nodes.
    pub nodes: Vec<String>,
    /// Which of them this one is.
    pub own: usize,
    /// Whether it has all that the node acknowledged.
    pub is_whole: bool,
    /// It has every cell with an older timestamp that any node had, or something newer.
    pub synced_before: u64,
    /// It may lack deletions with an older timestamp, and none with a newer one.
    pub dropped_before: u64,
}
