use std::ffi::OsString;

use clap::Args;

use crate::node_arguments::NodeArguments;
use crate::range_arguments::BoundArguments;
use crate::value_parsers::key_parser;

const CHANGES_HELP: &str = "\
Each line is one change: put, the key and the value; delete and the key; or expire and the key, with tabs between them. A
backslash, tab, line feed, carriage return or zero byte in a key or a value is printed as \\\\, \\t, \\n, \\r or \\0. A value of
256 KiB and more is not printed, but only its length, as in put, the key, a tab more and 1048576 bytes. With --json, each line is
a JSON object as the node sends it; those with a bookmark have a token for --since.

The command runs until it is interrupted. If the connection breaks, it connects again and goes on where it was; then some changes
may be printed a second time. Values that were replaced before they could be printed may be left out; the last one never is.

A node of a cluster tells what is written through any of its nodes; tokens are good at all of them.

Examples:
  ladoga changes                           everything that changes from now on
  ladoga changes --prefix user: --json     the same of all users, as JSON
  ladoga changes --since 0                 first everything that is stored
  ladoga changes --since TOKEN --json      from a bookmark on

Exit codes: 0 if nobody reads the output any more; 1 if the node cannot go on from the token, or refuses; 2 if the command line
is wrong.";

#[derive(Debug, Args)]
#[command(after_help = CHANGES_HELP)]
pub(crate) struct ChangesArguments {
    /// First key [default: the first one that there is]
    #[arg(value_name = "START", value_parser = key_parser())]
    pub(crate) start: Option<OsString>,
    #[command(flatten)]
    pub(crate) bounds: BoundArguments,
    /// A token: go on behind it; 0: first everything that is stored [default: what changes from now on]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) since: Option<String>,
    /// Print a JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}
