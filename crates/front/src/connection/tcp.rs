use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ladoga_runtime::KEEP_ALIVE;
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

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
}

fn receive(socket: &TcpStream, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(socket, buffer, flags)?;
    Ok(count)
}

/// Writes what the system has room for, also where the event loop, which has just got the socket, does not know yet that it has.
pub(super) struct AtOnce<'w>(pub(super) &'w Tcp);

impl Write for AtOnce<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.0.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
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
