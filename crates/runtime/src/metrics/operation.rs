/// What a request asks for; each is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A value was read.
    Get,
    /// The length of a value was asked for.
    Head,
    /// A value was stored.
    Put,
    /// A value was deleted.
    Delete,
    /// A number was added to.
    Increment,
    /// A value got another expiry.
    Expire,
    /// A range was read.
    Range,
    /// Changes were followed.
    Changes,
    /// Many operations came together.
    Batch,
    /// The node was asked whether it serves.
    Status,
    /// The node was asked whether it lives.
    Live,
    /// The node was asked whether it would serve a request now.
    Ready,
    /// The node was asked for its cluster.
    Cluster,
    /// Another node connected.
    Peer,
    /// A repair was asked for.
    Repair,
    /// A checkpoint was made for a backup.
    Backup,
    /// A file of a checkpoint was read.
    BackupFile,
    /// A checkpoint was released.
    BackupEnd,
    /// The figures were asked for.
    Metrics,
    /// The keys were asked for that clients ask for most.
    Hot,
    /// A profile was asked for.
    Profile,
}

/// Each operation, and what it is called.
pub(super) const OPERATIONS: [(Operation, &str); 21] = [
    (Operation::Get, "get"),
    (Operation::Head, "head"),
    (Operation::Put, "put"),
    (Operation::Delete, "delete"),
    (Operation::Increment, "increment"),
    (Operation::Expire, "expire"),
    (Operation::Range, "range"),
    (Operation::Changes, "changes"),
    (Operation::Batch, "batch"),
    (Operation::Status, "status"),
    (Operation::Live, "livez"),
    (Operation::Ready, "readyz"),
    (Operation::Cluster, "cluster"),
    (Operation::Peer, "peer"),
    (Operation::Repair, "repair"),
    (Operation::Backup, "backup"),
    (Operation::BackupFile, "backup_file"),
    (Operation::BackupEnd, "backup_end"),
    (Operation::Metrics, "metrics"),
    (Operation::Hot, "hot"),
    (Operation::Profile, "profile"),
];
impl Operation {
    /// What it is called in metrics and in the log.
    pub fn word(self) -> &'static str {
        OPERATIONS[self as usize].1
    }
}

/// How requests are called that ask for none of them.
pub(super) const NO_OPERATION: &str = "none";
