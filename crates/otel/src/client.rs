use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use ladoga_tls::{CertificateDer, PemError, certificates};
use opentelemetry_http::{HttpClient, HttpError};
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

/// The longest answer of a collector that is read: it says which spans it did not take.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// What TLS to a collector goes by: the content of PEM files.
#[derive(Default)]
pub struct ExportTls {
    /// Authorities that its certificate may come from, in place of those of the system.
    pub authorities: Option<Vec<u8>>,
    /// The certificate that is shown to it, with those that lead to its authority, and the key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Without the key.
impl std::fmt::Debug for ExportTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (authorities, identity) = (self.authorities.is_some(), self.identity.is_some());
        write!(f, "ExportTls {{ authorities: {authorities}, identity: {identity} }}")
    }
}

/// Why a file of PEM is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("{0}")]
    Certificates(#[from] PemError),
    #[error("the key for the collector cannot be read")]
    Key,
}

/// Requests to a collector. They block the thread, which has nothing else to do.
#[derive(Debug)]
pub(crate) struct BlockingClient {
    agent: Agent,
    /// Fields of all requests. Nothing of the environment takes their place.
    headers: HeaderMap,
}

impl BlockingClient {
    /// Whose requests take so long at most, and have these fields. With TLS, if the collector has it.
    pub(crate) fn new(
        timeout: Duration,
        headers: HeaderMap,
        tls: Option<&ExportTls>,
    ) -> Result<BlockingClient, TlsError> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // What is sent to authenticate is not for others.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(timeout))
            .user_agent(concat!("ladoga/", env!("CARGO_PKG_VERSION")));
        // To read the authorities of the system takes time.
        let config = match tls {
            Some(tls) => config.tls_config(config_of(tls)?),
            None => config,
        };
        Ok(BlockingClient { agent: config.build().new_agent(), headers })
    }
}

fn config_of(tls: &ExportTls) -> Result<TlsConfig, TlsError> {
    let roots = match &tls.authorities {
        Some(content) => certificates(content)?,
        // Also those of `SSL_CERT_FILE`.
        None => rustls_native_certs::load_native_certs().certs,
    };
    let owned = |found: &CertificateDer<'_>| Certificate::from_der(found).to_owned();
    let identity = tls.identity.as_ref().map(|(chain, key)| -> Result<ClientCert, TlsError> {
        let chain: Vec<_> = certificates(chain)?.iter().map(owned).collect();
        // Its errors may show what was read.
        let key = PrivateKey::from_pem(key).map_err(|_| TlsError::Key)?;
        Ok(ClientCert::new_with_certs(&chain, key))
    });
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::from(roots.iter().map(owned)))
        .client_cert(identity.transpose()?)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

#[async_trait]
impl HttpClient for BlockingClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (mut head, body) = request.into_parts();
        for (name, value) in &self.headers {
            head.headers.insert(name, value.clone());
        }
        let response = self.agent.run(Request::from_parts(head, &body[..]))?;
        let (head, mut body) = response.into_parts();
        let content = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(head, content.into()))
    }
}
