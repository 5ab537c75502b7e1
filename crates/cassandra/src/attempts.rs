use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use scylla::errors::{RequestAttemptError, RequestError};
use scylla::observability::history::{AttemptId, HistoryListener, RequestId, SpeculativeId};
use scylla::policies::retry::RetryDecision;

/// Counts what the driver does for a statement: its own metrics leave out requests that it makes a second time because the first node is
/// slow. It tells nothing apart by the numbers that it gives out, so all of them are 0.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// Requests to a node; a statement has more than one if it is made again.
    pub(crate) made: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Of those, the ones that were not the last one of their statement.
    pub(crate) retried: AtomicU64,
    pub(crate) speculative: AtomicU64,
}

impl HistoryListener for Attempts {
    fn log_request_start(&self) -> RequestId {
        RequestId(0)
    }

    fn log_request_success(&self, _: RequestId) {}

    fn log_request_error(&self, _: RequestId, _: &RequestError) {}

    fn log_new_speculative_fiber(&self, _: RequestId) -> SpeculativeId {
        self.speculative.fetch_add(1, Ordering::Relaxed);
        SpeculativeId(0)
    }

    fn log_attempt_start(&self, _: RequestId, _: Option<SpeculativeId>, _: SocketAddr) -> AttemptId {
        self.made.fetch_add(1, Ordering::Relaxed);
        AttemptId(0)
    }

    fn log_attempt_success(&self, _: AttemptId) {}

    fn log_attempt_error(&self, _: AttemptId, _: &RequestAttemptError, decision: &RetryDecision) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        if matches!(decision, RetryDecision::RetrySameTarget(_) | RetryDecision::RetryNextTarget(_)) {
            self.retried.fetch_add(1, Ordering::Relaxed);
        }
    }
}
