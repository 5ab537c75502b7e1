use std::fmt;

use ladoga_model::ClockError;

/// Why a replica did not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Failure {
    /// There is no connection to it, and none could be made.
    #[error("unreachable")]
    Unreachable,
    /// The connection broke while it was being asked; it may have done it.
    #[error("the connection broke")]
    Broken,
    /// It did not answer in time; it may have done it.
    #[error("timed out")]
    TimedOut,
    /// It has a newer version, and is not known to have had the one that was written.
    #[error("has a newer version, which another write at the same time gave it")]
    Superseded,
    /// It promised to take nothing older than a conditional write that is under way.
    #[error("waits for a conditional write of the key")]
    Fenced,
    /// It answered that it does not.
    #[error("refused: {0}")]
    Refused(Refusal),
}

impl Failure {
    /// Whether the replica may have done what it was asked. Who cannot be reached was not asked; and who refuses has not done it,
    /// unless its disk failed while it was at it.
    pub const fn may_have_done_it(self) -> bool {
        match self {
            Failure::Broken | Failure::TimedOut | Failure::Superseded => true,
            Failure::Unreachable | Failure::Fenced => false,
            Failure::Refused(refusal) => matches!(refusal, Refusal::StoreFailed),
        }
    }
}

/// Why a replica refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// A bound is reached.
    #[error("over capacity")]
    OverCapacity,
    /// No room for values.
    #[error("its disk is full")]
    NoRoom,
    /// Its store takes no writes any more.
    #[error("its disk failed")]
    StoreFailed,
    /// What is asked for is there and cannot be read.
    #[error("it cannot read its data")]
    Unreadable,
    /// The version is further ahead of its clock than it may be.
    #[error("{0}")]
    ClockAhead(ClockError),
    /// The version is older than what it takes.
    #[error("the version is too old; it accepts versions from {write_floor} on")]
    TooOld {
        /// The oldest timestamp that it takes.
        write_floor: u64,
    },
    /// It lost its data and does not have it back yet.
    #[error("it is being rebuilt")]
    Rebuilding,
    /// It does not know yet whether it lost its data.
    #[error(
        "its data directory is new, copied or restored, and the other nodes have not yet confirmed that nothing is lost"
    )]
    Starting,
    /// It is going down.
    #[error("it is shutting down")]
    Draining,
}

/// Why a request was not answered by as many replicas as it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumError {
    /// How many did.
    pub acked: usize,
    /// How many had to.
    pub required: usize,
    /// How many were asked.
    pub asked: usize,
    /// Those that did not, by their place in the key's preference list, and why.
    pub failures: Vec<(usize, Failure)>,
}

impl fmt::Display for QuorumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} replicas answered, expected {}", self.acked, self.asked, self.required)?;
        for (n, (replica, failure)) in self.failures.iter().enumerate() {
            let separator = if n == 0 { ": " } else { "; " };
            write!(f, "{separator}replica {}: {failure}", replica + 1)?;
        }
        Ok(())
    }
}

impl std::error::Error for QuorumError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_how_many_and_why() {
        let ahead = ClockError { ahead_ms: 5, ahead_ms_max: 3 };
        let error = QuorumError {
            acked: 1,
            required: 2,
            asked: 3,
            failures: vec![(1, Failure::TimedOut), (2, Failure::Refused(Refusal::ClockAhead(ahead)))],
        };
        assert_eq!(
            error.to_string(),
            "1 of 3 replicas answered, expected 2: replica 2: timed out; \
             replica 3: refused: the timestamp is 5 ms ahead, expected at most 3 ms"
        );
    }
}
