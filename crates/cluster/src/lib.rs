//! The cluster, as pure state machines: `(now, event) -> outputs`. No async, no I/O, no clocks, no threads.
//!
//! - `nodes`: who there is; `placement`: who holds what
//! - `replicas`: how many copies, how many answers
//! - `write`, `read`: one request, as its coordinator decides it
//! - `failure`: why a replica did not answer, and what the client is told
#![forbid(unsafe_code)]

mod cell;
#[cfg(test)]
mod exhaustive;
mod failure;
mod nodes;
mod placement;
mod read;
mod replicas;
mod set;
mod write;

pub use cell::{Cell, Content};
pub use failure::{Failure, QuorumError, Refusal};
pub use nodes::{Difference, NODES_MAX, Node, NodeId, NodeList, NodesError};
pub use placement::{PARTITIONS, Partition, Placement};
pub use read::{ReadAnswer, ReadCore, ReadStep};
pub use replicas::{Replicas, ReplicasError};
pub use write::{WriteCore, WriteStep};

/// How far ahead of a node's own clock the version of a write may be: more than two clocks that are both half a minute
/// off. A replica refuses what is further ahead, and counts it; its clock takes over what is not (see
/// [`ladoga_model::HybridClock`]), so that its own next write is newer.
pub const VERSION_AHEAD_MS_MAX: u64 = 120_000;
