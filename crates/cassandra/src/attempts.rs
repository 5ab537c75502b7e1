use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use scylla::errors::{RequestAttemptError, RequestError};
use scylla::observability::history::{AttemptId, HistoryListener, RequestId, SpeculativeId};
use scylla::policies::retry::RetryDecision;
use tokio::time::Instant;

use crate::latency::Latency;
use crate::retries::Tried;

/// Counts what the driver does for a statement: its own metrics leave out requests that it makes a second time because the first node is
/// slow. The number of an attempt is when it began, so that nothing has to be remembered; the other numbers are 0.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// Requests to a node; a statement has more than one if it is made again.
    pub(crate) made: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// Of those, the ones that were not the last one of their statement.
    pub(crate) retried: AtomicU64,
    pub(crate) speculative: AtomicU64,
    /// How long nodes took to answer.
    pub(crate) latency: Latency,
    /// What the times of attempts are counted from.
    since: Instant,
}

impl Attempts {
    pub(crate) fn new() -> Attempts {
        let [made, failed, retried, speculative] = std::array::from_fn(|_| AtomicU64::new(0));
        Attempts { made, failed, retried, speculative, latency: Latency::default(), since: Instant::now() }
    }

    fn now_us(&self) -> u64 {
        self.since.elapsed().as_micros() as u64
    }
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
        Tried::begin_attempt();
        AttemptId(self.now_us() as usize)
    }

    fn log_attempt_success(&self, AttemptId(began_us): AttemptId) {
        Tried::end_attempt();
        self.latency.record(self.now_us().saturating_sub(began_us as u64));
    }

    fn log_attempt_error(&self, _: AttemptId, _: &RequestAttemptError, decision: &RetryDecision) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        Tried::end_attempt();
        if matches!(decision, RetryDecision::RetrySameTarget(_) | RetryDecision::RetryNextTarget(_)) {
            self.retried.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "attempts_tests.rs"]
mod tests;
