use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use ladoga_env::Clock;

use super::span::Span;

/// Where spans come out that are to be exported.
pub struct SpanQueue {
    pub(super) spans: Receiver<Option<Span>>,
    pub(super) is_closed: Arc<AtomicBool>,
    pub(super) clock: Arc<dyn Clock>,
}

impl SpanQueue {
    /// Waits for spans: for the first one as long as it takes, for `count_max` of them as long as `patience` after it. None once the
    /// queue was closed and there are no more.
    pub fn next_batch(&self, count_max: usize, patience: Duration) -> Option<Vec<Span>> {
        let mut batch = Vec::new();
        while batch.is_empty() {
            // What closes the queue is no span.
            let first =
                if self.is_closed() { self.spans.try_recv().ok()? } else { self.spans.recv().ok()? };
            batch.extend(first);
        }
        let until_ns = self.clock.monotonic_ns() + patience.as_nanos() as u64;
        while batch.len() < count_max {
            let left_ns = until_ns.saturating_sub(self.clock.monotonic_ns());
            let left = if self.is_closed() { Duration::ZERO } else { Duration::from_nanos(left_ns) };
            match self.spans.recv_timeout(left) {
                Ok(span) => batch.extend(span),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        Some(batch)
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}
