use std::env::args_os;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use ladoga_http1::masked;
use ladoga_model::Ttl;

use crate::backup_arguments::{BackupArguments, RestoreArguments};
use crate::batch_arguments::{BatchArguments, ExportArguments, ImportArguments};
use crate::certs_arguments::CertsArguments;
use crate::changes_arguments::ChangesArguments;
use crate::copy_arguments::CopyArguments;
use crate::install_arguments::{CompletionsArguments, ManArguments};
pub(crate) use crate::node_arguments::NodeArguments;
use crate::range_arguments::{CountArguments, RangeArguments};
pub(crate) use crate::serve_flags::ServeFlags;
use crate::status_arguments::StatusArguments;
use crate::token_arguments::TokenArguments;
use crate::value_parsers::{key_parser, number};
use crate::write_arguments::WriteArguments;

/// A persistent key-value store that speaks plain HTTP.
#[derive(Debug, Parser)]
#[command(name = "ladoga", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Reads the command line; if that is wrong, or asks for help or the version, this prints it and ends the process.
    pub(crate) fn read() -> Self {
        // `ladoga bench -v` says what `ladoga --version` says: ladoga-bench is another program. Manual pages keep that name.
        let mut command = Self::command().mut_subcommand("bench", |bench| bench.display_name("ladoga"));
        let mut matches = command.try_get_matches_from_mut(args_os()).unwrap_or_else(|error| tell(error));
        Self::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| tell(error.format(&mut command)))
    }
}

/// Ends the process with what is wrong with the command line, or the help. What was typed is repeated there, but for passwords in URLs.
fn tell(mut error: clap::Error) -> ! {
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg] {
        if let Some(ContextValue::String(typed)) = error.get(kind)
            && typed.contains("://")
        {
            let typed = masked(typed);
            error.insert(kind, ContextValue::String(typed));
        }
    }
    error.exit()
}

const EXAMPLES: &str = "\
Examples:
  ladoga serve                          start a node on http://127.0.0.1:8080, with its data in ./ladoga-data
  ladoga put lake 'deep and cold'       store a value
  ladoga put photo < photo.jpg          store standard input as the value
  ladoga get lake                       print the value
  ladoga range a b                      print keys and values from a up to, but not including, b
  ladoga bench -t1 -c4 -R 1k -d 10s -L --workload put http://127.0.0.1:8080
  ladoga profile --seconds 10 -o where.html
  curl 'http://127.0.0.1:8080/v0/entity?id=lake'

Run `ladoga COMMAND --help` for the options of a command.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a node
    Serve(Box<ServeFlags>),
    /// Print the value of a key
    #[command(after_help = GET_HELP)]
    Get(GetArguments),
    /// Store a value under a key
    Put(PutArguments),
    /// Delete a key
    #[command(after_help = DELETE_HELP)]
    Delete(DeleteArguments),
    /// Add to the number under a key
    #[command(after_help = INCREMENT_HELP)]
    Increment(IncrementArguments),
    /// Change when the value under a key expires
    #[command(after_help = EXPIRE_HELP)]
    Expire(ExpireArguments),
    /// Print all keys and values of a range
    Range(RangeArguments),
    /// Follow the changes of keys, as they happen
    Changes(ChangesArguments),
    /// Count the keys of a range
    Count(CountArguments),
    /// Carry out many operations, one JSON object a line
    Batch(BatchArguments),
    /// Print all records, as a file that `ladoga import` reads
    Export(ExportArguments),
    /// Store the records of an export
    Import(ImportArguments),
    /// Copy all records from one node, cluster or door to another
    Copy(CopyArguments),
    /// Show whether a node serves requests
    Status(StatusArguments),
    /// Measure an HTTP server; accepts the command lines of wrk and wrk2
    Bench(Box<ladoga_lab::BenchArguments>),
    /// Profile a running node: a flame graph or a heat map of its CPU time, allocations or waits
    Profile(ProfileArguments),
    /// Run workloads, profile the node and write a report; compare two reports
    Lab(Box<ladoga_lab::LabArguments>),
    /// Repair a node of a cluster now: copy to it what it lacks
    #[command(after_help = REPAIR_HELP)]
    Repair(NodeArguments),
    /// Make, list and revoke the tokens by which clients are let in
    Token(TokenArguments),
    /// Make certificates to try TLS with, and show what is in some
    Certs(CertsArguments),
    /// Verify a data directory while no node uses it
    Check(CheckArguments),
    /// Back up a running node or cluster; list, verify and prune backups
    Backup(BackupArguments),
    /// Make a data directory of a backup
    Restore(RestoreArguments),
    /// Print the script by which a shell completes this command
    Completions(CompletionsArguments),
    /// Write the manual pages
    Man(ManArguments),
}

const REPAIR_HELP: &str = "\
The node compares its data with every other node and copies what is newer there. Nodes also do this in the background; use
this command if you do not want to wait. On a node with tokens, it needs one with the scope admin.

Exit codes: 0 if the node was compared with all others and has what it lacked; 1 if one of them could not be reached, if something
could not be copied (the message names it), or if the node is not part of a cluster; 2 if the command line is wrong.";

const GET_HELP: &str = "\
The value is printed as it is, without a newline at the end.

Examples:
  ladoga get lake
  ladoga get photo > photo.jpg
  ladoga put lake 'deeper' --if-match \"$(ladoga get lake --etag)\"
  ladoga get $'a key with a\\ttab' --url http://127.0.0.1:9000

Exit codes: 0 if the value was printed; 1 if the key does not exist or the node cannot answer; 2 if the command line is wrong.";

const DELETE_HELP: &str = "\
It is no error if the key does not exist, unless --if-match is given.

Exit codes: 0 if the key is deleted; 1 if the node did not confirm that, or the key has another ETag; 2 if the command line is
wrong.";

#[derive(Debug, Args)]
pub(crate) struct GetArguments {
    /// Key, 1 to 4096 bytes
    #[arg(value_name = "KEY", value_parser = key_parser())]
    pub(crate) key: OsString,
    /// Print the `ETag`, which stands for this version of the value, instead of the value
    #[arg(long)]
    pub(crate) etag: bool,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArguments {
    /// Key, 1 to 4096 bytes
    #[arg(value_name = "KEY", value_parser = key_parser())]
    pub(crate) key: OsString,
    /// Delete only if the value still has this `ETag`; * stands for any
    #[arg(long, value_name = "ETAG")]
    pub(crate) if_match: Option<String>,
    #[command(flatten)]
    pub(crate) write: WriteArguments,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

const INCREMENT_HELP: &str = "\
Prints the new number. A key that does not exist counts as 0. The value must be a 64-bit integer in decimal digits.

Examples:
  ladoga increment visits
  ladoga increment stock -3

Exit codes: 0 if the sum is stored and printed; 1 if it is not stored, or this is unknown because the node did not answer; 2 if
the command line is wrong.";

#[derive(Debug, Args)]
pub(crate) struct IncrementArguments {
    /// Key, 1 to 4096 bytes
    #[arg(value_name = "KEY", value_parser = key_parser())]
    pub(crate) key: OsString,
    /// Number to add
    #[arg(value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = number(i64::MIN..=i64::MAX))]
    pub(crate) by: i64,
    #[command(flatten)]
    pub(crate) write: WriteArguments,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

const EXPIRE_HELP: &str = "\
The value stays as it is; its ETag changes.

Examples:
  ladoga expire session 30m
  ladoga expire session none

Exit codes: 0 if the value expires as asked; 1 if the key does not exist or has another ETag, or this is unknown because the node
did not answer; 2 if the command line is wrong.";

/// How long a value is to live from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Life {
    /// So long.
    Limited(Ttl),
    /// For ever.
    Unlimited,
}

fn parse_life(text: &str) -> Result<Life, String> {
    if text == "none" {
        return Ok(Life::Unlimited);
    }
    Ttl::parse(text.as_bytes()).map(Life::Limited).map_err(|error| format!("{error}, or none"))
}

#[derive(Debug, Args)]
pub(crate) struct ExpireArguments {
    /// Key, 1 to 4096 bytes
    #[arg(value_name = "KEY", value_parser = key_parser())]
    pub(crate) key: OsString,
    /// Time after which the value is gone, such as 1500ms, 60s, 5m, 12h or 30d, counted from now; none if it is to stay
    #[arg(value_name = "DURATION", value_parser = parse_life, allow_hyphen_values = true, required_unless_present = "ttl")]
    life: Option<Life>,
    /// The same time, by the flag that `ladoga put` has
    #[arg(long, value_name = "DURATION", value_parser = parse_life, allow_hyphen_values = true, conflicts_with = "life")]
    ttl: Option<Life>,
    /// Change it only if the value still has this `ETag`; * stands for any
    #[arg(long, value_name = "ETAG")]
    pub(crate) if_match: Option<String>,
    #[command(flatten)]
    pub(crate) write: WriteArguments,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

impl ExpireArguments {
    /// How long the value is to live, by whichever way it was said.
    pub(crate) fn life(&self) -> Life {
        self.life.or(self.ttl).expect("one of them is required")
    }
}

const PUT_HELP: &str = "\
Examples:
  ladoga put lake 'deep and cold'
  ladoga put photo < photo.jpg
  ladoga put nothing ''
  ladoga put session 4711 --ttl 30m
  ladoga put lock \"$(hostname)\" --if-absent
  ladoga put lake 'deeper' --if-match \"$(ladoga get lake --etag)\"
  ladoga put order-4711 'paid' --fsync always

Exit codes: 0 if the value is stored, as durably as --fsync says, or else --fsync of the node; 1 if it is not stored, or this is
unknown because the node did not answer; 2 if the command line is wrong.";

fn parse_ttl(text: &str) -> Result<Ttl, String> {
    Ttl::parse(text.as_bytes()).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
#[command(after_help = PUT_HELP)]
pub(crate) struct PutArguments {
    /// Key, 1 to 4096 bytes
    #[arg(value_name = "KEY", value_parser = key_parser())]
    pub(crate) key: OsString,
    /// Value, up to 64 MiB [default: standard input]
    #[arg(value_name = "VALUE")]
    pub(crate) value: Option<OsString>,
    /// Time after which the value is gone, such as 1500ms, 60s, 5m, 12h or 30d [default: it stays]
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, allow_hyphen_values = true)]
    pub(crate) ttl: Option<Ttl>,
    /// Store only if the value still has this `ETag`, as `ladoga get --etag` prints it; * stands for any
    #[arg(long, value_name = "ETAG", conflicts_with = "if_absent")]
    pub(crate) if_match: Option<String>,
    /// Store only if the key does not exist
    #[arg(long)]
    pub(crate) if_absent: bool,
    #[command(flatten)]
    pub(crate) write: WriteArguments,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

const PROFILE_FORMATS: &str = "\
The extension of FILE chooses the format:
  .html           a flame graph as an interactive page, with search
  .svg            a flame graph as a picture
  .heatmap.html   a heat map of cells of 20 ms; select a range to open it as a flame graph, and a second range to see the
                  difference
  .folded         one line per stack, for other tools
  .pb.gz          a profile for `go tool pprof`

Kinds:
  cpu             CPU time by function
  alloc           allocated bytes by call stack
  lock            time spent waiting, by call stack: for locks, the disk or the network

A node profiles itself for clients on its own machine, and for others with a token of scope profile. It takes one profile of each
kind at a time.

Examples:
  ladoga profile -o cpu.html
  ladoga profile --seconds 10 -o stalls.heatmap.html
  ladoga profile --kind lock -o waits.svg --url http://127.0.0.1:9000
  ladoga profile --kind cpu,alloc -o where.html        writes where.cpu.html and where.alloc.html
  ladoga profile diff before.heatmap.html after.heatmap.html -o change.html

Exit codes: 0 if FILE holds the profile; 1 if there is no profile, and then no FILE; 2 if the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = PROFILE_FORMATS, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ProfileArguments {
    #[command(subcommand)]
    pub(crate) command: Option<ProfileCommand>,
    /// What to profile: cpu, alloc or lock, or several at the same time, each in its own file
    #[arg(long, value_name = "KIND,...", default_value = "cpu", value_delimiter = ',')]
    pub(crate) kind: Vec<String>,
    /// Duration in seconds, 1 to 14400; use --hz 99 for more than some minutes
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = number(1..=14_400_u32))]
    pub(crate) seconds: u32,
    /// CPU samples per second for each running thread, 99 to 1000 [default: 499]
    #[arg(long, value_name = "N", value_parser = number(99..=1_000_u32))]
    pub(crate) hz: Option<u32>,
    /// Average number of bytes between two samples of an allocation profile, 1KiB to 1GiB [default: 512KiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) alloc_interval: Option<String>,
    /// File to write
    #[arg(short, long, value_name = "FILE", required = true)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Compare two profiles: what changed, and what is noise
    #[command(after_help = DIFF_HELP)]
    Diff(DiffArguments),
}

const DIFF_HELP: &str = "\
Compares two flame graphs (.html) or two heat maps (.heatmap.html) of `ladoga profile`. Threads with the same role are merged.
Prefer heat maps: they have the time of each sample, so noise is estimated better. Two runs of the same program may still differ
by more than this estimate; `ladoga lab compare` uses many rounds instead.

Exit codes: 0 if the profiles were compared; 1 if FILE cannot be written; 2 if the command line is wrong or a file is not a
profile.";

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The older profile
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The newer profile
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
    /// Write the difference as a flame graph; the file name must end with .html
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const CHECK_HELP: &str = "\
Verifies every checksum and every rule of the file formats. Changes nothing. Each problem is one line on standard error, with
its file and its offset. Of the log that is kept for backups (wal-kept), gaps and large values are verified by `ladoga backup log`.

Example:
  ladoga check ./ladoga-data

Exit codes: 0 if everything is correct; 1 if there is a problem, DIR cannot be read, or a node is using it; 2 if the command
line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArguments {
    /// Data directory that no node is using
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}
