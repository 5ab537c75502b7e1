use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use bytes::{Buf, BytesMut};
use ladoga_model::TraceContext;
use ladoga_runtime::LoopContext;
use slab::Slab;

use super::error::PeerError;
use super::traced::AskedSpan;
use crate::cluster::Cluster;
use crate::membership::PeerView;
use crate::wire::{Answer, PROTOCOL_VERSION_MIN, READS_SINCE, Reads, Request, TRACES_MAX, told_traces};

/// The error of a connection that the peer closed because it was idle.
pub(crate) const IDLE: &str = "the peer closed a connection that was not used";
/// Requests that are failed in one go, because they timed out or their connection ended; then other tasks get a turn.
pub(crate) const TOLD_AT_ONCE_MAX: usize = 64;

/// Waits for answers of peers. It may wait for several: `slot` is its own name for a request.
pub(crate) trait Waiter {
    /// Called once for each request that was taken, on the event loop, never from within the sending of one.
    fn answered(self: Rc<Self>, slot: usize, answer: Result<Answer, PeerError>);
}

/// A request that is not answered yet.
pub(crate) struct Pending {
    waiter: Rc<dyn Waiter>,
    slot: usize,
    bytes: usize,
    sent_at_ms: u64,
    /// It came while a connection was being made, so that its failure is not this request's.
    joined: bool,
    /// If its trace is recorded.
    span: Option<Box<AskedSpan>>,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is no connection, and none is being made.
    Down,
    /// One is being made.
    Connecting,
    /// The nodes have greeted each other.
    Up,
}

/// The connection of one event loop to one peer: made when it is needed, for all requests of the loop.
///
/// There is no back-off: a request that finds no connection starts an attempt, and requests that come during it join it. If it
/// fails, it fails the requests that were there at its start; for those that joined, another attempt is made.
pub(crate) struct PeerLink {
    pub(crate) view: Arc<PeerView>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) core: Rc<LoopContext>,
    pub(crate) phase: Cell<Phase>,
    /// Counts the connections that came about: streams are of one of them.
    pub(crate) connection: Cell<u64>,
    pending: RefCell<Slab<Pending>>,
    pending_bytes: Cell<usize>,
    /// The version of the protocol that both ends speak.
    pub(crate) version: Cell<u8>,
    /// Frames that are not written yet.
    unsent: RefCell<BytesMut>,
    /// Reads that come behind them: those of a turn share a frame.
    unsent_reads: RefCell<Reads>,
    /// Of which traces those are that are not written yet.
    unsent_traces: RefCell<Vec<(u32, TraceContext)>>,
    /// Where, in them, those begin that joined a connection in the making.
    joined_at: Cell<usize>,
    /// Since when the peer has owed an answer and sent nothing.
    quiet_since_ms: Cell<u64>,
    /// The task that drives the connection.
    pub(crate) task: RefCell<Option<Waker>>,
    /// Whether it counts as frozen.
    pub(crate) is_frozen: Cell<bool>,
    began_ms: u64,
}

/// How old a node has to be for one that has never been there to be missed.
const MISSED_MS_MIN: u64 = 5_000;

impl PeerLink {
    pub(crate) fn new(view: Arc<PeerView>, cluster: Arc<Cluster>, core: Rc<LoopContext>) -> PeerLink {
        PeerLink {
            view,
            cluster,
            began_ms: core.now_ms(),
            core,
            phase: Cell::new(Phase::Down),
            connection: Cell::new(0),
            pending: RefCell::default(),
            pending_bytes: Cell::new(0),
            version: Cell::new(PROTOCOL_VERSION_MIN),
            unsent: RefCell::default(),
            unsent_reads: RefCell::default(),
            unsent_traces: RefCell::default(),
            joined_at: Cell::new(0),
            quiet_since_ms: Cell::new(0),
            task: RefCell::new(None),
            is_frozen: Cell::new(false),
        }
    }

    /// Lets go of all that wait for an answer, without telling them.
    #[cfg(feature = "simulation")]
    pub(crate) fn forget_requests(&self) {
        let forgotten = self.pending.take();
        drop(forgotten);
    }

    /// Sends a request, which may be a part of a span. Those of one turn of the event loop share a write.
    pub(crate) fn send(
        self: &Rc<Self>,
        (request, of): (&Request, Option<TraceContext>),
        waiter: Rc<dyn Waiter>,
        slot: usize,
    ) -> Result<(), PeerError> {
        let limits = &self.cluster.limits;
        let mut pending = self.pending.borrow_mut();
        let (requests, bytes) = (pending.len(), self.pending_bytes.get());
        if requests >= limits.peer_requests_max || bytes >= limits.peer_queue_bytes_max {
            self.view.failures.fetch_add(1, Ordering::Relaxed);
            return Err(PeerError::Full { requests, bytes });
        }
        let was_empty = self.unsent.borrow().is_empty() && self.unsent_reads.borrow().is_empty();
        let entry = pending.vacant_entry();
        let number = entry.key() as u32;
        let (bytes, span) = (self.queue(request, number), self.begin_span(of, request, number));
        let joined = self.phase.get() == Phase::Connecting;
        let sent_at_ms = self.core.now_ms();
        entry.insert(Pending { waiter, slot, bytes, sent_at_ms, joined, span });
        drop(pending);
        self.pending_bytes.set(self.pending_bytes.get() + bytes);
        if requests == 0 {
            self.quiet_since_ms.set(self.core.now_ms());
        }
        self.view.requests.fetch_add(1, Ordering::Relaxed);
        match self.phase.get() {
            Phase::Down => {
                self.phase.set(Phase::Connecting);
                self.core.supervisor.spawn_local("link", Rc::clone(self).run());
            }
            Phase::Up if was_empty => self.wake(),
            Phase::Up | Phase::Connecting => {}
        }
        Ok(())
    }

    /// A request is queued that may be a part of a span. Its peer is told, unless it is to be told of too many.
    #[inline]
    fn begin_span(&self, of: Option<TraceContext>, request: &Request, number: u32) -> Option<Box<AskedSpan>> {
        let span = AskedSpan::begin(&self.core, of?, request)?;
        let mut unsent = self.unsent_traces.borrow_mut();
        if unsent.len() < TRACES_MAX {
            unsent.push((number, span.context()));
        }
        Some(span)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.phase.get() == Phase::Up
    }

    /// Where the peer is.
    pub(crate) fn url(&self) -> &str {
        &self.view.url
    }

    /// Sends something that has no answer, if there is a connection.
    pub(crate) fn tell(&self, request: &Request) {
        if self.phase.get() == Phase::Up {
            self.queue(request, u32::MAX);
            self.wake();
        }
    }

    /// Puts a request behind those that are not written yet, and answers how long it is.
    fn queue(&self, request: &Request, number: u32) -> usize {
        let (mut unsent, mut reads) = (self.unsent.borrow_mut(), self.unsent_reads.borrow_mut());
        match request {
            Request::Read { key, digest, origin } if self.is_up() && self.version.get() >= READS_SINCE => {
                if !reads.has_room() {
                    reads.put(&mut unsent);
                }
                reads.add(number, key, (*digest, *origin))
            }
            request => {
                reads.put(&mut unsent);
                let before = unsent.len();
                request.put(&mut unsent, number);
                unsent.len() - before
            }
        }
    }

    /// Takes what is not written yet, for an empty buffer.
    pub(crate) fn swap_unsent(&self, output: &mut BytesMut) {
        let mut unsent = self.unsent.borrow_mut();
        self.unsent_reads.borrow_mut().put(&mut unsent);
        if let Some(traces) = told_traces(self.version.get(), self.unsent_traces.take()) {
            Request::Traces(traces).put(output, u32::MAX);
        }
        if output.is_empty() {
            std::mem::swap(output, &mut unsent);
        } else {
            output.unsplit(unsent.split());
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// Makes connections and drives them, for as long as there are requests that a connection may help.
    async fn run(self: Rc<Self>) {
        loop {
            self.begin_attempt();
            let error = self.connect_and_converse().await;
            let was_up = self.phase.replace(Phase::Connecting) == Phase::Up;
            if was_up {
                self.view.connections.fetch_sub(1, Ordering::Relaxed);
            } else {
                self.view.connect_failures.fetch_add(1, Ordering::Relaxed);
            }
            if error != PeerError::Broken(IDLE.into()) {
                self.view.record_unreachable(&error.reason(), self.is_told_of(&error));
            }
            *self.task.borrow_mut() = None;
            self.is_frozen.set(false);
            let failed = self.take_failed(was_up);
            // Recorded before any request fails: one that is then sent again starts an attempt, or joins this one.
            let goes_on = !self.pending.borrow().is_empty();
            if !goes_on {
                self.phase.set(Phase::Down);
            }
            self.tell_failed(failed, &error).await;
            if !goes_on {
                return;
            }
        }
    }

    /// Whether an error is logged. Nodes are started one after another: that a peer is not there yet is not worth a line.
    fn is_told_of(&self, error: &PeerError) -> bool {
        let age_ms = self.core.now_ms().saturating_sub(self.began_ms);
        !matches!(error, PeerError::Unreachable(_)) || self.view.has_greeted() || age_ms > MISSED_MS_MIN
    }

    /// Fails requests. Thousands may have waited for a frozen peer, so other tasks get turns in between.
    async fn tell_failed(&self, failed: Vec<Pending>, error: &PeerError) {
        let now_ms = self.core.now_ms();
        for (told, Pending { waiter, slot, sent_at_ms, span, .. }) in failed.into_iter().enumerate() {
            if told > 0 && told % TOLD_AT_ONCE_MAX == 0 {
                tokio::task::yield_now().await;
            }
            self.view.failures.fetch_add(1, Ordering::Relaxed);
            if let Some(span) = span {
                span.end(&self.core, self.url(), Err(error));
            }
            waiter.answered(slot, Err(failure_of(error, now_ms.saturating_sub(sent_at_ms))));
        }
    }

    /// The requests that wait now wait for this attempt; those that come later join it.
    fn begin_attempt(&self) {
        self.joined_at.set(self.unsent.borrow().len());
        for (_, pending) in &mut *self.pending.borrow_mut() {
            pending.joined = false;
        }
    }

    /// Takes out the requests that the end of a connection fails.
    fn take_failed(&self, was_up: bool) -> Vec<Pending> {
        let mut pending = self.pending.borrow_mut();
        let mut unsent = self.unsent.borrow_mut();
        // Their numbers are others' from now on.
        self.unsent_traces.take();
        if was_up {
            unsent.clear();
            self.unsent_reads.borrow_mut().clear();
        } else {
            let joined_at = self.joined_at.get();
            unsent.advance(joined_at);
        }
        let keys = pending.iter().filter(|(_, pending)| was_up || !pending.joined).map(|(key, _)| key);
        let keys = keys.collect::<Vec<_>>();
        let failed: Vec<_> = keys.into_iter().map(|key| pending.remove(key)).collect();
        self.pending_bytes.set(pending.iter().map(|(_, pending)| pending.bytes).sum());
        failed
    }

    /// Hands an answer to the task that waits for it; `false` if none does.
    pub(crate) fn answered(&self, number: u32, answer: Answer) -> bool {
        let mut pending = self.pending.borrow_mut();
        let Some(Pending { waiter, slot, bytes, span, .. }) = pending.try_remove(number as usize) else {
            return false;
        };
        drop(pending);
        self.pending_bytes.set(self.pending_bytes.get() - bytes);
        if let Some(span) = span {
            span.end(&self.core, self.url(), Ok(&answer));
        }
        waiter.answered(slot, Ok(answer));
        true
    }

    /// Something arrived from the peer.
    pub(crate) fn heard(&self) {
        self.quiet_since_ms.set(self.core.now_ms());
    }

    pub(crate) fn silence(&self) -> PeerError {
        let silent_ms = self.core.now_ms().saturating_sub(self.quiet_since_ms.get());
        PeerError::Silent { silent_ms, timeout_ms: self.cluster.limits.peer_timeout_ms }
    }

    /// Gives up a connection over which nothing comes.
    pub(crate) fn sweep(&self, now_ms: u64) {
        let silent_ms = now_ms.saturating_sub(self.quiet_since_ms.get());
        let is_silent = silent_ms > self.cluster.limits.peer_timeout_ms;
        if self.phase.get() == Phase::Up && is_silent && !self.pending.borrow().is_empty() {
            self.is_frozen.set(true);
            self.wake();
        }
    }

    pub(crate) fn owes_answers(&self) -> bool {
        !self.pending.borrow().is_empty()
    }
}

/// The error of a request that waited so long when its connection ended. Silence counts against the peer only for requests that
/// waited that long themselves: the network may have lost what was sent before them, which silences a connection, but not the
/// next one.
fn failure_of(error: &PeerError, waited_ms: u64) -> PeerError {
    match error {
        PeerError::Silent { timeout_ms, .. } if waited_ms <= *timeout_ms => {
            PeerError::Broken(error.to_string().into())
        }
        error => error.clone(),
    }
}
