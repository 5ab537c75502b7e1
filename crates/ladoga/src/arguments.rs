use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A persistent key-value store that speaks plain HTTP.
#[derive(Debug, Parser)]
#[command(name = "ladoga", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ladoga serve                          a node on http://127.0.0.1:8080, data in ./ladoga-data
  ladoga put lake 'deep and cold'       stores a value
  ladoga put photo < photo.jpg          stores what comes from standard input
  ladoga get lake                       prints it
  ladoga range a b                      prints the keys from a up to b, and their values
  ladoga bench -t1 -c4 -R 1k -d 10s -L --workload put http://127.0.0.1:8080
  ladoga profile --seconds 10 -o where.html
  curl http://127.0.0.1:8080/v0/entity?id=lake

`ladoga COMMAND --help` says more about each.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a node
    Serve(ServeFlags),
    /// Print the value of a key
    #[command(after_help = GET_HELP)]
    Get(KeyArguments),
    /// Store a value under a key
    Put(PutArguments),
    /// Remove a key
    #[command(after_help = DELETE_HELP)]
    Delete(KeyArguments),
    /// Print the records from one key up to another
    Range(RangeArguments),
    /// Say whether a node serves
    #[command(after_help = STATUS_HELP)]
    Status(NodeArguments),
    /// Measure an HTTP server; takes the command lines of wrk and wrk2
    Bench(Box<ladoga_lab::BenchArguments>),
    /// Say where a running node spends its time, as a flame graph or a heat map
    Profile(ProfileArguments),
    /// Run workloads, profile them, write a report; compare two reports
    Lab(Box<ladoga_lab::LabArguments>),
    /// Have a node of a cluster take over what the others have and it lacks
    #[command(after_help = REPAIR_HELP)]
    Repair(NodeArguments),
    /// Verify a data directory, offline
    Check(CheckArguments),
}

const SERVE_EXAMPLES: &str = "\
Every setting can also be given as a variable (LADOGA_LISTEN, LADOGA_FSYNC, ...) or in a TOML file (listen = \"...\").
A flag wins over the environment, which wins over the file.

Examples:
  ladoga serve
  ladoga serve --listen 0.0.0.0:9000 --data /var/lib/ladoga --memory 4GiB
  ladoga serve --fsync everysec --threads 2
  ladoga serve --listen 0.0.0.0:8080 --cluster http://a:8080,http://b:8080,http://c:8080
  LADOGA_MEMORY=512MiB ladoga serve --config ladoga.toml

Exit codes: 0 stopped by a signal, everything is on disk; 2 a setting is wrong, nothing was opened; 1 anything else.";

const SERVE_ADVANCED: &str = "
Rarely needed, as variables or in the file only:
  LADOGA_REQUEST_TIMEOUT_MS   how long a request may take to arrive [default: 10000]
  LADOGA_ANSWER_TIMEOUT_MS    how long a client may take nothing of its answer [default: 30000]
  LADOGA_IDLE_TIMEOUT_MS      how long a connection may be kept without a request [default: 120000]
  LADOGA_DRAIN_TIMEOUT_MS     how long requests in flight may take once the node is to stop [default: 10000]
  LADOGA_PEER_TIMEOUT_MS      how long a peer that owes an answer may be silent [default: 1000]
  LADOGA_PEER_CONNECT_TIMEOUT_MS   how long a connection to a peer may take [default: 1000]
  LADOGA_QUORUM_TIMEOUT_MS    how long a request waits for its replicas [default: 5000]
  LADOGA_CLOCK_AHEAD_MS_MAX   how far ahead of this machine's clock a version may be [default: 60000]
  LADOGA_DISK_READS           how blocks are read: auto (by io_uring where there is one), pool (by threads) [default: auto]
  LADOGA_LOG                  what is logged: off, error, warn, info, debug, trace, or warn,ladoga_storage=debug [default: warn]";

/// The flags of a node, as they were typed: `settings` says what they mean.
#[derive(Debug, Default, Args)]
#[command(after_help = SERVE_EXAMPLES, after_long_help = format!("{SERVE_EXAMPLES}\n{SERVE_ADVANCED}"))]
pub(crate) struct ServeFlags {
    /// Where clients and peers connect [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// The data directory, created where absent [default: ./ladoga-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Every node of the cluster, this one included [default: this node alone]
    #[arg(long, value_name = "URL,URL,...")]
    pub(crate) cluster: Option<String>,
    /// Which of these URLs is this node [default: the one with its port, on this machine]
    #[arg(long, value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// When an acknowledged write is on disk: always (before the answer), everysec (within a second), never (when the
    /// system likes) [default: always]
    #[arg(long, value_name = "WHEN")]
    pub(crate) fsync: Option<String>,
    /// The budget for everything that grows, such as 512MiB or 4GiB [default: a quarter of the machine's memory]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) memory: Option<String>,
    /// Event-loop threads [default: the number of cores]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) threads: Option<String>,
    /// The same settings as TOML [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Ends at once with the process that started it: for `ladoga lab run`, which may be killed
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) ends_with: Option<u32>,
}

const STATUS_HELP: &str = "\
Of a node of a cluster it prints a line for each node, as that one sees them, and what repair has still to do.

Exit codes: 0 the node serves; 1 it does not, and the reason is told, or it cannot be reached; 2 what was typed is wrong.";

const REPAIR_HELP: &str = "\
The node compares everything that it has with every other node, and takes over what is newer there. Nodes do so by themselves, too:
this is for those who do not want to wait.

Exit codes: 0 all was compared; 1 a node could not be asked, or this one is of no cluster; 2 what was typed is wrong.";

/// Where a node is.
#[derive(Debug, Args)]
pub(crate) struct NodeArguments {
    /// The node
    #[arg(long, value_name = "URL", env = "LADOGA_URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
}

const GET_HELP: &str = "\
The value is printed as it is, with nothing behind it.

Examples:
  ladoga get lake
  ladoga get photo > photo.jpg
  ladoga get $'a key with a\\ttab' --url http://127.0.0.1:9000

Exit codes: 0 it was printed; 1 there is none, or the node cannot answer; 2 what was typed is wrong.";

const DELETE_HELP: &str = "\
That there was nothing is no failure.

Exit codes: 0 it is gone; 1 the node did not take it; 2 what was typed is wrong.";

#[derive(Debug, Args)]
pub(crate) struct KeyArguments {
    /// 1 to 4096 bytes
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

const PUT_HELP: &str = "\
Examples:
  ladoga put lake 'deep and cold'
  ladoga put photo < photo.jpg
  ladoga put nothing ''

Exit codes: 0 it is stored, as durably as the node was told to; 1 it is not, or nobody knows; 2 what was typed is wrong.";

#[derive(Debug, Args)]
#[command(after_help = PUT_HELP)]
pub(crate) struct PutArguments {
    /// 1 to 4096 bytes
    #[arg(value_name = "KEY")]
    pub(crate) key: OsString,
    /// Up to 64 MiB; read from standard input where it is not given
    #[arg(value_name = "VALUE")]
    pub(crate) value: Option<OsString>,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

const RANGE_FORMAT: &str = "\
A record is a line: the key, a tab, the value. Where one of them has a backslash, a tab, a line feed, a carriage return or
a zero byte, it is printed as \\\\, \\t, \\n, \\r or \\0, so that a line is always a whole record. With --raw they are printed
as they are, each followed by a zero byte instead.

Examples:
  ladoga range a
  ladoga range user: user; | cut -f1
  ladoga range a --raw | xargs -0 -n2 echo

Exit codes: 0 all was printed; 1 it was not; 2 what was typed is wrong.";

#[derive(Debug, Args)]
#[command(after_help = RANGE_FORMAT)]
pub(crate) struct RangeArguments {
    /// The first key
    #[arg(value_name = "START")]
    pub(crate) start: OsString,
    /// The key before which it ends [default: after the last]
    #[arg(value_name = "END")]
    pub(crate) end: Option<OsString>,
    /// Print keys and values as they are, each followed by a zero byte
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

const PROFILE_FORMATS: &str = "\
The ending of FILE says how the profile is written:
  .html           a flame graph as a page: click to widen, search
  .svg            a flame graph as a picture
  .heatmap.html   cells of 20 ms over the time: click or drag to open a range as a flame graph, a second range gives the
                  difference
  .folded         a line a stack, for other tools
  .pb.gz          for `go tool pprof`

Kinds:
  cpu             which functions the time on the processor goes to
  alloc           who asks for memory
  lock            who waits, and for what: a lock, the disk, the network

A node answers clients on its own machine only, and takes one profile of a kind at a time.

Examples:
  ladoga profile -o cpu.html
  ladoga profile --seconds 10 -o stalls.heatmap.html
  ladoga profile --kind lock -o waits.svg --url http://127.0.0.1:9000
  ladoga profile --kind cpu,alloc -o where.html        into where.cpu.html and where.alloc.html
  ladoga profile diff before.heatmap.html after.heatmap.html -o change.html

Exit codes: 0 the profile is in FILE; 2 what was typed is wrong; 1 there is no profile, and no FILE.";

#[derive(Debug, Args)]
#[command(after_help = PROFILE_FORMATS, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ProfileArguments {
    #[command(subcommand)]
    pub(crate) command: Option<ProfileCommand>,
    /// What is measured: cpu, alloc, lock; several at the same time, each in a file of its own
    #[arg(long, value_name = "KIND,...", default_value = "cpu", value_delimiter = ',')]
    pub(crate) kind: Vec<String>,
    /// For how long, 1 to 600
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// CPU samples a second and running thread, 99 to 1000 [default: 499]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(99..=1000))]
    pub(crate) hz: Option<u32>,
    /// Bytes between two samples of an allocation profile on average, such as 16KiB: 1KiB to 1GiB [default: 512KiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) alloc_interval: Option<String>,
    /// Where it is kept
    #[arg(short, long, value_name = "FILE", required = true)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) node: NodeArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Say what two profiles differ by, and what is only noise
    #[command(after_help = DIFF_HELP)]
    Diff(DiffArguments),
}

const DIFF_HELP: &str = "\
Takes flame graphs (.html) and heat maps (.heatmap.html) of `ladoga profile`, two of a kind. Threads of one role are one.
A heat map knows when each sample was taken, so it tells noise better. Two runs of one program may differ by more than
their samples say: `ladoga lab compare` tells by many rounds.

Exit codes: 0 they were compared; 1 FILE cannot be written; 2 what was typed is wrong, or a file is no profile.";

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The older profile
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The newer one
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
    /// Draw the difference as a flame graph, in a file that ends with .html
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const CHECK_HELP: &str = "\
Every checksum is computed, and every rule of the formats is looked at; nothing is changed. What is found is told with its file and
its offset, one a line, on standard error.

Example:
  ladoga check ./ladoga-data

Exit codes: 0 everything is as it should be; 1 something is not, or DIR cannot be read, or a node uses it; 2 what was typed is
wrong.";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArguments {
    /// A data directory that no node uses
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}
