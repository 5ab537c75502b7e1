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
    /// What is kept of the log, with everything in it that was acknowledged before.
    Log {
        /// Only segments that end behind this group.
        after: u64,
    },
    /// Bytes of a file of the log.
    ReadLog {
        /// Which file, such as `log/000012.wal`.
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
    /// This is kept of the log.
    Log(LogKept),
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
    /// It may lack deletions with an older timestamp, as far as this process has dropped them, and no others.
    pub dropped_before: u64,
    /// What it is in its cluster, if the node is of one.
    pub cut: Option<ClusterCut>,
    /// Where it ends in the log, if the node keeps its log: what the store is called, and the first group that may not be in it.
    pub log: Option<(u128, u64)>,
}

/// What a node keeps of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogKept {
    /// What its store is called.
    pub store: u128,
    /// Everything that was acknowledged by then is in groups before `end_sequence`; in milliseconds since 1970. It is a time of
    /// versions, and ahead of the clock if they are.
    pub reaches_ms: u64,
    /// The first group that may not be in a segment.
    pub end_sequence: u64,
    /// The oldest segments of those that were asked for.
    pub segments: Vec<LogSegment>,
    /// What the node is in its cluster, if it is of one.
    pub member: Option<LogMember>,
}

/// What a node that keeps its log is in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMember {
    /// The URLs of all nodes.
    pub nodes: Vec<String>,
    /// Which of them this one is.
    pub own: usize,
    /// Whether it has all that it acknowledged.
    pub is_whole: bool,
    /// Which of the directories that it has had this is: another one as soon as it has lost what it acknowledged.
    pub incarnation: u64,
}

/// A segment of a log, which a node keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSegment {
    /// Its number.
    pub number: u64,
    /// Its first group.
    pub first_sequence: u64,
    /// The first group of the next one.
    pub end_sequence: u64,
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
    /// Which of the directories that the node has had this is.
    pub incarnation: u64,
}
