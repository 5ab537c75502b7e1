use std::cell::{Cell, RefCell, RefMut};
use std::sync::Arc;

use ladoga_env::Clock;
use ladoga_model::TraceContext;

use crate::{LineLimit, LoopMetrics, OpenSpan, SpanFacts, SpanKind, Supervisor, Traces};

/// What everything on one event loop shares: its clock, its figures, and whether it is about to end.
pub struct LoopContext {
    /// The number of this loop.
    pub index: usize,
    /// The clock of the node.
    pub clock: Arc<dyn Clock>,
    /// The figures of this loop.
    pub metrics: Arc<LoopMetrics>,
    /// By which tasks are started that the node cannot do without.
    pub supervisor: Supervisor,
    /// Where spans go, if traces are recorded.
    pub traces: Option<Arc<Traces>>,
    /// The lines of the log about peers that are refused.
    refused_peers: LineLimit,
    age: LoopClock,
    is_draining: Cell<bool>,
    scratch: RefCell<Vec<u8>>,
}

/// Peers that are refused, and that the log tells of within a second.
const REFUSED_PEERS_TOLD_PER_SECOND_MAX: u32 = 10;

/// What is read from a socket at once, at most.
pub const SCRATCH_BYTES: usize = 64 << 10;

/// Time between two looks at the clock counts at most this long.
const UNSEEN_MS_MAX: u64 = 500;

/// How long an event loop has been running, as of its last look at the clock. Time in which the loop itself was suspended, with
/// the process or the machine, does not count: requests that arrived meanwhile were not read, and clients must not time out for
/// that.
#[derive(Debug)]
struct LoopClock {
    now_ms: Cell<u64>,
    looked_ms: Cell<u64>,
}

impl LoopClock {
    fn begins(clock_ms: u64) -> LoopClock {
        LoopClock { now_ms: Cell::new(clock_ms), looked_ms: Cell::new(clock_ms) }
    }

    fn look(&self, clock_ms: u64) {
        let unseen_ms = clock_ms.saturating_sub(self.looked_ms.replace(clock_ms));
        self.now_ms.set(self.now_ms.get() + unseen_ms.min(UNSEEN_MS_MAX));
    }
}

impl LoopContext {
    /// Of the event loop of this number, which begins now.
    pub fn new(
        index: usize,
        clock: Arc<dyn Clock>,
        metrics: Arc<LoopMetrics>,
        supervisor: Supervisor,
    ) -> LoopContext {
        let age = LoopClock::begins(clock.monotonic_ns() / 1_000_000);
        let scratch = RefCell::new(vec![0; SCRATCH_BYTES]);
        let is_draining = Cell::new(false);
        let refused_peers = LineLimit::new(REFUSED_PEERS_TOLD_PER_SECOND_MAX);
        LoopContext {
            index,
            clock,
            metrics,
            supervisor,
            traces: None,
            refused_peers,
            age,
            is_draining,
            scratch,
        }
    }

    /// The same with traces that are recorded.
    #[must_use]
    pub fn with_traces(self, traces: Option<Arc<Traces>>) -> LoopContext {
        LoopContext { traces, ..self }
    }

    /// A part of a span begins, if it is recorded.
    #[inline]
    pub fn begin_part(&self, of: Option<TraceContext>) -> Option<OpenSpan> {
        of.and_then(|of| Some(self.traces.as_ref()?.child_now(of)))
    }

    /// It ends.
    pub fn end_part(&self, part: Option<OpenSpan>, name: &'static str) {
        if let (Some(part), Some(traces)) = (part, &self.traces) {
            traces.end_now(part, SpanFacts::new(name, SpanKind::Internal));
        }
    }

    /// A peer is refused. Answers whether the log is to tell of it: strangers could fill the disk.
    #[cold]
    pub fn admit_refusal_line(&self) -> bool {
        let now_ns = self.clock.monotonic_ns();
        self.tell_refused_peers(now_ns);
        self.refused_peers.admit(now_ns)
    }

    /// Says how many refused peers the log did not tell of, once it may tell of others again.
    pub fn tell_refused_peers(&self, now_ns: u64) {
        if let Some(left_out) = self.refused_peers.take_left_out(now_ns) {
            tracing::warn!(left_out, "refused peers that the log has no lines for");
        }
    }

    /// The time as of the last look, which is precise enough for timeouts. Only time in which the loop was running counts.
    pub fn now_ms(&self) -> u64 {
        self.age.now_ms.get()
    }

    /// The time as of now. From an older look on, a timeout would be over too early.
    pub fn look_now_ms(&self) -> u64 {
        self.look_at_the_clock();
        self.now_ms()
    }

    /// Looks at the clock, which is to be done from time to time.
    pub fn look_at_the_clock(&self) {
        self.age.look(self.clock.monotonic_ns() / 1_000_000);
    }

    /// A buffer for temporary use.
    pub fn scratch(&self) -> RefMut<'_, Vec<u8>> {
        self.scratch.borrow_mut()
    }

    /// Whether the node is about to stop: requests in flight are ended, others refused.
    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// The node is about to stop.
    pub fn begin_to_drain(&self) {
        self.is_draining.set(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_a_loop_was_held_up_counts_for_little() {
        let age = LoopClock::begins(1_000);
        let look = |clock_ms| {
            age.look(clock_ms);
            age.now_ms.get()
        };
        assert_eq!([look(1_000), look(1_250), look(1_250), look(1_750)], [1_000, 1_250, 1_250, 1_750]);
        assert_eq!(look(1_750 + UNSEEN_MS_MAX + 1), 1_750 + UNSEEN_MS_MAX);
        assert_eq!(look(100_000), 1_750 + 2 * UNSEEN_MS_MAX);
        assert_eq!(look(100_050), 1_800 + 2 * UNSEEN_MS_MAX);
    }
}
