use ladoga_model::{Durability, Replicas, TraceContext, Ttl};

use crate::Precondition;

/// What a request asks for beside its key, independent of any protocol. New features of requests get their field here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// On how many nodes the key lives, and how many of them have to answer.
    pub replicas: Replicas,
    /// How much of its time the request has spent waiting until the service was ready.
    pub waited_ms: u64,
    /// What has to be true for a write to happen.
    pub precondition: Precondition,
    /// The time to live of the value that is put; none for ever.
    pub ttl: Option<Ttl>,
    /// How durable a write has to be before it is answered; none if as durable as the node makes it.
    pub durability: Option<Durability>,
    /// The span of the request, if its trace is recorded.
    pub trace: Option<TraceContext>,
}

impl Context {
    /// The context of a request with no other wishes.
    pub const fn new(replicas: Replicas) -> Context {
        Context {
            replicas,
            waited_ms: 0,
            precondition: Precondition::None,
            ttl: None,
            durability: None,
            trace: None,
        }
    }
}
