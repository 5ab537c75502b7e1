use std::cell::{RefCell, RefMut};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::IpAddr;
use std::task::{Context, Poll};

use ladoga_tls::{Chain, Session};
use tokio::net::TcpStream;

use super::drain::Drain;
use super::tcp::{AtOnce, Tcp};

/// A connection's socket, with TLS or without. What has none pays one comparison for that.
pub(crate) struct Socket {
    tcp: Tcp,
    /// Where the other side is, or was. Once it is gone, the system does not say, and what it has sent is served all the same.
    ip: IpAddr,
    /// Once the other side is about to make the handshake. Borrowed for a moment only.
    secure: RefCell<Option<Box<Session>>>,
    drain: Drain,
}

/// What another event loop needs to go on with a connection.
pub(crate) struct Departure {
    /// The socket.
    pub(crate) socket: std::net::TcpStream,
    /// The session, on a connection with TLS.
    pub(crate) secure: Option<Box<Session>>,
}

impl Socket {
    /// To a client at this address, with the session that another event loop has begun, if one did.
    pub(crate) fn new((stream, ip): (TcpStream, IpAddr), secure: Option<Box<Session>>) -> Socket {
        Socket { tcp: Tcp::new(stream), ip, secure: RefCell::new(secure), drain: Drain::default() }
    }

    /// Makes the handshake. From now on, all bytes are of this session.
    pub(super) async fn secure_by(&self, session: Session) -> io::Result<()> {
        *self.secure.borrow_mut() = Some(Box::new(session));
        poll_fn(|context| match self.session() {
            Some(mut session) => polled(session.shake_hands(&mut self.io(context))),
            None => Poll::Ready(Err(ErrorKind::NotConnected.into())),
        })
        .await
    }

    fn io<'w, 'c>(&'w self, context: &'w mut Context<'c>) -> NonBlocking<'w, 'c> {
        NonBlocking { tcp: &self.tcp, context }
    }

    fn session(&self) -> Option<RefMut<'_, Session>> {
        RefMut::filter_map(self.secure.borrow_mut(), Option::as_deref_mut).ok()
    }

    /// Whether the other side has begun a handshake.
    pub(crate) fn is_secure(&self) -> bool {
        self.secure.borrow().is_some()
    }

    /// Calls `look` with the certificates that the other side has shown.
    pub(crate) fn with_certificates<T>(&self, look: impl FnOnce(Option<Chain<'_>>) -> T) -> T {
        look(self.secure.borrow().as_ref().and_then(|session| session.certificates()))
    }

    /// The same socket, and its session, for another event loop; none if there is no descriptor for it. Whoever gets it is the only
    /// one who may still use the connection.
    pub(crate) fn depart(&self) -> Option<Departure> {
        let socket = self.tcp().try_clone().ok()?;
        Some(Departure { socket, secure: self.secure.take() })
    }

    /// The socket below.
    pub(super) const fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// Has the system look whether a peer at the other end is still there.
    pub(crate) fn keep_alive(&self) -> io::Result<()> {
        self.tcp.keep_alive()
    }

    /// Answers how many bytes were read, none at the end.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.session() {
            None => self.tcp.poll_read(context, buffer),
            Some(mut session) => polled(session.read(&mut self.io(context), buffer)),
        }
    }

    /// Whether something has arrived that cannot be read before the rest of it is there.
    pub(crate) fn is_within_record(&self) -> bool {
        self.secure.borrow().as_ref().is_some_and(|session| session.is_within_record())
    }

    /// As [`Socket::poll_read`], into memory of its own, of up to `bytes_max`.
    pub(crate) fn poll_read_new(
        &self,
        context: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<io::Result<Vec<u8>>> {
        match self.session() {
            None => self.tcp.poll_read_new(context, bytes_max),
            Some(mut session) => polled(session.read_new(&mut self.io(context), bytes_max)),
        }
    }

    /// Ready once the other side has said everything. What it says beforehand, and is not read, hides it.
    pub(crate) fn poll_end(&self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(mut session) = self.session() {
            return match session.has_ended(&mut self.io(context)) {
                Ok(false) => Poll::Pending,
                Ok(true) | Err(_) => Poll::Ready(()),
            };
        }
        let mut byte = [0];
        match self.tcp.poll_peek(context, &mut byte) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }

    /// Answers how many bytes were written. If it has to wait, it is asked again with the same bytes, or with more behind them.
    pub(crate) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_both(context, bytes, &[])
    }

    /// Answers how many bytes of both were written, of the first ones first.
    pub(crate) fn poll_write_both(
        &self,
        context: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match self.session() {
            Some(mut session) => polled(session.write(&mut self.io(context), first, second)),
            None if first.is_empty() => self.tcp.poll_write(context, second),
            None if second.is_empty() => self.tcp.poll_write(context, first),
            None => self.tcp.poll_write_all(context, &[IoSlice::new(first), IoSlice::new(second)]),
        };
        if written.is_ready() {
            self.drain.written();
        }
        written
    }

    /// How many bytes were written that the other side has not acknowledged. On a connection that is gone none: whoever reads or
    /// writes it finds out.
    pub(super) fn unacknowledged_bytes(&self) -> u64 {
        self.tcp.unacknowledged_bytes().unwrap_or(0)
    }

    /// Looks what the other side took since the last look, if nothing could be written since.
    pub(crate) fn look_at_drain(&self) -> u64 {
        self.tcp.unacknowledged_bytes().map_or(0, |bytes| self.drain.look(bytes))
    }

    /// What was taken while nothing could be written.
    pub(crate) const fn drain(&self) -> &Drain {
        &self.drain
    }

    /// Says that nothing more is written.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        if let Some(mut session) = self.session() {
            session.close(&mut AtOnce(&self.tcp));
        }
        self.tcp.shut_down()
    }

    /// Makes dropping it tell the other side that something is missing.
    pub(crate) fn abort_on_drop(&self) {
        self.tcp.abort_on_drop();
    }

    /// Where the two sides are, the other one first, as text; empty where they are gone.
    pub(crate) fn ends(&self) -> (String, String) {
        self.tcp.ends()
    }

    /// Where the other side is, or was.
    pub(crate) const fn peer_ip(&self) -> IpAddr {
        self.ip
    }
}

/// A socket as a session has it.
struct NonBlocking<'w, 'c> {
    tcp: &'w Tcp,
    context: &'w mut Context<'c>,
}

impl Read for NonBlocking<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        done(self.tcp.poll_read(self.context, buffer))
    }
}

impl Write for NonBlocking<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        done(self.tcp.poll_write(self.context, bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match slices {
            [bytes] => done(self.tcp.poll_write(self.context, bytes)),
            slices => done(self.tcp.poll_write_all(self.context, slices)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn done<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(done) => done,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

fn polled<T>(done: io::Result<T>) -> Poll<io::Result<T>> {
    match done {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        done => Poll::Ready(done),
    }
}
