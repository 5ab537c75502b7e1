//! TLS towards a server, by one thread that waits: how it is set up, whom it trusts, and what its errors mean.
//!
//! - `trust`: whose certificates are accepted
//! - `words`: errors as a person reads them
//! - `duplex`: a connection that is written while it is read

mod duplex;
mod trust;
pub mod words;

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::pem::read_bounded;
use super::state::{BadFiles, identity};
pub use duplex::Duplex;
pub use trust::Trust;
use words::Hints;

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// No certificate can have this name.
    #[error("`{0}` is no name that a certificate can have")]
    Name(String),
    /// There is nobody whom it would trust.
    #[error("this system has no certificates of authorities{0}")]
    NoAuthorities(String),
    /// A file cannot be read.
    #[error("{file} cannot be read: {error}")]
    Read {
        /// Which one.
        file: String,
        /// Why.
        error: io::Error,
    },
    /// What is in it is of no use.
    #[error(transparent)]
    Files(#[from] BadFiles),
    /// The library refuses.
    #[error("cannot set TLS up: {0}")]
    Config(#[from] rustls::Error),
}

/// A certificate that a client shows, and its key.
#[derive(Debug, Clone)]
pub struct Identity(Arc<SingleCertAndKey>);

impl Identity {
    /// Reads both out of PEM files.
    pub fn read(certificate: &Path, key: &Path) -> Result<Identity, Unusable> {
        let read = |path: &Path| {
            let named = |error| Unusable::Read { file: path.display().to_string(), error };
            read_bounded(path).map_err(named)
        };
        let (certified, _) = identity((certificate, &read(certificate)?), (key, &read(key)?))?;
        Ok(Identity(Arc::new(SingleCertAndKey::from(certified))))
    }
}

/// What every connection to one server shares.
#[derive(Debug, Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    hints: Hints,
}

impl TlsClient {
    /// For a server of this name or address, without brackets.
    pub fn new(
        host: &str,
        trust: &Trust,
        identity: Option<&Identity>,
        hints: Hints,
    ) -> Result<TlsClient, Unusable> {
        let name = server_name(host)?;
        let builder = trust.client_config()?;
        let mut config = match identity {
            Some(Identity(key)) => builder.with_client_cert_resolver(Arc::clone(key) as _),
            None => builder.with_no_client_auth(),
        };
        // Every handshake is a whole one, as wrk's are: how often a server is asked for one is part of a load.
        config.resumption = Resumption::disabled();
        Ok(TlsClient { config: Arc::new(config), name, hints })
    }

    /// The same for a server of another name.
    pub fn for_host(&self, host: &str) -> Result<TlsClient, Unusable> {
        Ok(TlsClient { config: Arc::clone(&self.config), name: server_name(host)?, hints: self.hints })
    }

    /// A session that has not begun yet.
    pub fn session(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }

    /// An error of one of its connections, in words.
    pub fn in_words(&self, error: io::Error) -> io::Error {
        words::of_connection(error, self.hints)
    }

    /// Makes the handshake within `timeout`, which is then the time-out of each read. Without one, it may take for ever.
    fn shake_hands(&self, socket: &mut TcpStream, timeout: Option<Duration>) -> io::Result<ClientConnection> {
        let clock = RealClock::new();
        let began_ns = clock.monotonic_ns();
        let mut session = self.session().map_err(io::Error::other)?;
        while session.is_handshaking() || session.wants_write() {
            // In all: a server that sends a byte now and then answers each read in time.
            let gone = Duration::from_nanos(clock.monotonic_ns().saturating_sub(began_ns));
            let left = timeout.map(|timeout| timeout.saturating_sub(gone));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(words::of_handshake(ErrorKind::TimedOut.into(), self.hints));
            }
            socket.set_read_timeout(left)?;
            match advance(&mut session, socket) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                advanced => advanced.map_err(|error| words::of_handshake(error, self.hints))?,
            }
        }
        socket.set_read_timeout(timeout)?;
        Ok(session)
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, Unusable> {
    ServerName::try_from(host.to_owned()).map_err(|_| Unusable::Name(host.to_owned()))
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
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// The connection itself if there is no TLS. A handshake takes at most `timeout`.
pub fn open_stream(
    mut socket: TcpStream,
    timeout: Duration,
    tls: Option<&TlsClient>,
) -> io::Result<Box<dyn Stream>> {
    Ok(match tls {
        Some(tls) => {
            let session = tls.shake_hands(&mut socket, Some(timeout))?;
            Box::new(StreamOwned::new(session, socket))
        }
        None => Box::new(socket),
    })
}
