/// What a store can answer instead of doing what it is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A bound is reached: not now.
    #[error("over capacity: {bound}")]
    OverCapacity {
        /// Which bound.
        bound: &'static str,
    },
    /// There is no room on the disk for more values.
    #[error("{reason}")]
    NoRoom {
        /// What is missing.
        reason: String,
    },
    /// It takes no writes until somebody looks after it.
    #[error("{reason}")]
    Failed {
        /// What went wrong first.
        reason: String,
    },
    /// What is asked for is there and cannot be read.
    #[error("{reason}")]
    Unreadable {
        /// Which file, where in it, what was expected and found.
        reason: String,
    },
}
