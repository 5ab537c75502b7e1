use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::node_arguments::NodeArguments;
use crate::value_parsers::prefix_parser;

const BATCH_HELP: &str = "\
Each line of FILE is a JSON object:
  {\"op\":\"get\",\"key\":\"lake\"}
  {\"op\":\"put\",\"key\":\"lake\",\"value\":\"deep\",\"ttl\":\"5m\"}
  {\"op\":\"put\",\"key\":\"lake\",\"value\":\"deeper\",\"if_match\":\"\\\"0019abcdef012345-0000\\\"\"}
  {\"op\":\"delete\",\"key_base64\":\"/w==\"}
  {\"op\":\"increment\",\"key\":\"visits\",\"by\":1}
key_base64 and value_base64 stand for bytes that are no UTF-8; put, delete and increment take if_match and if_none_match. Empty
lines are skipped; a line has at most 512 KiB. Operations on one key take effect in the order of their lines.

For each operation, one line is printed, in the same order: {\"status\":200,\"etag\":\"...\",\"value\":\"deep\"}. The status is that of
the HTTP API; `error` says what is wrong.

With --atomic, all operations happen or none, even if the node crashes: up to 1,000 operations and 512 KiB of puts, deletes and
increments. A node of a cluster refuses that.

Examples:
  ladoga batch operations.ndjson > answers.ndjson
  jq -c '{op:\"put\",key:.name,value:.text}' lakes.ndjson | ladoga batch -
  ladoga batch --atomic transfer.ndjson

Exit codes: 0 if every operation has a status below 400; 1 if one has not (the first one is named), or the node did not answer all of
them; 2 if the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = BATCH_HELP)]
pub(crate) struct BatchArguments {
    /// File with one operation a line; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Carry out all operations, or none
    #[arg(long)]
    pub(crate) atomic: bool,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

const EXPORT_HELP: &str = "\
Each line is a record, as `ladoga range --json` prints it: {\"key\":\"lake\",\"etag\":\"...\",\"value\":\"deep\"}, with expires_ms if the
value expires, and key_base64 and value_base64 for bytes that are no UTF-8. Keys are sorted. On a cluster, the records of all nodes are
printed. It is no snapshot: records that change meanwhile may be printed as they were before or after.

Examples:
  ladoga export > all.ndjson
  ladoga export --prefix user: | gzip > users.ndjson.gz
  ladoga export --url http://old:8080 | ladoga import - --url http://new:8080

Exit codes: 0 if all records were printed, or as many as their reader wanted, such as `head`; 1 if they were not; 2 if the command line
is wrong.";

#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub(crate) struct ExportArguments {
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX", value_parser = prefix_parser())]
    pub(crate) prefix: Option<OsString>,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

const IMPORT_HELP: &str = "\
Values replace those that the node has under the same keys; other keys stay as they are. Of records of one key the last line wins;
those of different keys are stored side by side, within a second if the input rests. A record that expires keeps its time, and is left
out if that is over. A record that the node refuses for now, because it is overloaded or the token has used its rate, is sent again,
for up to ten minutes. If the command is interrupted, it can be repeated.

Examples:
  ladoga import all.ndjson
  gunzip < users.ndjson.gz | ladoga import -

Exit codes: 0 if all records are stored that have not expired, as durably as --fsync of the node says; 1 if not all are; 2 if the
command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
pub(crate) struct ImportArguments {
    /// File that `ladoga export` wrote; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}
