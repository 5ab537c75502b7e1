//! `ladoga bench`: from the command line to the exit code.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;

use crate::cli::Options;
use crate::engine::{Crew, Fixed, Maker, Plan, Source, Station, Watcher};
use crate::error::{LabError, Outcome};
use crate::knee;
use crate::report::{self, HdrLog, Header, Live};
use crate::schedule::connections_of;
use crate::script::{Host, Script};
use crate::stats::{self, Second};
use crate::workload::{Generator, Renderer, Workload};

const FAILED: u8 = 1;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs `ladoga bench`. Prints the result on standard output, and what went wrong on standard error.
///
/// Exit codes: 0; 1 where the SLO was missed or nothing could be measured; 2 where the command line or the script is
/// wrong.
pub fn bench(options: &Options) -> ExitCode {
    let checked = options.check().map_err(LabError::Usage);
    match checked.and_then(|()| run(options)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ladoga bench: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(options: &Options) -> Outcome<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second Ctrl-C does not wait for the end of the run.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(LabError::system("listen for Ctrl-C"))?;
    }
    if options.find_knee { knee::find(options, &stop) } else { run_once(options, &stop) }
}

/// One run, printed as wrk prints it.
fn run_once(options: &Options, stop: &Arc<AtomicBool>) -> Outcome<ExitCode> {
    let header = Header {
        duration_s: options.duration,
        url: &options.target.url,
        threads: options.threads,
        connections: options.connections,
    };
    let mut watchers = Watchers { live: Live::new(options.duration), log: HdrLog::default() };
    let mut announce = || report::print_header(header, &mut io::stdout());
    let (outcome, host) = match &options.script {
        Some(path) => {
            let script = Script::read(path.clone(), options.target.clone(), options.headers.clone())?;
            let (outcome, host) = run_script(options, script, stop, &mut watchers, &mut announce)?;
            (outcome, Some(host))
        }
        None => (run_built_in(options, options.rate, stop, &mut watchers, &mut announce)?, None),
    };
    watchers.live.clear();
    let out = &mut io::stdout().lock();
    report::print_result(&outcome, options.wants_percentiles(), options.u_latency, out)
        .map_err(closed_output)?;
    out.flush().map_err(closed_output)?;
    if let Some(host) = host {
        host.done(&outcome)?;
    }
    report::print_notes(&outcome, &mut io::stderr()).map_err(closed_output)?;
    if let Some(path) = &options.json {
        report::write_json(path, &described(options), &outcome)?;
    }
    if let Some(path) = &options.hdr {
        watchers.log.write(path)?;
    }
    Ok(judge(options, &outcome))
}

fn closed_output(source: io::Error) -> LabError {
    LabError::System { what: "print the result", source }
}

/// The live view and the log, which see the same seconds.
struct Watchers {
    live: Live,
    log: HdrLog,
}

impl Watcher for Watchers {
    fn second(&mut self, second: &Second, latencies: &Histogram<u64>) {
        self.live.second(second, latencies);
        self.log.second(second, latencies);
    }
}

fn described(options: &Options) -> serde_json::Value {
    json!({
        "url": options.target.url,
        "threads": options.threads,
        "connections": options.connections,
        "duration_s": options.duration,
        "timeout_s": options.timeout,
        "script": options.script.as_ref().map(|path| path.display().to_string()),
        "workload": options.workload.map(|name| format!("{name:?}")),
        "command": std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>(),
    })
}

/// The exit code, and in words which bound broke.
fn judge(options: &Options, outcome: &stats::Outcome) -> ExitCode {
    let broken = options.slo.as_ref().map(|slo| slo.check(outcome, options.allow_misses)).unwrap_or_default();
    for bound in &broken {
        eprintln!("SLO missed: {bound}");
    }
    if broken.is_empty() && outcome.complete > 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

pub(crate) fn plan(options: &Options, rate: Option<u64>) -> Plan {
    Plan {
        threads: options.threads as usize,
        connections: options.connections as usize,
        duration_ns: options.duration * 1_000_000_000,
        timeout_ns: options.timeout * 1_000_000_000,
        rate: rate.map(|rate| rate as f64),
        is_batch_latency: options.batch_latency,
    }
}

type Announce<'a> = &'a mut dyn FnMut() -> io::Result<()>;

fn run_script(
    options: &Options,
    script: Script,
    stop: &Arc<AtomicBool>,
    watcher: &mut dyn Watcher,
    announce: Announce<'_>,
) -> Outcome<(stats::Outcome, Host)> {
    let plan = plan(options, options.rate);
    let mut host = Host::load(script)?;
    if !host.resolve()? {
        announce().map_err(closed_output)?;
        return Ok((unreachable_outcome(options, plan.rate, None), host));
    }
    let mut crew = Crew::muster(plan, host.makers(plan.threads), stop)?;
    let url = std::iter::once(options.target.url.clone());
    let arguments = options.arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
    host.set_up(&url.chain(arguments).collect::<Vec<_>>())?;
    crew.wait_ready()?;
    announce().map_err(closed_output)?;
    Ok((crew.go(watcher)?, host))
}

/// A run of a built-in workload, or of one `GET` again and again.
pub(crate) fn run_built_in(
    options: &Options,
    rate: Option<u64>,
    stop: &Arc<AtomicBool>,
    watcher: &mut dyn Watcher,
    announce: Announce<'_>,
) -> Outcome<stats::Outcome> {
    let plan = plan(options, rate);
    let address = match reachable(&options.target.resolve()?) {
        Ok(address) => address,
        Err(error) => {
            announce().map_err(closed_output)?;
            return Ok(unreachable_outcome(options, plan.rate, error));
        }
    };
    let mut crew = Crew::muster(plan, built_in_makers(options, plan, address)?, stop)?;
    crew.wait_ready()?;
    announce().map_err(closed_output)?;
    let outcome = crew.go(watcher)?;
    crew.dismiss();
    Ok(outcome)
}

fn built_in_makers(options: &Options, plan: Plan, address: SocketAddr) -> Outcome<Vec<Box<dyn Maker>>> {
    let host = options.target.host_header();
    let renderer = Renderer::new(&host, &options.headers, options.knobs.value.map(|bytes| bytes as usize));
    let Some(name) = options.workload else {
        let mut bytes = Vec::new();
        renderer.plain("GET", &options.target.path, &mut bytes);
        let source = Made { address, kind: Kind::Fixed(Fixed::new(&bytes)?) };
        return Ok((0..plan.threads).map(|_| Box::new(source.clone()) as Box<dyn Maker>).collect());
    };
    let workload = Workload::new(name, &options.knobs, options.connections);
    let maker = |thread| {
        let own = connections_of(thread, plan.threads, plan.connections);
        let kind = Kind::Workload(workload.clone(), renderer.clone(), thread, own);
        Box::new(Made { address, kind }) as Box<dyn Maker>
    };
    Ok((0..plan.threads).map(maker).collect())
}

/// Stations without a script.
#[derive(Clone)]
struct Made {
    address: SocketAddr,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Fixed(Fixed),
    /// With the number of the thread and of its connections.
    Workload(Workload, Renderer, usize, usize),
}

impl Maker for Made {
    fn make(self: Box<Self>) -> Outcome<Station> {
        let source = match self.kind {
            Kind::Fixed(fixed) => Source::fixed(fixed),
            Kind::Workload(workload, renderer, thread, own) => {
                Source::made(Box::new(Generator::new(&workload, renderer, thread, own)))
            }
        };
        Ok(Station { address: self.address, source, afterwards: Box::new(|| {}) })
    }
}

/// The first address that takes a connection; the last reason where none does.
fn reachable(addresses: &[SocketAddr]) -> Result<SocketAddr, Option<io::Error>> {
    let mut reason = None;
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_TIMEOUT) {
            Ok(_) => return Ok(*address),
            Err(error) => reason = Some(error),
        }
    }
    Err(reason)
}

/// A server that cannot be reached is no reason to wait for the end of the run: every connection counts as failed.
fn unreachable_outcome(options: &Options, rate: Option<f64>, reason: Option<io::Error>) -> stats::Outcome {
    let reason = reason.map(|error| format!(": {error}")).unwrap_or_default();
    let target = &options.target;
    eprintln!("unable to connect to {}:{}{reason}", target.host, target.port_or_default());
    let mut outcome = stats::Outcome::new(rate);
    outcome.errors.connect = options.connections;
    outcome
}
