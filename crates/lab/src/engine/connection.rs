use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::http::{Batch, Heads, Method, ResponseParser};

/// How long to wait before connecting again after so many failures in a row: at once, then longer and longer.
const RETRY_NS_MIN: u64 = 1_000_000;
const RETRY_NS_MAX: u64 = 100_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    Connecting,
    Open,
}

/// What a write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    All,
    /// The socket takes no more for now.
    Part,
}

/// One socket and the requests that are on their way there.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing, and any of them may hold with any other"
)]
pub(super) struct Connection {
    socket: Option<OwnedFd>,
    pub(super) phase: Phase,
    /// Counts the sockets that this connection had.
    pub(super) life: u64,
    pub(super) parser: ResponseParser,
    /// What the socket did not take yet.
    outbox: Vec<u8>,
    written: usize,
    batch: Batch,
    /// Of the batch, answered so far.
    answered: u32,
    /// When the batch was due, and when it was sent.
    pub(super) due_ns: u64,
    pub(super) sent_ns: u64,
    /// How many requests of its schedule it has sent.
    pub(super) turn: u64,
    /// Since when it could have sent another request.
    pub(super) free_since_ns: u64,
    /// A script's delay that goes on, or that is over and waits for its request.
    pub(super) is_delaying: bool,
    pub(super) has_delayed: bool,
    /// Whether there are no more requests for it.
    pub(super) has_ended: bool,
    /// Whether this socket ever brought an answer.
    pub(super) has_answered: bool,
    failures: u32,
}

impl Connection {
    pub(super) fn new(capture: bool) -> Self {
        Self {
            socket: None,
            phase: Phase::Closed,
            life: 0,
            parser: ResponseParser::new(capture),
            outbox: Vec::new(),
            written: 0,
            batch: Batch { requests: 0, heads: Heads::None, method: Method::Other },
            answered: 0,
            due_ns: 0,
            sent_ns: 0,
            turn: 0,
            free_since_ns: 0,
            is_delaying: false,
            has_delayed: false,
            has_ended: false,
            has_answered: false,
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
        self.sent_ns = now_ns; // A connect can time out too.
        Ok(self.socket.insert(socket))
    }

    /// Whether connecting succeeded, now that the socket is writable.
    pub(super) fn end_connect(&mut self, now_ns: u64) -> Result<(), Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::BADF) };
        sockopt::socket_error(socket)??;
        self.phase = Phase::Open;
        self.free_since_ns = now_ns;
        Ok(())
    }

    /// Closes the socket and forgets what was on its way.
    pub(super) fn close(&mut self) {
        self.socket = None; // Closing takes it out of the epoll set.
        self.phase = Phase::Closed;
        self.life += 1;
        self.parser.reset();
        self.outbox.clear();
        self.written = 0;
        self.batch.requests = 0;
        self.answered = 0;
        self.is_delaying = false;
        self.has_answered = false;
    }

    pub(super) const fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    /// Requests that were sent and not answered.
    pub(super) const fn pending(&self) -> u32 {
        self.batch.requests - self.answered
    }

    /// Of the requests that are on their way.
    pub(super) const fn method(&self) -> Method {
        self.batch.method
    }

    pub(super) fn awaits_head(&self) -> bool {
        self.batch.heads.is_head(self.answered as usize)
    }

    /// Whether another request may be sent now.
    pub(super) fn is_free(&self) -> bool {
        self.phase == Phase::Open
            && self.pending() == 0
            && !self.is_delaying
            && !self.has_ended
            && self.outbox.is_empty()
    }

    /// Notes that a batch goes out.
    pub(super) fn begin_batch(&mut self, batch: Batch, due_ns: u64, sent_ns: u64) {
        self.turn += u64::from(batch.requests);
        self.batch = batch;
        self.answered = 0;
        self.due_ns = due_ns;
        self.sent_ns = sent_ns;
        self.has_delayed = false;
    }

    /// Notes that one of its requests was answered.
    pub(super) const fn end_request(&mut self, now_ns: u64) {
        self.answered += 1;
        self.failures = 0;
        self.has_answered = true;
        self.free_since_ns = now_ns;
    }

    /// Hands bytes to the socket; what it does not take is kept for [`Connection::flush`].
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<Written, Errno> {
        let taken = self.send_some(bytes)?;
        if taken == bytes.len() {
            return Ok(Written::All);
        }
        self.outbox.extend_from_slice(&bytes[taken..]);
        Ok(Written::Part)
    }

    /// Hands over what is left, now that the socket is writable.
    pub(super) fn flush(&mut self) -> Result<Written, Errno> {
        self.written += self.send_some(&self.outbox[self.written..])?;
        if self.written < self.outbox.len() {
            return Ok(Written::Part);
        }
        self.outbox.clear();
        self.written = 0;
        Ok(Written::All)
    }

    fn send_some(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::BADF) };
        match net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(taken) => Ok(taken),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// What arrived; none where nothing did, zero where the peer closed.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::BADF) };
        match net::recv(socket, buffer, RecvFlags::empty()) {
            Ok((_, received)) => Ok(Some(received)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error),
        }
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
        let mut connection = Connection::new(false);
        let waits: Vec<u64> = (0..10).map(|_| connection.next_retry_ns() / 1_000_000).collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 64, 100, 100]);
        connection.end_request(0);
        assert_eq!(connection.next_retry_ns(), 0);
    }
}
