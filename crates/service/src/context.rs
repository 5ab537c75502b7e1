use ladoga_model::Replicas;

/// What a request says beside its key, in the words of no protocol. What later requests may say gets its field here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// On how many nodes the key lives, and how many of them have to answer.
    pub replicas: Replicas,
    /// How much of its time the request has spent waiting until the service was ready.
    pub waited_ms: u64,
}
