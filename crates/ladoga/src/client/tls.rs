use std::fmt;
use std::sync::Arc;

use ladoga_tls::client::words::Hints;
use ladoga_tls::client::{Identity, TlsClient, Trust, Unusable};

/// What to do about a certificate, by the flags of a client.
const HINTS: Hints = Hints {
    authority: "Give --cacert FILE with the certificate of its authority, or -k to trust any",
    certificate: "Give --cert FILE and --key FILE, signed by the authority that it trusts",
};

/// TLS towards one server.
#[derive(Clone)]
pub(crate) struct ClientTls(Arc<TlsClient>);

impl ClientTls {
    pub(crate) fn new(host: &str, trust: &Trust, identity: Option<&Identity>) -> Result<ClientTls, Unusable> {
        TlsClient::new(host, trust, identity, HINTS).map(|tls| ClientTls(Arc::new(tls)))
    }

    /// The same towards another server; `None` if no certificate can have its name.
    pub(super) fn for_host(&self, host: &str) -> Option<ClientTls> {
        self.0.for_host(host).ok().map(|tls| ClientTls(Arc::new(tls)))
    }

    pub(super) fn client(&self) -> &TlsClient {
        &self.0
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls")
    }
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &ClientTls) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ClientTls {}
