use std::fmt;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ladoga_profiler::Kind;

use crate::cli::Target;
use crate::compare::ROUNDS_DEFAULT;
use crate::units::{self, parse_count, parse_ms, parse_size};
use crate::workload::{Distribution, Name};

const EXAMPLES: &str = "\
Examples:
  ladoga lab run -o report.html                       run put and get on a new node
  ladoga lab run --workloads put,get,ycsb-a --rates 2k,10k,closed --rounds 3 -o after.html
  ladoga lab run --url http://127.0.0.1:8080 --peer http://127.0.0.1:9090 -o both.html
  ladoga lab run --suite reports -o reports.html      run the published load tests
  ladoga lab compare before.html after.html -o difference.html";

/// What `ladoga lab` can be told.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabOptions {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run workloads at several rates and write one HTML report
    Run(Box<RunOptions>),
    /// Compare two reports: what changed, and what is noise
    Compare(CompareOptions),
}

const RUN_HELP: &str = "\
Starts a node (this binary, on a free port, in a temporary directory), fills it, runs each workload at each rate and profiles
it. The report is written after every run, so an interrupted command keeps the runs that it completed.

Ctrl-C ends it in order. Another one within a second is the same wish; a later one ends it at once.
If this command is killed (SIGKILL), its node ends too, but the node's directory is left. The next `ladoga lab run` with the same
--dir removes it.

Exit codes: 0 if everything worked; 1 if a run failed, or FILE (this is checked before the first run) or standard
output cannot be written; 2 if the
command line is wrong; 3 if everything was measured, but all requests of a run failed; 130 after Ctrl-C or 143 after SIGTERM, and
FILE has the runs that were completed, and the one that was cut off, marked.";

#[derive(Debug, Clone, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunOptions {
    /// Workloads, one after the other
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "put,get", value_enum)]
    pub(crate) workloads: Vec<Name>,
    /// Requests per second, on a fixed schedule; or `closed`: as many as the connections take
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1k,10k", value_parser = parse_rate)]
    pub(crate) rates: Vec<Rate>,
    /// Predefined set of runs, instead of workloads and rates
    #[arg(long, value_name = "NAME", value_enum, conflicts_with_all = ["workloads", "rates", "connections", "keys", "value", "distribution", "url"])]
    pub(crate) suite: Option<SuiteName>,
    /// Try the suite with stores a thousand times smaller and runs of one second; its figures mean nothing
    #[arg(long, requires = "suite")]
    pub(crate) quick: bool,
    /// Only the runs whose name contains this text, or the one run with exactly this name
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Measure this server instead of starting a node. What the runs write stays in its store: by default key0 to key99999 (--keys),
    /// and what --workloads write
    #[arg(long, value_name = "URL", value_parser = Target::parse_server)]
    pub(crate) url: Option<Target>,
    /// File with the token to show to --url [default: the token in `LADOGA_TOKEN`, if that is set]
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) token_file: Option<PathBuf>,
    /// Process of the server on this machine, to measure its CPU and memory; one that does not listen on the port of --url is
    /// reported
    #[arg(long, value_name = "PID", requires = "url")]
    pub(crate) pid: Option<u32>,
    /// Second server to measure, in alternation with the first; what the runs write stays in its store, too
    #[arg(long, value_name = "URL", value_parser = Target::parse_server)]
    pub(crate) peer: Option<Target>,
    /// Process of the second server on this machine
    #[arg(long, value_name = "PID", requires = "peer")]
    pub(crate) peer_pid: Option<u32>,
    /// Connections to keep open
    #[arg(short = 'c', long, value_name = "N", default_value = "4", value_parser = parse_count)]
    pub(crate) connections: u64,
    /// Threads of the load generator
    #[arg(short = 't', long, value_name = "N", default_value = "1", value_parser = parse_count)]
    pub(crate) threads: u64,
    /// Duration of a run
    #[arg(short = 'd', long = "duration", value_name = "TIME", default_value = "10s", default_value_if("quick", "true", "1s"), value_parser = parse_ms)]
    pub(crate) duration_ms: u64,
    /// Time after which a request counts as failed
    #[arg(short = 'T', long = "timeout", value_name = "TIME", default_value = "2s", value_parser = parse_ms)]
    pub(crate) timeout_ms: u64,
    /// How often to repeat all runs; a comparison needs several rounds [default: 10; 1 with --suite]
    #[arg(long, value_name = "N", value_parser = parse_rounds)]
    rounds: Option<u64>,
    /// Number of keys that reads choose from, key0 and so on; they are written before the first run that needs them
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_count)]
    pub(crate) keys: u64,
    /// Size of a value [default: short values, `value0`, `value1`, …]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) value: Option<u64>,
    /// Distribution of the keys that are requested
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) distribution: Option<Distribution>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) node: NodeOptions,
    /// Profiles to take during the runs: cpu, alloc, lock [default: cpu; cpu,alloc with --suite]
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = str::parse::<Kind>)]
    profile: Option<Vec<Kind>>,
    /// Average number of bytes between two samples of an allocation profile
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = parse_size)]
    pub(super) alloc_interval: u64,
    /// Do not take profiles
    #[arg(long, conflicts_with = "profile")]
    no_profile: bool,
    /// Report to write
    #[arg(short = 'o', long, value_name = "FILE", default_value = "ladoga-report.html")]
    pub(crate) output: PathBuf,
}

/// How a node of its own is started.
#[derive(Debug, Clone, Args)]
pub(crate) struct NodeOptions {
    /// When the node syncs writes, as for `ladoga serve` [default: everysec with --suite, whose stores did not sync; else that of a node]
    #[arg(long, value_name = "WHEN", conflicts_with = "url", value_parser = ["always", "everysec", "never"])]
    pub(crate) fsync: Option<String>,
    /// Memory budget of the node, as for `ladoga serve`
    #[arg(long, value_name = "SIZE", conflicts_with = "url", value_parser = parse_memory)]
    pub(crate) memory: Option<String>,
    /// Event loops of the node, as for `ladoga serve --threads`
    #[arg(long, value_name = "N", conflicts_with = "url", value_parser = parse_node_threads)]
    pub(crate) node_threads: Option<u64>,
    /// Where to create the data directory of the node, ladoga-lab-run-PID-N; it is removed afterwards [default: the temporary directory]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rate {
    Closed,
    Open(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SuiteName {
    /// The published load tests that this project started from
    Reports,
}

const COMPARE_HELP: &str = "\
Exit codes: 0 if the reports were compared, whatever changed; 1 if FILE or standard output cannot be written; 2 if the command line is wrong, a file is no
report, or the two have no run in common.";

#[derive(Debug, Args)]
#[command(after_help = COMPARE_HELP)]
pub(crate) struct CompareOptions {
    /// The older report
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The newer report
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
    /// Also write the comparison as an HTML page
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// As it is typed.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed"),
            Self::Open(rate) => rate.fmt(f),
        }
    }
}

/// A node takes no less.
const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// A node takes no more.
const NODE_THREADS_MAX: u64 = 1024;
const ROUNDS_MAX: u64 = 1_000_000;

impl NodeOptions {
    /// As they were typed.
    pub(crate) fn words(&self) -> Vec<String> {
        let threads = self.node_threads.map(|threads| threads.to_string());
        let dir = self.dir.as_ref().map(|dir| format!("'{}'", dir.display()));
        let flags = [
            ("--fsync", self.fsync.clone()),
            ("--memory", self.memory.clone()),
            ("--node-threads", threads),
            ("--dir", dir),
        ];
        flags.into_iter().filter_map(|(flag, value)| Some(format!("{flag} {}", value?))).collect()
    }
}

impl RunOptions {
    /// The settings of a node of its own. The published stores synced nothing before they answered.
    pub(crate) fn own_node(&self) -> NodeOptions {
        let mut node = self.node.clone();
        if self.suite.is_some() {
            node.fsync.get_or_insert_with(|| "everysec".to_owned());
        }
        node
    }

    /// The flag that shows its token to a server that was named; a peer is shown none.
    pub(super) fn token_words(&self, url: Option<&str>) -> Option<String> {
        let path = self.token_file.as_ref().filter(|_| url.is_some_and(|url| self.is_own(url)))?;
        Some(format!("--token-file '{}'", path.display()))
    }

    /// The process of a server that was named.
    pub(super) fn pid_of(&self, url: &str) -> Option<u32> {
        if self.is_own(url) { self.pid } else { self.peer_pid }
    }

    fn is_own(&self, url: &str) -> bool {
        self.url.as_ref().is_some_and(|own| own.url == url)
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.unwrap_or(if self.suite.is_some() { 1 } else { ROUNDS_DEFAULT })
    }

    /// The same, as it is typed.
    pub(crate) fn profile_words(&self) -> String {
        let kinds: Vec<&str> = self.kinds().iter().map(|kind| kind.name()).collect();
        if kinds.is_empty() {
            return "--no-profile".to_owned();
        }
        format!("--profile {} --alloc-interval {}", kinds.join(","), self.alloc_interval)
    }

    /// The same, as the node is asked for it.
    pub(crate) fn profiles(&self) -> Vec<(Kind, String)> {
        let parameters = |kind: Kind| match kind {
            Kind::Alloc => format!("&alloc_interval={}", self.alloc_interval),
            Kind::Cpu | Kind::Lock => String::new(),
        };
        self.kinds().iter().map(|kind| (*kind, parameters(*kind))).collect()
    }

    /// The kinds of profiles to take during a run.
    pub(crate) fn kinds(&self) -> &[Kind] {
        match &self.profile {
            _ if self.no_profile => &[],
            Some(kinds) => kinds,
            None if self.suite.is_some() => &[Kind::Cpu, Kind::Alloc],
            None => &[Kind::Cpu],
        }
    }
}

/// As it was typed, for the node reads it again: what that would refuse is refused before anything begins.
fn parse_memory(text: &str) -> Result<String, String> {
    let unit = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let is_known = ["", "B", "K", "M", "G", "T", "KiB", "MiB", "GiB", "TiB"].contains(&unit.trim_start());
    match parse_size(&text.replacen(' ', "", 1)) {
        Ok(MEMORY_BYTES_MIN..) if is_known => Ok(text.to_owned()),
        _ => Err("expected at least 16MiB, as a size such as 512MiB or 4GiB".to_owned()),
    }
}

fn parse_node_threads(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        threads @ ..=NODE_THREADS_MAX => Ok(threads),
        _ => Err(format!("at most {NODE_THREADS_MAX} event loops")),
    }
}

fn parse_rounds(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        rounds @ ..=ROUNDS_MAX => Ok(rounds),
        _ => Err(format!("at most {ROUNDS_MAX} rounds")),
    }
}

fn parse_rate(text: &str) -> Result<Rate, String> {
    if text == "closed" {
        return Ok(Rate::Closed);
    }
    units::parse_rate(text).map(Rate::Open).map_err(|reason| format!("{reason}, or `closed`"))
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct LabLine {
        #[command(flatten)]
        options: LabOptions,
    }

    pub(in crate::campaign) fn parsed(line: &str) -> Result<RunOptions, String> {
        parsed_words(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    pub(in crate::campaign) fn parsed_words(words: &[String]) -> Result<RunOptions, String> {
        let words = ["lab", "run"].into_iter().map(str::to_owned).chain(words.iter().cloned());
        let line = LabLine::try_parse_from(words).map_err(|error| error.to_string())?;
        match line.options.command {
            LabCommand::Run(options) => {
                options.check().map_err(|error| error.to_string())?;
                Ok(*options)
            }
            LabCommand::Compare(_) => unreachable!("`run` was typed"),
        }
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let options = parsed("").unwrap();
        assert_eq!(options.workloads, [Name::Put, Name::Get]);
        assert_eq!(options.rates, [Rate::Open(1_000), Rate::Open(10_000)]);
        assert_eq!((options.kinds(), parsed("--no-profile").unwrap().kinds()), (&[Kind::Cpu][..], &[][..]));
        assert_eq!(parsed("--suite reports").unwrap().kinds(), [Kind::Cpu, Kind::Alloc]);
        assert_eq!((options.rounds(), parsed("--suite reports").unwrap().rounds()), (10, 1));
        let options = parsed("--workloads a,range --rates closed,20k --keys 5").unwrap();
        assert_eq!(options.workloads, [Name::YcsbA, Name::Range]);
        assert_eq!(options.rates, [Rate::Closed, Rate::Open(20_000)]);
        for memory in ["16MiB", "1TiB", "4G", "500000000"] {
            assert_eq!(parsed(&format!("--memory {memory} -o a.html")).unwrap().node.memory.unwrap(), memory);
        }
    }
}
