//! The cluster, as pure state machines: `(now, event) -> outputs`. No async, no I/O, no clocks, no threads.
//!
//! - `nodes`: who there is; `placement`: who holds what
//! - `coverage`: which nodes can answer for all keys
//! - `write`, `read`: one request, as its coordinator decides it
//! - `failure`: why a replica did not answer, and what the client is told
//! - `messages`: what nodes say to each other
//! - `hints`: what is kept for a peer that is away
//! - `tree`: what two nodes both hold, as hashes; `leaves`, `spans`: what it consists of; `pair`: these, put together in small steps; `pull`: how one gets from the other what it lacks
//! - `pace`: how fast all of that may go beside clients
//! - `peer_clocks`: what time it is by a majority of the nodes
//! - `reach`: how far a data directory was, and whether it is an older state
//! - `settle`: who lost its data, what everybody has, which tombstones may go
#![forbid(unsafe_code)]

mod cell;
mod coverage;
#[cfg(test)]
mod exhaustive;
mod failure;
mod hints;
mod incarnation;
mod leaves;
mod messages;
mod nodes;
mod pace;
mod pair;
mod peer_clocks;
mod placement;
mod pull;
mod reach;
mod read;
mod set;
mod settle;
mod spans;
mod tree;
mod write;

pub use cell::{Cell, Content};
pub use coverage::covers;
pub use failure::{Failure, QuorumError, Refusal};
pub use hints::{HINT_AGE_MS_MAX, HINT_BYTES_MAX, HINTS_IN_FLIGHT_MAX, Hint, HintQueue, HintStep};
pub use incarnation::Incarnation;
pub use ladoga_model::CellMark;
pub use messages::{
    Hello, HelloError, LEAF_GROUPS_MAX, LIST_BYTES_MAX, LIST_KEYS_MAX, LIST_SCAN_MAX, Listed, Origin,
    PROTOCOL_VERSION, Request, Response, Slice, Want,
};
pub use nodes::{Difference, NODES_MAX, Node, NodeId, NodeList, NodesError};
pub use pace::{
    Foreground, PACE_BYTES_PER_SECOND_MAX, PACE_CELLS_PER_SECOND_MAX, PACE_INTERVAL_MS, PaceRate, Pacer,
};
pub use pair::{PairLeaves, PairScan, SCAN_LEAVES_MAX};
pub use peer_clocks::{CLOCK_MARGIN_MS, ClockReading, PeerClocks, TimeBounds};
pub use placement::{PARTITIONS, Partition, Placement};
pub use pull::{Prune, Pull, PullFailure, PullProgress, PullStep};
pub use reach::{Memory, Opening, Reach, Regression};
pub use read::{READ_WAIT_MS, ReadAnswer, ReadCore, ReadStep};
pub use settle::{Acquaintance, Durable, Pass, RESERVE_MS, SETTLE_MS, Settlement, Statement};
pub use tree::{HashTree, WINDOW_MS};
pub use write::{RESTAMPS_MAX, WriteCore, WriteStep};

/// How far ahead of a node's own clock the version of a write may be: more than two clocks that are both half a minute
/// off. A replica refuses what is further ahead, and counts it; its clock takes over what is not (see
/// [`ladoga_model::HybridClock`]), so that its own next write is newer.
pub const VERSION_AHEAD_MS_MAX: u64 = 120_000;
