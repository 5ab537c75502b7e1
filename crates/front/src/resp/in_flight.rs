use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::expected::READS_BYTES_MAX;
use super::measured::Measured;
use super::served::{CommandResult, Served};

/// So many requests of one connection are served side by side.
const IN_FLIGHT_MAX: usize = 128;
/// Requests begin behind others as long as replies that wait for these hold no more.
const HELD_BYTES_MAX: u64 = READS_BYTES_MAX;

/// What serves a request that memory cannot answer at once.
pub(super) type Serving = Pin<Box<dyn Future<Output = Served>>>;

/// What becomes of a request at its beginning.
pub(super) enum Begun {
    Served(Served),
    Serving(Serving),
}

/// What takes time.
pub(super) fn later(result: impl Future<Output = CommandResult> + 'static) -> Begun {
    Begun::Serving(Box::pin(async move { Served::of(result.await) }))
}

/// With which others a request may be served side by side. Requests of one connection take effect in their order, and see those
/// before them: so one that reads waits for those that write, and the other way round. Writes are queued in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wave {
    /// It only reads: with others that only read.
    Reads,
    /// It writes without looking: with others that do, unless they claim the same key.
    Writes,
    /// It is decided when it is written, by a node on its own: with others that are, which are decided in the order in which they
    /// begin. A plain write does not come among them: its version says when it began, and theirs when they were decided.
    Updates,
    /// It asks for nothing that is stored: with all others.
    Any,
    /// It is served alone.
    Alone,
}

/// What a request claims of what is served side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) wave: Wave,
    /// How many keys it reads.
    pub(super) reads: usize,
    /// The hashes of keys that nobody else may write until it is answered.
    pub(super) writes: Vec<u64>,
}

/// A request that has no reply yet, or one that has to wait for those before it.
enum Waiting {
    Serving(Serving),
    Served(Served),
}

/// Requests of one connection that are served, in the order in which they are to be answered.
pub(super) struct InFlight {
    waiting: VecDeque<Request>,
    wave: Wave,
    /// The keys that they read.
    reads: usize,
    /// Those that they write, and nobody else may.
    writes: HashSet<u64>,
    /// What replies hold that are there.
    held_bytes: u64,
}

struct Request {
    waiting: Waiting,
    measured: Measured,
    reads: usize,
    writes: Vec<u64>,
    held_bytes: u64,
}

impl InFlight {
    pub(super) fn new() -> InFlight {
        let (waiting, writes) = (VecDeque::new(), HashSet::new());
        InFlight { waiting, wave: Wave::Alone, reads: 0, writes, held_bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a request that claims this may begin now, if so many keys are read at a time.
    pub(super) fn admits(&self, Claim { wave, reads, writes }: &Claim, reads_max: usize) -> bool {
        let goes_along = match wave {
            Wave::Any => true,
            Wave::Alone => false,
            wave => self.wave == *wave && !writes.iter().any(|key_hash| self.writes.contains(key_hash)),
        };
        let has_room = self.waiting.len() < IN_FLIGHT_MAX
            && self.reads + reads <= reads_max
            && self.held_bytes <= HELD_BYTES_MAX;
        self.waiting.is_empty() || (goes_along && has_room)
    }

    /// A request begins: what serves it is polled at once, so that requests begin in their order.
    pub(super) fn begin(
        &mut self,
        Claim { wave, reads, writes }: Claim,
        mut serving: Serving,
        measured: Measured,
        context: &mut Context<'_>,
    ) {
        self.wave = wave;
        let (waiting, held_bytes) = match serving.as_mut().poll(context) {
            Poll::Ready(served) => {
                let held_bytes = served.held_bytes();
                (Waiting::Served(served), held_bytes)
            }
            Poll::Pending => (Waiting::Serving(serving), 0),
        };
        self.reads += reads;
        self.writes.extend(&writes);
        self.held_bytes += held_bytes;
        self.waiting.push_back(Request { waiting, measured, reads, writes, held_bytes });
    }

    /// A request is served behind others that are not yet.
    pub(super) fn push(&mut self, served: Served, measured: Measured) {
        let held_bytes = served.held_bytes();
        self.held_bytes += held_bytes;
        let (waiting, writes) = (Waiting::Served(served), Vec::new());
        self.waiting.push_back(Request { waiting, measured, reads: 0, writes, held_bytes });
    }

    /// Has all of them go on.
    fn poll_all(&mut self, context: &mut Context<'_>) {
        for request in &mut self.waiting {
            if let Waiting::Serving(serving) = &mut request.waiting
                && let Poll::Ready(served) = serving.as_mut().poll(context)
            {
                request.held_bytes = served.held_bytes();
                self.held_bytes += request.held_bytes;
                request.waiting = Waiting::Served(served);
            }
        }
    }

    /// The same while a reply before them is not taken. Answers what replies hold that wait for it.
    #[cold]
    pub(super) fn poll_behind(&mut self, context: &mut Context<'_>) -> u64 {
        self.poll_all(context);
        self.held_bytes
    }

    /// What the first of them comes to; none if there is none.
    pub(super) fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<Option<(Served, Measured)>> {
        self.poll_all(context);
        match self.waiting.front() {
            None => return Poll::Ready(None),
            Some(Request { waiting: Waiting::Serving(_), .. }) => return Poll::Pending,
            Some(_) => {}
        }
        match self.waiting.pop_front() {
            Some(Request { waiting: Waiting::Served(served), measured, reads, writes, held_bytes }) => {
                self.reads -= reads;
                for key_hash in &writes {
                    self.writes.remove(key_hash);
                }
                self.held_bytes -= held_bytes;
                Poll::Ready(Some((served, measured)))
            }
            _ => unreachable!("the first is served"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::expected::READS_MAX;
    use bytes::Bytes;
    use std::task::Waker;

    fn never() -> Serving {
        Box::pin(std::future::pending())
    }

    fn done() -> Serving {
        Box::pin(async { Served::OK })
    }

    fn claim(wave: Wave, reads: usize) -> Claim {
        Claim { wave, reads, writes: Vec::new() }
    }

    fn reads(keys: usize) -> Claim {
        claim(Wave::Reads, keys)
    }

    fn writes(keys: &[u64]) -> Claim {
        Claim { writes: keys.to_vec(), ..claim(Wave::Writes, 0) }
    }

    #[test]
    fn what_goes_along_is_bounded_by_number_by_reads_and_by_what_replies_hold() {
        let mut context = Context::from_waker(Waker::noop());
        let mut in_flight = InFlight::new();
        assert!(in_flight.admits(&claim(Wave::Alone, 100), READS_MAX));
        in_flight.begin(reads(READS_MAX - 1), never(), Measured::unknown(0), &mut context);
        assert!(in_flight.admits(&reads(1), READS_MAX) && !in_flight.admits(&reads(2), READS_MAX));
        assert!(in_flight.admits(&claim(Wave::Any, 0), READS_MAX));
        assert!(
            !in_flight.admits(&writes(&[]), READS_MAX)
                && !in_flight.admits(&claim(Wave::Alone, 0), READS_MAX)
        );
        in_flight
            .push(Served::value(Some(Bytes::from(vec![0; HELD_BYTES_MAX as usize]))), Measured::unknown(0));
        assert!(
            !in_flight.admits(&reads(1), READS_MAX) && !in_flight.admits(&claim(Wave::Any, 0), READS_MAX)
        );
        assert!(in_flight.poll_first(&mut context).is_pending());

        let mut in_flight = InFlight::new();
        for _ in 0..IN_FLIGHT_MAX {
            assert!(in_flight.admits(&writes(&[]), READS_MAX));
            in_flight.begin(writes(&[]), done(), Measured::unknown(0), &mut context);
        }
        assert!(!in_flight.admits(&writes(&[]), READS_MAX));
        assert!(in_flight.poll_first(&mut context).is_ready() && in_flight.admits(&writes(&[]), READS_MAX));
    }

    #[test]
    fn a_reply_is_held_as_soon_as_it_is_there_whether_the_one_before_it_is_taken_or_not() {
        let mut context = Context::from_waker(Waker::noop());
        let mut in_flight = InFlight::new();
        let value = || Served::value(Some(Bytes::from(vec![0; HELD_BYTES_MAX as usize / 2])));
        let mut turns = 2;
        let later = std::future::poll_fn(move |_| {
            turns -= 1;
            if turns == 0 { Poll::Ready(value()) } else { Poll::Pending }
        });
        in_flight.begin(reads(1), Box::pin(async move { value() }), Measured::unknown(0), &mut context);
        in_flight.begin(reads(1), Box::pin(later), Measured::unknown(0), &mut context);
        assert!(in_flight.admits(&reads(1), READS_MAX));
        assert!(in_flight.poll_behind(&mut context) > HELD_BYTES_MAX);
        assert!(!in_flight.admits(&reads(1), READS_MAX));
        assert!(in_flight.poll_first(&mut context).is_ready() && in_flight.admits(&reads(1), READS_MAX));
        assert!(in_flight.poll_first(&mut context).is_ready() && in_flight.held_bytes == 0);
    }

    #[test]
    fn what_writes_a_key_that_another_one_claims_waits_until_that_is_answered() {
        let mut context = Context::from_waker(Waker::noop());
        let mut in_flight = InFlight::new();
        in_flight.begin(writes(&[1, 2, 2]), done(), Measured::unknown(0), &mut context);
        in_flight.begin(writes(&[3]), never(), Measured::unknown(0), &mut context);
        assert!(
            in_flight.admits(&writes(&[4, 5]), READS_MAX)
                && in_flight.admits(&claim(Wave::Any, 0), READS_MAX)
        );
        assert!(
            !in_flight.admits(&writes(&[2]), READS_MAX) && !in_flight.admits(&writes(&[4, 1]), READS_MAX)
        );
        assert!(in_flight.poll_first(&mut context).is_ready());
        assert!(in_flight.admits(&writes(&[1, 2]), READS_MAX) && !in_flight.admits(&writes(&[3]), READS_MAX));
    }
}
