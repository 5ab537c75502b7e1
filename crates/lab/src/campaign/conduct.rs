//! One run after the other: prepare the store, run, write the report.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::options::RunOptions;
use super::process;
use super::progress::{self, Progress};
use super::report_file::ReportFile;
use super::server::{OwnNode, described_dir, wait_until_quiet};
use super::stage::{Stage, Store};
use super::suite::{remarks, stages};
use super::watched_run::watched_run;
use super::written;
use crate::cli::{Target, Token, command_line};
use crate::clock::{Clock, unix_ms};
use crate::compare;
use crate::error::{LabError, Outcome};
use crate::files;
use crate::fill::Content;
use crate::load::{Load, address_of};
use crate::output::{Output, stderr_line};
use crate::record::{Described, FORMAT, Machine, OWN, Report, Run, Subject, run_of};
use crate::scratch::Scratch;
use crate::stop::Interruption;
use crate::workload::Workload;

/// The exit code if everything was measured, and all requests of a run failed.
const NO_GOOD_ANSWER: u8 = 3;
const PEER: &str = "peer";

/// Makes every run that the options ask for.
pub(super) fn run(options: &RunOptions) -> Outcome<ExitCode> {
    let stages = stages(options);
    if stages.is_empty() {
        let only = options.only.as_deref().unwrap_or_default();
        return Err(LabError::Usage(format!("no run has a name that contains '{only}'")));
    }
    files::check_writable(&options.output)?;
    // Each node gets a directory in there, and the first one may begin late.
    if let Some(dir) = options.node.dir.as_ref().filter(|_| options.url.is_none()) {
        let made = Scratch::new(dir, 0);
        drop(made.map_err(|source| LabError::Write { path: dir.clone(), source })?);
    }
    let remarks = process::remarks(options)?;
    // The other server is somebody else, and is shown nothing.
    let token = Token::find(options.token_file.as_deref()).map_err(LabError::Usage)?;
    for server in [&options.url, &options.peer].into_iter().flatten() {
        address_of(server)?;
    }
    let interruption = Interruption::until_a_second_wish()?;
    let url = options.url.clone().map(|url| Target { token, ..url });
    let mut conductor = Conductor::new(options, url, &stages, &interruption.stop);
    let said = written::announcement(options, &stages).into_iter().chain(written::unchecked(options));
    let said: Vec<String> = said.collect();
    remarks.iter().chain(&said).for_each(|remark| stderr_line(format_args!("note: {remark}")));
    conductor.report.notes.splice(..0, remarks);
    let result = conductor.conduct(&stages);
    let ended = conductor.end();
    let Conductor { report, mut output, file, .. } = conductor;
    let made = report.made();
    // A report that could not be written says why itself, and the file has what it had before.
    let is_written = !matches!(&result, Err(LabError::Write { path, .. }) if *path == options.output);
    if result.is_err() && is_written && !report.runs.is_empty() {
        stderr_line(format_args!("{} has what was measured: {made}", options.output.display()));
    }
    let has_failed = result.is_err();
    // Profiles are compared for a while, and whoever waits is to hear before that what went wrong.
    let failure = result.and(ended).err().map(|error| progress::failure(&error));
    // Also if a run failed: what was written after the last one may have no comparison.
    let compared = if is_written { file.complete(&report, has_failed) } else { Ok(None) };
    if let Some(code) = failure {
        return Ok(code);
    }
    let compared = compared?;
    if report.is_interrupted {
        stderr_line(format_args!("interrupted: {made} were made"));
    }
    if report.runs.is_empty() {
        return Ok(interruption.exit_code()); // Whatever else leaves none is an error.
    }
    if let Some(compared) = &compared {
        output.line(format_args!(""));
        compare::print(compared, &mut output);
    }
    output.line(format_args!("\nThe report is {}.", options.output.display()));
    if report.is_interrupted {
        output.finish()?;
        return Ok(interruption.exit_code());
    }
    let failed: Vec<&Run> = report.runs.iter().filter(|run| !run.has_good_answer()).collect();
    for run in &failed {
        let Run { stage, subject, round, .. } = run;
        stderr_line(format_args!("no request had a good answer: {stage}, {subject}, round {round}"));
    }
    output.finish()?;
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(NO_GOOD_ANSWER) })
}

/// A server, and what is known of its store.
struct Server {
    name: &'static str,
    /// None for a node of our own that is not started yet.
    target: Option<Target>,
    pid: Option<u32>,
    node: Option<OwnNode>,
    /// Which store it has, if it is our own, and how many keys are in there for sure.
    store: Option<Store>,
    filled: u64,
    /// The number of the first key that has not been written.
    next_key: u64,
    /// Whether anything was written since it was last seen quiet, as far as is known.
    has_written: bool,
}

impl Server {
    fn named(name: &'static str, target: Option<Target>, pid: Option<u32>) -> Self {
        Self { name, target, pid, node: None, store: None, filled: 0, next_key: 0, has_written: true }
    }
}

struct Conductor<'a> {
    options: &'a RunOptions,
    stop: &'a Arc<AtomicBool>,
    servers: Vec<Server>,
    nodes_started: u32,
    report: Report,
    file: ReportFile<'a>,
    progress: Progress,
    output: Output,
    clock: Clock,
}

impl<'a> Conductor<'a> {
    fn new(
        options: &'a RunOptions,
        url: Option<Target>,
        stages: &[Stage],
        stop: &'a Arc<AtomicBool>,
    ) -> Self {
        let mut servers = vec![Server::named(OWN, url, options.pid)];
        if let Some(peer) = &options.peer {
            servers.push(Server::named(PEER, Some(peer.clone()), options.peer_pid));
        }
        let times = servers.len() * options.rounds() as usize;
        let durations = stages.iter().map(|stage| stage.duration_ms).cycle().take(stages.len() * times);
        let progress = Progress::new(durations);
        let report = Report {
            format: FORMAT,
            title: match options.suite {
                Some(_) => "The published load tests, here".to_owned(),
                None => "Load test".to_owned(),
            },
            command: command_line(),
            started_unix_s: unix_ms() / 1000,
            machine: Machine::read(),
            subjects: Vec::new(),
            runs: Vec::new(),
            planned: stages.len() * times,
            is_interrupted: false,
            notes: remarks(options),
            slo: Vec::new(),
        };
        Self {
            options,
            stop,
            servers,
            nodes_started: 0,
            report,
            file: ReportFile::new(&options.output),
            progress,
            output: Output::default(),
            clock: Clock::start(),
        }
    }

    fn conduct(&mut self, stages: &[Stage]) -> Outcome<()> {
        self.output.line(format_args!("{}", progress::head()));
        for round in 1..=self.options.rounds() as u32 {
            for stage in stages {
                // A B, then B A: what drifts does so for both.
                let mut order: Vec<usize> = (0..self.servers.len()).collect();
                if round % 2 == 0 {
                    order.reverse();
                }
                for server in order {
                    match self.one(stage, server, round) {
                        // A node that was starting when it was interrupted.
                        Err(LabError::GivenUp) if self.stop.load(Ordering::Relaxed) => {}
                        made => made?,
                    }
                    if self.stop.load(Ordering::Relaxed) {
                        self.report.is_interrupted = true;
                        return if self.report.runs.is_empty() {
                            Ok(())
                        } else {
                            self.file.write(&self.report)
                        };
                    }
                }
            }
        }
        Ok(())
    }

    fn one(&mut self, stage: &Stage, server: usize, round: u32) -> Outcome<()> {
        let title = self.title(stage, server, round);
        stderr_line(format_args!("{}", self.progress.line(&title, self.clock.now_ns() / 1_000_000)));
        self.prepare(stage, server)?;
        if self.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut run = self.measure(stage, server, round)?;
        let ended = self.servers[server].node.as_mut().map_or(Ok(None), OwnNode::ended)?;
        run.is_interrupted |= ended.is_some();
        self.output.line(format_args!("{}", progress::row(&title, &run)));
        for note in progress::notes(&run, self.report.machine.cores) {
            stderr_line(format_args!("note: {note}"));
        }
        self.report.runs.push(run);
        self.progress.done(stage.duration_ms);
        self.file.write(&self.report)?;
        match (ended, &self.servers[server].node) {
            // What would be measured from here on is its absence.
            (Some(status), Some(node)) => Err(node.failed(&format!("ended with {status} during {title}"))),
            _ => Ok(()),
        }
    }

    fn title(&self, stage: &Stage, server: usize, round: u32) -> String {
        let mut title = stage.name.clone();
        if self.servers.len() > 1 {
            title = format!("{title}, {}", self.servers[server].name);
        }
        if self.options.rounds() > 1 {
            title = format!("{title}, round {round}");
        }
        title
    }

    /// Starts a node if there is none, and fills the store.
    fn prepare(&mut self, stage: &Stage, server: usize) -> Outcome<()> {
        let is_own = server == 0 && self.options.url.is_none();
        if is_own && self.servers[server].store.is_none_or(|store| !stage.can_use(store)) {
            self.start_node(stage)?;
        }
        self.describe(server);
        let server = &mut self.servers[server];
        let Some(target) = &server.target else { unreachable!("a node was started or a server was named") };
        if let Some(keys) = stage.filled.filter(|keys| *keys > server.filled) {
            let value_bytes = stage.value.map(|bytes| bytes as usize);
            server.has_written = true;
            if (Content { target, headers: &[], keys, value_bytes }).fill(self.stop)? {
                server.filled = keys;
                server.next_key = server.next_key.max(keys);
            }
        }
        if let Some(pid) = server.pid
            && !wait_until_quiet(pid, server.has_written, self.stop)
            && !self.stop.load(Ordering::Relaxed)
        {
            let name = server.name;
            stderr_line(format_args!("note: {name} was still busy in the background when the run began"));
        }
        server.has_written = !stage.workload.is_reading();
        if let Some(store) = &mut server.store {
            store.is_changed |= server.has_written;
        }
        Ok(())
    }

    fn start_node(&mut self, stage: &Stage) -> Outcome<()> {
        if let Some(node) = self.servers[0].node.take() {
            node.end()?;
        }
        self.nodes_started += 1;
        let node =
            OwnNode::start(&self.options.own_node(), stage.node_threads, self.nodes_started, self.stop)?;
        if node.is_in_memory() {
            let note =
                "The node's data was in memory (tmpfs), where a sync costs nothing: --dir names a disk.";
            if !self.report.notes.iter().any(|known| known == note) {
                stderr_line(format_args!("note: {note}"));
                self.report.notes.insert(0, note.to_owned());
            }
        }
        self.servers[0] = Server {
            target: Some(node.target.clone()),
            pid: Some(node.pid()),
            store: Some(Store { number: stage.store, is_changed: false }),
            node: Some(node),
            ..Server::named(OWN, None, None)
        };
        Ok(())
    }

    /// Says once what each server is.
    fn describe(&mut self, server: usize) {
        let server = &self.servers[server];
        if self.report.subjects.iter().any(|subject| subject.name == server.name) {
            return;
        }
        let what = match (&server.node, &server.target) {
            (Some(node), _) => {
                format!("{}, its data in {}", node.line, described_dir(self.options.node.dir.as_ref()))
            }
            (None, Some(target)) => target.url.clone(),
            (None, None) => unreachable!("a node was started or a server was named"),
        };
        let build = server.pid.and_then(|pid| files::digest(format!("/proc/{pid}/exe").as_ref()).ok());
        self.report.subjects.push(Subject { name: server.name.to_owned(), what, build });
    }

    fn measure(&mut self, stage: &Stage, index: usize, round: u32) -> Outcome<Run> {
        let server = &self.servers[index];
        let Some(target) = server.target.clone() else { unreachable!("prepared before") };
        let workload =
            Workload::new(stage.workload, &stage.knobs(), stage.connections).starting_at(server.next_key);
        let load = Load {
            target: &target,
            headers: &[],
            workload: Some(workload.clone()),
            value_bytes: stage.value.map(|bytes| bytes as usize),
            plan: stage.plan(),
        };
        let kinds = self.options.profiles();
        let watched = watched_run(&load, server.pid, &kinds, self.stop)?;
        let server = &mut self.servers[index];
        server.next_key = server.next_key.max(workload.key_after());
        if stage.is_deleting() {
            server.filled = 0;
        }
        let url = server.node.is_none().then_some(target.url.as_str());
        let described = Described {
            stage: stage.name.clone(),
            subject: server.name.to_owned(),
            round,
            started_unix_ms: watched.started_unix_ms,
            connections: stage.connections,
            threads: stage.threads,
            command: stage.command(self.options, url),
            repeat: stage.repeat(self.options, url),
            heat: watched.heat,
            disturbance: watched.disturbance,
            node: watched.node,
            profiles: watched.profiles,
            conditions: stage.conditions.clone(),
            published: stage.published.clone(),
            notes: stage.notes.clone(),
            expects_misses: stage.expects_misses,
        };
        Ok(run_of(&watched.outcome, described))
    }

    fn end(&mut self) -> Outcome<()> {
        match self.servers[0].node.take() {
            Some(node) => node.end(),
            None => Ok(()),
        }
    }
}
