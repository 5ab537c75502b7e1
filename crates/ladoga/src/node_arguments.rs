use clap::Args;

/// Where a node is.
#[derive(Debug, Args)]
pub(crate) struct NodeArguments {
    /// URL of the node
    #[arg(long, value_name = "URL", env = "LADOGA_URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
}
