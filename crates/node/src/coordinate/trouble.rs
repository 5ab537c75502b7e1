use std::fmt::Write;

use ladoga_cluster::{Failure, QuorumError};

use super::plan::Plan;
use crate::http::Refusal;
use crate::peers::PeerError;
use crate::store::Store;

/// What keeps a peer from answering, in the words of the machines.
pub(super) fn failure(error: &PeerError) -> Failure {
    match error {
        PeerError::Unreachable(_) | PeerError::Refused(_) => Failure::Unreachable,
        PeerError::Broken(_) => Failure::Broken,
        PeerError::Silent { .. } => Failure::TimedOut,
        PeerError::Full { .. } => Failure::Refused(ladoga_cluster::Refusal::OverCapacity),
    }
}

/// `504`: too few replicas answered. Says how many did, how many had to, and what each of the others did.
pub(super) fn too_few<S: Store>(plan: &Plan<S>, error: &QuorumError, may_have_happened: bool) -> Refusal {
    let QuorumError { acked, required, asked, failures } = error;
    let mut line = format!("{acked} of {asked} replicas answered, expected {required}");
    for (position, (replica, failure)) in failures.iter().enumerate() {
        let separator = if position == 0 { ": " } else { "; " };
        let url = plan.cluster.nodes.name(plan.node(*replica));
        // Writing to a string does not fail.
        let _ = write!(line, "{separator}{url} {failure}");
    }
    if may_have_happened {
        line.push_str("; the write may have happened all the same");
    }
    Refusal::too_few_replicas(line)
}
