use std::path::PathBuf;

use clap::Args;

use crate::tls_flags::ClientTlsFlags;

/// Where a node is, and as whom it is asked.
#[derive(Debug, Args)]
pub(crate) struct NodeArguments {
    /// URL of the node
    #[arg(long, value_name = "URL", env = "LADOGA_URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
    /// File with the token to show to the node [default: the token in `LADOGA_TOKEN`, if that is set]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: ClientTlsFlags,
}
