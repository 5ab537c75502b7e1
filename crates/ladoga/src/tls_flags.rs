use std::path::PathBuf;

use clap::Args;

/// By which certificates a node is known, as it was typed.
#[derive(Debug, Default, Args)]
pub(crate) struct TlsFlags {
    /// Certificate of this node, with those between it and an authority, as PEM: clients use https:// and rediss:// from then
    /// on [default: none; everything is sent in the clear]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Key of --tls-cert, as PEM
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Certificates of the authorities that sign those of clients: without one, nobody is let in [default: none are asked for]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Certificates of the authorities that sign those of nodes, which a cluster with https:// URLs needs
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) peer_ca: Option<PathBuf>,
}

/// Whom a client trusts over https://, and as whom it is asked. What is not typed is read from the environment once the URL is known: a
/// flag wins over a variable that says something else.
#[derive(Debug, Args)]
pub(crate) struct ClientTlsFlags {
    /// Certificates of the authorities that an https:// node may be signed by, as PEM [default: `LADOGA_CACERT`, or those of this system]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) cacert: Option<PathBuf>,
    /// Certificate to show to an https:// node that demands one, with those between it and an authority, as PEM
    /// [default: `LADOGA_CLIENT_CERT`, if set]
    #[arg(long = "cert", value_name = "FILE", help_heading = "TLS")]
    pub(crate) client_cert: Option<PathBuf>,
    /// Key of --cert, as PEM [default: `LADOGA_CLIENT_KEY`, if set]
    #[arg(long = "key", value_name = "FILE", help_heading = "TLS")]
    pub(crate) client_key: Option<PathBuf>,
    /// Trust any certificate: whoever stands between can read and change everything
    #[arg(short = 'k', long, conflicts_with = "cacert", help_heading = "TLS")]
    pub(crate) insecure_skip_verify: bool,
}

impl ClientTlsFlags {
    /// The authorities that count, unless anybody is trusted.
    pub(crate) fn authorities(&self) -> Option<PathBuf> {
        self.cacert.clone().or_else(|| variable("LADOGA_CACERT"))
    }

    /// The certificate and its key, if there are any; one without the other is an error that names it.
    pub(crate) fn identity(&self) -> Result<Option<(PathBuf, PathBuf)>, String> {
        let part = |flag: &Option<PathBuf>, name: &'static str, variable_name: &'static str| match flag {
            Some(path) => Some((name, path.clone())),
            None => variable(variable_name).map(|path| (variable_name, path)),
        };
        let cert = part(&self.client_cert, "--cert", "LADOGA_CLIENT_CERT");
        let key = part(&self.client_key, "--key", "LADOGA_CLIENT_KEY");
        let alone = |(name, path): (&str, PathBuf), other: &str| {
            Err(format!("{name} is '{}', expected {other} with it", path.display()))
        };
        match (cert, key) {
            (Some((_, cert)), Some((_, key))) => Ok(Some((cert, key))),
            (Some(cert), None) => alone(cert, "the key of that certificate, by --key or LADOGA_CLIENT_KEY,"),
            (None, Some(key)) => alone(key, "the certificate of that key, by --cert or LADOGA_CLIENT_CERT,"),
            (None, None) => Ok(None),
        }
    }
}

/// A file that a variable names; an empty one names none.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
