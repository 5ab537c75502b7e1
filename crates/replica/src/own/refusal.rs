use ladoga_cluster::Refusal;
use ladoga_local::store::StoreError;

/// What an error of the store is to a peer.
pub(crate) fn refusal(error: &StoreError) -> Refusal {
    match error {
        StoreError::OverCapacity { .. } => Refusal::OverCapacity,
        StoreError::NoRoom { .. } => Refusal::NoRoom,
        // Which cells were kept out is looked at before: see `Arrival`.
        // No peer asks for several keys together.
        // No store of a node is behind a network.
        StoreError::Failed { .. }
        | StoreError::Unreachable { .. }
        | StoreError::Fenced(_)
        | StoreError::RangeBroken { .. }
        | StoreError::TooLargeTogether { .. }
        | StoreError::TooManyTogether { .. } => Refusal::StoreFailed,
        // A value that another node was to give.
        StoreError::TooFewReplicas(_) | StoreError::Unreadable { .. } => Refusal::Unreadable,
    }
}
