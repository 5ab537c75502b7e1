use ladoga_model::{ClockError, Quote, Replicas, Version};

use crate::{StoreError, TooFewReplicas};

/// Why the service does not do what it is asked. It names no protocol; its text is one line for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store of this node refuses: over capacity, disk full, failed, unreadable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Other requests for the same key were faster each time.
    #[error("{0}")]
    Contended(&'static str),
    /// What a write depends on is not so. Nothing was written.
    #[error("the precondition is not met by what is stored under the key; nothing was written")]
    PreconditionFailed {
        /// The version of the newest cell, also of a deletion; none if there never was one, or nothing is left of it.
        current: Option<Version>,
    },
    /// There is no value that could get another expiry. Nothing was written.
    #[error("there is no value under this key")]
    NotFound {
        /// The version of its deletion; none if there never was one, or nothing is left of it.
        current: Option<Version>,
    },
    /// A value that is to be added to is no number. Nothing was written.
    #[error("the value is {found}, expected a 64-bit integer in decimal digits; nothing was written")]
    NotANumber {
        /// What it is.
        found: String,
    },
    /// A sum is no 64-bit integer. Nothing was written.
    #[error("{number} plus {by} does not fit into 64 bits; nothing was written")]
    Overflow {
        /// What is there.
        number: i64,
        /// What was to be added.
        by: i64,
    },
    /// Several keys are to be written all or none, by nodes that do not agree on more than one key at a time.
    #[error("the nodes of a cluster decide about one key at a time; all or nothing is for a node on its own")]
    NotTogether,
    /// Too few replicas answered.
    #[error(transparent)]
    TooFewReplicas(Box<TooFewReplicas>),
    /// A range needs more nodes than take part.
    #[error("a range over the cluster needs {} of the {} replicas of every key: {}", replicas.ack, replicas.from, missing.join("; "))]
    RangeIncomplete {
        /// How many nodes of each key it needs.
        replicas: Replicas,
        /// Each node that does not count, and why.
        missing: Vec<String>,
    },
    /// A replica has a newer version than the write, and it is not known whether the write came first.
    #[error(
        "a replica has a newer version of the key, and too few replicas answered before the write; the write may have \
         happened"
    )]
    Overtaken,
    /// Other requests of the key came in between, and it is not known whether this one took effect.
    #[error(
        "other requests changed the key at the same time, and nobody knows whether this one was among those that took effect; \
         the write may have happened"
    )]
    Undecided,
    /// This node was started and has not heard what time it is from a majority.
    #[error(
        "0 of {} replicas were asked, {} are needed: this node has just started and cannot learn the time from a majority \
         of the nodes: {}; nothing was read or written",
        replicas.from, replicas.ack, missing.join("; ")
    )]
    TimeUnknown {
        /// How many replicas had to answer.
        replicas: Replicas,
        /// Each node that cannot be reached, and why.
        missing: Vec<String>,
    },
    /// This node was started and hears no more than a majority, whose clocks do not agree about what has expired.
    #[error(
        "this node has just started, and the clocks that it hears are {apart_ms} ms apart: whether a value has expired depends on \
         which of them is right, and it does not hear enough to know{}; nothing was written",
        after_a_colon(.missing)
    )]
    ClocksApart {
        /// How far they are apart.
        apart_ms: u64,
        /// Each node that cannot be reached, and why.
        missing: Vec<String>,
    },
    /// This node does not know yet whether it lost anything that it acknowledged.
    #[error("{}; before it serves, it must learn from {}: {}", what(*.is_copy), whom(*.is_copy), why(.missing))]
    Starting {
        /// Whether its data directory is a copy or a backup; else it is new.
        is_copy: bool,
        /// Each node that has not answered, and why; none if their answers are not on disk yet.
        missing: Vec<String>,
    },
    /// This node cannot vouch for its part of the answer.
    #[error("{reason}")]
    NotVouched {
        /// Why it cannot.
        reason: String,
    },
    /// This node's clock is too far ahead for the other nodes to take its writes.
    #[error(
        "this node has used or seen timestamps that are too far ahead for the other nodes, and accepts no writes until \
         their time has come: {0}; send the write to another node"
    )]
    ClockAhead(ClockError),
    /// Another node's clock is too far ahead for this node.
    #[error("the clocks of the nodes differ too much: {0}")]
    ClocksDiffer(ClockError),
    /// The time of the write is not reserved on disk yet, so a restart could give it out again.
    #[error("the node has not yet saved its clock to disk")]
    TimeNotReserved,
    /// What is to name a place in the feed of changes is no token.
    #[error("since is {found}, expected a token that this feed gave, or 0 for everything that is stored")]
    NoToken {
        /// What it is.
        found: Quote,
    },
    /// A token names a place in the feed of changes that cannot be gone on from.
    #[error("{reason}; read everything that is stored again, and follow from there on")]
    ChangesGone {
        /// Why not.
        reason: &'static str,
        /// The oldest token that can be gone on from.
        oldest: Box<str>,
    },
    /// There is no feed of changes.
    #[error("the store of this node has no feed of changes")]
    NoChanges,
    /// Nothing is kept here that could be backed up.
    #[error("this node keeps nothing on its own disk: back up the engine behind it by its own means")]
    NoBackups,
    /// There are as many checkpoints as there may be.
    #[error(
        "over capacity: this node has {checkpoints_max} checkpoints for backups, and no more at a time; wait until another backup ends{}",
        or_until_released(*.wait_s)
    )]
    CheckpointsTaken {
        /// How many there may be.
        checkpoints_max: usize,
        /// After how many seconds the first of them is released, if nobody reads it until then; `None` if all are being made.
        wait_s: Option<u64>,
    },
    /// A checkpoint is not there any more, or has no such file.
    #[error(
        "there is no such {what}; a checkpoint is released when it is unused for a minute or the node is restarted"
    )]
    NoCheckpoint {
        /// What is missing.
        what: &'static str,
    },
    /// There is no log, or not this part of it.
    #[error("{0}")]
    NoLog(&'static str),
    /// The engine cannot do this, or not as it is set.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The store is not open yet.
    #[error("the node is opening its data directory")]
    Opening,
    /// The node is about to stop.
    #[error("the node is draining: it is shutting down")]
    Draining,
}

impl Error {
    /// Whether a write that gets this answer may have happened all the same.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Error::TooFewReplicas(too_few) => too_few.may_have_happened,
            // What went on behind the network, or on a disk that failed, nobody knows.
            Error::Store(StoreError::Unreachable { .. } | StoreError::Failed { .. })
            | Error::Overtaken
            | Error::Undecided => true,
            _ => false,
        }
    }
}

fn after_a_colon(missing: &[String]) -> String {
    if missing.is_empty() { String::new() } else { format!(": {}", missing.join("; ")) }
}

fn or_until_released(wait_s: Option<u64>) -> String {
    wait_s.map_or_else(String::new, |wait_s| {
        format!("; if no other backup is running, wait {wait_s} s at most: what an interrupted one left is released after a minute")
    })
}

fn what(is_copy: bool) -> &'static str {
    if is_copy {
        "the data directory of this node was copied or restored"
    } else {
        "the data directory of this node is new"
    }
}

fn whom(is_copy: bool) -> &'static str {
    if is_copy {
        "each of the other nodes whether it lacks acknowledged writes"
    } else {
        "the other nodes whether it had a data directory before"
    }
}

fn why(missing: &[String]) -> String {
    if missing.is_empty() { "their answers are not on its disk yet".to_owned() } else { missing.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_how_many_and_why() {
        let failures = vec![
            ("http://b".to_owned(), "timed out".to_owned()),
            ("http://c".to_owned(), "unreachable".to_owned()),
        ];
        let error = TooFewReplicas { acked: 1, required: 2, asked: 3, failures, may_have_happened: true };
        assert_eq!(
            Error::TooFewReplicas(Box::new(error)).to_string(),
            "1 of 3 replicas answered, expected 2: http://b timed out; http://c unreachable; the write may have happened"
        );
    }

    #[test]
    fn clocks_that_differ_are_told_with_the_nodes_that_are_missing() {
        let error = |missing| Error::ClocksApart { apart_ms: 86_400_000, missing }.to_string();
        let why = "this node has just started, and the clocks that it hears are 86400000 ms apart: whether a value has expired \
                   depends on which of them is right, and it does not hear enough to know";
        assert_eq!(error(Vec::new()), format!("{why}; nothing was written"));
        let missing = ["http://b timed out", "http://c is down"].map(str::to_owned);
        let text = error(missing.to_vec());
        assert_eq!(text, format!("{why}: http://b timed out; http://c is down; nothing was written"));
    }

    #[test]
    fn a_write_may_have_happened_if_nobody_can_say() {
        let too_few = |may_have_happened| {
            let failures = Vec::new();
            TooFewReplicas { acked: 1, required: 2, asked: 3, failures, may_have_happened }
        };
        let unreachable = StoreError::Unreachable { reason: "timed out".into() };
        for (error, may_have_happened) in [
            (Error::TooFewReplicas(Box::new(too_few(true))), true),
            (Error::TooFewReplicas(Box::new(too_few(false))), false),
            (Error::Undecided, true),
            (Error::Store(unreachable), true),
            (Error::Store(StoreError::OverCapacity { bound: "8 writes" }), false),
            (Error::PreconditionFailed { current: None }, false),
        ] {
            assert_eq!(error.may_have_happened(), may_have_happened, "{error}");
        }
    }

    #[test]
    fn an_error_costs_an_answer_that_is_none_no_more_than_a_cell() {
        assert_eq!(
            size_of::<Result<Option<crate::StoredCell>, Error>>(),
            size_of::<Option<crate::StoredCell>>()
        );
    }
}
