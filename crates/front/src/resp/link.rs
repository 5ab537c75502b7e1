use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use ladoga_model::VALUE_BYTES_MAX;
use ladoga_resp::{Parser, ParserLimits};
use ladoga_runtime::{Address, Gate, Taken};
use ladoga_tls::{Failure, NodeTls};

use super::held::HeldPermits;
use super::session::Told;
use super::waits::{Interruption, Waits};
use crate::auth::Caller;
use crate::connection::{Core, Departure, Ending, Socket, Unread, hear_out, shake_hands};

/// After so long without a request, a connection keeps no buffers.
const BUFFERS_KEPT_MS: u64 = 500;
/// What stays allocated for replies between two of them.
const OUTPUT_BYTES_KEPT: usize = 16 << 10;

/// Arguments of a request, the name of the command included.
const ARGUMENTS_MAX: usize = 1 << 20;
/// What a request may have in memory beside a value that is taken out of it.
const REQUEST_BYTES_MAX: usize = 256 << 20;

/// A connection to a client, as all who deal with it share it: its own task and the sweeper.
pub(crate) struct RespLink {
    socket: Socket,
    core: Rc<Core>,
    buffers: RefCell<Buffers>,
    is_late: bool,
    /// Whether it goes on at another event loop, as soon as it can.
    is_to_move: Cell<bool>,
    /// Whether it has told this event loop something that another one cannot know.
    pub(super) stays: Cell<bool>,
    /// What it has told the event loop that served it before.
    told: Cell<Option<Told>>,
    pub(super) held: Rc<HeldPermits>,
    pub(super) unread: Unread,
    /// Why it has to end, if it has to.
    pub(super) ending: Ending<Interruption>,
}

/// The one owner of a connection's bytes: all that arrive and all that are sent pass here, in order.
pub(super) struct Buffers {
    pub(super) input: BytesMut,
    pub(super) parser: Parser,
    /// Whether the client has sent everything.
    pub(super) has_ended: bool,
    /// What is to be sent, and how much of it is.
    pub(super) output: Vec<u8>,
    sent_bytes: usize,
    /// All that was ever sent.
    pub(super) all_sent_bytes: u64,
    /// What it was charged for: of all that was sent, or is to be.
    charged_bytes: u64,
    waits: Waits,
}

impl RespLink {
    /// With what another event loop knew of it, if that has served it. Values from `large_bytes_min` on can be taken out of requests.
    pub(super) fn new(socket: Socket, core: Rc<Core>, large_bytes_min: u64, told: Option<Told>) -> RespLink {
        let limits = ParserLimits {
            arguments_max: ARGUMENTS_MAX,
            argument_bytes_max: VALUE_BYTES_MAX,
            large_bytes_min,
            request_bytes_max: REQUEST_BYTES_MAX,
            is_of_stranger: true,
        };
        let address = Address::of_client(Some(socket.peer_ip()));
        // Nothing else ends a connection that is not used: clients keep pools of them.
        if let Err(error) = socket.keep_alive() {
            tracing::debug!(%error, "a connection was gone before it was served");
        }
        RespLink {
            socket,
            buffers: RefCell::new(Buffers::new(limits)),
            is_late: core.is_draining() && told.is_none(),
            is_to_move: Cell::new(false),
            stays: Cell::new(false),
            told: Cell::new(told),
            held: Rc::new(HeldPermits::new(core.bodies.clone(), address)),
            unread: Unread::default(),
            core,
            ending: Ending::none(),
        }
    }

    /// What it has told the event loop that served it before, if one did.
    pub(super) fn take_told(&self) -> Option<Told> {
        self.told.take()
    }

    /// Whether it is to go on at another event loop, and no part of a request is here.
    pub(super) fn is_to_move(&self) -> bool {
        let buffers = self.buffers();
        self.is_to_move.get()
            && !self.is_late
            && !buffers.parser.is_within_request()
            && buffers.input.is_empty()
            && !self.socket.is_within_record()
    }

    /// What another event loop needs; none if there is no descriptor for it: then it stays.
    #[cold]
    pub(super) fn departing(&self) -> Option<Departure> {
        self.is_to_move.set(false);
        self.socket.depart()
    }

    /// Whether the handshake was made already, at another event loop.
    pub(super) fn is_secure(&self) -> bool {
        self.socket.is_secure()
    }

    /// Makes the handshake. The node may be told to stop meanwhile.
    pub(super) async fn shake_hands(&self, tls: &NodeTls, room: &Gate) -> Result<(), Failure> {
        let handshake =
            shake_hands((&self.socket, self.address()), &self.core, (tls, room), NodeTls::accept_resp);
        let mut handshake = pin!(handshake);
        let made = poll_fn(|context| match handshake.as_mut().poll(context) {
            Poll::Pending if self.core.is_draining() && !self.is_late => Poll::Ready(Err(Failure::Closed)),
            made => made,
        });
        self.ending.unless_ended(made).await.unwrap_or(Err(Failure::Timeout))
    }

    /// Has who speaks pay for what the client was sent. What it asks for next shows that, over this connection and any other.
    pub(super) fn settle(&self, caller: Option<&Caller>) {
        let bytes = self.buffers().take_uncharged();
        if bytes > 0
            && let Some(caller) = caller
        {
            caller.charge(self.core.clock.monotonic_ns(), bytes);
        }
    }

    /// Its bytes, for as long as nobody else asks for them.
    pub(super) fn buffers(&self) -> RefMut<'_, Buffers> {
        self.buffers.borrow_mut()
    }

    /// Whom what the client takes is counted for.
    pub(super) fn address(&self) -> Address {
        self.held.address
    }

    /// The address of the client.
    pub(super) const fn peer_ip(&self) -> IpAddr {
        self.socket.peer_ip()
    }

    /// Where the two ends of it are, as text.
    pub(super) fn ends(&self) -> (String, String) {
        self.socket.ends()
    }

    /// Whether no other request is waited for, because the node is to stop.
    pub(super) fn is_to_end(&self) -> bool {
        self.core.is_draining()
    }

    /// Waits until something arrives, or the client has sent all; by way of a buffer that all connections of the loop use.
    pub(super) fn poll_receive(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let now_ms = self.core.now_ms();
        self.buffers().waits_for_request(now_ms, self.socket.is_within_record());
        let mut scratch = self.core.scratch();
        let polled = self.socket.poll_read(context, &mut scratch);
        if polled.is_pending() {
            if self.socket.is_within_record() {
                // A request has its time from its first byte on, also if that cannot be read yet.
                self.buffers().waits.received(0, now_ms);
            } else {
                // A record that is over may have brought nothing of one.
                self.buffers().waits_for_request(now_ms, false);
            }
        }
        let count = ready!(polled)?;
        let mut buffers = self.buffers();
        if count == 0 {
            buffers.has_ended = true;
        }
        buffers.input.extend_from_slice(&scratch[..count]);
        buffers.waits.received(count, now_ms);
        Poll::Ready(Ok(()))
    }

    /// All of a request has arrived, or a part of it that has its own time: what is waited for now is not the client.
    pub(super) fn serves(&self) {
        self.buffers().waits.end_request();
    }

    /// The same until more of the request is waited for, which has the rest of its time.
    pub(super) fn pauses(&self) {
        self.buffers().waits.pause_request(self.core.now_ms());
    }

    /// Ready once all replies are out.
    pub(super) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.buffers().unsent().is_empty() {
            ready!(self.poll_write_behind(context, &[]))?;
        }
        Poll::Ready(Ok(()))
    }

    pub(super) async fn flush(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// Writes `bytes` behind what is still to be sent, in one system call. Answers how many of them, which may be none. If the client
    /// takes them so slowly that it has to give way to others, the connection ends.
    pub(super) fn poll_write_behind(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(taken) = self.held.poll_displaced(context) {
            self.ending.end(Interruption::Displaced(taken));
            return Poll::Pending;
        }
        let mut buffers = self.buffers();
        let ahead = buffers.unsent().len();
        match self.socket.poll_write_both(context, buffers.unsent(), bytes) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(count)) => {
                buffers.all_sent_bytes += count as u64;
                buffers.sent(count.min(ahead));
                let own = count.saturating_sub(ahead);
                buffers.waits.taken(count as u64, count == ahead + bytes.len());
                self.held.rest(self.socket.drain().uncounted(count as u64));
                self.unread.written(count as u64);
                Poll::Ready(Ok(own))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                buffers.waits.blocked(self.core.now_ms());
                self.held.wait_for_client(self.socket.drain().take());
                Poll::Pending
            }
        }
    }

    /// Has a client that takes something, however slowly, count as one that does. Its task looks at what that was. One that is too slow
    /// gives what its replies hold to others.
    fn look_at_drain(&self, waits: &mut Waits, now_ms: u64) {
        let taken = self.socket.look_at_drain();
        if taken > 0 {
            waits.drained(taken, now_ms);
            self.ending.wake();
        }
        let room = (&self.core.bodies, self.address());
        if self.unread.look(now_ms, taken, room) && self.ending.why().is_none() {
            self.ending.end(Interruption::Displaced(Taken::Value));
        }
    }

    /// Writes what is to be sent if there are no bytes, or all of them behind that.
    pub(super) fn poll_write_all(&self, context: &mut Context<'_>, left: &mut &[u8]) -> Poll<io::Result<()>> {
        if left.is_empty() {
            return self.poll_flush(context);
        }
        while !left.is_empty() {
            let count = ready!(self.poll_write_behind(context, left))?;
            *left = &left[count..];
        }
        Poll::Ready(Ok(()))
    }

    /// The last reply is about to be sent. It has its own time, whatever made it the last. Answers whether the client was in the middle
    /// of something.
    pub(super) fn begins_to_linger(&self) -> bool {
        self.ending.begin_anew();
        self.buffers().lingers(self.core.now_ms())
    }

    /// Sends the last reply. A client that may still be speaking is listened to for a while: a reset would take the reply away
    /// from it.
    pub(super) async fn linger(&self, may_be_speaking: bool) -> io::Result<()> {
        self.flush().await?;
        self.socket.shut_down()?;
        hear_out(|context| self.socket.poll_read(context, &mut self.core.scratch()), may_be_speaking).await
    }

    /// Makes dropping the connection tell the client that something is missing.
    pub(super) fn abort_on_drop(&self) {
        self.socket.abort_on_drop();
    }
}

impl ladoga_server::Connection for RespLink {
    /// Also has it keep no buffers if it is idle.
    fn sweep(&self, now_ms: u64) {
        let mut buffers = self.buffers();
        buffers.give_back_if_idle(now_ms.saturating_sub(BUFFERS_KEPT_MS));
        if buffers.waits.unread.is_some() {
            self.look_at_drain(&mut buffers.waits, now_ms);
        }
        let limits = &self.core.limits;
        let ending = buffers.waits.ending(now_ms, limits);
        drop(buffers);
        if let (None, Some(why)) = (self.ending.why(), ending) {
            self.ending.end(why);
        }
    }

    /// Has the task look, and waits no longer for what a client says after its last reply.
    fn begin_to_drain(&self) {
        if self.buffers().waits.lingering.is_some() {
            return self.ending.end(Interruption::CutOff);
        }
        self.ending.wake();
    }

    fn move_on(&self) -> bool {
        let may_move = !self.stays.get();
        if may_move {
            self.is_to_move.set(true);
            self.ending.wake();
        }
        may_move
    }

    fn cut_off(&self) {
        self.ending.end(Interruption::CutOff);
    }

    fn is_late(&self) -> bool {
        self.is_late
    }
}

impl Buffers {
    fn new(limits: ParserLimits) -> Buffers {
        Buffers {
            input: BytesMut::new(),
            parser: Parser::new(limits),
            has_ended: false,
            output: Vec::new(),
            sent_bytes: 0,
            all_sent_bytes: 0,
            charged_bytes: 0,
            waits: Waits::default(),
        }
    }

    /// What the client has been sent, or is to be, beside what was there when this was asked last.
    fn take_uncharged(&mut self) -> u64 {
        let bytes = self.all_sent_bytes + self.unsent().len() as u64;
        bytes.saturating_sub(std::mem::replace(&mut self.charged_bytes, bytes))
    }

    /// What is to be sent now.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.output[self.sent_bytes..]
    }

    fn sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        if self.sent_bytes == self.output.len() {
            self.sent_bytes = 0;
            self.output.clear();
            self.output.shrink_to(OUTPUT_BYTES_KEPT);
        }
    }

    fn waits_for_request(&mut self, now_ms: u64, is_within_record: bool) {
        let has_begun = is_within_record || self.parser.is_within_request() || !self.input.is_empty();
        self.waits.wait_for_request(now_ms, has_begun);
    }

    /// Nothing that arrives counts any more. Answers whether the client was in the middle of something.
    fn lingers(&mut self, now_ms: u64) -> bool {
        let is_speaking = self.parser.is_within_request() || !self.input.is_empty();
        (self.input, self.parser) = (BytesMut::new(), Parser::new(*self.parser.limits_mut()));
        self.waits = Waits { lingering: Some(now_ms), ..Waits::default() };
        is_speaking
    }

    /// Gives memory back on a connection that has not been used since the given time.
    fn give_back_if_idle(&mut self, since_ms: u64) {
        let is_idle = self.waits.request.is_some_and(|(waits_since_ms, _)| waits_since_ms <= since_ms);
        if is_idle && self.output.is_empty() && self.input.is_empty() {
            (self.input, self.output) = (BytesMut::new(), Vec::new());
        }
    }
}
