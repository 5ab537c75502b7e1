//! From settings to a session: the driver's connections.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::{Session, TlsContext};
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, MetadataError,
    NewSessionError,
};
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;

use crate::retries::NotedRetries;
use crate::settings::Settings;
use crate::start_error::StartError;

/// A node that has not answered a request for so long that may be made twice is left alone, and another one is asked.
const SPECULATION: SimpleSpeculativeExecutionPolicy =
    SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval: Duration::from_millis(500) };
/// A connection that is silent for so long is asked whether it is alive. It is given up if it does not answer in the time of a request:
/// a node that is merely slow must not lose its connections as well.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// Who is served by connections.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Serve<'k> {
    /// Several threads at a time, whatever they ask for.
    Threads,
    /// The event loop that makes them, which asks for keys in these keyspaces.
    Loop(&'k [String]),
}

/// Opens connections.
pub(crate) async fn connect(settings: &Settings, serve: Serve<'_>) -> Result<Session, StartError> {
    let mut policy = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &settings.datacenter {
        policy = policy.prefer_datacenter(datacenter.clone());
    }
    let profile = ExecutionProfile::builder()
        .request_timeout(Some(Duration::from_millis(settings.timeout_ms)))
        .speculative_execution_policy(Some(Arc::new(SPECULATION)))
        .retry_policy(NotedRetries::policy())
        .load_balancing_policy(policy.build())
        .build();
    let tls = settings.tls_ca.as_deref().map(tls_context).transpose()?;
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.nodes)
        .default_execution_profile_handle(profile.into_handle())
        .connection_timeout(Duration::from_millis(settings.timeout_ms))
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(Duration::from_millis(settings.timeout_ms))
        .fetch_schema_metadata(true)
        .tls_context(tls);
    if let Serve::Loop(keyspaces) = serve {
        // What is asked in one turn of the event loop is sent together anyway: waiting for another turn is a system call for nothing.
        builder = builder.keyspaces_to_fetch(keyspaces).write_coalescing(false);
    }
    if let Some((name, password)) = &settings.user {
        builder = builder.user(name, password);
    }
    builder.build().await.map_err(|error| not_connected(settings, &error))
}

fn tls_context(pem: &[u8]) -> Result<TlsContext, StartError> {
    let wrong = |reason: String| StartError::Certificates { reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is none in it".to_owned()));
    }
    // The provider is named: the driver's features bring a second one along.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsContext::from(Arc::new(config)))
}

fn not_connected(settings: &Settings, error: &NewSessionError) -> StartError {
    if let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
        last_connection_error: ConnectionError::ConnectionSetupRequestError(setup),
        ..
    })) = error
    {
        let user = settings.user.as_ref().map_or("nobody".to_owned(), |(name, _)| format!("'{name}'"));
        match setup.get_error() {
            ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, reason) => {
                return StartError::NotLetIn { user, reason: reason.clone() };
            }
            ConnectionSetupRequestErrorKind::MissingAuthentication => {
                return StartError::NotLetIn { user, reason: "it asks for a name and a password".to_owned() };
            }
            _ => {}
        }
    }
    StartError::NoContact { nodes: settings.nodes.join(","), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_told() {
        for pem in [&b""[..], b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            assert!(matches!(tls_context(pem), Err(StartError::Certificates { .. })));
        }
    }
}
