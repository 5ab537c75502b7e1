use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::support::{DEADLINE, Response};

/// A client with its authorities, and a certificate if it has one.
#[derive(Clone)]
pub(crate) struct Trusting {
    roots: RootCertStore,
    shown: Option<(Vec<u8>, Vec<u8>)>,
    versions: Vec<&'static SupportedProtocolVersion>,
    protocols: Vec<Vec<u8>>,
}

impl Trusting {
    /// The authorities of this file.
    pub(crate) fn new(authorities: &Path) -> Trusting {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_file_iter(authorities).expect("a file") {
            roots.add(authority.expect("a certificate")).expect("an authority");
        }
        Trusting {
            roots,
            shown: None,
            versions: rustls::ALL_VERSIONS.to_vec(),
            protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        }
    }

    /// Which shows this certificate.
    pub(crate) fn showing(self, certificate: &str, key: &str) -> Trusting {
        let shown = (certificate.as_bytes().to_vec(), key.as_bytes().to_vec());
        Trusting { shown: Some(shown), ..self }
    }

    pub(crate) fn by(self, versions: &[&'static SupportedProtocolVersion]) -> Trusting {
        Trusting { versions: versions.to_vec(), ..self }
    }

    pub(crate) fn speaking(self, protocols: &[&str]) -> Trusting {
        let protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Trusting { protocols, ..self }
    }

    fn config(&self) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&self.versions)
            .expect("versions that there are")
            .with_root_certificates(self.roots.clone());
        let mut config = match &self.shown {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>();
                let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
                builder.with_client_auth_cert(chain.expect("certificates"), key).expect("a pair")
            }
        };
        config.alpn_protocols.clone_from(&self.protocols);
        Arc::new(config)
    }

    /// A session that has not begun, with the server at this address.
    pub(crate) fn session(&self, address: SocketAddr) -> ClientConnection {
        let name = ServerName::from(address.ip());
        ClientConnection::new(self.config(), name).expect("a session")
    }

    pub(crate) fn open(&self, address: SocketAddr) -> Secure {
        self.try_open(address).expect("a handshake")
    }

    /// Makes the handshake.
    pub(crate) fn try_open(&self, address: SocketAddr) -> io::Result<Secure> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(DEADLINE))?;
        socket.set_nodelay(true)?;
        let mut session = self.session(address);
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Secure(BufReader::new(StreamOwned::new(session, socket))))
    }
}

/// A connection with TLS.
pub(crate) struct Secure(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Secure {
    fn session(&self) -> &ClientConnection {
        &self.0.get_ref().conn
    }

    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.session().protocol_version()
    }

    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.session().alpn_protocol()
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes.as_ref()).expect("bytes that can be sent");
    }

    fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.0.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Past the session, as far as the server takes it.
    pub(crate) fn send_unencrypted(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().sock.write_all(bytes);
    }

    /// A record that brings no data, as it has to be sent next.
    pub(crate) fn empty_record(&mut self) -> Vec<u8> {
        let (session, mut record) = (&mut self.0.get_mut().conn, Vec::new());
        session.refresh_traffic_keys().expect("a session of TLS 1.3");
        session.write_tls(&mut record).expect("bytes that can be written");
        record
    }

    pub(crate) fn response(&mut self) -> Response {
        self.try_response().expect("an answer")
    }

    pub(crate) fn try_response(&mut self) -> io::Result<Response> {
        Response::read(&mut self.0, false)
    }

    pub(crate) fn request(&mut self, method: &str, target: &str, body: Option<&[u8]>) -> Response {
        self.try_request(method, target, body).expect("an answer")
    }

    pub(crate) fn try_request(
        &mut self,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
    ) -> io::Result<Response> {
        let length = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.len()));
        let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n");
        self.try_send(&[head.as_bytes(), body.unwrap_or_default()].concat())?;
        Response::read(&mut self.0, method == "HEAD")
    }

    /// What is sent until the end.
    pub(crate) fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).map(|_| bytes)
    }

    pub(crate) fn read_exactly(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).expect("bytes");
        bytes
    }

    /// A line with its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        io::BufRead::read_line(&mut self.0, &mut line).expect("a line");
        line
    }

    /// Says that it sends nothing more.
    pub(crate) fn close_sending(&mut self) {
        let stream = self.0.get_mut();
        stream.conn.send_close_notify();
        stream.flush().expect("the end goes out");
    }
}
