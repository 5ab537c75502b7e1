use std::ffi::OsString;

use clap::Args;

use crate::node_arguments::NodeArguments;
use crate::value_parsers::{key_parser, number, prefix_parser};

const RANGE_FORMAT: &str = "\
Keys are sorted by their bytes. Each line is one record: the key, a tab, the value. A backslash, tab, line feed, carriage return or zero byte in a key or a
value is printed as \\\\, \\t, \\n, \\r or \\0. With --raw, keys and values are printed as they are, each followed by a zero
byte. With --json, each line is a JSON object with key, etag, expires_ms (if the value expires) and value; key_base64 and
value_base64 stand for bytes that are no UTF-8, and for values of 256 KiB and more.

On a node of a cluster, the range has the data of that node only.

Examples:
  ladoga range a                                    everything from a on
  ladoga range --prefix user: --keys-only           all users
  ladoga range --prefix log: --reverse --limit 10   the last ten entries of a log
  ladoga range --prefix log: --after log:0010 --limit 10
  ladoga range a --raw | xargs -0 -n2 echo
  ladoga range a --json | jq -r .key

Exit codes: 0 if the whole range was printed; 1 if it was not; 2 if the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = RANGE_FORMAT)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that can be typed")]
pub(crate) struct RangeArguments {
    /// First key; not needed with --prefix or --after
    #[arg(value_name = "START", value_parser = key_parser())]
    pub(crate) start: Option<OsString>,
    #[command(flatten)]
    pub(crate) bounds: BoundArguments,
    /// Only keys behind this one; with --reverse, only keys before it. To go on after a range with --limit, use its last key
    #[arg(long, value_name = "KEY", value_parser = key_parser())]
    pub(crate) after: Option<OsString>,
    /// Stop after so many records
    #[arg(long, value_name = "N", value_parser = number(1..=u64::MAX), allow_hyphen_values = true)]
    pub(crate) limit: Option<u64>,
    /// Print the last key first
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Print keys without their values
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// Print keys and values as they are, each followed by a zero byte
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Print a JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

/// Between which keys.
#[derive(Debug, Args)]
pub(crate) struct BoundArguments {
    /// Key at which the range ends; this key is not included [default: the end of the data]
    #[arg(value_name = "END", value_parser = key_parser())]
    pub(crate) end: Option<OsString>,
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX", value_parser = prefix_parser())]
    pub(crate) prefix: Option<OsString>,
}

const COUNT_HELP: &str = "\
Without arguments, all keys are counted. The node reads the whole range for this: a million keys take about a second. On a node
of a cluster, only the keys on that node count.

Examples:
  ladoga count
  ladoga count --prefix user:
  ladoga count a b

Exit codes: 0 if the number was printed; 1 if it was not; 2 if the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = COUNT_HELP)]
pub(crate) struct CountArguments {
    /// First key [default: the first one that there is]
    #[arg(value_name = "START", value_parser = key_parser())]
    pub(crate) start: Option<OsString>,
    #[command(flatten)]
    pub(crate) bounds: BoundArguments,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}
