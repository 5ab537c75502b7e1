use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, Error, InconsistentKeys, RootCertStore, ServerConfig};

use super::certificate::{BadCertificate, Certificate};
use super::clients::Clients;
use super::files::TlsFiles;
use super::pem::{PemError, certificates, private_key};
use super::provider;

/// What HTTP is called during a handshake (RFC 7301, 6). There is no HTTP/2 here.
const HTTP: &[u8] = b"http/1.1";

/// Why files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFiles {
    /// One has not in it what it should.
    #[error("{}: {error}", path.display())]
    Pem {
        /// Which one.
        path: PathBuf,
        /// What is in it.
        error: PemError,
    },
    /// The certificate is none.
    #[error("{}: {error}", path.display())]
    Certificate {
        /// Of which file.
        path: PathBuf,
        /// What is wrong.
        error: BadCertificate,
    },
    /// The key is of another certificate.
    #[error("the key {} is not that of the first certificate in {}", key.display(), certificate.display())]
    OtherKey {
        /// The file of the key.
        key: PathBuf,
        /// That of the certificate.
        certificate: PathBuf,
    },
    /// It is well-formed, and of no use.
    #[error("{}: it cannot be used: {reason}", path.display())]
    Unusable {
        /// Which one.
        path: PathBuf,
        /// Why, in the words of the library.
        reason: String,
    },
}

/// What the files of a node come to. It is replaced as a whole.
pub struct TlsState {
    /// For clients of HTTP, and nodes.
    pub(crate) http: Arc<ServerConfig>,
    /// For clients of Redis.
    pub(crate) resp: Arc<ServerConfig>,
    /// How this node makes connections to others.
    pub(crate) peer_client: Option<Arc<ClientConfig>>,
    /// Who is a node.
    pub(crate) peers: Option<Arc<dyn ClientCertVerifier>>,
    /// Its own certificate, and those of the authorities, by which file they come from.
    pub(crate) certificates: Vec<(&'static str, Certificate)>,
}

impl TlsState {
    /// Reads what was in the files.
    pub fn of(files: &TlsFiles) -> Result<TlsState, BadFiles> {
        let paths = &files.paths;
        let (key, own) = certified_key(files)?;
        let key = Arc::new(SingleCertAndKey::from(key));
        let mut shown = vec![("certificate", own)];
        let mut authority = |name, path: &Option<PathBuf>, content: &Option<Vec<u8>>| {
            let (Some(path), Some(content)) = (path, content) else { return Ok(None) };
            let (roots, certificates) = authorities(path, content)?;
            shown.extend(certificates.into_iter().map(|certificate| (name, certificate)));
            Ok(Some((path.clone(), roots)))
        };
        let clients = authority("client_ca", &paths.client_authority, &files.client_authority)?;
        let peers = authority("peer_ca", &paths.peer_authority, &files.peer_authority)?;
        let verifier = |roots: &Option<(PathBuf, RootCertStore)>| {
            let Some((path, roots)) = roots else { return Ok(None) };
            let unusable = |reason| BadFiles::Unusable { path: path.clone(), reason };
            Clients::signed_by(roots.clone(), provider()).map(Some).map_err(unusable)
        };
        let (of_clients, of_peers) = (verifier(&clients)?, verifier(&peers)?);
        let server = |protocols: &[&[u8]]| {
            let accepted = Clients::new(of_clients.as_ref(), of_peers.as_ref(), provider());
            server_config(&key, accepted, protocols).map_err(|error| unusable(&paths.certificate, &error))
        };
        let peer_client = peers.map(|(path, roots)| {
            client_config(roots, Arc::clone(&key)).map_err(|error| unusable(&path, &error))
        });
        Ok(TlsState {
            http: server(&[HTTP])?,
            resp: server(&[])?,
            peer_client: peer_client.transpose()?,
            peers: of_peers,
            certificates: shown,
        })
    }

    /// The certificate of the node.
    pub fn own(&self) -> &Certificate {
        &self.certificates[0].1
    }
}

fn unusable(path: &Path, error: &Error) -> BadFiles {
    BadFiles::Unusable { path: path.to_owned(), reason: error.to_string() }
}

/// A key with its certificates, and what the first of these says.
fn certified_key(files: &TlsFiles) -> Result<(CertifiedKey, Certificate), BadFiles> {
    let (certificate, key) = (&files.paths.certificate, &files.paths.key);
    identity((certificate, &files.certificate), (key, &files.key))
}

/// The same, of these files.
pub(crate) fn identity(
    (certificate, chain): (&Path, &[u8]),
    (key, secret): (&Path, &[u8]),
) -> Result<(CertifiedKey, Certificate), BadFiles> {
    let in_certificate = |error| BadFiles::Pem { path: certificate.to_owned(), error };
    let chain = certificates(chain).map_err(in_certificate)?;
    // A client would refuse the whole chain for one that is none.
    let read: Result<Vec<Certificate>, BadCertificate> = chain.iter().map(Certificate::parse).collect();
    let read = read.map_err(|error| BadFiles::Certificate { path: certificate.to_owned(), error })?;
    let own = read[0].clone();
    let secret = private_key(secret).map_err(|error| BadFiles::Pem { path: key.to_owned(), error })?;
    let certified = CertifiedKey::from_der(chain, secret, &provider()).map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            BadFiles::OtherKey { key: key.to_owned(), certificate: certificate.to_owned() }
        }
        error => unusable(key, &error),
    })?;
    Ok((certified, own))
}

/// The authorities of a file, and what it says of them.
pub(crate) fn authorities(
    path: &Path,
    content: &[u8],
) -> Result<(RootCertStore, Vec<Certificate>), BadFiles> {
    let of = |error| BadFiles::Pem { path: path.to_owned(), error };
    let found: Vec<CertificateDer<'static>> = certificates(content).map_err(of)?;
    let mut roots = RootCertStore::empty();
    let mut read = Vec::with_capacity(found.len());
    for certificate in found {
        let parsed = Certificate::parse(&certificate);
        read.push(parsed.map_err(|error| BadFiles::Certificate { path: path.to_owned(), error })?);
        roots.add(certificate).map_err(|error| unusable(path, &error))?;
    }
    Ok((roots, read))
}

fn server_config(
    key: &Arc<SingleCertAndKey>,
    clients: Option<Clients>,
    protocols: &[&[u8]],
) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let looks_at_clients = clients.is_some();
    let clients: Arc<dyn ClientCertVerifier> = match clients {
        Some(clients) => Arc::new(clients),
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = builder
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::clone(key) as Arc<dyn rustls::server::ResolvesServerCert>);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // What a node remembers of sessions would grow with its clients. Tickets are kept by these, and say whose certificate was shown:
    // where that matters, it is shown again each time, as it may have been revoked by another authority's file, or have expired.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if looks_at_clients {
        config.send_tls13_tickets = 0;
    } else {
        config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    }
    Ok(Arc::new(config))
}

fn client_config(roots: RootCertStore, key: Arc<SingleCertAndKey>) -> Result<Arc<ClientConfig>, Error> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_cert_resolver(key);
    config.alpn_protocols = vec![HTTP.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}
