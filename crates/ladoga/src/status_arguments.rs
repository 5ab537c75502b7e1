use clap::Args;

use crate::node_arguments::NodeArguments;
use crate::value_parsers::number;

const STATUS_HELP: &str = "\
It says whether the node would serve a request now, as /readyz does. For a node of a cluster, it also prints one line for each node,
as this node sees it, and the progress of repair. On a node with tokens, these lines need a token with the scope metrics or admin;
without one, a line says so instead.

With --watch, it shows what the node does until it is stopped by Ctrl-C: requests and their latencies, what the store holds, and how
the nodes of the cluster are. On a terminal, the screen is drawn anew; elsewhere each look is one line.

With --live, it only says whether the process turns, as /livez does: also while it opens its data directory, and whatever the other
nodes are. That is what decides about a restart.

With --hot, it prints the keys and prefixes that clients asked this node for most in the last 30 to 60 seconds, as one request in 64
tells. A prefix ends with the first : or / behind the first byte of a key, or else after 8 bytes. On a node with tokens, this needs a
token with the scope admin.

Examples:
  ladoga status
  ladoga status --watch 5
  ladoga status --hot --url http://127.0.0.1:9000

Exit codes: 0 if the node would serve a request now, with --live if it lives; 1 if not (the reason is printed), or if it cannot be
reached; 2 if the command line is wrong; 130 if Ctrl-C ended --watch.";

#[derive(Debug, Args)]
#[command(after_help = STATUS_HELP)]
pub(crate) struct StatusArguments {
    /// Look again every so many seconds, 1 to 3600 [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", conflicts_with = "hot",
          value_parser = number(1..=3_600_u32))]
    pub(crate) watch: Option<u32>,
    /// Print the keys and prefixes that clients ask for most
    #[arg(long)]
    pub(crate) hot: bool,
    /// Only say whether the process turns
    #[arg(long, conflicts_with_all = ["hot", "watch"])]
    pub(crate) live: bool,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}
