use std::cell::{Cell, Ref, RefCell, RefMut};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use ladoga_http1::server::{BadBody, Connection, HeadLimits, Overdue, Piece};
use ladoga_runtime::{Address, Gate};
use ladoga_server::Limits;
use ladoga_tls::{Failure, NodeTls};

use super::core::Core;
use super::ending::Ending;
use super::guest::Guest;
use super::handshake::shake_hands;
use super::socket::{Departure, Socket};
use super::unread::Unread;
use super::upcoming::{NoRequest, Upcoming};
use crate::auth::{Caller, Guard, Unauthorized};
use crate::http::{HEADERS_BYTES_MAX, REQUEST_LINE_BYTES_MAX};
use crate::slow::Asked;

/// After so long without a request, a connection keeps no buffers.
const BUFFERS_KEPT_MS: u64 = 500;
/// What is read at once of a long body.
const PIECE_BYTES_MAX: u64 = 64 << 10;

const HEAD_LIMITS: HeadLimits =
    HeadLimits { line_bytes_max: REQUEST_LINE_BYTES_MAX, fields_bytes_max: HEADERS_BYTES_MAX };

/// A connection to a client, as all who deal with it share it: its own task, the handlers, the sweeper.
pub struct Link {
    pub(super) socket: Socket,
    pub(super) core: Rc<Core>,
    http: RefCell<Connection>,
    pub(crate) guest: Guest,
    /// What the log of slow requests would have of the request in turn.
    pub(crate) asked: Asked,
    pub(crate) unread: Unread,
    /// Whether what arrives of a body is still to be charged.
    charges_pieces: Cell<bool>,
    /// Whether another event loop is to serve it.
    is_to_move: Cell<bool>,
    /// Whether it has an answer that does not end.
    pub(crate) follows: Cell<bool>,
    /// Whether it was accepted while the node was draining: then it is answered instead of being closed.
    pub(crate) is_late: bool,
    /// Which timeout ended it, if one did.
    pub(crate) ending: Ending<Overdue>,
}

impl Link {
    /// Over this socket.
    pub(crate) fn new(socket: Socket, core: Rc<Core>) -> Link {
        Link {
            socket,
            http: RefCell::new(Connection::new(HEAD_LIMITS, core.now_ms())),
            is_to_move: Cell::new(false),
            follows: Cell::new(false),
            is_late: core.is_draining(),
            core,
            guest: Guest::default(),
            asked: Asked::default(),
            unread: Unread::default(),
            charges_pieces: Cell::new(false),
            ending: Ending::none(),
        }
    }

    /// Whether the handshake was made already, at another event loop.
    pub(crate) fn is_secure(&self) -> bool {
        self.socket.is_secure()
    }

    /// Makes the handshake. The node may be told to stop meanwhile.
    pub(crate) async fn shake_hands(&self, tls: &NodeTls, room: &Gate) -> Result<(), Failure> {
        let handshake =
            shake_hands((&self.socket, self.address()), &self.core, (tls, room), NodeTls::accept_http);
        let mut handshake = pin!(handshake);
        let made = poll_fn(|context| match handshake.as_mut().poll(context) {
            Poll::Pending if self.core.is_draining() && !self.is_late => Poll::Ready(Err(Failure::Closed)),
            made => made,
        });
        self.ending.unless_ended(made).await.unwrap_or(Err(Failure::Timeout))
    }

    /// Its buffers and its HTTP state. Borrowed for a moment only.
    pub(crate) fn http(&self) -> RefMut<'_, Connection> {
        self.http.borrow_mut()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.core.now_ms()
    }

    /// The bounds of the node.
    pub(crate) fn limits(&self) -> &Limits {
        &self.core.limits
    }

    /// The body of a request is waited for.
    pub(crate) fn body_begins(&self) {
        self.http().begin_body(self.core.look_now_ms());
    }

    /// The same of a body whose parts are of use as they arrive.
    pub(crate) fn body_begins_in_pieces(&self) {
        self.http().begin_body_in_pieces(self.core.look_now_ms());
    }

    /// The body is not waited for while the disk is.
    pub(crate) fn body_pauses(&self) {
        self.http().pause_body(self.core.look_now_ms());
    }

    /// The body is waited for again.
    pub(crate) fn body_resumes(&self) {
        self.http().resume_body(self.core.look_now_ms());
    }

    /// Whether the client is on this machine, by the loopback.
    pub(crate) fn is_from_this_machine(&self) -> bool {
        self.socket.peer_ip().to_canonical().is_loopback()
    }

    /// The address of the client.
    pub(crate) const fn peer_ip(&self) -> IpAddr {
        self.socket.peer_ip()
    }

    /// Nobody is known to ask.
    pub(crate) fn forget_caller(&self) {
        self.guest.forget();
    }

    /// Whoever shows this asks, if it counts.
    pub(crate) fn log_in(
        &self,
        guard: &Arc<Guard>,
        authorization: &[u8],
        wall_ms: u64,
    ) -> Result<(), Unauthorized> {
        self.guest.log_in(guard, authorization, wall_ms)
    }

    /// Who asks, on a node with tokens.
    pub(crate) fn caller(&self) -> Option<Ref<'_, Caller>> {
        self.guest.caller()
    }

    /// Whether who asks may still do so.
    pub(crate) fn has_valid_caller(&self) -> bool {
        self.guest.still(self.core.clock.wall_ms())
    }

    /// What arrives of the body is charged as it does, or was charged before.
    pub(crate) fn charge_pieces(&self, charges: bool) {
        self.charges_pieces.set(charges);
    }

    /// Bytes have been moved for who asks.
    pub(crate) fn charge(&self, bytes: u64) {
        if let Some(caller) = self.caller() {
            caller.charge(self.core.clock.monotonic_ns(), bytes);
        }
    }

    /// Whom what the client takes is counted for.
    pub fn address(&self) -> Address {
        Address::of_client(Some(self.socket.peer_ip()))
    }

    /// Ready once the client has closed its side, while a request is being served. The bytes of a next request hide it.
    pub(crate) fn poll_left(&self, context: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_end(context)
    }

    /// The last answer is about to be written. It has a time-out of its own. Answers whether the client may still be sending.
    pub(crate) fn begins_to_linger(&self) -> bool {
        self.ending.begin_anew();
        self.http().linger(self.now_ms())
    }

    /// The task to wake when the connection has to end.
    pub fn driven_by(&self, waker: &Waker) {
        self.ending.driven_by(waker);
    }

    /// Makes dropping the connection tell the client that something is missing.
    pub(crate) fn abort_on_drop(&self) {
        self.socket.abort_on_drop();
    }

    /// The next request, once its head is there and all answers to those before are out, or why there is none.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Result<Upcoming, NoRequest>> {
        loop {
            if let Some(request) = self.http().next_request(self.now_ms())? {
                return Poll::Ready(Ok(Upcoming::Request(request)));
            }
            ready!(self.poll_flush_counted(context))?;
            self.http().rest(self.now_ms());
            // Who came after draining had begun is answered once, and closed with that answer.
            if self.http().has_ended() || (self.core.is_draining() && !self.is_late) {
                return Poll::Ready(Ok(Upcoming::End));
            }
            if self.is_to_move.take()
                && let Some(departure) = self.departing()
            {
                return Poll::Ready(Ok(Upcoming::Move(departure)));
            }
            ready!(self.poll_receive(context))?;
        }
    }

    /// What another event loop needs; `None` if a part of a request is here already, or there is no descriptor for it.
    #[cold]
    fn departing(&self) -> Option<Departure> {
        if self.http().has_input() || self.socket.is_within_record() || self.is_late {
            return None;
        }
        self.socket.depart()
    }

    /// Waits until something arrives, or the client has closed its side. It reads into a buffer that all connections of the
    /// loop share, so that a connection's own buffer is no larger than what has arrived on it.
    pub(crate) fn poll_receive(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scratch = self.core.scratch();
        match self.socket.poll_read(context, &mut scratch)? {
            Poll::Ready(0) => self.http().end_input(),
            Poll::Ready(count) => self.http().receive(&scratch[..count], || self.core.look_now_ms()),
            Poll::Pending => {
                // A request has its time from its first byte on, also if that cannot be read yet.
                self.http().wait(self.socket.is_within_record(), || self.core.look_now_ms());
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn received(&self, bytes: usize) {
        self.core.metrics.received(bytes as u64);
        if self.charges_pieces.get() {
            self.charge(bytes as u64);
        }
    }

    /// The body of the request that is served, if it is short and all of it has arrived.
    pub(crate) fn take_arrived_body(&self) -> Option<Bytes> {
        let body = self.http().take_arrived_body()?;
        self.received(body.len());
        Some(body)
    }

    /// The next piece of the body of the request that is served; `None` at its end.
    pub(crate) fn poll_piece(&self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BadBody>> {
        loop {
            let mut http = self.http();
            let arrived = match http.next_piece(self.now_ms())? {
                Some(Piece::End) => return Poll::Ready(Ok(None)),
                Some(Piece::Bytes(piece)) => {
                    self.received(piece.len());
                    return Poll::Ready(Ok(Some(piece)));
                }
                None => http.elsewhere_bytes_max().min(PIECE_BYTES_MAX) as usize,
            };
            drop(http);
            // The client may be waiting for `100 Continue`, so that is flushed first. A write error shows when the answer is
            // written.
            let _ = self.poll_flush(context);
            if arrived == 0 {
                if ready!(self.poll_receive(context)).is_err() {
                    self.http().end_input();
                }
                continue;
            }
            match ready!(self.socket.poll_read_new(context, arrived)) {
                Ok(piece) if !piece.is_empty() => {
                    self.http().received_elsewhere(piece.len(), self.core.look_now_ms());
                    self.received(piece.len());
                    return Poll::Ready(Ok(Some(Bytes::from(piece))));
                }
                Ok(_) | Err(_) => self.http().end_input(),
            }
        }
    }

    /// Ready once all answers are out, except those that are still being made.
    pub(crate) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut http = self.http();
        while !http.unsent().is_empty() {
            match self.socket.poll_write(context, http.unsent()) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    http.sent(count);
                    self.unread.written(count as u64);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    http.blocked(self.now_ms());
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes `bytes` after what is already queued, in one system call. Answers how many of them were taken, which may be none.
    pub(crate) fn poll_write_behind(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut http = self.http();
        let ahead = http.unsent().len();
        match self.socket.poll_write_both(context, http.unsent(), bytes) {
            Poll::Ready(Ok(count)) => {
                if ahead > 0 {
                    http.sent(count.min(ahead));
                }
                let own = count.saturating_sub(ahead);
                http.sent_elsewhere(own, own == bytes.len());
                self.unread.written(count as u64);
                Poll::Ready(if count == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(own) })
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                http.blocked(self.now_ms());
                Poll::Pending
            }
        }
    }

    /// Reads and discards; answers how many bytes.
    pub(crate) fn poll_discard(&self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.socket.poll_read(context, &mut self.core.scratch())
    }

    /// Bytes of an answer are out, beside its head.
    pub(crate) fn sent(&self, bytes: u64) {
        self.core.metrics.sent(bytes);
        self.charge(bytes);
    }

    /// Closes our side: the client sees the end of the stream.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        self.socket.shut_down()
    }
}

impl ladoga_server::Connection for Link {
    /// Also has it keep no buffers if it is idle.
    fn sweep(&self, now_ms: u64) {
        let mut http = self.http();
        if http.is_blocked() {
            self.look_at_drain(&mut http, now_ms);
        }
        http.give_back_if_idle(now_ms.saturating_sub(BUFFERS_KEPT_MS));
        if self.ending.why().is_none()
            && let Some(overdue) = http.overdue(now_ms, &self.core.timeouts())
        {
            self.ending.end(overdue);
        }
    }

    /// Wakes the task, and lingers no longer after its last answer.
    fn begin_to_drain(&self) {
        if self.http().is_lingering() {
            self.ending.end(Overdue::Idle);
        }
        self.ending.wake();
    }

    fn move_on(&self) -> bool {
        // A peer's is where the peer has asked for it.
        let may_move = !self.is_peers() && !self.follows.get();
        if may_move {
            self.is_to_move.set(true);
            self.ending.wake();
        }
        may_move
    }

    fn cut_off(&self) {
        self.ending.end(Overdue::Answer);
    }

    fn is_late(&self) -> bool {
        self.is_late
    }
}
