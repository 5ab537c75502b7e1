use std::cell::{RefCell, RefMut};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ladoga_runtime::KEEP_ALIVE;
use ladoga_tls::{Chain, Session};
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::drain::Drain;

/// A connection's socket, with TLS or without. What has none pays one comparison for that.
pub(crate) struct Socket {
    tcp: Tcp,
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
    /// With the session that another event loop has begun, if one did.
    pub(crate) fn new(stream: TcpStream, secure: Option<Box<Session>>) -> Socket {
        Socket { tcp: Tcp::new(stream), secure: RefCell::new(secure), drain: Drain::default() }
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

    /// Where the other side is; `None` where it is gone.
    pub(crate) fn peer_ip(&self) -> Option<IpAddr> {
        self.tcp.peer_ip()
    }
}

/// A connection's socket, without TLS.
///
/// It is read and written by system calls of our own instead of tokio's, which go through the C library: there they are
/// points of cancellation, for which it pays with each call, and it needs the frame pointer, so that a profile cannot
/// tell who called. Two thirds of what a request costs are these two calls.
pub(super) struct Tcp(TcpStream);

impl Tcp {
    pub(super) fn new(stream: TcpStream) -> Tcp {
        Tcp(stream)
    }

    /// Has the system look whether a peer at the other end is still there.
    pub(super) fn keep_alive(&self) -> io::Result<()> {
        ladoga_env::real::keep_alive(&self.0, &KEEP_ALIVE)
    }

    /// Answers how many bytes were read, none at the end.
    pub(super) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            let count =
                match self.0.try_io(Interest::READABLE, || receive(&self.0, buffer, RecvFlags::empty())) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    done => done?,
                };
            if 0 < count && count < buffer.len() {
                // The socket is empty now: that is noted, so that the next read waits instead of asking in vain.
                let empty = self.0.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
                debug_assert!(empty.is_err(), "nothing was read");
            }
            return Poll::Ready(Ok(count));
        }
    }

    /// As [`Tcp::poll_read`], into memory of its own, of up to `bytes_max`.
    pub(super) fn poll_read_new(
        &self,
        context: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<io::Result<Vec<u8>>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            // Now that there is something to be read.
            let mut bytes = Vec::with_capacity(bytes_max);
            let read = self.0.try_io(Interest::READABLE, || {
                Ok(rustix::net::recv(&self.0, spare_capacity(&mut bytes), RecvFlags::empty())?)
            });
            match read {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done.map(|_| bytes)),
            }
        }
    }

    /// As [`Tcp::poll_read`]; what was read stays to be read.
    pub(super) fn poll_peek(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_io(Interest::READABLE, || receive(&self.0, buffer, RecvFlags::PEEK)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Answers how many bytes were written.
    pub(super) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            let written = self.0.try_io(Interest::WRITABLE, || {
                rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL).map_err(io::Error::from)
            });
            match written {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Answers how many bytes of all of these were written, of the first ones first.
    pub(super) fn poll_write_all(
        &self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            let written = self.0.try_io(Interest::WRITABLE, || {
                let control = &mut SendAncillaryBuffer::default();
                Ok(rustix::net::sendmsg(&self.0, slices, control, SendFlags::NOSIGNAL)?)
            });
            match written {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// How many bytes were written that the other side has not acknowledged.
    pub(super) fn unacknowledged_bytes(&self) -> io::Result<u64> {
        ladoga_env::real::unacknowledged_bytes(&self.0)
    }

    /// The same socket, for another event loop.
    pub(super) fn try_clone(&self) -> io::Result<std::net::TcpStream> {
        Ok(std::net::TcpStream::from(self.0.as_fd().try_clone_to_owned()?))
    }

    /// Says that nothing more is written.
    pub(super) fn shut_down(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.0).shutdown(Shutdown::Write)
    }

    /// Makes dropping it tell the other side that something is missing.
    pub(super) fn abort_on_drop(&self) {
        // Nothing to be done where it fails: then the connection is gone already.
        let _ = socket2::SockRef::from(&self.0).set_linger(Some(Duration::ZERO));
    }

    /// Where the two sides are, the other one first, as text; empty where they are gone.
    pub(super) fn ends(&self) -> (String, String) {
        let text =
            |address: io::Result<SocketAddr>| address.map(|address| address.to_string()).unwrap_or_default();
        (text(self.0.peer_addr()), text(self.0.local_addr()))
    }

    /// Where the other side is; `None` where it is gone.
    pub(super) fn peer_ip(&self) -> Option<IpAddr> {
        self.0.peer_addr().ok().map(|peer| peer.ip())
    }
}

fn receive(socket: &TcpStream, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(socket, buffer, flags)?;
    Ok(count)
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

/// Writes what the system has room for, also where the event loop, which has just got the socket, does not know yet that it has.
struct AtOnce<'w>(&'w Tcp);

impl Write for AtOnce<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.0.0, bytes, SendFlags::NOSIGNAL)?)
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn what_is_said_at_once_goes_out_on_a_socket_that_has_just_come() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut client =
            std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("a listener");
        let (socket, _) = listener.accept().expect("a client");
        socket.set_nonblocking(true).expect("a socket");
        // Between these the event loop does not turn, and so it does not ask the system.
        runtime.block_on(async {
            let tcp = Tcp::new(TcpStream::from_std(socket).expect("a socket"));
            let context = &mut Context::from_waker(Waker::noop());
            assert!(tcp.poll_write(context, b"later").is_pending());
            assert_eq!(AtOnce(&tcp).write(b"now").expect("room"), 3);
        });
        let mut said = String::new();
        client.read_to_string(&mut said).expect("an end");
        assert_eq!(said, "now");
    }
}
