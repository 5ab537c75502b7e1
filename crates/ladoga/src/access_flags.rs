use std::path::PathBuf;

use clap::Args;

/// Who may use a node, as it was typed.
#[derive(Debug, Default, Args)]
pub(crate) struct AccessFlags {
    /// File of tokens, as `ladoga token` makes it: clients need one to do anything [default: none; anybody may do everything]
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// File with a secret that all nodes of the cluster share, which --tokens needs there [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) peer_secret: Option<PathBuf>,
    /// Listen for everybody on the network without tokens
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Without tokens, names by which clients may also ask for this node, such as that of a proxy before it; * is any name
    #[arg(long, value_name = "NAME,...")]
    pub(crate) allow_host: Option<String>,
    /// File for the audit log: what was refused, and what operators did, as lines of JSON [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// Write every write to the audit log, too
    #[arg(long)]
    pub(crate) audit_writes: bool,
}
