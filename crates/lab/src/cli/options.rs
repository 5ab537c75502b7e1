use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

use super::target::{Scheme, Target};
use super::token::Token;
use crate::files::is_same_file;
use crate::report::Asked;
use crate::slo::Slo;
use crate::units::{parse_count, parse_ms, parse_rate};
use crate::workload::{Knobs, Name};
use ladoga_tls::client::Trust;

const EXAMPLES: &str = "\
With -R, the latency of a request counts from the time at which it was due, so a server that stalls cannot hide it. Numbers
can have a unit (1k, 1M, 1G), and so can times (30, 10s, 2m, 1h).

Examples:
  ladoga bench -t1 -c1 -R 20000 -d 1m -L --workload put http://127.0.0.1:8080
  ladoga bench -t2 -c64 -d 10s --latency --workload get --keys 100k --fill http://127.0.0.1:8080
  ladoga bench -t1 -c4 -R 2000 -d 30s -L -s put.lua http://127.0.0.1:8080 -- arguments of the script
  ladoga bench -t1 -c8 -R 10k --slo 'p99<5ms,errors<0.1%' --json run.json --workload ycsb-a --fill http://127.0.0.1:8080
  ladoga bench -t2 -c64 -d 5s --find-knee --slo 'p99<5ms' --workload get-hot --fill http://127.0.0.1:8080
  ladoga bench -t2 -c64 -d 10s --latency --ca authority.pem https://localhost:8443

With https://, any certificate is accepted, as by wrk; --verify and --ca check it. A failed TLS handshake counts as a connect
error. Connections are made before the run, so latencies do not include handshakes. If a connection breaks during an open
loop, the requests that become due while it is made again count with the time that they wait.

A request without an answer within --timeout is a timeout: its latency is the time that it was waited for, its connection is
closed and made again, and an answer that comes later is lost. wrk counts a timeout too, but goes on reading, and counts the late
answer as a success. Here each request counts once, and a connection that died cannot block its requests for the rest of the
run. With a longer --timeout, slower answers are measured.

Exit codes: 0 if everything worked; 1 if the SLO was missed, no request was answered, or a file (this is checked before the
run) or standard output cannot be written; 2 if the command line or the script is wrong; 130 after Ctrl-C or 143 after SIGTERM, if something had to
be aborted: a script, --fill, --find-knee, a server that does not answer, a name that is being resolved. Ctrl-C ends everything within a second.";

/// The command line of `ladoga bench`.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that a person gives or not")]
#[expect(clippy::doc_markdown, reason = "clap prints these lines as they are")]
// As getopt has it, for lines that were written for wrk: of an option that is given twice, the last one counts.
#[command(after_help = EXAMPLES, version, disable_version_flag = true, args_override_self = true)]
pub struct Options {
    /// Connections to keep open
    #[arg(short = 'c', long, value_name = "N", default_value = "10", value_parser = parse_count)]
    pub(crate) connections: u64,
    /// How long to run
    #[arg(short = 'd', long = "duration", value_name = "TIME", default_value = "10s", value_parser = parse_ms)]
    pub(crate) duration_ms: u64,
    /// Threads to use
    #[arg(short = 't', long, value_name = "N", default_value = "2", value_parser = parse_count)]
    pub(crate) threads: u64,
    /// Requests per second in total, on a fixed schedule (open loop) [default: as many as the connections take (closed loop)]
    #[arg(short = 'R', long, value_name = "N", value_parser = parse_rate)]
    pub(crate) rate: Option<u64>,
    /// Lua script; its arguments follow `--`
    #[arg(short = 's', long, value_name = "FILE", conflicts_with = "workload")]
    pub(crate) script: Option<PathBuf>,
    /// Let the script load LuaJIT's ffi, Lua's debug library and modules written in C; these can crash this program
    #[arg(long, requires = "script")]
    pub(crate) allow_native: bool,
    /// Header to add to every request, as `Name: value`
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = parse_header)]
    pub(crate) headers: Vec<(String, String)>,
    /// Print the latency percentiles
    #[arg(short = 'L', long)]
    pub(crate) latency: bool,
    /// Also print uncorrected percentiles: latency from when a request was sent, not from when it was due
    #[arg(short = 'U', long = "u_latency", alias = "u-latency")]
    pub(crate) u_latency: bool,
    /// Measure batches of pipelined requests instead of single requests
    #[arg(short = 'B', long = "batch_latency", alias = "batch-latency")]
    pub(crate) batch_latency: bool,
    /// Time after which a request counts as failed
    #[arg(short = 'T', long = "timeout", value_name = "TIME", default_value = "2s", value_parser = parse_ms)]
    pub(crate) timeout_ms: u64,
    /// Built-in workload, instead of a script
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) workload: Option<Name>,
    #[command(flatten)]
    pub(crate) knobs: Knobs,
    /// Write every key of the workload before the run, key0, key1 and so on (see --keys), so that reads find their keys. They stay in
    /// the store, and replace what these keys had
    #[arg(long, requires = "workload")]
    pub(crate) fill: bool,
    /// Write the result as JSON; with --find-knee, every rate that was tried
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write an HdrHistogram interval log, one line per second
    #[arg(long, value_name = "FILE", conflicts_with = "find_knee")]
    pub(crate) hdr: Option<PathBuf>,
    /// Write an HTML report with charts; with --find-knee, latency over rate
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Service level objective, such as `p99<5ms,errors<0.1%`; the exit code is 1 if it is missed [default: none; p99<10ms,errors<0.1% with
    /// --find-knee]
    #[arg(long, value_name = "BOUNDS", value_parser = Slo::parse)]
    pub(crate) slo: Option<Slo>,
    /// Find the highest rate that meets --slo; each step takes `--duration`. With a workload, or one GET again and again, but
    /// not with -s: a script is set up, and reports, once for one run
    #[arg(long, conflicts_with_all = ["script"])]
    pub(crate) find_knee: bool,
    /// Count 404 as success; without this, a miss is an error, because it reads no data
    #[arg(long)]
    pub(crate) allow_misses: bool,
    /// Check the certificate of an https:// server against the authorities of this system. Without this, any certificate
    /// is accepted, as by wrk
    #[arg(long)]
    pub(crate) verify: bool,
    /// As --verify, with the authorities of this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Certificate to show to an https:// server that demands one, with those between it and an authority, as PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Key of --cert, as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// File with the token to show to the server [default: the token in `LADOGA_TOKEN`, if that is set]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Server to measure, as http://HOST[:PORT][/PATH] or https://…
    #[arg(value_name = "URL", value_parser = Target::parse)]
    pub(crate) target: Target,
    /// Print the version
    #[arg(short = 'v', long, action = clap::ArgAction::Version)]
    version: (),
    /// Arguments of the script
    #[arg(value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}

impl Options {
    /// What flags cannot say alone.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_size(self.connections, self.threads, self.knobs.value)?;
        if self.workload.is_some() && self.target.has_path() {
            let path = &self.target.path;
            return Err(format!(
                "--workload has paths of its own, and {path} of the URL is not used: remove one of them"
            ));
        }
        if self.fill && self.workload == Some(Name::Status) {
            return Err("--fill writes the keys of the workload, and `status` asks for none: remove --fill"
                .to_owned());
        }
        if self.fill && self.keys_to_fill().is_none() {
            return Err("--fill needs --keys with this workload, whose keys have no end".to_owned());
        }
        if self.target.scheme == Scheme::Http {
            if self.verify || self.ca.is_some() {
                return Err("--verify and --ca check certificates, which only https:// has".to_owned());
            }
            if self.cert.is_some() {
                return Err("--cert and --key show a certificate, which only https:// asks for".to_owned());
            }
        }
        let files = [("--json", &self.json), ("--hdr", &self.hdr), ("--html", &self.html)];
        if let Some((flag, _)) = files.iter().find(|(_, path)| path.as_deref() == Some(Path::new("-"))) {
            return Err(format!("{flag} is -, expected the name of a file: standard output has wrk's text"));
        }
        let pairs =
            files.iter().enumerate().flat_map(|(at, one)| files[..at].iter().map(move |other| (other, one)));
        for ((flag, path), (other_flag, other)) in pairs {
            if let (Some(path), Some(other)) = (path, other)
                && is_same_file(path, other)
            {
                return Err(format!("{flag} and {other_flag} are the same file, {}", path.display()));
            }
        }
        if self.find_knee && self.rate.is_some() {
            return Err("--find-knee chooses the rate itself: remove -R".to_owned());
        }
        if self.find_knee && self.slo.as_ref().is_some_and(Slo::bounds_rate) {
            return Err("--find-knee looks for the highest rate, and begins with low ones that no `rate>…` of --slo holds: remove that \
                        bound"
                .to_owned());
        }
        Ok(())
    }

    /// How many keys the workload has; none if there is no workload, or no end of them.
    pub(crate) fn keys_to_fill(&self) -> Option<u64> {
        self.workload.and_then(|name| self.knobs.keys.or(name.default_keys()))
    }

    /// The target, with whom it is to be trusted for, and what it is shown.
    pub(crate) fn with_trust(&self) -> Result<Self, String> {
        let mut options = self.clone();
        options.target.token = Token::find(self.token_file.as_deref())?;
        options.target.identity = self.cert.clone().zip(self.key.clone());
        options.target.trust = match &self.ca {
            Some(path) => Trust::File(path.clone()),
            None if self.verify => Trust::System,
            None => Trust::Anybody,
        };
        Ok(options)
    }

    /// As far as a note on the result depends on it.
    pub(crate) const fn asked(&self) -> Asked {
        Asked {
            is_workload: self.workload.is_some(),
            is_filled: self.fill,
            wants_percentiles: self.wants_percentiles(),
        }
    }

    /// Whether any percentiles are to be printed.
    pub(crate) const fn wants_percentiles(&self) -> bool {
        self.latency || self.u_latency
    }
}

/// What neither `ladoga bench` nor `ladoga lab run` can do.
pub(crate) fn check_size(connections: u64, threads: u64, value_bytes: Option<u64>) -> Result<(), String> {
    if connections < threads {
        return Err("number of connections must be >= threads".to_owned());
    }
    if threads > THREADS_MAX {
        return Err(format!("at most {THREADS_MAX} threads"));
    }
    if connections > CONNECTIONS_MAX {
        return Err(format!("at most {CONNECTIONS_MAX} connections"));
    }
    if value_bytes.is_some_and(|bytes| bytes > VALUE_BYTES_MAX) {
        return Err(format!("a value has at most {VALUE_BYTES_MAX} bytes"));
    }
    Ok(())
}

const THREADS_MAX: u64 = 1024;
const CONNECTIONS_MAX: u64 = 1_000_000;
/// The node's own limit.
const VALUE_BYTES_MAX: u64 = 64 << 20;

fn parse_header(text: &str) -> Result<(String, String), String> {
    let wanted = || format!("`{text}` is not a header such as `Name: value`");
    let (name, value) = text.split_once(':').ok_or_else(wanted)?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || text.bytes().any(|byte| byte.is_ascii_control()) || name.contains(' ') {
        return Err(wanted());
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::knee::SLO_DEFAULT;

    #[derive(Parser)]
    struct BenchLine {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(line: &str) -> Result<Options, clap::Error> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        BenchLine::try_parse_from(words).map(|line| line.options)
    }

    #[test]
    fn command_lines_of_wrk_and_wrk2_are_taken_unchanged() {
        let wrk2 = parsed("-t 1 -c 1 -R 20000 -d 1m -s put.lua -L http://localhost:8080").unwrap();
        assert_eq!(
            (wrk2.threads, wrk2.connections, wrk2.rate, wrk2.duration_ms),
            (1, 1, Some(20_000), 60_000)
        );
        assert!(wrk2.latency && wrk2.script == Some("put.lua".into()));
        let glued =
            parsed("--latency -c4 -d2m -t1 -R20k -T3s -HA:b -s scripts/put.lua http://localhost:8088")
                .unwrap();
        assert_eq!(
            (glued.threads, glued.connections, glued.rate, glued.duration_ms),
            (1, 4, Some(20_000), 120_000)
        );
        assert_eq!((glued.timeout_ms, glued.headers), (3_000, vec![("A".to_owned(), "b".to_owned())]));
        let with_arguments = parsed("-t1 -c2 -s a.lua http://a -- 10 --x -y").unwrap();
        assert_eq!(with_arguments.arguments, ["10", "--x", "-y"]);
        let url_first = parsed("http://a -LU -d 3").unwrap();
        assert!(url_first.latency && url_first.u_latency && url_first.duration_ms == 3_000);
        assert_eq!(url_first.target.url, "http://a");
        let twice = parsed("-c4 -d 2s -HA:b -L http://a -d 3s -c8 -HC:d -L").unwrap();
        assert_eq!(
            (twice.connections, twice.duration_ms, twice.headers.len()),
            (8, 3_000, 2),
            "the last one counts"
        );
    }

    #[test]
    fn what_no_run_can_do_is_refused() {
        assert!(parsed("--workload get http://a/").unwrap().check().is_ok());
        assert!(parsed("--find-knee http://a/v0/status").unwrap().check().is_ok());
        assert!(parsed("--json /dev/null --html /dev/null http://a").unwrap().check().is_ok());
        for (line, reason) in [
            ("--find-knee --slo p99<5ms,rate>5k http://a", "--find-knee looks for the highest rate"),
            ("--workload status --fill http://a", "`status` asks for none"),
            ("--workload put --fill http://a", "--fill needs --keys"),
        ] {
            let refused = parsed(line).unwrap().check().unwrap_err();
            assert!(refused.contains(reason), "{line}: {refused}");
        }
        assert!(parsed("--slo rate>5k http://a").unwrap().check().is_ok());
        let refused = parsed("--json - http://a").unwrap().check().unwrap_err();
        assert!(refused.starts_with("--json is -, expected the name of a file"), "{refused}");
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        let cases = [
            ("", "<URL>"),
            ("-d x http://a", "is not a time such as"),
            ("-R fast http://a", "is not a number such as"),
            ("-R 0 http://a", "must be more than 0"),
            ("-R 2G http://a", "at most 1000000000 requests a second"),
            ("-t0 http://a", "must be more than 0"),
            ("-H nonsense http://a", "is not a header such as"),
            ("ftp://a", "expected http://HOST"),
            ("http://user:password@a", "would not be sent"),
            ("--workload nothing http://a", "possible values"),
            ("--keys 5 http://a", "--workload"),
            ("--slo p99 http://a", "p99<5ms"),
            ("--find-knee --hdr a http://a", "cannot be used with"),
            ("--no-such-flag http://a", "--no-such-flag"),
        ];
        for (line, reason) in cases {
            let error = parsed(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(reason), "{line}: {error}");
        }
        let help = parsed("--help").unwrap_err();
        assert_eq!(help.exit_code(), 0);
        let help: Vec<String> = help.to_string().split_whitespace().map(str::to_owned).collect();
        assert!(help.join(" ").contains(&format!("{SLO_DEFAULT} with --find-knee")), "{help:?}");
        for (line, reason) in [
            ("-c 1 -t 2 http://a", "number of connections must be >= threads"),
            ("-t 2000 -c 2000 http://a", "at most 1024 threads"),
            ("--find-knee -R 5 http://a", "remove -R"),
            ("--workload get http://a/v0/status", "/v0/status of the URL is not used"),
            ("--json a --html a http://a", "--json and --html are the same file, a"),
            ("--json ./a --hdr a http://a", "--json and --hdr are the same file"),
            ("--workload put --fill http://a", "whose keys have no end"),
            ("--workload put --value 65M http://a", "at most 67108864 bytes"),
        ] {
            assert!(parsed(line).unwrap().check().unwrap_err().contains(reason), "{line}");
        }
    }
}
