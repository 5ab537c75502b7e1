use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use hyper::rt::{Read, ReadBufCursor, Write};
use ladoga_runtime::Address;
use tokio::net::TcpStream;

use super::core::Core;
use super::meter::Meter;
use super::progress::{Overdue, Phase, Progress};
use super::read_ahead::ReadAhead;
use super::socket::Socket;
use super::stream::Takeover;
use ladoga_server::Connection;

/// A connection to a client, as all who deal with it share it: hyper, the handlers, the sweeper.
pub struct Link {
    socket: Socket,
    core: Rc<Core>,
    progress: Progress,
    meter: Meter,
    /// Whether the last request has a body that was not read to its end.
    has_unread_body: Cell<bool>,
    /// Once it was asked for.
    address: Cell<Option<Address>>,
    /// Whether the node was draining when it came: then it is told so, instead of being closed.
    is_late: bool,
    /// Who made it end, where somebody did.
    verdict: Cell<Option<Overdue>>,
    /// The task that drives it.
    task: RefCell<Option<Waker>>,
    /// What is to take the connection from hyper.
    takeover: RefCell<Option<Takeover>>,
    /// What hyper connections that are no more had read and not used.
    read_ahead: ReadAhead,
    /// How much of that the last of them gave back.
    given_back_bytes: Cell<usize>,
    /// Whether the hyper connection that there is has got anything yet.
    is_fed: Cell<bool>,
}

impl Link {
    pub(crate) fn new(socket: TcpStream, core: Rc<Core>) -> Link {
        let progress = Progress::new(core.now_ms());
        Link {
            socket: Socket::new(socket),
            is_late: core.is_draining(),
            core,
            progress,
            meter: Meter::default(),
            has_unread_body: Cell::new(false),
            address: Cell::new(None),
            verdict: Cell::new(None),
            task: RefCell::new(None),
            takeover: RefCell::new(None),
            read_ahead: ReadAhead::default(),
            given_back_bytes: Cell::new(0),
            is_fed: Cell::new(false),
        }
    }

    /// A request has arrived, perhaps with a body that is still to be read, and is being served.
    pub(crate) fn request_begins(&self, has_body: bool) {
        self.has_unread_body.set(has_body);
        self.progress.enter(Phase::Serving, self.core.now_ms());
    }

    /// The answer is decided.
    pub(crate) fn answer_begins(&self) {
        self.progress.enter(Phase::Answering, self.core.now_ms());
    }

    /// The answer is decided, and goes past hyper, whose next flush is not its end.
    pub(crate) fn stream_begins(&self) {
        self.progress.enter(Phase::Streaming, self.core.now_ms());
    }

    /// The connection is a peer's from now on.
    pub(crate) fn peer_begins(&self) {
        self.has_unread_body.set(false);
        self.progress.enter(Phase::Peer, self.core.now_ms());
        if let Err(error) = self.socket.keep_alive() {
            tracing::debug!(%error, "a peer's connection was gone before it was served");
        }
    }

    /// The body of a request is waited for.
    pub(crate) fn body_begins(&self) {
        self.progress.begin_body(self.core.now_ms());
    }

    /// A piece of the body of a request has arrived.
    pub(crate) fn body_piece(&self, bytes: usize) {
        self.progress.body_piece(bytes as u64, self.core.now_ms());
        self.core.metrics.received(bytes as u64);
    }

    /// The body is not waited for while the disk is.
    pub(crate) fn body_pauses(&self) {
        self.progress.pause_body(self.core.now_ms());
    }

    /// The body is waited for again.
    pub(crate) fn body_resumes(&self) {
        self.progress.resume_body(self.core.now_ms());
    }

    /// The body is complete.
    pub(crate) fn body_ends(&self) {
        self.has_unread_body.set(false);
        self.progress.enter(Phase::Serving, self.core.now_ms());
    }

    /// Hands the connection over to what goes on past hyper. Does nothing while hyper still has bytes of an earlier
    /// answer to write: once it has, it comes back and this is tried again.
    pub(crate) fn hand_over(&self, takeover: &mut Option<Takeover>) {
        if !self.progress.is_blocked() && takeover.is_some() {
            *self.takeover.borrow_mut() = takeover.take();
        }
    }

    pub(crate) fn take_over(&self) -> Option<Takeover> {
        self.takeover.borrow_mut().take()
    }

    /// A hyper connection is no more, and had read this without using it.
    pub(crate) fn give_back(&self, unused: Bytes) {
        self.given_back_bytes.set(unused.len());
        self.read_ahead.give_back(unused);
        self.is_fed.set(false);
    }

    /// Whether the client is on this machine, by the loopback.
    pub(crate) fn is_from_this_machine(&self) -> bool {
        self.socket.peer_ip().is_some_and(|ip| ip.to_canonical().is_loopback())
    }

    /// Whom what the client takes is counted for. The system is asked once, and only for those who take much.
    pub fn address(&self) -> Address {
        let address = self.address.get().unwrap_or_else(|| Address::of_client(self.socket.peer_ip()));
        self.address.set(Some(address));
        address
    }

    /// Ready once the client has closed its side, while a request is being served. The bytes of a next request hide it.
    pub(crate) fn poll_left(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0];
        match self.socket.poll_peek(context, &mut byte) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }

    pub(crate) fn owes_no_answer(&self) -> bool {
        self.progress.owes_no_answer()
    }

    /// The answer is out, and the next request may come.
    pub(crate) fn rests(&self) {
        self.progress.rest(self.core.now_ms());
    }

    /// What was read ahead, now that hyper has given it back, tells whether the connection is unused or in the middle
    /// of a head. Where it is unused, it may rest on.
    pub(crate) fn is_unused(&self) -> bool {
        self.verdict.set(None);
        self.progress.looked();
        self.read_ahead.is_empty()
    }

    /// Whether what arrives is longer than the head of a request may be.
    pub(crate) fn has_too_long_a_head(&self) -> bool {
        self.progress.phase() == Phase::Head && self.meter.is_too_long()
    }

    /// Whether hyper, which has just given up, may have taken the head that it gave up on out of what it gave back, so
    /// that the rest would be taken for a request.
    pub(crate) fn may_have_lost_its_head(&self) -> bool {
        match self.progress.phase() {
            Phase::Head => self.given_back_bytes.get() < self.meter.bytes(),
            // It had come whole behind the request before it, and nobody measured it.
            _ => true,
        }
    }

    /// The head that hyper has just given up on is read once more, from its first byte on.
    pub(crate) fn head_begins_again(&self) {
        self.meter.begin(true);
    }

    /// Whether the client has said more than was answered, and so may be saying more.
    pub(crate) fn may_be_speaking(&self) -> bool {
        self.has_unread_body.get() || !self.read_ahead.is_empty()
    }

    /// The last word is said. It has its own time, whatever made it the last.
    pub(crate) fn begins_to_linger(&self) {
        self.verdict.set(None);
        // Nobody answers that any more.
        self.read_ahead.take(usize::MAX);
        self.progress.enter(Phase::Lingering, self.core.now_ms());
    }

    /// Whom to wake where the connection has to end.
    pub fn driven_by(&self, waker: &Waker) {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }

    pub(crate) fn verdict(&self) -> Option<Overdue> {
        self.verdict.get()
    }

    /// Has the task look at the connection.
    pub(crate) fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// Ends the connection.
    fn end(&self, why: Overdue) {
        self.verdict.set(Some(why));
        self.wake();
    }

    /// Makes dropping the connection tell the client that something is missing.
    pub(crate) fn abort_on_drop(&self) {
        self.socket.abort_on_drop();
    }

    /// Bytes are about to be hyper's.
    fn arrived(&self, bytes: &[u8]) {
        if self.progress.phase() == Phase::Idle && !bytes.is_empty() {
            self.progress.enter(Phase::Head, self.core.now_ms());
            self.meter.begin(!self.is_fed.get());
        }
        if self.progress.phase() == Phase::Head {
            self.meter.arrived(bytes);
        }
        self.is_fed.set(true);
    }

    /// Answers how many bytes were written.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.socket.poll_write(context, bytes);
        match &written {
            Poll::Ready(Ok(count)) => self.progress.wrote(*count as u64, *count == bytes.len()),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.progress.blocked(self.core.now_ms()),
        }
        written
    }

    /// Reads and throws away; answers how many bytes.
    pub(crate) fn poll_discard(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.socket.poll_read(context, &mut self.core.scratch())
    }

    /// Bytes of an answer are out.
    pub(crate) fn sent(&self, bytes: usize) {
        self.core.metrics.sent(bytes as u64);
    }

    /// Tells the client that there is no more.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        self.socket.shut_down()
    }

    /// Reads what a peer sent, at most `bytes_max`, beside what was read ahead; answers how many bytes, none at the end.
    pub fn poll_take(
        &self,
        context: &mut Context<'_>,
        input: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let ahead = self.read_ahead.take(usize::MAX);
        if !ahead.is_empty() {
            input.extend_from_slice(&ahead);
            return Poll::Ready(Ok(ahead.len()));
        }
        let mut scratch = self.core.scratch();
        let room = bytes_max.min(scratch.len());
        let count = ready!(self.socket.poll_read(context, &mut scratch[..room]))?;
        input.extend_from_slice(&scratch[..count]);
        Poll::Ready(Ok(count))
    }
}

impl Connection for Link {
    fn sweep(&self, now_ms: u64) {
        if self.verdict.get().is_none()
            && let Some(overdue) = self.progress.overdue(now_ms, &self.core.limits)
        {
            self.end(overdue);
        }
    }

    /// Has the task look, and waits no longer for what a client says after its last answer.
    fn begin_to_drain(&self) {
        if self.progress.phase() == Phase::Lingering {
            self.end(Overdue::Idle);
        }
        self.wake();
    }

    fn cut_off(&self) {
        self.end(Overdue::Drain);
    }

    fn is_late(&self) -> bool {
        self.is_late
    }
}

/// The connection as hyper has it.
pub(crate) struct LinkIo(pub(crate) Rc<Link>);

impl Read for LinkIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let link = &*self.0;
        if link.has_too_long_a_head() {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        let ahead = link.read_ahead.take(buffer.remaining());
        if !ahead.is_empty() {
            link.arrived(&ahead);
            buffer.put_slice(&ahead);
            return Poll::Ready(Ok(()));
        }
        // By way of a buffer that all connections of the loop use, so that what arrives can be looked at.
        let mut scratch = link.core.scratch();
        let room = buffer.remaining().min(scratch.len());
        let count = ready!(link.socket.poll_read(context, &mut scratch[..room]))?;
        link.arrived(&scratch[..count]);
        buffer.put_slice(&scratch[..count]);
        Poll::Ready(Ok(()))
    }
}

impl Write for LinkIo {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // Where no answer is owed, this is hyper's own to a request that is none, which has no body: dropped
        // here, and said in full once hyper gives up the connection.
        if self.0.owes_no_answer() {
            return Poll::Ready(Ok(bytes.len()));
        }
        self.0.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Hyper flushes after it has written everything.
        let link = &*self.0;
        if link.progress.phase() == Phase::Answering {
            link.rests();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The task does that: it may have a last word.
        Poll::Ready(Ok(()))
    }
}
