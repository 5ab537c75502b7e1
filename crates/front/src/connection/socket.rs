use std::io::{self, IoSlice};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ladoga_runtime::KEEP_ALIVE;
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// A connection's socket.
///
/// It is read and written by system calls of our own instead of tokio's, which go through the C library: there they are
/// points of cancellation, for which it pays with each call, and it needs the frame pointer, so that a profile cannot
/// tell who called. Two thirds of what a request costs are these two calls.
pub(crate) struct Socket(TcpStream);

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Socket {
        Socket(stream)
    }

    /// Has the system look whether a peer at the other end is still there.
    pub(crate) fn keep_alive(&self) -> io::Result<()> {
        ladoga_env::real::keep_alive(&self.0, &KEEP_ALIVE)
    }

    /// Answers how many bytes were read, none at the end.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
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
    pub(crate) fn poll_read_new(
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

    /// As [`Socket::poll_read`]; what was read stays to be read.
    pub(crate) fn poll_peek(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_io(Interest::READABLE, || receive(&self.0, buffer, RecvFlags::PEEK)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Answers how many bytes were written.
    pub(crate) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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
    pub(crate) fn poll_write_both(
        &self,
        context: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        if first.is_empty() {
            return self.poll_write(context, second);
        }
        if second.is_empty() {
            return self.poll_write(context, first);
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
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        socket2::SockRef::from(&self.0).shutdown(Shutdown::Write)
    }

    /// Makes dropping it tell the other side that something is missing.
    pub(crate) fn abort_on_drop(&self) {
        // Nothing to be done where it fails: then the connection is gone already.
        let _ = socket2::SockRef::from(&self.0).set_linger(Some(Duration::ZERO));
    }

    /// Where the two sides are, the other one first, as text; empty where they are gone.
    pub(crate) fn ends(&self) -> (String, String) {
        let text =
            |address: io::Result<SocketAddr>| address.map(|address| address.to_string()).unwrap_or_default();
        (text(self.0.peer_addr()), text(self.0.local_addr()))
    }

    /// Where the other side is; `None` where it is gone.
    pub(crate) fn peer_ip(&self) -> Option<IpAddr> {
        self.0.peer_addr().ok().map(|peer| peer.ip())
    }
}

fn receive(socket: &TcpStream, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(socket, buffer, flags)?;
    Ok(count)
}
