use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::workload::Operation;
use crate::http::{Inbox, Reply};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A request on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct OnItsWay {
    pub(super) due_ns: u64,
    pub(super) sent_ns: u64,
    pub(super) operation: Operation,
}

/// One socket, never waited for.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    inbox: Inbox,
    /// Rendered, and not yet taken by the socket.
    pub(super) outbox: Vec<u8>,
    written: usize,
    /// Oldest first: answers come in the order of the requests.
    pub(super) waiting: VecDeque<OnItsWay>,
    /// How many requests of its schedule it has sent.
    pub(super) turn: u64,
    /// Since when it has room for another request.
    pub(super) free_since_ns: u64,
    /// Whether the poller was asked to tell when the socket takes more.
    pub(super) wants_write: bool,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            stream: open_socket(address)?,
            inbox: Inbox::default(),
            outbox: Vec::new(),
            written: 0,
            waiting: VecDeque::new(),
            turn: 0,
            free_since_ns: 0,
            wants_write: false,
        })
    }

    /// Replaces the socket; what was on its way is forgotten by the caller first.
    pub(super) fn reopen(&mut self, address: SocketAddr, now_ns: u64) -> io::Result<()> {
        debug_assert!(self.waiting.is_empty());
        self.stream = open_socket(address)?;
        self.inbox.clear();
        self.outbox.clear();
        self.written = 0;
        self.free_since_ns = now_ns;
        self.wants_write = false;
        Ok(())
    }

    /// Hands the outbox to the socket, as far as it takes it; true where all went out.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.outbox.len() {
            match self.stream.write(&self.outbox[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outbox.clear();
        self.written = 0;
        Ok(true)
    }

    /// One read; what it brought is taken with [`Connection::next_reply`].
    pub(super) fn receive(&mut self) -> io::Result<()> {
        match self.inbox.read_from(&mut self.stream) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn next_reply(&mut self) -> io::Result<Option<Reply>> {
        self.inbox.next_reply()
    }
}

fn open_socket(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
