use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection in the making.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Who receives the addresses of a name.
pub type Resolved = Box<dyn FnOnce(io::Result<Vec<SocketAddr>>) + Send>;

/// The network of one host. Its futures need a tokio runtime.
///
/// Its failures are those that TCP permits: a dial is refused or never answered; a stream stalls, ends, is reset, or is dead
/// without a sign. Bytes of one stream arrive in order or not at all; streams are independent of each other.
pub trait Net: Send + Sync {
    /// Connects to the first of these addresses that accepts. May take for ever.
    fn connect(&self, addresses: &[SocketAddr]) -> Connecting;

    /// Accepts connections; port 0 takes a free one.
    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>>;

    /// Looks a name up, and calls `resolved`, on whichever thread, once the resolver has answered. That may take for ever.
    fn resolve(&self, host: &str, port: u16, resolved: Resolved) -> io::Result<()>;
}

/// When a silent connection counts as dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// After so much silence the system probes the other end,
    pub asks_after: Duration,
    /// then so often,
    pub asks_every: Duration,
    /// and after so long without an answer, or with unacknowledged bytes, the connection is dead.
    pub unheard_max: Duration,
}

/// A connection: bytes in both directions. What is written is not kept back until it is flushed.
///
/// One virtual call a read or a write, which are a system call each, for many requests.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// The address of the other end.
    fn peer_address(&self) -> io::Result<SocketAddr>;

    /// Makes the system end the connection once its other end is gone without a sign.
    fn keep_alive(&self, keep_alive: &KeepAlive) -> io::Result<()>;
}

/// Where connections arrive.
pub trait Listener: Send {
    /// The address that it has.
    fn address(&self) -> io::Result<SocketAddr>;

    /// The next incoming connection.
    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Box<dyn Stream>>>;
}
