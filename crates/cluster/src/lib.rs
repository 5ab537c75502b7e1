//! The cluster, as pure state machines: `(now, event) -> outputs`. No async, no I/O, no clocks, no threads.
//!
//! - `nodes`: the list of nodes; `placement`: which nodes hold which keys
//! - `coverage`: which nodes can answer for all keys
//! - `write`, `read`: one request, decided by its coordinator; `sent`: what replicas send to a read
//! - `proposal`: a ballot of a conditional write, decided by its coordinator; `ballots`: what became of those before it; `fences`:
//!   what a replica has promised; `promised`: what it remembers of that
//! - `failure`: why a replica did not answer, and the error for the client
//! - `hints`: writes that are kept for a peer that is away
//! - `tree`: the cells that two nodes both hold, as hashes; `leaves`, `deletions`, `window`: its parts
//! - `slice`: the time as of which two nodes compare; `merkle_diff`: the hashes for that, computed in small steps; `pull`: how
//!   a node gets from the other what it lacks
//! - `pace`: how fast repair may go beside clients
//! - `peer_clocks`: the time by a majority of the nodes
//! - `reach`: how far a data directory was written, and whether it was rolled back
//! - `incarnation`: which data directory of a node is the latest; `statement`: what nodes tell each other about that
//! - `durable`: what a node must not forget; `relisted`: what becomes of that with another list of nodes
//! - `stability`: which node lost its data, what every node has, which tombstones may go
#![forbid(unsafe_code)]

mod ballots;
mod coverage;
mod deletions;
mod durable;
#[cfg(test)]
mod exhaustive;
mod failure;
mod fences;
mod hints;
mod incarnation;
mod leaves;
mod merkle_diff;
mod nodes;
mod origin;
mod pace;
mod peer_clocks;
mod placement;
mod promised;
mod proposal;
mod pull;
mod reach;
mod read;
mod relisted;
mod sent;
mod set;
mod slice;
mod stability;
mod statement;
mod tree;
mod window;
mod write;

pub use ballots::{Ballots, Course};
pub use coverage::covers;
pub use durable::{DURABLE_BYTES_MAX, DURABLE_FORMAT, Durable, KeptState, Relisting};
pub use failure::{Failure, QuorumError, Refusal};
pub use fences::{FENCED_KEYS_MAX, Fences, NoPromise, Overtaken};
pub use hints::{HINT_AGE_MS_MAX, HINT_BYTES_MAX, HINTS_IN_FLIGHT_MAX, Hint, HintQueue, HintStep};
pub use incarnation::Incarnation;
pub use merkle_diff::{MerkleDiff, PairLeaves, SCAN_LEAVES_MAX};
pub use nodes::{Difference, NODES_MAX, Node, NodeId, NodeList, NodesError};
pub use origin::Origin;
pub use pace::{
    Foreground, PACE_BYTES_PER_SECOND_MAX, PACE_CELLS_PER_SECOND_MAX, PACE_INTERVAL_MS, PaceRate, Pacer,
};
pub use peer_clocks::{CLOCK_MARGIN_MS, ClockReading, ExpiryTime, PeerClocks, TimeBounds};
pub use placement::{PARTITIONS, Partition, Placement};
pub use promised::PromisedBallots;
pub use proposal::{AcceptAnswer, PrepareAnswer, ProposalCore, ProposalError, ProposalStep};
pub use pull::{
    KeyVersion, LEAF_GROUPS_MAX, LIST_BYTES_MAX, LIST_KEYS_MAX, LIST_SCAN_MAX, Prune, PullFailure,
    PullProgress, PullRequest, PullResponse, PullStep, SyncSession,
};
pub use reach::{Memory, Opening, Reach, Regression};
pub use read::{READ_WAIT_MS, ReadCore, ReadStep};
pub use relisted::random_of_list;
pub use sent::{ReadAnswer, SentCell};
pub use slice::AsOf;
pub use stability::{RESERVE_MS, SETTLE_MS, StabilityTracker, SyncRound};
pub use statement::{Acquaintance, Statement};
pub use tree::MerkleTree;
pub use window::WINDOW_MS;
pub use write::{Had, RESTAMPS_MAX, WriteAnswer, WriteCore, WriteStep};
