use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};

use super::syscall;
use crate::net::{Connecting, KeepAlive, Listener, Net, Resolved, Stream};

/// The system's network.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealNet;

impl RealNet {
    /// The network of this machine.
    pub const fn new() -> RealNet {
        RealNet
    }
}

impl Net for RealNet {
    fn connect(&self, addresses: &[SocketAddr]) -> Connecting {
        let addresses: Arc<[SocketAddr]> = addresses.into();
        Box::pin(async move {
            #[expect(clippy::disallowed_methods, reason = "this is the seam")]
            let stream = TcpStream::connect(&*addresses).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }

    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Box::new(TcpListener::from_std(listener)?))
    }

    fn resolve(&self, host: &str, port: u16, resolved: Resolved) -> io::Result<()> {
        let host = host.to_owned();
        // A thread of its own, not one of the runtime's pool: the end of the runtime would wait for it.
        let resolve = move || {
            let addresses = (host.as_str(), port).to_socket_addrs();
            resolved(addresses.map(Iterator::collect));
        };
        thread::Builder::new().name("resolver".to_owned()).spawn(resolve)?;
        Ok(())
    }
}

impl Stream for TcpStream {
    fn peer_address(&self) -> io::Result<SocketAddr> {
        self.peer_addr()
    }

    fn keep_alive(&self, by: &KeepAlive) -> io::Result<()> {
        keep_alive(self, by)
    }
}

impl Listener for TcpListener {
    fn address(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Box<dyn Stream>>> {
        let (stream, _) = ready!(TcpListener::poll_accept(self, context))?;
        stream.set_nodelay(true)?;
        Poll::Ready(Ok(Box::new(stream)))
    }
}

/// Makes the system end a connection once its other end is gone without a sign.
pub fn keep_alive(socket: impl AsFd, keep_alive: &KeepAlive) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, keep_alive.asks_after)?;
    sockopt::set_tcp_keepintvl(socket, keep_alive.asks_every)?;
    sockopt::set_tcp_user_timeout(socket, keep_alive.unheard_max.as_millis() as u32)?;
    Ok(())
}

/// How many bytes have been written to a TCP socket that its other end has not acknowledged.
pub fn unacknowledged_bytes(socket: impl AsFd) -> io::Result<u64> {
    syscall::unacknowledged_bytes(socket.as_fd())
}
