use std::rc::Rc;

/// Why a peer did not answer. What it answered, even a failure, is an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerError {
    /// No connection came about.
    #[error("cannot be reached: {0}")]
    Unreachable(Rc<str>),
    /// It is not of this cluster, or does not serve.
    #[error("{0}")]
    Refused(Rc<str>),
    /// The connection ended before the answer came.
    #[error("the connection broke: {0}")]
    Broken(Rc<str>),
    /// It is connected, but sends nothing.
    #[error("silent for {silent_ms} ms, expected an answer within {timeout_ms} ms")]
    Silent {
        /// For how long.
        silent_ms: u64,
        /// How long it may be.
        timeout_ms: u64,
    },
    /// More is waiting for it than may.
    #[error("the queue of requests to it is full ({requests} requests, {bytes} bytes)")]
    Full {
        /// How many.
        requests: usize,
        /// With how many bytes.
        bytes: usize,
    },
}

impl PeerError {
    /// Whether the same request may work over another connection.
    pub(crate) fn is_of_the_connection(&self) -> bool {
        matches!(self, PeerError::Broken(_))
    }
}
