use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::event_loop::Core;
use super::progress::{Overdue, Phase, Progress};
use super::stream::Streamed;

/// A connection to a client, as all who deal with it share it: hyper, the handlers, the sweeper.
pub(crate) struct Link {
    socket: RefCell<TokioIo<TcpStream>>,
    core: Rc<Core>,
    progress: Progress,
    /// Who made it end, where somebody did.
    verdict: Cell<Option<Overdue>>,
    /// The task that drives it.
    task: RefCell<Option<Waker>>,
    /// An answer that is written past hyper.
    streamed: RefCell<Option<Streamed>>,
    /// Bytes that were read ahead by a hyper connection that is no more.
    read_ahead: RefCell<Bytes>,
}

impl Link {
    pub(super) fn new(socket: TcpStream, core: Rc<Core>) -> Link {
        let progress = Progress::new(core.now_ms());
        Link {
            socket: RefCell::new(TokioIo::new(socket)),
            core,
            progress,
            verdict: Cell::new(None),
            task: RefCell::new(None),
            streamed: RefCell::new(None),
            read_ahead: RefCell::new(Bytes::new()),
        }
    }

    /// A request has arrived and is being served.
    pub(crate) fn request_begins(&self) {
        self.progress.enter(Phase::Serving, self.core.now_ms());
    }

    /// The answer is decided.
    pub(crate) fn answer_begins(&self) {
        self.progress.enter(Phase::Answering, self.core.now_ms());
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
        self.progress.enter(Phase::Serving, self.core.now_ms());
    }

    /// Hands over an answer that is written past hyper. Does nothing while hyper still has bytes of an earlier
    /// answer to write: once it has, it comes back and this is tried again.
    pub(crate) fn hand_over(&self, streamed: &mut Option<Streamed>) {
        if !self.progress.is_blocked() && streamed.is_some() {
            *self.streamed.borrow_mut() = streamed.take();
        }
    }

    pub(super) fn take_streamed(&self) -> Option<Streamed> {
        self.streamed.borrow_mut().take()
    }

    pub(super) fn give_back(&self, read_ahead: Bytes) {
        *self.read_ahead.borrow_mut() = read_ahead;
    }

    pub(super) fn owes_no_answer(&self) -> bool {
        self.progress.owes_no_answer()
    }

    /// The answer is out, and the next request may come.
    pub(super) fn rests(&self) {
        self.progress.enter(Phase::Idle, self.core.now_ms());
    }

    pub(super) fn begins_to_linger(&self) {
        self.progress.enter(Phase::Lingering, self.core.now_ms());
    }

    /// Whom to wake where the connection has to end.
    pub(super) fn driven_by(&self, waker: &Waker) {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }

    pub(super) fn verdict(&self) -> Option<Overdue> {
        self.verdict.get()
    }

    /// Has the task look at the connection.
    pub(super) fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// Ends the connection if it is overdue.
    pub(super) fn sweep(&self, now_ms: u64) {
        if self.verdict.get().is_none()
            && let Some(overdue) = self.progress.overdue(now_ms, &self.core.limits)
        {
            self.end(overdue);
        }
    }

    /// Ends the connection.
    pub(super) fn end(&self, why: Overdue) {
        self.verdict.set(Some(why));
        self.wake();
    }

    /// Makes dropping the connection tell the client that something is missing.
    pub(super) fn abort_on_drop(&self) {
        let socket = self.socket.borrow();
        // Nothing to be done where it fails: then the connection is gone already.
        let _ = socket2::SockRef::from(socket.inner()).set_linger(Some(Duration::ZERO));
    }

    pub(super) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut socket = self.socket.borrow_mut();
        let written = Pin::new(socket.inner_mut()).poll_write(context, bytes);
        drop(socket);
        match &written {
            Poll::Ready(Ok(count)) => self.progress.wrote(*count as u64, *count == bytes.len()),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.progress.blocked(self.core.now_ms()),
        }
        written
    }

    /// Reads and throws away; answers how many bytes.
    pub(super) fn poll_discard(&self, context: &mut Context<'_>, scratch: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut socket = self.socket.borrow_mut();
        let mut buffer = ReadBuf::new(scratch);
        let read = Pin::new(socket.inner_mut()).poll_read(context, &mut buffer);
        read.map_ok(|()| buffer.filled().len())
    }

    /// Tells the client that there is no more.
    pub(super) fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.socket.borrow_mut().inner_mut()).poll_shutdown(context)
    }
}

/// The connection as hyper has it.
pub(super) struct LinkIo(pub(super) Rc<Link>);

impl Read for LinkIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let link = &*self.0;
        let mut ahead = link.read_ahead.borrow_mut();
        let read = if ahead.is_empty() {
            Pin::new(&mut *link.socket.borrow_mut()).poll_read(context, buffer)
        } else {
            let count = ahead.len().min(buffer.remaining());
            buffer.put_slice(&ahead.split_to(count));
            Poll::Ready(Ok(()))
        };
        if read.is_ready() && link.progress.phase() == Phase::Idle {
            link.progress.enter(Phase::Head, link.core.now_ms());
        }
        read
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
