use ladoga_model::Replicas;

use crate::Precondition;

/// What a request says beside its key, in the words of no protocol. What later requests may say gets its field here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// On how many nodes the key lives, and how many of them have to answer.
    pub replicas: Replicas,
    /// How much of its time the request has spent waiting until the service was ready.
    pub waited_ms: u64,
    /// What has to be true for a write to happen.
    pub precondition: Precondition,
}

impl Context {
    /// Of a request that says nothing else.
    pub const fn new(replicas: Replicas) -> Context {
        Context { replicas, waited_ms: 0, precondition: Precondition::None }
    }
}
