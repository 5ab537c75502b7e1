use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;

use ladoga_env::Clock;
use ladoga_model::{Replicas, TraceContext};
use ladoga_runtime::Operation;

use crate::traced::Traced;

/// How much of a key the log has.
const SHOWN_BYTES_MAX: usize = 32;

/// The key that a request is about: how it begins, and how long it is. Small, so that keeping it for every request costs next to
/// nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct About {
    shown: [u8; SHOWN_BYTES_MAX],
    bytes: u16,
}

impl About {
    /// This key.
    pub(crate) fn key(key: &[u8]) -> About {
        let mut shown = [0; SHOWN_BYTES_MAX];
        let count = key.len().min(SHOWN_BYTES_MAX);
        shown[..count].copy_from_slice(&key[..count]);
        About { shown, bytes: key.len().try_into().unwrap_or(u16::MAX) }
    }

    /// How long the key is; 0 if the request is about no single key.
    pub(super) const fn bytes(&self) -> u16 {
        self.bytes
    }
}

/// The beginning of the key, in characters that a line can have.
impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = SHOWN_BYTES_MAX.min(usize::from(self.bytes));
        self.shown[..count].escape_ascii().fmt(f)
    }
}

/// What a request has waited for, as far as its connection saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WaitTimes {
    /// Until this node served requests, and was in touch with enough others.
    pub(crate) ready_ns: u64,
    /// Until it had room in memory, or a place among the large ones.
    pub(crate) admission_ns: u64,
    /// For the bytes of its body, which the client sends.
    pub(crate) body_ns: u64,
}

impl WaitTimes {
    /// It ends after so long, and its body is still waited for. If nobody has measured since when: nearly all of the time went there.
    pub(crate) fn note_rest_as_body(&mut self, total_ns: u64) {
        if self.body_ns == 0 {
            self.body_ns = total_ns.saturating_sub(self.ready_ns + self.admission_ns);
        }
    }
}

/// A request whose head has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BegunRequest {
    pub(crate) operation: Option<Operation>,
    pub(crate) started_ns: u64,
    /// How long its body is to be, if the head says so.
    pub(crate) announced_bytes: Option<u64>,
}

/// What the request in turn of a connection is about, and what it has waited for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    about: Cell<About>,
    waits: Cell<WaitTimes>,
    /// It, if it was not answered at once.
    waiting: Cell<Option<BegunRequest>>,
    /// If its trace is recorded.
    traced: RefCell<Option<Box<Traced>>>,
}

impl Asked {
    /// The next request is in turn.
    pub(crate) fn begin_anew(&self) {
        self.about.set(About::default());
        self.waits.set(WaitTimes::default());
        self.waiting.set(None);
    }

    /// It is not answered at once. Its connection may have to answer it before it is served.
    pub(crate) fn note_waiting(&self, request: BegunRequest) {
        self.waiting.set(Some(request));
    }

    /// It, if it was not answered at once.
    pub(crate) fn waiting(&self) -> Option<BegunRequest> {
        self.waiting.get()
    }

    /// Notes that it is about this key.
    pub(crate) fn note_key(&self, key: &[u8]) {
        self.about.set(About::key(key));
        if let Some(traced) = &mut *self.traced.borrow_mut() {
            traced.note_key(key);
        }
    }

    /// What it is about.
    pub(crate) fn about(&self) -> About {
        self.about.get()
    }

    /// Its trace is recorded.
    pub(crate) fn begin_traced(&self, traced: Traced) {
        self.traced.replace(Some(Box::new(traced)));
    }

    /// Its span, if its trace is recorded, for what is done for it on so many replicas.
    pub(crate) fn trace(&self, replicas: Replicas) -> Option<TraceContext> {
        let mut traced = self.traced.borrow_mut();
        traced.as_mut().map(|traced| traced.of_replicas(replicas))
    }

    /// The same at its end.
    pub(crate) fn end_traced(&self) -> Option<Box<Traced>> {
        self.traced.take()
    }

    /// It has waited for something else.
    pub(crate) fn waited(&self, add: impl FnOnce(&mut WaitTimes)) {
        let mut waits = self.waits.get();
        add(&mut waits);
        self.waits.set(waits);
    }

    /// What it has waited for.
    pub(crate) fn waits(&self) -> WaitTimes {
        self.waits.get()
    }
}

/// Waits for `future`; answers also for how long, in nanoseconds from the first time that it was not ready. The clock is asked only if
/// there is something to wait for.
pub(crate) async fn waiting_ns<T>(clock: &dyn Clock, future: impl Future<Output = T>) -> (T, u64) {
    let (mut future, mut began_ns) = (pin!(future), None);
    let output = poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        if polled.is_pending() && began_ns.is_none() {
            began_ns = Some(clock.monotonic_ns());
        }
        polled
    })
    .await;
    let waited_ns = began_ns.map_or(0, |began_ns| clock.monotonic_ns().saturating_sub(began_ns));
    (output, waited_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_by_how_it_begins() {
        assert_eq!(About::key(b"user:\n\xff").to_string(), "user:\\n\\xff");
        let long = About::key(&[b'k'; 4096]);
        assert_eq!((long.to_string(), long.bytes()), ("k".repeat(SHOWN_BYTES_MAX), 4096));
        assert_eq!(About::key(&vec![b'k'; 1 << 20]).bytes(), u16::MAX);
        assert_eq!(About::default().to_string(), "");
    }

    #[test]
    fn waits_are_those_of_the_request_in_turn() {
        let asked = Asked::default();
        asked.note_key(b"k");
        asked.waited(|waits| waits.body_ns += 5);
        asked.waited(|waits| waits.body_ns += 6);
        assert_eq!((asked.about(), asked.waits().body_ns), (About::key(b"k"), 11));
        asked.begin_anew();
        assert_eq!((asked.about(), asked.waits()), (About::default(), WaitTimes::default()));
    }
}
