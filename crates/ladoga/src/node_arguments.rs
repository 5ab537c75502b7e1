use std::path::PathBuf;

use clap::Args;

/// Where a node is, and as whom it is asked.
#[derive(Debug, Args)]
pub(crate) struct NodeArguments {
    /// URL of the node
    #[arg(long, value_name = "URL", env = "LADOGA_URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
    /// File with the token to show to the node [default: the token in `LADOGA_TOKEN`, if that is set]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
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
