use std::net::TcpStream;
use std::time::Duration;

use ladoga_tls::client::Duplex;

use super::tls::ClientTls;
use super::{ClientError, Url};

/// Connects, with TLS if the URL says so. Each read, and the handshake, may take so long.
pub(super) fn connect(url: &Url, patience: Option<Duration>) -> Result<Duplex, ClientError> {
    let unreachable = |error| ClientError::Unreachable { url: url.clone(), error };
    let stream = TcpStream::connect((url.host.as_str(), url.port)).map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    stream.set_write_timeout(patience).map_err(unreachable)?;
    Duplex::open(stream, patience, url.tls.as_ref().map(ClientTls::client)).map_err(unreachable)
}
