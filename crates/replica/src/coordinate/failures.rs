use std::time::Duration;

use ladoga_cluster::{Failure, QuorumError, Refusal};
use ladoga_service::{Error, TooFewReplicas};

use super::plan::Plan;
use crate::link::PeerError;
use crate::wire::Answer;
use ladoga_local::store::Store;

/// What keeps a peer from answering, in the words of the machines.
pub(super) fn failure(error: &PeerError) -> Failure {
    match error {
        PeerError::Unreachable(_) | PeerError::Refused(_) => Failure::Unreachable,
        PeerError::Broken(_) => Failure::Broken,
        PeerError::Silent { .. } => Failure::TimedOut,
        PeerError::Full { .. } => Failure::Refused(Refusal::OverCapacity),
    }
}

/// The failure that an answer means, if it is not one of those that were expected.
pub(super) fn unexpected(answer: Result<Answer, PeerError>) -> Failure {
    match answer {
        Ok(Answer::Refused(refusal)) => Failure::Refused(refusal),
        Ok(_) => Failure::Broken,
        Err(error) => failure(&error),
    }
}

/// What a replica says to a part of a request, unless that takes longer than this, from now on. A replica whose disk hangs lives: its
/// connection does not break.
pub(super) fn within<T>(
    limit_ms: u64,
    said: impl Future<Output = Result<T, Failure>>,
) -> impl Future<Output = Result<T, Failure>> {
    let said = tokio::time::timeout(Duration::from_millis(limit_ms), said);
    async move { said.await.unwrap_or(Err(Failure::TimedOut)) }
}

/// Whether a replica would not take the newest cell for a promise that it gave.
pub(super) fn is_fenced(error: &QuorumError) -> bool {
    error.failures.iter().any(|(_, failure)| *failure == Failure::Fenced)
}

/// Too few replicas answered: names those that did not.
pub(super) fn too_few<S: Store>(plan: &Plan<S>, error: &QuorumError, may_have_happened: bool) -> Error {
    let &QuorumError { acked, required, asked, ref failures } = error;
    let name = |replica: usize| plan.cluster().node_url(plan.node(replica));
    let failures = failures.iter().map(|(replica, failure)| (name(*replica), failure.to_string()));
    let failures = failures.collect();
    Error::TooFewReplicas(Box::new(TooFewReplicas { acked, required, asked, failures, may_have_happened }))
}
