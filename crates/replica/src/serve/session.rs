use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use ladoga_cluster::NodeId;
use ladoga_runtime::Address;

use super::asked::Asked;
use super::input::{self, Next, Waiting};
use super::opened::OpenedStreams;
use super::requests::{self, Writes};
use super::traces::Traces;
use super::watch::{ConnectionState, Watch};
use crate::bounds::{SESSION_OWN_BYTES, SessionAccount};
use crate::cluster::Cluster;
use crate::membership::PeerView;
use crate::own::OwnReplica;
use crate::wire::{Answer, FORWARDED_BYTES_MAX, FRAME_BYTES_MAX, Request};
use ladoga_local::store::Store;

/// What is taken in before others have a turn.
const TURN_BYTES_MAX: usize = 256 << 10;
/// What is known of a request while it is served, beside its bytes.
const REQUEST_BYTES: usize = 512;
/// Bytes that stay allocated for answers; more is freed after use.
const BUFFER_BYTES_KEPT: usize = 4 << 10;

/// A connection that a peer has made to this node.
///
/// What it holds of memory counts: what came and is not understood, requests that are being served, with the answers that
/// they may get, and answers that are not written. If there is no room for more, it is not read.
pub(super) struct Session<S: Store> {
    pub(super) replica: Rc<OwnReplica<S>>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) peer: RefCell<Option<Arc<PeerView>>>,
    pub(super) socket: Rc<dyn PeerSocket>,
    pub(super) account: SessionAccount,
    /// What requests that are being served hold.
    pub(super) held_bytes: Cell<usize>,
    input: RefCell<BytesMut>,
    /// Requests that are not begun: the first may find no room yet.
    waiting: RefCell<Waiting>,
    output: RefCell<BytesMut>,
    in_flight: Cell<usize>,
    /// When the socket was last read.
    pub(super) looked_at_ns: Cell<u64>,
    has_spoken: Cell<bool>,
    task: RefCell<Option<Waker>>,
    watch: Watch,
    pub(super) opened: OpenedStreams<S>,
    /// Of which spans requests are parts that are to come.
    pub(super) traces: Traces,
}

/// A connection that a peer made, with its bytes, whichever server accepted it.
pub trait PeerSocket {
    /// Whom to wake if the connection has to end.
    fn driven_by(&self, task: &Waker);

    /// Appends what the peer sent to the input, at most so many bytes; answers how many, none at the end.
    fn poll_take(
        &self,
        context: &mut Context<'_>,
        input: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>>;

    /// Answers how many bytes were written.
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// How many bytes were written that the peer has not acknowledged, as far as anybody knows.
    fn unacknowledged_bytes(&self) -> u64;

    /// Whom what the peer takes is counted for.
    fn address(&self) -> Address;

    /// Whether the peer has shown a certificate for this host.
    fn is_certified_for(&self, host: &str) -> bool;
}

/// How far the taking of requests came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// All that is there, for now.
    All,
    /// As much as there is room for.
    Stalled,
    /// The peer is done.
    Over,
}

/// Serves a peer until it closes the connection, or this node is to stop.
pub async fn serve<S: Store>(replica: &Rc<OwnReplica<S>>, socket: Rc<dyn PeerSocket>) -> io::Result<()> {
    let session = Rc::new(Session {
        replica: Rc::clone(replica),
        cluster: Arc::clone(&replica.cluster),
        peer: RefCell::new(None),
        socket,
        account: replica.cluster.sessions.open(),
        held_bytes: Cell::new(0),
        input: RefCell::default(),
        waiting: RefCell::default(),
        output: RefCell::default(),
        in_flight: Cell::new(0),
        looked_at_ns: Cell::new(0),
        has_spoken: Cell::new(false),
        task: RefCell::new(None),
        watch: Watch::begins(replica.core.now_ms()),
        opened: OpenedStreams::default(),
        traces: Traces::default(),
    });
    let looking = tokio::task::spawn_local(Rc::clone(&session).look_after());
    let served = poll_fn(|context| session.poll(context)).await;
    looking.abort();
    session.opened.clear();
    served
}

impl<S: Store> Session<S> {
    fn poll(self: &Rc<Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.driven_by(context.waker());
        *self.task.borrow_mut() = Some(context.waker().clone());
        if let Some(end) = self.watch.end() {
            return Poll::Ready(end);
        }
        if self.account.has_to_go(context.waker()) {
            return Poll::Ready(Err(io::Error::other("others came, and it had not greeted")));
        }
        let is_draining = self.replica.core.is_draining();
        let taken = match is_draining {
            true if self.in_flight.get() == 0 => Taken::Over,
            true => Taken::All,
            false => self.take(context)?,
        };
        if taken != Taken::Stalled {
            // If it waited for more room, what it has was enough in the end.
            self.account.waits_no_more();
        }
        let given = self.give(context)?;
        if given.is_ready() && taken == Taken::Over {
            return Poll::Ready(Ok(()));
        }
        self.give_back();
        if taken == Taken::Stalled && self.is_done() && !self.account.is_waiting() {
            // Nothing else would have it go on.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Handles what has arrived, as far as there is room for it and its answers.
    fn take(self: &Rc<Self>, context: &mut Context<'_>) -> io::Result<Taken> {
        let mut writes = Writes::default();
        self.looked_at_ns.set(self.replica.core.clock.monotonic_ns());
        let mut turn_bytes = 0;
        let taken = loop {
            if turn_bytes >= TURN_BYTES_MAX {
                context.waker().wake_by_ref();
                break Ok(Taken::All);
            }
            match self.next() {
                Ok(Some(next)) if !self.has_room_for(&next, context.waker()) => {
                    // What is answered, written, or given back by others wakes the task.
                    self.waiting.borrow_mut().put_back(next);
                    break Ok(Taken::Stalled);
                }
                Ok(Some(next)) => {
                    turn_bytes += next.bytes;
                    if let Err(end) = self.understand(next, &mut writes) {
                        break end;
                    }
                }
                Ok(None) => match self.read(context) {
                    Ok(Some(0)) => break Ok(Taken::Over),
                    Ok(Some(count)) => self.watch.moved(count),
                    Ok(None) => break Ok(Taken::All),
                    Err(None) => break Ok(Taken::Stalled),
                    Err(Some(error)) => break Err(error),
                },
                Err(error) => break Err(error),
            }
        };
        requests::write(self, writes);
        taken
    }

    /// The next request, once it is complete.
    fn next(&self) -> io::Result<Option<Next>> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            input::take(&mut self.input.borrow_mut(), self.peer.borrow().is_some(), &mut waiting)?;
        }
        Ok(waiting.next())
    }

    /// Reads what has arrived: how many bytes, none at the end, or `None` if there is nothing yet. The error is `None` if there
    /// is no room.
    fn read(&self, context: &mut Context<'_>) -> Result<Option<usize>, Option<io::Error>> {
        let mut input = self.input.borrow_mut();
        let others = self.held_bytes.get() + self.output.borrow().capacity();
        let reserve = |bytes| self.reserve(others + bytes, context.waker());
        let left = || self.account.bytes().saturating_sub(others);
        let Some(bytes_max) = input::room(&mut input, reserve, left) else { return Err(None) };
        match self.socket.poll_take(context, &mut input, bytes_max) {
            Poll::Pending => Ok(None),
            Poll::Ready(read) => read.map(Some).map_err(Some),
        }
    }

    /// What it holds of memory.
    fn used_bytes(&self) -> usize {
        let buffers = self.input.borrow().capacity() + self.output.borrow().capacity();
        self.held_bytes.get() + self.waiting.borrow().bytes() + buffers
    }

    fn has_room_for(&self, next: &Next, task: &Waker) -> bool {
        self.reserve(self.used_bytes() + cost(next), task)
    }

    fn reserve(&self, bytes: usize, task: &Waker) -> bool {
        // If others wait for their turn, what has arrived is answered before more is read.
        let may_go_on = !self.account.yields() || self.is_done() || bytes <= SESSION_OWN_BYTES;
        may_go_on && self.account.reserve(bytes, task)
    }

    /// Whether all that was taken in is answered, and that is written.
    fn is_done(&self) -> bool {
        self.in_flight.get() == 0 && self.output.borrow().is_empty()
    }

    /// Releases memory that is not needed any more.
    fn give_back(&self) {
        let mut input = self.input.borrow_mut();
        if input.is_empty() && input.capacity() > 0 {
            // It keeps what came before in memory.
            *input = BytesMut::new();
        }
        drop(input);
        let mut output = self.output.borrow_mut();
        if output.is_empty() {
            self.account.answers_are_written();
            if output.capacity() > BUFFER_BYTES_KEPT {
                *output = BytesMut::new();
            }
        }
        drop(output);
        self.account.release(self.used_bytes());
    }

    /// Who speaks, once it has greeted.
    pub(super) fn peer_id(&self) -> Option<NodeId> {
        self.peer.borrow().as_ref().map(|peer| peer.id)
    }

    /// Answers a request.
    pub(super) fn answer(&self, number: u32, answer: &Answer) {
        answer.put(&mut self.output.borrow_mut(), number);
        self.has_spoken.set(true);
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// Answers a request when `answer` is known.
    pub(super) fn answer_later(
        self: &Rc<Self>,
        asked: Asked<S>,
        answer: impl Future<Output = Answer> + 'static,
    ) {
        self.answer_all_later(async move { vec![(asked, answer.await)] });
    }

    /// Answers several requests when `answers` are known.
    pub(super) fn answer_all_later(
        self: &Rc<Self>,
        answers: impl Future<Output = Vec<(Asked<S>, Answer)>> + 'static,
    ) {
        self.in_flight.set(self.in_flight.get() + 1);
        let session = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answers = answers.await;
            session.in_flight.set(session.in_flight.get() - 1);
            for (asked, answer) in answers {
                session.answer(asked.number, &answer);
            }
        });
    }

    /// Writes answers, in as few writes as the socket takes. Ready once all are out.
    fn give(&self, context: &mut Context<'_>) -> io::Result<Poll<()>> {
        let mut output = self.output.borrow_mut();
        while !output.is_empty() {
            match self.socket.poll_write(context, &output) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    output.advance(count);
                    self.watch.moved(count);
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Says from time to time that answers are still to come: a slow disk is not a frozen node. And ends what holds others up.
    async fn look_after(self: Rc<Self>) {
        let every_ms = Watch::every_ms(&self.cluster.limits);
        let mut ticks = tokio::time::interval(Duration::from_millis(every_ms));
        loop {
            ticks.tick().await;
            self.account.time_passes();
            let is_waiting = !self.waiting.borrow().is_empty() || self.account.is_waiting();
            let is_owing = self.in_flight.get() > 0 || is_waiting;
            // If answers wait to be written, they show that the node is alive.
            let may_speak = self.output.borrow().is_empty();
            if is_owing && !self.has_spoken.replace(false) && may_speak {
                self.answer(u32::MAX, &Answer::Alive);
            }
            let times = (self.replica.greeting_timeout_ms, self.replica.core.now_ms());
            if self.watch.look(&self.state(), &self.cluster.limits, times)
                && let Some(task) = &*self.task.borrow()
            {
                task.wake_by_ref();
            }
        }
    }

    fn state(&self) -> ConnectionState {
        let is_written = self.output.borrow().is_empty();
        let is_asking = !self.input.borrow().is_empty() || !self.waiting.borrow().is_empty();
        let is_serving = self.in_flight.get() > 0;
        ConnectionState {
            has_greeted: self.peer.borrow().is_some(),
            has_unread: !is_written,
            is_idle: is_written && !is_asking && !is_serving && self.opened.is_empty(),
            // It waits for what the peer does not do: to read its answers, or to send the rest of a request.
            waits_for_peer: !is_written || (!is_serving && !self.account.is_waiting()),
            holds_others_up: self.account.holds_others_up(),
            is_one_of_too_many: self.account.is_one_of_too_many(),
            unacknowledged_bytes: self.account.is_waiting().then(|| self.socket.unacknowledged_bytes()),
        }
    }

    /// Whom what the peer takes is counted for.
    pub(super) fn address(&self) -> Address {
        self.socket.address().as_peer()
    }
}

/// What a request and its answer may hold, until that is among those to be written.
pub(super) fn cost(next: &Next) -> usize {
    let answer = match next.request {
        // How long it is becomes known once it is there.
        Request::Read { .. } | Request::Prepare { .. } | Request::OpenValue { .. } | Request::Next { .. } => {
            FRAME_BYTES_MAX
        }
        Request::Forward(_) => FORWARDED_BYTES_MAX,
        _ => 0,
    };
    next.bytes + REQUEST_BYTES + answer
}
