use ladoga_cluster::{NodeId, Request, Response};
use ladoga_model::Version;

use crate::checker::Key;
use crate::operation::Told;

/// What a process wants of the world.
#[derive(Debug)]
pub(crate) enum Effect {
    Ask(NodeId, u64, Request<Key>),
    Answer(NodeId, u64, Response<Key>),
    Timer(u64, Timer),
    /// The client of this request is told.
    Tell(u64, Told),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Tick,
    /// Of an operation, in this attempt.
    Deadline(u64, u32),
    /// Of a read that waits for answers which may spare it a repair.
    Hurry(u64),
    /// Of a request to a peer.
    Unanswered(u64),
    /// Of a pull whose tree is to be compared further.
    Compare(u64),
}

/// Why a peer was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    Write { operation: u64, attempt: u32, place: usize },
    Read { operation: u64, place: usize },
    Repair { operation: u64, place: usize, version: Version },
    Hint { peer: NodeId, number: u64 },
    Statement { at_ms: u64 },
    SyncSession { pull: u64, number: u64 },
}
