use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ConfigBuilder, Error, RootCertStore};

use super::Unusable;
use crate::pem::read_bounded;
use crate::provider;
use crate::signatures::signatures_checked;
use crate::state::authorities;

/// Whose certificates are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Anybody's, as wrk does.
    #[default]
    Anybody,
    /// Those that an authority of this system has signed.
    System,
    /// Those that an authority in this PEM file has signed.
    File(PathBuf),
}

impl Trust {
    pub(super) fn client_config(&self) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Unusable> {
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        Ok(match self.roots()? {
            Some(roots) => builder.with_root_certificates(roots),
            None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified { provider })),
        })
    }

    /// None if every certificate is accepted.
    fn roots(&self) -> Result<Option<RootCertStore>, Unusable> {
        match self {
            Trust::Anybody => Ok(None),
            Trust::System => {
                let found = rustls_native_certs::load_native_certs();
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let reason = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
                    return Err(Unusable::NoAuthorities(reason));
                }
                Ok(Some(roots))
            }
            Trust::File(path) => {
                let named = |error| Unusable::Read { file: path.display().to_string(), error };
                let content = read_bounded(path).map_err(named)?;
                Ok(Some(authorities(path, &content)?.0))
            }
        }
    }
}

/// Asks no certificate whose it is. What the server signs is checked all the same, as it costs a client time.
#[derive(Debug)]
struct Unverified {
    provider: Arc<CryptoProvider>,
}

/// Accepts a valid signature of a certificate that is not supported here, such as X.509 version 1, which `openssl x509 -req`
/// makes: with this option no certificate has to be trusted.
fn unless_unsupported(
    checked: Result<HandshakeSignatureValid, Error>,
) -> Result<HandshakeSignatureValid, Error> {
    match checked {
        Err(Error::InvalidCertificate(CertificateError::Other(_))) => {
            Ok(HandshakeSignatureValid::assertion())
        }
        // The certificate's issuer is not checked here: it is the server's own signature that is wrong.
        Err(Error::InvalidCertificate(CertificateError::BadSignature)) => {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
        checked => checked,
    }
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    signatures_checked!(unless_unsupported);
}
