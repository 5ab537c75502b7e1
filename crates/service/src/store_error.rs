use ladoga_model::Version;

use crate::TooFewReplicas;

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
    /// It takes no writes until an operator intervenes.
    #[error("{reason}")]
    Failed {
        /// What went wrong first.
        reason: String,
    },
    /// What is asked for is there and cannot be read.
    #[error("{reason}")]
    Unreadable {
        /// The file, the offset, and what was expected and found.
        reason: String,
    },
    /// An engine behind the network does not serve: not now.
    #[error("{reason}")]
    Unreachable {
        /// What it answers, or why it does not.
        reason: Box<str>,
    },
    /// Too few nodes gave a large value, or a part of one, or took it.
    #[error(transparent)]
    TooFewReplicas(Box<TooFewReplicas>),
    /// A range over several nodes has begun, and needs one that has failed since.
    #[error("{reason}")]
    RangeBroken {
        /// What it needs, and each node that does not take part, and why.
        reason: Box<str>,
    },
    /// Cells that are to be written all or none do not fit into one record of the log, or into memory.
    #[error(
        "the operations take up to {bytes} bytes, and at most {bytes_max} can be written all or nothing with the memory that the node \
         has; send fewer at a time, or give the node more with --memory"
    )]
    TooLargeTogether {
        /// How many bytes they take there at most.
        bytes: u64,
        /// How many there may be.
        bytes_max: u64,
    },
    /// More cells are to be written all or none than there are versions of one moment.
    #[error(
        "the operations write {cells} keys, and at most {cells_max} can be written all or nothing; send fewer at a time"
    )]
    TooManyTogether {
        /// How many they are.
        cells: u64,
        /// How many there may be.
        cells_max: u64,
    },
    /// Some of the cells are older than what was promised about their keys: those are not written, all others are.
    #[error("{} of the cells are older than what was promised to a conditional write", .0.len())]
    Fenced(Vec<FencedCell>),
}

/// A cell that was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FencedCell {
    /// Which of the cells that were to be written together.
    pub cell: usize,
    /// The version of the promise.
    pub fence: Version,
}
