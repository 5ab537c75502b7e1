use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::served::{CommandResult, Served};

/// So many requests of one connection are served side by side.
pub(super) const IN_FLIGHT_MAX: usize = 128;

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
    /// It writes without looking: with others that do.
    Writes,
    /// It is decided when it is written, by a node on its own: with others that are, which it decides in their order. Plain writes may
    /// come before or behind them.
    Updates,
    /// It asks for nothing that is stored: with all others.
    Any,
    /// It is served alone.
    Alone,
}

/// A request that has no reply yet, or one that has to wait for those before it.
enum Waiting {
    Serving(Serving),
    Served(Served),
}

/// Requests of one connection that are served, in the order in which they are to be answered.
pub(super) struct InFlight {
    waiting: VecDeque<(Waiting, Measured)>,
    wave: Wave,
}

/// By what a request is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) kind: ladoga_runtime::CommandKind,
    pub(super) started_ns: u64,
}

impl InFlight {
    pub(super) const fn new() -> InFlight {
        InFlight { waiting: VecDeque::new(), wave: Wave::Alone }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a request of this wave may begin now.
    pub(super) fn admits(&self, wave: Wave) -> bool {
        let goes_along = wave == Wave::Any || (wave != Wave::Alone && self.wave == wave);
        self.waiting.is_empty() || (goes_along && self.waiting.len() < IN_FLIGHT_MAX)
    }

    /// A request begins: what serves it is polled at once, so that requests begin in their order.
    pub(super) fn begin(
        &mut self,
        wave: Wave,
        mut serving: Serving,
        measured: Measured,
        context: &mut Context<'_>,
    ) {
        self.wave = wave;
        let waiting = match serving.as_mut().poll(context) {
            Poll::Ready(served) => Waiting::Served(served),
            Poll::Pending => Waiting::Serving(serving),
        };
        self.waiting.push_back((waiting, measured));
    }

    /// A request is served behind others that are not yet.
    pub(super) fn push(&mut self, served: Served, measured: Measured) {
        self.waiting.push_back((Waiting::Served(served), measured));
    }

    /// What the first of them comes to; none if there is none.
    pub(super) fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<Option<(Served, Measured)>> {
        for (waiting, _) in &mut self.waiting {
            if let Waiting::Serving(serving) = waiting
                && let Poll::Ready(served) = serving.as_mut().poll(context)
            {
                *waiting = Waiting::Served(served);
            }
        }
        match self.waiting.front() {
            None => Poll::Ready(None),
            Some((Waiting::Serving(_), _)) => Poll::Pending,
            Some((Waiting::Served(_), _)) => match self.waiting.pop_front() {
                Some((Waiting::Served(served), measured)) => Poll::Ready(Some((served, measured))),
                _ => unreachable!("the first is served"),
            },
        }
    }
}
