use std::convert;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DistinguishedName, Error, RootCertStore};

use super::signatures::signatures_checked;

/// Whose certificates a node accepts on its one port: those of clients and those of nodes.
///
/// Only those of clients are demanded, and only if there is an authority for them. Without one, a client may show any or none, and none
/// says anything about it: that the handshake is made means nothing. Whether somebody may speak as a node is asked when it wants to,
/// by the authority of nodes alone: [`NodeTls::check_peer`](super::node::NodeTls::check_peer).
#[derive(Debug)]
pub(crate) struct Clients {
    authorities: Vec<Arc<dyn ClientCertVerifier>>,
    hints: Vec<DistinguishedName>,
    is_demanded: bool,
    provider: Arc<CryptoProvider>,
}

impl Clients {
    /// None if there is neither authority.
    pub(crate) fn new(
        clients: Option<&Arc<dyn ClientCertVerifier>>,
        peers: Option<&Arc<dyn ClientCertVerifier>>,
        provider: Arc<CryptoProvider>,
    ) -> Option<Clients> {
        let authorities: Vec<_> = clients.into_iter().chain(peers).map(Arc::clone).collect();
        let hints = authorities.iter().flat_map(|one| one.root_hint_subjects().to_vec()).collect();
        (!authorities.is_empty()).then(|| Clients {
            authorities,
            hints,
            is_demanded: clients.is_some(),
            provider,
        })
    }

    /// What these authorities have signed.
    pub(crate) fn signed_by(
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        built.map_err(|error| error.to_string())
    }
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.is_demanded
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut refused = Error::NoCertificatesPresented;
        for authority in &self.authorities {
            match authority.verify_client_cert(certificate, intermediates, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => refused = error,
            }
        }
        // A browser shows what somebody else asked it for. It is let in as if it had shown nothing.
        if self.is_demanded { Err(refused) } else { Ok(ClientCertVerified::assertion()) }
    }

    signatures_checked!(convert::identity);
}
