use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Why a node cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {error}")]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// Why not.
    pub error: io::Error,
}

impl ListenError {
    /// Whether this machine has no such address.
    pub(super) fn is_no_such_address(&self) -> bool {
        // There is no kind for a family of addresses that the system does not speak.
        const NO_SUCH_FAMILY: i32 = 97;
        self.error.kind() == io::ErrorKind::AddrNotAvailable
            || self.error.raw_os_error() == Some(NO_SUCH_FAMILY)
    }
}

/// `count` listening sockets on one address, among which the system spreads the connections.
pub(super) fn listen(address: SocketAddr, count: usize) -> Result<Vec<TcpListener>, ListenError> {
    let failed = |error| ListenError { address, error };
    // With SO_REUSEPORT another process could share the address, and get every other connection. This socket is bound without
    // it first: that fails if somebody listens already.
    let alone = bind(address, false).map_err(failed)?;
    let address = alone.local_addr().map_err(failed)?.as_socket().unwrap_or(address);
    drop(alone);
    let listeners = (0..count).map(|_| {
        let socket = bind(address, true)?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from(socket))
    });
    listeners.collect::<io::Result<_>>().map_err(failed)
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // A node that was restarted does not wait for connections of its former life to be forgotten.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_share_a_port_with_each_other_and_with_nobody_else() {
        let any = "127.0.0.1:0".parse().expect("an address");
        let listeners = listen(any, 3).expect("a free port");
        let address = listeners[0].local_addr().expect("bound");
        assert!(listeners.iter().all(|other| other.local_addr().ok() == Some(address)));
        let error = listen(address, 1).expect_err("taken");
        assert_eq!(error.error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().starts_with(&format!("cannot listen on {address}: ")));
        assert!(!error.is_no_such_address());
        let elsewhere = listen("192.0.2.1:0".parse().expect("an address"), 1).expect_err("not ours");
        assert!(elsewhere.is_no_such_address());
    }
}
