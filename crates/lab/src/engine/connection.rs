use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::secure::Secure;
use crate::http::{Batch, Method, ResponseParser};
use crate::stats::ConnectionError;
use ladoga_tls::client::TlsClient;

/// The pause before connecting again after so many failures in a row: at once, then longer and longer.
const RETRY_NS_MIN: u64 = 1_000_000;
const RETRY_NS_MAX: u64 = 100_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    Connecting,
    /// Of TLS.
    ShakingHands,
    Open,
}

/// Requests that were sent together.
#[derive(Debug, Clone)]
struct OnItsWay {
    batch: Batch,
    /// Answers of the batch so far.
    answered: u32,
    due_ns: u64,
    sent_ns: u64,
}

/// A request whose end was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) method: Method,
    pub(super) due_ns: u64,
    pub(super) sent_ns: u64,
    pub(super) is_last_of_batch: bool,
}

/// One socket and the requests that are on their way there.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing, and any of them may hold with any other"
)]
pub(super) struct Connection {
    socket: Option<OwnedFd>,
    /// Only of a server that speaks TLS.
    secure: Option<Box<Secure>>,
    pub(super) phase: Phase,
    /// Counts the sockets that this connection had.
    pub(super) life: u64,
    pub(super) parser: ResponseParser,
    /// What the socket did not take yet.
    outbox: Vec<u8>,
    written: usize,
    /// Oldest first: answers come in the order of the requests.
    waiting: VecDeque<OnItsWay>,
    /// How many batches may be on their way.
    pipeline: usize,
    pub(super) connecting_since_ns: u64,
    /// How many requests of its schedule it has sent.
    pub(super) turn: u64,
    /// Since when it could have sent another request.
    pub(super) free_since_ns: u64,
    /// A script's delay is running, or has ended and waits for its request.
    pub(super) is_delaying: bool,
    pub(super) has_delayed: bool,
    /// Whether the source has no more requests for it.
    pub(super) has_ended: bool,
    /// Whether this socket ever brought an answer.
    pub(super) has_answered: bool,
    /// Whether requests were lost or an attempt to connect failed since the last answer.
    pub(super) has_failed: bool,
    failures: u32,
}

impl Connection {
    pub(super) fn new(pipeline: usize, capture: bool) -> Self {
        Self {
            socket: None,
            secure: None,
            phase: Phase::Closed,
            life: 0,
            parser: ResponseParser::new(capture),
            outbox: Vec::new(),
            written: 0,
            waiting: VecDeque::new(),
            pipeline,
            connecting_since_ns: 0,
            turn: 0,
            free_since_ns: 0,
            is_delaying: false,
            has_delayed: false,
            has_ended: false,
            has_answered: false,
            has_failed: false,
            failures: 0,
        }
    }

    /// Begins to connect; that it is connected shows when the socket becomes writable.
    pub(super) fn connect(&mut self, address: SocketAddr, now_ns: u64) -> Result<&OwnedFd, Errno> {
        debug_assert!(self.phase == Phase::Closed);
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        self.phase = Phase::Connecting;
        self.connecting_since_ns = now_ns;
        Ok(self.socket.insert(socket))
    }

    /// Continues with connecting, now that the socket is ready.
    pub(super) fn go_on_connecting(
        &mut self,
        tls: Option<&TlsClient>,
        now_ns: u64,
    ) -> Result<(), ConnectionError> {
        let Some(socket) = &self.socket else { return Err(Errno::BADF.into()) };
        if self.phase == Phase::Connecting {
            sockopt::socket_error(socket)??;
            self.secure = tls.map(|tls| Secure::new(tls).map(Box::new)).transpose()?;
            self.phase = Phase::ShakingHands;
        }
        let is_done = match &mut self.secure {
            Some(secure) => secure.shake_hands(socket)?,
            None => true,
        };
        if is_done {
            self.phase = Phase::Open;
            self.free_since_ns = now_ns;
        }
        Ok(())
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::ShakingHands)
    }

    /// Whether the socket is to tell when it takes more.
    pub(super) fn wants_write(&self) -> bool {
        !self.outbox.is_empty() || self.secure.as_ref().is_some_and(|secure| secure.wants_write())
    }

    /// Closes the socket and forgets the requests in flight.
    pub(super) fn close(&mut self) {
        self.socket = None; // Closing takes it out of the epoll set.
        self.secure = None;
        self.phase = Phase::Closed;
        self.life += 1;
        self.parser.reset();
        self.outbox.clear();
        self.written = 0;
        self.waiting.clear();
        self.is_delaying = false;
        self.has_answered = false;
    }

    pub(super) const fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    /// Requests that were sent and not answered.
    pub(super) fn pending(&self) -> u32 {
        self.waiting.iter().map(|sent| sent.batch.requests - sent.answered).sum()
    }

    /// When the requests that were sent and not answered were due, and how many they are.
    pub(super) fn pending_since(&self) -> impl Iterator<Item = (u64, u64)> {
        self.waiting.iter().map(|sent| (sent.due_ns, u64::from(sent.batch.requests - sent.answered)))
    }

    /// Whether bytes came that nobody read yet.
    pub(super) fn has_unread(&self) -> bool {
        let unread = self.socket.as_ref().map(rustix::io::ioctl_fionread);
        self.has_more() || unread.is_some_and(|unread| unread.is_ok_and(|bytes| bytes > 0))
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Since when the oldest answer is waited for, or a connection; none if nothing is.
    pub(super) fn waiting_since_ns(&self) -> Option<u64> {
        match self.phase {
            Phase::Connecting | Phase::ShakingHands => Some(self.connecting_since_ns),
            Phase::Closed | Phase::Open => self.waiting.front().map(|oldest| oldest.sent_ns),
        }
    }

    pub(super) fn awaits_head(&self) -> bool {
        self.waiting.front().is_some_and(|oldest| oldest.batch.heads.is_head(oldest.answered as usize))
    }

    /// Whether another request may be sent now.
    pub(super) fn has_room(&self) -> bool {
        self.phase == Phase::Open
            && self.waiting.len() < self.pipeline
            && !self.is_delaying
            && !self.has_ended
            && self.outbox.is_empty()
            && self.secure.as_ref().is_none_or(|secure| !secure.wants_write())
    }

    /// Notes that a batch goes out.
    pub(super) fn begin_batch(&mut self, batch: Batch, due_ns: u64, sent_ns: u64) {
        self.turn += u64::from(batch.requests);
        self.waiting.push_back(OnItsWay { batch, answered: 0, due_ns, sent_ns });
        self.has_delayed = false;
    }

    /// Notes that the oldest request was answered; none if there was no request.
    pub(super) fn end_request(&mut self, now_ns: u64) -> Option<Ended> {
        self.failures = 0;
        self.has_answered = true;
        self.has_failed = false;
        self.free_since_ns = now_ns;
        self.take_oldest()
    }

    /// Takes the oldest request that has no answer.
    pub(super) fn take_oldest(&mut self) -> Option<Ended> {
        let oldest = self.waiting.front_mut()?;
        oldest.answered += 1;
        let (due_ns, sent_ns, method) = (oldest.due_ns, oldest.sent_ns, oldest.batch.method);
        let is_last_of_batch = oldest.answered == oldest.batch.requests;
        if is_last_of_batch {
            self.waiting.pop_front();
        }
        Some(Ended { method, due_ns, sent_ns, is_last_of_batch })
    }

    /// Hands bytes to the socket; what it does not take is kept for [`Connection::flush`].
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        if let (Some(secure), Some(socket)) = (&mut self.secure, &self.socket) {
            return secure.send(socket, bytes);
        }
        let taken = if self.outbox.is_empty() { self.send_some(bytes)? } else { 0 };
        self.outbox.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// Sends the rest, now that the socket is writable.
    pub(super) fn flush(&mut self) -> Result<(), Errno> {
        if let (Some(secure), Some(socket)) = (&mut self.secure, &self.socket) {
            return secure.flush(socket);
        }
        self.written += self.send_some(&self.outbox[self.written..])?;
        if self.written == self.outbox.len() {
            self.outbox.clear();
            self.written = 0;
        }
        Ok(())
    }

    fn send_some(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::BADF) };
        match net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(taken) => Ok(taken),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// What arrived; none if nothing did, zero if the peer closed.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ConnectionError> {
        let Some(socket) = &self.socket else { return Err(Errno::BADF.into()) };
        if let Some(secure) = &mut self.secure {
            return secure.receive(socket, buffer);
        }
        match net::recv(socket, buffer, RecvFlags::empty()) {
            Ok((_, received)) => Ok(Some(received)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether bytes were read from the socket that are not processed yet.
    pub(super) fn has_more(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.has_more())
    }

    /// How long to wait before connecting again.
    pub(super) fn next_retry_ns(&mut self) -> u64 {
        self.failures = self.failures.saturating_add(1);
        match self.failures {
            1 => 0,
            failures => (RETRY_NS_MIN << (failures - 2).min(20)).min(RETRY_NS_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_come_at_once_and_then_slower() {
        let mut connection = Connection::new(1, false);
        let waits: Vec<u64> = (0..10).map(|_| connection.next_retry_ns() / 1_000_000).collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 64, 100, 100]);
        connection.end_request(0);
        assert_eq!(connection.next_retry_ns(), 0);
    }
}
