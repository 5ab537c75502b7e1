use std::io;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use ladoga_env::Stream;
use parking_lot::Mutex;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConnection, Error};

use super::client::words;
use super::figures::Figures;
use super::files::{TlsFiles, TlsPaths};
use super::session::{Chain, Session};
use super::state::{BadFiles, TlsState};
use super::stream::TlsStream;

/// The TLS of a node. Its files are replaced while it runs; who is connected notices nothing.
pub struct NodeTls {
    paths: TlsPaths,
    state: ArcSwap<TlsState>,
    /// Why the files that are there are not those that count, if they are not.
    problem: Mutex<Option<String>>,
    /// What it counts.
    pub figures: Figures,
}

/// Why somebody is no node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAPeer {
    /// It has shown no certificate.
    #[error("this path is only for nodes of the cluster; expected a certificate that --peer-ca has signed")]
    NoCertificate,
    /// Nodes have another authority.
    #[error("the certificate is not one of a node; expected one that --peer-ca has signed")]
    Authority,
    /// It does not count now.
    #[error("the certificate of the node has expired, or does not count yet")]
    Expired,
    /// It is somebody else's.
    #[error("the certificate is for another name; expected the host of a URL of --cluster")]
    Name,
}

impl NodeTls {
    /// With what is in these files.
    pub fn new(files: TlsFiles) -> Result<NodeTls, BadFiles> {
        let state = TlsState::of(&files)?;
        Ok(NodeTls {
            paths: files.paths,
            state: ArcSwap::from_pointee(state),
            problem: Mutex::new(None),
            figures: Figures::default(),
        })
    }

    /// Where its files are.
    pub const fn paths(&self) -> &TlsPaths {
        &self.paths
    }

    /// What counts now.
    pub fn state(&self) -> Guard<Arc<TlsState>> {
        self.state.load()
    }

    /// What was found in the files counts from now on. If it cannot be used, what was there before goes on to count, for the reason that
    /// is answered.
    pub fn replace(&self, found: Result<&TlsFiles, String>) -> Result<(), String> {
        let state = found.and_then(|files| TlsState::of(files).map_err(|error| error.to_string()));
        self.figures.reloaded(state.is_ok());
        let replaced = state.map(|state| self.state.store(Arc::new(state)));
        *self.problem.lock() = replaced.clone().err();
        replaced
    }

    /// What an operator should know of the files that count, one line each.
    pub fn objections(&self, wall_ms: u64) -> Vec<String> {
        let state = self.state();
        let counts = state.own().check_time(wall_ms).err();
        let path = self.paths.certificate.display();
        counts
            .map(|why| format!("the certificate {path}: {why}"))
            .into_iter()
            .chain(self.paths.objection())
            .collect()
    }

    /// Why the files that are there are not those that count.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// When the first certificate of each file ends, in seconds since 1970.
    pub fn expiries(&self) -> Vec<(&'static str, i64)> {
        let state = self.state();
        let mut expiries: Vec<(&'static str, i64)> = Vec::new();
        for (file, certificate) in &state.certificates {
            match expiries.iter_mut().find(|(known, _)| known == file) {
                Some((_, end_s)) => *end_s = certificate.not_after_s.min(*end_s),
                None => expiries.push((*file, certificate.not_after_s)),
            }
        }
        expiries
    }

    /// A connection that a client of HTTP, or a node, has made.
    pub fn accept_http(&self) -> Result<Session, Error> {
        Session::accept(Arc::clone(&self.state().http))
    }

    /// A connection that a client of Redis has made.
    pub fn accept_resp(&self) -> Result<Session, Error> {
        Session::accept(Arc::clone(&self.state().resp))
    }

    /// Whether whoever has shown this is one of these nodes. Always, if nodes need no certificate.
    pub fn check_peer(&self, shown: Option<Chain<'_>>, hosts: &[&str]) -> Result<(), NotAPeer> {
        let state = self.state();
        let Some(peers) = &state.peers else { return Ok(()) };
        let Some([own, between @ ..]) = shown else { return Err(NotAPeer::NoCertificate) };
        peers.verify_client_cert(own, between, UnixTime::now()).map_err(|error| match error {
            Error::InvalidCertificate(
                rustls::CertificateError::Expired
                | rustls::CertificateError::ExpiredContext { .. }
                | rustls::CertificateError::NotValidYet
                | rustls::CertificateError::NotValidYetContext { .. },
            ) => NotAPeer::Expired,
            _ => NotAPeer::Authority,
        })?;
        if hosts.iter().any(|host| is_certificate_for(own, host)) { Ok(()) } else { Err(NotAPeer::Name) }
    }

    /// Makes a connection to the node on this host one with TLS: with the certificate of this node, and only if it is that node.
    pub async fn connect(&self, stream: Box<dyn Stream>, host: &str) -> io::Result<Box<dyn Stream>> {
        let config = self.state().peer_client.clone();
        let config = config.ok_or_else(|| io::Error::other("there is no --peer-ca"))?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let opened = TlsStream::open(stream, Session::connect(connection)).await;
        Ok(Box::new(opened.map_err(|error| words::of_handshake(error, words::Hints::PEER))?))
    }
}

/// Whether the first of these certificates is for this host.
pub fn is_for(chain: Chain<'_>, host: &str) -> bool {
    chain.first().is_some_and(|certificate| is_certificate_for(certificate, host))
}

fn is_certificate_for(certificate: &CertificateDer<'_>, host: &str) -> bool {
    let (Ok(parsed), Ok(name)) = (ParsedCertificate::try_from(certificate), ServerName::try_from(host))
    else {
        return false;
    };
    verify_server_name(&parsed, &name).is_ok()
}
