//! TLS towards a server: how it is set up, whom it trusts, and what its errors mean.
//!
//! - `trust`: whose certificates are accepted
//! - `words`: errors as a person reads them

mod trust;
mod words;

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::clock::Clock;
use crate::error::{LabError, Outcome};

pub(crate) use trust::Trust;

/// What every connection to one server shares.
#[derive(Debug, Clone)]
pub(crate) struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsClient {
    /// For a server of this name or address, without brackets.
    pub(crate) fn new(host: &str, trust: &Trust) -> Outcome<Self> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| LabError::Usage(format!("`{host}` is no name that a certificate can have")))?;
        let mut config = trust.client_config()?;
        // Every handshake is a whole one, as wrk's are: how often a server is asked for one is part of a load.
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name })
    }

    /// A session that has not begun yet.
    pub(crate) fn session(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }

    /// Makes the handshake within `timeout`, which is then the time-out of each read.
    fn open(
        &self,
        mut socket: TcpStream,
        timeout: Duration,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let clock = Clock::start();
        let mut session = self.session().map_err(io::Error::other)?;
        while session.is_handshaking() || session.wants_write() {
            // In all: a server that sends a byte now and then answers each read in time.
            let left = timeout.saturating_sub(Duration::from_nanos(clock.now_ns()));
            if left.is_zero() {
                return Err(words::of_handshake(ErrorKind::TimedOut.into()));
            }
            socket.set_read_timeout(Some(left))?;
            match advance(&mut session, &mut socket) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                advanced => advanced.map_err(words::of_handshake)?,
            }
        }
        socket.set_read_timeout(Some(timeout))?;
        Ok(StreamOwned::new(session, socket))
    }
}

/// Writes the next message of the handshake, or else reads the server's.
fn advance(session: &mut ClientConnection, socket: &mut TcpStream) -> io::Result<()> {
    if session.wants_write() {
        return session.write_tls(socket).map(drop);
    }
    if session.read_tls(socket)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    session.process_new_packets().map(drop).map_err(|error| {
        let _ = session.write_tls(socket); // The alert; the error is told in any case.
        io::Error::new(ErrorKind::InvalidData, error)
    })
}

/// A connection that is read and written by one thread that waits, with or without TLS.
pub(crate) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// The connection itself if there is no TLS. A handshake takes at most `timeout`.
pub(crate) fn open_stream(
    socket: TcpStream,
    timeout: Duration,
    tls: Option<&TlsClient>,
) -> io::Result<Box<dyn Stream>> {
    Ok(match tls {
        Some(tls) => Box::new(tls.open(socket, timeout)?),
        None => Box::new(socket),
    })
}
