use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ladoga_http1::answer::{Answer, Asked, Event, Reader};

use super::workload::Operation;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 64 * 1024;

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
    reader: Reader,
    /// What the last read brought, and how much of it the reader has taken.
    received: Box<[u8]>,
    taken: usize,
    end: usize,
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
            reader: Reader::default(),
            received: vec![0; READ_BYTES].into(),
            taken: 0,
            end: 0,
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
        self.reader.reset();
        (self.taken, self.end) = (0, 0);
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

    /// One read. What it brought is taken with [`Connection::next_answer`], to the last byte.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        match self.stream.read(&mut self.received) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                (self.taken, self.end) = (0, count);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn next_answer(&mut self) -> io::Result<Option<Answer>> {
        loop {
            let (taken, event) = self.reader.next(&self.received[self.taken..self.end], Asked::Ordinary)?;
            self.taken += taken;
            match event {
                Event::More => return Ok(None),
                Event::End(answer) => return Ok(Some(answer)),
                Event::Interim(_) | Event::Head(_) | Event::Body(_) | Event::ChunkEnd => {}
            }
        }
    }
}

fn open_socket(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
