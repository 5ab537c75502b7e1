use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use ladoga_env::{Clock, Rng};
use ladoga_model::{TraceContext, TraceParent};

use super::queue::SpanQueue;
use super::span::{OpenSpan, Span, SpanFacts};

/// Spans that wait to be exported. What comes when there are so many is dropped, and counted: a request never waits for it.
const SPANS_QUEUED_MAX: usize = 4_096;
/// How far the time of day may run away from the monotonic clock before it is looked at anew.
const DRIFT_NS_MAX: u64 = 10_000_000;

/// What became of spans.
#[derive(Debug, Default)]
pub struct SpanFigures {
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl SpanFigures {
    /// A collector has taken so many.
    pub fn exported(&self, count: u64) {
        self.exported.fetch_add(count, Ordering::Relaxed);
    }

    /// So many were given up, because no collector took them.
    pub fn failed(&self, count: u64) {
        self.failed.fetch_add(count, Ordering::Relaxed);
    }

    /// How many, by what became of them.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        [("exported", &self.exported), ("dropped", &self.dropped), ("failed", &self.failed)]
            .map(|(outcome, count)| (outcome, count.load(Ordering::Relaxed)))
    }
}

/// Which requests are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The share of those for which no `traceparent` decides, from 0 to 1.
    pub share: f64,
    /// Whether a `traceparent` decides. If not, it only says of which trace a request is that is recorded.
    pub follows: bool,
}

/// The traces that a process records: which ones, and where their spans go.
pub struct Traces {
    /// A request for which no `traceparent` decides is recorded if a random number is below this.
    below: u64,
    follows: bool,
    spans: SyncSender<Option<Span>>,
    is_closed: Arc<AtomicBool>,
    /// What became of them.
    pub figures: Arc<SpanFigures>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    /// What the time of day is ahead of the monotonic clock. All spans of a process go by one of them, so that they fit together.
    ahead_ns: AtomicU64,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces")
            .field("below", &self.below)
            .field("figures", &self.figures)
            .finish_non_exhaustive()
    }
}

impl Traces {
    /// Records these requests. Answers also where their spans come out.
    pub fn new(sampling: Sampling, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> (Traces, SpanQueue) {
        let (spans, queue) = sync_channel(SPANS_QUEUED_MAX);
        // (A float above the largest number becomes that one.)
        let below = (sampling.share.clamp(0.0, 1.0) * 2_f64.powi(64)) as u64;
        let ahead_ns = AtomicU64::new(ahead_ns(&*clock));
        let is_closed = Arc::<AtomicBool>::default();
        let queue = SpanQueue { spans: queue, is_closed: Arc::clone(&is_closed), clock: Arc::clone(&clock) };
        (
            Traces {
                below,
                follows: sampling.follows,
                spans,
                is_closed,
                figures: Arc::default(),
                clock,
                rng,
                ahead_ns,
            },
            queue,
        )
    }

    /// A request begins: the span that serves it, if it is recorded. What its client says about that counts.
    pub fn begin(&self, parent: Option<TraceParent>, began_ns: u64) -> Option<OpenSpan> {
        match parent {
            Some(TraceParent::Unsampled) if self.follows => None,
            Some(TraceParent::Sampled(parent)) if self.follows || self.is_drawn() => {
                Some(self.child(parent, began_ns))
            }
            Some(TraceParent::Sampled(_)) => None,
            Some(TraceParent::Unsampled) | None if !self.is_drawn() => None,
            Some(TraceParent::Unsampled) | None => {
                let (first, second) = (self.id(), self.id());
                let mut trace_id = [0; 16];
                trace_id[..8].copy_from_slice(&first);
                trace_id[8..].copy_from_slice(&second);
                let context = TraceContext { trace_id, span_id: self.id() };
                Some(OpenSpan { context, parent: None, began_ns })
            }
        }
    }

    /// A part of a span begins.
    pub fn child(&self, of: TraceContext, began_ns: u64) -> OpenSpan {
        let context = TraceContext { span_id: self.id(), ..of };
        OpenSpan { context, parent: Some(of.span_id), began_ns }
    }

    /// The same, now.
    pub fn child_now(&self, of: TraceContext) -> OpenSpan {
        self.child(of, self.clock.monotonic_ns())
    }

    /// A span ends.
    pub fn end(&self, span: OpenSpan, ended_ns: u64, facts: SpanFacts) {
        let OpenSpan { context, parent, began_ns } = span;
        let ahead_ns = self.ahead_ns();
        let (began_ns, ended_ns) = (began_ns.wrapping_add(ahead_ns), ended_ns.wrapping_add(ahead_ns));
        let span = Span { context, parent, began_ns, ended_ns, facts };
        if self.spans.try_send(Some(span)).is_err() {
            self.figures.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The same, now.
    pub fn end_now(&self, span: OpenSpan, facts: SpanFacts) {
        self.end(span, self.clock.monotonic_ns(), facts);
    }

    /// No span is waited for any more: whoever exports them takes those that are there.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        // If there is no room, nobody waits for something to come.
        let _ = self.spans.try_send(None);
    }

    fn is_drawn(&self) -> bool {
        self.below > 0 && (self.below == u64::MAX || self.rng.next_u64() < self.below)
    }

    /// Eight bytes that are not all zeros.
    fn id(&self) -> [u8; 8] {
        self.rng.next_u64().max(1).to_be_bytes()
    }

    fn ahead_ns(&self) -> u64 {
        let (known_ns, now_ns) = (self.ahead_ns.load(Ordering::Relaxed), ahead_ns(&*self.clock));
        if (known_ns.wrapping_sub(now_ns) as i64).unsigned_abs() <= DRIFT_NS_MAX {
            return known_ns;
        }
        // The clock was set.
        self.ahead_ns.store(now_ns, Ordering::Relaxed);
        now_ns
    }
}

fn ahead_ns(clock: &dyn Clock) -> u64 {
    (clock.wall_us() * 1_000).wrapping_sub(clock.monotonic_ns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::traces::SpanKind;
    use ladoga_env::sim::{SimClock, SimRng};

    fn traces(share: f64) -> (Traces, SpanQueue) {
        Traces::new(Sampling { share, follows: true }, Arc::new(SimClock::new()), Arc::new(SimRng::new(1)))
    }

    const FACTS: SpanFacts = SpanFacts::new("a span", SpanKind::Internal);

    #[test]
    fn what_a_client_says_counts_before_the_share_does() {
        let said = TraceContext { trace_id: [7; 16], span_id: [8; 8] };
        for share in [0.0, 1.0] {
            let (traces, _queue) = traces(share);
            let span = traces.begin(Some(TraceParent::Sampled(said)), 5).expect("it is followed");
            assert_eq!((span.context.trace_id, span.parent, span.began_ns), ([7; 16], Some([8; 8]), 5));
            assert_ne!(span.context.span_id, [8; 8]);
            assert_eq!(traces.begin(Some(TraceParent::Unsampled), 5), None);
            assert_eq!(traces.begin(None, 5).is_some(), share > 0.5);
        }
    }

    #[test]
    fn what_a_client_says_names_the_trace_only_if_it_is_not_to_decide() {
        let said = TraceContext { trace_id: [7; 16], span_id: [8; 8] };
        for share in [0.0, 1.0] {
            let sampling = Sampling { share, follows: false };
            let (traces, _queue) = Traces::new(sampling, Arc::new(SimClock::new()), Arc::new(SimRng::new(1)));
            let sampled = traces.begin(Some(TraceParent::Sampled(said)), 5);
            assert_eq!(
                sampled.map(|span| (span.context.trace_id, span.parent)),
                (share > 0.5).then_some(([7; 16], Some([8; 8])))
            );
            assert_eq!(traces.begin(Some(TraceParent::Unsampled), 5).is_some(), share > 0.5);
        }
    }

    #[test]
    fn a_share_is_about_that_share() {
        let (traces, _queue) = traces(0.25);
        let spans: Vec<_> = (0..10_000).filter_map(|_| traces.begin(None, 0)).collect();
        assert!((2_300..2_700).contains(&spans.len()), "{}", spans.len());
        let mut ids: Vec<_> = spans.iter().map(|span| span.context.trace_id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), spans.len(), "each has a trace of its own");
        assert!(spans.iter().all(|span| !span.has_parent()));
    }

    #[test]
    fn a_span_that_finds_no_room_is_counted_and_waits_for_nobody() {
        let (traces, queue) = traces(1.0);
        for _ in 0..SPANS_QUEUED_MAX + 3 {
            let span = traces.begin(None, 0).expect("all are recorded");
            traces.end(span, 1, FACTS);
        }
        assert_eq!(traces.figures.counts()[1], ("dropped", 3));
        assert_eq!(queue.spans.try_iter().count(), SPANS_QUEUED_MAX);
        drop(queue);
        traces.end(traces.begin(None, 0).expect("one more"), 1, FACTS);
        assert_eq!(traces.figures.counts()[1], ("dropped", 4), "nobody exports");
    }

    #[test]
    fn a_span_has_the_time_of_day() {
        let (traces, queue) = traces(1.0);
        let now_ns = traces.clock.monotonic_ns();
        let span = traces.child_now(TraceContext { trace_id: [1; 16], span_id: [2; 8] });
        traces.end(span, now_ns + 1_500, FACTS);
        let ended = queue.spans.recv().ok().flatten().expect("a span");
        assert_eq!(ended.ended_ns - ended.began_ns, 1_500);
        assert!(ended.began_ns.abs_diff(traces.clock.wall_ms() * 1_000_000) <= 1_000_000);
    }
    #[test]
    fn a_queue_that_is_closed_gives_what_is_there_and_no_more() {
        let (traces, queue) = traces(1.0);
        for _ in 0..5 {
            traces.end(traces.begin(None, 0).expect("all are recorded"), 1, FACTS);
        }
        let batch = |count_max| queue.next_batch(count_max, Duration::ZERO).map(|batch| batch.len());
        assert_eq!(batch(3), Some(3));
        traces.close();
        assert_eq!([batch(9), batch(9)], [Some(2), None]);
        traces.end(traces.begin(None, 0).expect("a late one"), 1, FACTS);
        assert_eq!([batch(9), batch(9)], [Some(1), None]);
    }

    #[test]
    fn who_waits_for_a_span_is_woken_by_the_end() {
        let (traces, queue) = traces(1.0);
        let waiting = std::thread::spawn(move || queue.next_batch(1, Duration::from_secs(1)));
        traces.close();
        assert_eq!(waiting.join().expect("no panic"), None);
    }
}
