use std::io::{self, IoSlice};
use std::net::{IpAddr, Shutdown};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ladoga_runtime::KEEP_ALIVE;
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// A connection's socket.
///
/// It is read and written by system calls of our own instead of tokio's, which go through the C library. There they are
/// cancellation points, which costs something with each call, and without frame pointers, so that a profile cannot show the
/// caller. These two calls are two thirds of the cost of a request.
pub(super) struct Socket(TcpStream);

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Socket {
        Socket(stream)
    }

    /// Turns on TCP keep-alive, by which the system finds out that a peer is gone.
    pub(super) fn keep_alive(&self) -> io::Result<()> {
        ladoga_env::real::keep_alive(&self.0, &KEEP_ALIVE)
    }

    /// Answers how many bytes were read, none at the end.
    pub(super) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            let count =
                match self.0.try_io(Interest::READABLE, || receive(&self.0, buffer, RecvFlags::empty())) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    done => done?,
                };
            if 0 < count && count < buffer.len() {
                // The socket is empty now: that is noted, so that the next read waits instead of asking in vain.
                let empty =
                    self.0.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                debug_assert!(empty.is_err(), "nothing was read");
            }
            return Poll::Ready(Ok(count));
        }
    }

    /// As [`Socket::poll_read`], into memory of its own, of up to `bytes_max`.
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
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done.map(|_| bytes)),
            }
        }
    }

    /// As [`Socket::poll_read`], but leaves the bytes in the socket.
    pub(super) fn poll_peek(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_io(Interest::READABLE, || receive(&self.0, buffer, RecvFlags::PEEK)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
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
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Answers how many bytes of both were written, of the first ones first.
    pub(super) fn poll_write_both(
        &self,
        context: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        if first.is_empty() {
            return self.poll_write(context, second);
        }
        loop {
            ready!(self.0.poll_write_ready(context))?;
            let written = self.0.try_io(Interest::WRITABLE, || {
                let slices = [IoSlice::new(first), IoSlice::new(second)];
                let control = &mut SendAncillaryBuffer::default();
                Ok(rustix::net::sendmsg(&self.0, &slices, control, SendFlags::NOSIGNAL)?)
            });
            match written {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Says that nothing more is written.
    pub(super) fn shut_down(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.0).shutdown(Shutdown::Write)
    }

    /// Makes dropping it tell the other side that something is missing.
    pub(super) fn abort_on_drop(&self) {
        // If this fails, the connection is gone already.
        let _ = socket2::SockRef::from(&self.0).set_linger(Some(Duration::ZERO));
    }

    /// The address of the other side; `None` if it is gone.
    pub(super) fn peer_ip(&self) -> Option<IpAddr> {
        self.0.peer_addr().ok().map(|peer| peer.ip())
    }
}

fn receive(socket: &TcpStream, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(socket, buffer, flags)?;
    Ok(count)
}
