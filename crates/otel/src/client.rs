use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The longest answer of a collector that is read: it says which spans it did not take.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Requests to a collector. They block the thread, which has nothing else to do.
#[derive(Debug)]
pub(crate) struct BlockingClient(Agent);

impl BlockingClient {
    /// Whose requests take so long at most.
    pub(crate) fn new(timeout: Duration, is_secure: bool) -> BlockingClient {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // What is sent to authenticate is not for others.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(timeout))
            .user_agent(concat!("ladoga/", env!("CARGO_PKG_VERSION")));
        // To read the authorities of the system takes time.
        let config = if is_secure { config.tls_config(tls()) } else { config };
        BlockingClient(config.build().new_agent())
    }
}

fn tls() -> TlsConfig {
    // Also those of `SSL_CERT_FILE`.
    let roots = rustls_native_certs::load_native_certs().certs;
    let roots = roots.iter().map(|root| Certificate::from_der(root).to_owned());
    TlsConfig::builder()
        .root_certs(RootCerts::from(roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

#[async_trait]
impl HttpClient for BlockingClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let response = self.0.run(Request::from_parts(head, &body[..]))?;
        let (head, mut body) = response.into_parts();
        let content = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(head, content.into()))
    }
}
