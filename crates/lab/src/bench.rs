//! `ladoga bench`: from the command line to the exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde_json::json;

use crate::cli::{Options, Scheme, Target, command_line, command_words};
use crate::clock::unix_ms;
use crate::engine::{Crew, Watcher};
use crate::error::{LabError, Outcome};
use crate::fill::Content;
use crate::knee;
use crate::load::{self, Announce, built_in, plan};
use crate::output::{Output, stderr_line};
use crate::record::{
    Described, Disturbance, FORMAT, Heat, HeatRecorder, KindProfile, Machine, NodeSeries, Profiled, Report,
    Subject, run_of,
};
use crate::report::{self, HdrLog, Header, Live};
use crate::script::{Host, Script};
use crate::stats::{self, Second};
use crate::stop::Interruption;
use crate::{files, page};
use ladoga_tls::client::Trust;

const FAILED: u8 = 1;
/// What the one server is called in a report.
const SUBJECT: &str = "server";
const NOT_ASKED: &str = "ladoga bench asks the server for nothing else; ladoga lab run does";

/// Runs `ladoga bench`. Prints the result on standard output, and errors on standard error.
///
/// Exit codes: 0; 1 if the SLO was missed or nothing could be measured; 2 if the command line or the script is wrong; 130 if
/// Ctrl-C interrupted a run that did not end by itself, which takes less than a second.
pub fn bench(options: &Options) -> ExitCode {
    let checked = options.check().and_then(|()| options.with_trust()).map_err(LabError::Usage);
    match checked.and_then(|options| run(&options)) {
        Ok(code) => code,
        Err(error) => {
            stderr_line(format_args!("ladoga bench: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(options: &Options) -> Outcome<ExitCode> {
    for path in [&options.json, &options.hdr, &options.html].into_iter().flatten() {
        files::check_writable(path)?;
    }
    // wrk ignores them too, and lines that were written for it still work.
    if options.script.is_none() && !options.arguments.is_empty() {
        stderr_line(format_args!("ladoga bench: arguments after the URL are ignored without a script (-s)"));
    }
    let interruption = Interruption::within_a_second()?;
    let stop = &interruption.stop;
    let target = &options.target;
    if target.scheme == Scheme::Https && target.trust == Trust::Anybody {
        stderr_line(format_args!(
            "ladoga bench: any certificate is accepted, as by wrk; --verify or --ca FILE checks it"
        ));
    }
    if let Some(keys) = options.keys_to_fill().filter(|_| options.fill) {
        let value_bytes = options.knobs.value.map(|bytes| bytes as usize);
        let content = Content { target: &options.target, headers: &options.headers, keys, value_bytes };
        stderr_line(format_args!("filling {}: {}, which stay there", options.target.url, content.in_words()));
        if !content.fill(stop)? {
            stderr_line(format_args!(
                "ladoga bench: interrupted while the store was filled; nothing was measured"
            ));
            return Ok(interruption.exit_code());
        }
    }
    if options.find_knee { knee::find(options, &interruption) } else { run_once(options, &interruption) }
}

/// One run, printed as wrk prints it.
fn run_once(options: &Options, interruption: &Interruption) -> Outcome<ExitCode> {
    let stop = &interruption.stop;
    let header = Header {
        duration_ms: options.duration_ms,
        url: &options.target.url,
        threads: options.threads,
        connections: options.connections,
    };
    let mut watchers = BenchWatchers::new(options);
    let mut started_unix_ms = None;
    let mut output = Output::default();
    let mut announce = || {
        started_unix_ms = Some(unix_ms());
        _ = report::print_header(header, &mut output);
    };
    let (outcome, host) = match &options.script {
        Some(path) => {
            let script = Script::read(
                path.clone(),
                options.target.clone(),
                options.headers.clone(),
                options.allow_native,
            )?;
            let (outcome, host) = run_script(options, script, stop, &mut watchers, &mut announce)?;
            (outcome, Some(host))
        }
        None => (
            built_in(options, load::workload(options), options.rate).run(
                stop,
                &mut watchers,
                &mut announce,
            )?,
            None,
        ),
    };
    watchers.live.clear();
    _ = report::print_result(&outcome, options.wants_percentiles(), options.u_latency, &mut output);
    _ = output.flush(); // What `done` prints comes after it.
    // It may ask every thread, and one that was given up does not answer.
    let host = host.filter(|_| outcome.threads_given_up == 0);
    // If it fails, what was measured is written all the same.
    let done = host.map_or(Ok(()), |host| host.done(&outcome));
    _ = report::print_notes(&outcome, options.asked(), &mut io::stderr());
    if let Some(path) = &options.json {
        report::write_json(path, &described(options), &outcome, options.allow_misses)?;
    }
    if let (Some(path), Some(log)) = (&options.hdr, watchers.log) {
        log.write(path, started_unix_ms.unwrap_or_else(unix_ms))?;
    }
    if let (Some(path), Some(heat)) = (&options.html, watchers.heat) {
        let report = report_of(options, &outcome, heat.heat(), started_unix_ms);
        files::replace(path, page::render(&report, None))?;
    }
    let code = if outcome.threads_given_up > 0 { interruption.exit_code() } else { judge(options, &outcome) };
    done?;
    output.finish()?;
    Ok(code)
}

/// The live view, the log and the heat map, which see the same run. What grows with it is kept only if its file is wanted.
struct BenchWatchers {
    live: Live,
    log: Option<HdrLog>,
    heat: Option<HeatRecorder>,
}

impl BenchWatchers {
    fn new(options: &Options) -> Self {
        Self {
            live: Live::new(options.duration_ms),
            log: options.hdr.is_some().then(HdrLog::default),
            heat: options.html.is_some().then(HeatRecorder::default),
        }
    }
}

impl Watcher for BenchWatchers {
    fn second(&mut self, second: &Second, latencies: &Histogram<u64>) {
        self.live.second(second, latencies);
        if let Some(log) = &mut self.log {
            log.second(second, latencies);
        }
    }

    fn interval(&mut self, number: u64, latencies: &Histogram<u64>) {
        if let Some(heat) = &mut self.heat {
            heat.interval(number, latencies);
        }
    }
}

fn described(options: &Options) -> serde_json::Value {
    json!({
        "url": options.target.url,
        "threads": options.threads,
        "connections": options.connections,
        "duration_s": options.duration_ms as f64 / 1000.0,
        "timeout_s": options.timeout_ms as f64 / 1000.0,
        "script": options.script.as_ref().map(|path| path.display().to_string()),
        "workload": options.workload.and_then(|name| Some(name.to_possible_value()?.get_name().to_owned())),
        "command": command_words(),
    })
}

/// A report of this run alone. What the server does meanwhile is for `ladoga lab run` to ask.
fn report_of(
    options: &Options,
    outcome: &stats::RunOutcome,
    heat: Heat,
    started_unix_ms: Option<u64>,
) -> Report {
    let url = &options.target.url;
    let described = Described {
        stage: format!("Load test of {url}"),
        subject: SUBJECT.to_owned(),
        round: 1,
        started_unix_ms,
        connections: options.connections,
        threads: options.threads,
        command: command_line(),
        heat,
        disturbance: Disturbance::default(),
        node: NodeSeries { missing: vec![NOT_ASKED.to_owned()], ..NodeSeries::default() },
        profiles: vec![KindProfile {
            kind: "cpu".to_owned(),
            found: Profiled::Missing(NOT_ASKED.to_owned()),
        }],
        repeat: String::new(),
        conditions: None,
        published: Vec::new(),
        notes: Vec::new(),
        expects_misses: options.allow_misses,
    };
    Report {
        format: FORMAT,
        title: format!("Load test of {url}"),
        command: command_line(),
        started_unix_s: started_unix_ms.unwrap_or_else(unix_ms) / 1000,
        machine: Machine::read(),
        subjects: vec![Subject { name: SUBJECT.to_owned(), what: url.clone(), build: None }],
        runs: vec![run_of(outcome, described)],
        planned: 1,
        is_interrupted: outcome.is_interrupted,
        notes: Vec::new(),
        slo: options.slo.as_ref().map(|slo| slo.judge(outcome, options.allow_misses)).unwrap_or_default(),
    }
}

/// The exit code, and in words which bound broke.
fn judge(options: &Options, outcome: &stats::RunOutcome) -> ExitCode {
    let broken = options.slo.as_ref().map(|slo| slo.check(outcome, options.allow_misses)).unwrap_or_default();
    for bound in &broken {
        stderr_line(format_args!("SLO missed: {bound}"));
    }
    if broken.is_empty() && outcome.complete > 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

fn run_script(
    options: &Options,
    script: Script,
    stop: &Arc<AtomicBool>,
    watcher: &mut dyn Watcher,
    announce: Announce<'_>,
) -> Outcome<(stats::RunOutcome, Host)> {
    let plan = plan(options, options.rate);
    let target = &options.target;
    let mut host = Host::load(script)?;
    if !host.resolve()? {
        announce();
        return Ok((load::unreachable(target, &plan, None), host));
    }
    let mut crew = Crew::muster(plan, host.makers(plan.threads), stop)?;
    let url = OsString::from(&options.target.url);
    host.set_up(&[&[url], &*options.arguments].concat())?;
    crew.wait_ready()?;
    host.check()?;
    announce();
    let outcome = crew.go(watcher)?;
    say_why_no_handshake(target, &outcome)?;
    Ok((outcome, host))
}

/// A script finds its servers itself, without a handshake. If not one answered, the reason may be that.
fn say_why_no_handshake(target: &Target, outcome: &stats::RunOutcome) -> Outcome<()> {
    let Some(tls) = target.tls()?.filter(|_| outcome.complete == 0 && outcome.errors.connect > 0) else {
        return Ok(());
    };
    if let Err(Some(reason)) = load::reachable(&target.resolve()?, Some(&tls)) {
        stderr_line(format_args!("unable to connect to {}: {reason}", target.place()));
    }
    Ok(())
}
