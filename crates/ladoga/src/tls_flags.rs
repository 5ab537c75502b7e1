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
