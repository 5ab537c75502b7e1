use std::cell::{Cell, RefCell, RefMut};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use ladoga_model::VALUE_BYTES_MAX;
use ladoga_resp::{Parser, ParserLimits};
use ladoga_runtime::Address;
use tokio::net::TcpStream;

use crate::connection::{Core, Socket};

/// After so long without a request, a connection keeps no buffers.
const BUFFERS_KEPT_MS: u64 = 500;
/// What stays allocated for replies between two of them.
const OUTPUT_BYTES_KEPT: usize = 16 << 10;
/// A client that takes fewer bytes than this within the time for an answer takes none.
const TAKEN_BYTES_MIN: u64 = 4 << 10;
/// How long the last bytes of a client are waited for after its last reply.
const LINGER_MS: u64 = 5_000;

/// Arguments of a request, the name of the command included.
const ARGUMENTS_MAX: usize = 1 << 20;
/// What a request may have in memory beside a value that is taken out of it.
const REQUEST_BYTES_MAX: usize = 256 << 20;

/// Why a connection has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// A request does not arrive.
    Late,
    /// Replies are not read, or there is no more time.
    CutOff,
}

/// A connection to a client, as all who deal with it share it: its own task and the sweeper.
pub(crate) struct RespLink {
    socket: Socket,
    core: Rc<Core>,
    buffers: RefCell<Buffers>,
    address: Cell<Option<Address>>,
    is_late: bool,
    ending: Cell<Option<Ending>>,
    /// The task that drives it.
    task: RefCell<Option<Waker>>,
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
    waits: Waits,
}

/// Since when somebody is waited for.
#[derive(Default)]
struct Waits {
    /// For a request: since when, and whether a part of it is there; and how much of that has arrived meanwhile.
    request: Option<(u64, bool)>,
    request_bytes: u64,
    /// For a client that does not take what there is for it; and what it has taken since then.
    unread: Option<u64>,
    taken_bytes: u64,
    /// For the client to close a connection on which everything is said.
    lingering: Option<u64>,
}

impl RespLink {
    /// Values from `large_bytes_min` on can be taken out of requests.
    pub(super) fn new(socket: TcpStream, core: Rc<Core>, large_bytes_min: u64) -> RespLink {
        let limits = ParserLimits {
            arguments_max: ARGUMENTS_MAX,
            argument_bytes_max: VALUE_BYTES_MAX,
            large_bytes_min,
            request_bytes_max: REQUEST_BYTES_MAX,
        };
        let socket = Socket::new(socket);
        // Nothing else ends a connection that is not used: clients keep pools of them.
        if let Err(error) = socket.keep_alive() {
            tracing::debug!(%error, "a connection was gone before it was served");
        }
        RespLink {
            socket,
            buffers: RefCell::new(Buffers::new(limits)),
            address: Cell::new(None),
            is_late: core.is_draining(),
            core,
            ending: Cell::new(None),
            task: RefCell::new(None),
        }
    }

    /// Its bytes, for as long as nobody else asks for them.
    pub(super) fn buffers(&self) -> RefMut<'_, Buffers> {
        self.buffers.borrow_mut()
    }

    /// Whom what the client takes is counted for.
    pub(super) fn address(&self) -> Address {
        let address = self.address.get().unwrap_or_else(|| Address::of_client(self.socket.peer_ip()));
        self.address.set(Some(address));
        address
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
        self.buffers().waits_for_request(now_ms);
        let mut scratch = self.core.scratch();
        let count = ready!(self.socket.poll_read(context, &mut scratch))?;
        let mut buffers = self.buffers();
        if count == 0 {
            buffers.has_ended = true;
        }
        buffers.input.extend_from_slice(&scratch[..count]);
        buffers.waits.received(count, now_ms);
        Poll::Ready(Ok(()))
    }

    /// What is waited for now is not the client.
    pub(super) fn serves(&self) {
        self.buffers().waits.request = None;
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

    /// Writes `bytes` behind what is still to be sent, in one system call. Answers how many of them, which may be none.
    pub(super) fn poll_write_behind(
        &self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffers = self.buffers();
        let ahead = buffers.unsent().len();
        match self.socket.poll_write_both(context, buffers.unsent(), bytes) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(count)) => {
                buffers.sent(count.min(ahead));
                let own = count.saturating_sub(ahead);
                buffers.waits.taken(count as u64, own == bytes.len());
                Poll::Ready(Ok(own))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                buffers.waits.blocked(self.core.now_ms());
                Poll::Pending
            }
        }
    }

    /// Writes all the bytes, and what is to be sent before.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = poll_fn(|context| self.poll_write_behind(context, bytes)).await?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// What `future` comes to, unless the connection has to end before.
    pub(super) async fn unless_ended<T>(&self, future: impl Future<Output = T>) -> Result<T, Ending> {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.driven_by(context.waker());
            match self.ending.get() {
                Some(ending) => Poll::Ready(Err(ending)),
                None => future.as_mut().poll(context).map(Ok),
            }
        })
        .await
    }

    fn driven_by(&self, waker: &Waker) {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }

    /// The last reply is written. What the client still sends is read away for a while: a reset would take the reply away from it.
    pub(super) async fn linger(&self, bytes_max: usize) -> io::Result<()> {
        self.ending.set(None);
        self.buffers().lingers(self.core.now_ms());
        self.flush().await?;
        self.socket.shut_down()?;
        let mut discarded = 0;
        while discarded < bytes_max {
            let read = poll_fn(|context| self.socket.poll_read(context, &mut self.core.scratch()));
            match read.await? {
                0 => break,
                count => discarded += count,
            }
        }
        Ok(())
    }

    /// Makes dropping the connection tell the client that something is missing.
    pub(super) fn abort_on_drop(&self) {
        self.socket.abort_on_drop();
    }

    fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    fn end(&self, why: Ending) {
        self.ending.set(Some(why));
        self.wake();
    }
}

impl ladoga_server::Connection for RespLink {
    /// Also has it keep no buffers if it is idle.
    fn sweep(&self, now_ms: u64) {
        let mut buffers = self.buffers();
        buffers.give_back_if_idle(now_ms.saturating_sub(BUFFERS_KEPT_MS));
        let limits = &self.core.limits;
        let ending = buffers.waits.ending(now_ms, limits);
        drop(buffers);
        if let (None, Some(ending)) = (self.ending.get(), ending) {
            self.end(ending);
        }
    }

    /// Has the task look, and waits no longer for what a client says after its last reply.
    fn begin_to_drain(&self) {
        if self.buffers().waits.lingering.is_some() {
            return self.end(Ending::CutOff);
        }
        self.wake();
    }

    fn cut_off(&self) {
        self.end(Ending::CutOff);
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
            waits: Waits::default(),
        }
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

    fn waits_for_request(&mut self, now_ms: u64) {
        let has_begun = self.parser.is_within_request() || !self.input.is_empty();
        if self.waits.request.is_none_or(|(_, had_begun)| had_begun != has_begun) {
            self.waits.request = Some((now_ms, has_begun));
            self.waits.request_bytes = 0;
        }
    }

    fn lingers(&mut self, now_ms: u64) {
        self.input = BytesMut::new();
        self.waits = Waits { lingering: Some(now_ms), ..Waits::default() };
    }

    /// Gives memory back on a connection that has not been used since the given time.
    fn give_back_if_idle(&mut self, since_ms: u64) {
        let is_idle = self.waits.request.is_some_and(|(waits_since_ms, _)| waits_since_ms <= since_ms);
        if is_idle && self.output.is_empty() && self.input.is_empty() {
            (self.input, self.output) = (BytesMut::new(), Vec::new());
        }
    }
}

impl Waits {
    fn received(&mut self, bytes: usize, now_ms: u64) {
        self.request_bytes += bytes as u64;
        if let Some((since_ms, has_begun @ false)) = &mut self.request {
            (*since_ms, *has_begun) = (now_ms, true);
        }
    }

    fn taken(&mut self, bytes: u64, is_all: bool) {
        if self.unread.is_some() {
            self.taken_bytes += bytes;
            if is_all || self.taken_bytes >= TAKEN_BYTES_MIN {
                self.unread = None;
            }
        }
    }

    fn blocked(&mut self, now_ms: u64) {
        if self.unread.is_none() {
            (self.unread, self.taken_bytes) = (Some(now_ms), 0);
        }
    }

    /// Why it has waited for too long, if it has. An idle connection may wait for ever.
    fn ending(&self, now_ms: u64, limits: &ladoga_server::Limits) -> Option<Ending> {
        let is_past = |since_ms: u64, timeout_ms: u64| now_ms.saturating_sub(since_ms) > timeout_ms;
        if self.unread.is_some_and(|since_ms| is_past(since_ms, limits.answer_timeout_ms))
            || self.lingering.is_some_and(|since_ms| is_past(since_ms, LINGER_MS))
        {
            return Some(Ending::CutOff);
        }
        let allowance_ms = self.request_bytes * 1_000 / limits.body_bytes_per_second_min.max(1);
        let is_late = self.request.is_some_and(|(since_ms, has_begun)| {
            has_begun && is_past(since_ms, limits.request_timeout_ms + allowance_ms)
        });
        is_late.then_some(Ending::Late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_server::Limits;

    #[test]
    fn an_idle_connection_may_wait_and_a_request_may_not() {
        let limits =
            Limits { request_timeout_ms: 100, body_bytes_per_second_min: 1_000, ..Limits::default() };
        let mut waits = Waits { request: Some((0, false)), ..Waits::default() };
        assert_eq!(waits.ending(u64::MAX / 2, &limits), None);
        waits.received(1, 1_000);
        assert_eq!(waits.ending(1_101, &limits), None);
        assert_eq!(waits.ending(1_102, &limits), Some(Ending::Late));
        waits.received(500, 1_100);
        assert_eq!(waits.ending(1_601, &limits), None);
        assert_eq!(waits.ending(1_602, &limits), Some(Ending::Late));
        waits.request = None;
        assert_eq!(waits.ending(u64::MAX / 2, &limits), None);
    }

    #[test]
    fn replies_have_to_be_taken_in_more_than_crumbs() {
        let limits = Limits { answer_timeout_ms: 50, ..Limits::default() };
        let mut waits = Waits::default();
        waits.blocked(0);
        waits.taken(TAKEN_BYTES_MIN - 1, false);
        waits.blocked(40);
        assert_eq!(waits.ending(50, &limits), None);
        assert_eq!(waits.ending(51, &limits), Some(Ending::CutOff));
        waits.taken(1, false);
        assert_eq!(waits.ending(51, &limits), None);
    }
}
