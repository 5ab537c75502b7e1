//! TLS towards a server: how it is set up, whom it trusts, and what its errors mean.
//!
//! - `trust`: whose certificates are accepted
//! - `words`: errors as a person reads them

mod trust;
mod words;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

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

    /// Makes the handshake, waiting for the server as long as the socket does.
    pub(crate) fn open(&self, mut socket: TcpStream) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut session = self.session().map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket).map_err(words::of_handshake)?;
        }
        Ok(StreamOwned::new(session, socket))
    }
}

/// A connection that is read and written by one thread that waits, with or without TLS.
pub(crate) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// The connection itself if there is no TLS.
pub(crate) fn open_stream(socket: TcpStream, tls: Option<&TlsClient>) -> io::Result<Box<dyn Stream>> {
    Ok(match tls {
        Some(tls) => Box::new(tls.open(socket)?),
        None => Box::new(socket),
    })
}
