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

/// Whom a client trusts over https://, and as whom it is asked.
#[derive(Debug, Args)]
pub(crate) struct ClientTlsFlags {
    /// Certificates of the authorities that an https:// node may be signed by, as PEM [default: those of this system]
    #[arg(long, value_name = "FILE", env = "LADOGA_CACERT", help_heading = "TLS")]
    pub(crate) cacert: Option<PathBuf>,
    /// Certificate to show to an https:// node that demands one, with those between it and an authority, as PEM
    #[arg(
        long = "cert",
        value_name = "FILE",
        env = "LADOGA_CLIENT_CERT",
        requires = "client_key",
        help_heading = "TLS"
    )]
    pub(crate) client_cert: Option<PathBuf>,
    /// Key of --cert, as PEM
    #[arg(
        long = "key",
        value_name = "FILE",
        env = "LADOGA_CLIENT_KEY",
        requires = "client_cert",
        help_heading = "TLS"
    )]
    pub(crate) client_key: Option<PathBuf>,
    /// Trust any certificate: whoever stands between can read and change everything
    #[arg(short = 'k', long, conflicts_with = "cacert", help_heading = "TLS")]
    pub(crate) insecure_skip_verify: bool,
}
