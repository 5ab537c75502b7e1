//! `ladoga profile`: a profile of a running node, and what two of them differ by.
//!
//! - `part`: the file that it is kept in
//! - `diff`: two of them

mod diff;
mod part;

use std::convert::Infallible;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ladoga_profiler::{Format, Kind, ProfileError};

use super::{Failure, complain, counted, node_url, output};
use crate::arguments::{ProfileArguments, ProfileCommand};
use crate::client::{Request, Url};
use crate::settings::alloc_interval;
use diff::diff;
use part::Part;

/// More than any profile of four hours has; whatever sends more is no node.
const PROFILE_BYTES_MAX: usize = 1 << 30;
/// A profile that has not come so long after its time does not come any more. A node needs a while to write what it has seen.
const LATE_MAX: Duration = Duration::from_mins(2);
const OK: u16 = 200;
/// The statuses with which a node refuses a profile and gives a reason.
const REFUSALS: [u16; 10] = [400, 401, 403, 408, 409, 429, 431, 500, 501, 503];
/// Every profile of a node has it, and nothing else.
const PROFILE_HEADER: &str = "ladoga-profile";

/// Takes a profile, or compares two.
pub(crate) fn profile(arguments: &ProfileArguments) -> Result<(), Failure> {
    match (&arguments.command, &arguments.output) {
        (Some(ProfileCommand::Diff(arguments)), _) => diff(arguments),
        (None, Some(path)) => take(arguments, path),
        (None, None) => unreachable!("it is required where there is no other command"),
    }
}

/// Makes a node profile itself, and writes each profile to a file whose ending gives the format.
fn take(arguments: &ProfileArguments, path: &Path) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    let kinds = parse_kinds(arguments)?;
    let format = Format::of_path(path).map_err(|error| Failure::Usage(format!("-o: {error}")))?;
    let paths: Vec<PathBuf> = kinds.iter().map(|kind| path_of(path, format, *kind, kinds.len())).collect();
    let targets = targets(&kinds, format, arguments)?;
    for path in &paths {
        Part::check(path)?; // Before the wait, not after it.
    }
    let taken = record(&url, &kinds, targets, arguments.seconds)?;
    let mut out = output();
    for ((kind, path), Taken { samples, bytes }) in kinds.iter().zip(&paths).zip(taken) {
        let mut part = Part::create(path)?;
        part.write(&bytes)?;
        part.finish()?;
        let (seconds, kib) = (arguments.seconds, bytes.len() >> 10);
        let article = if *kind == Kind::Alloc { "an" } else { "a" };
        let samples_taken = counted(samples as u64, "sample");
        let taken = format!("{article} {kind} profile of {seconds} s, {samples_taken}, {kib} KiB");
        writeln!(out, "{}: {taken}", path.display())?;
        if let Some(warning) = kind.warning(samples) {
            complain(format_args!("warning: {}: {warning}", path.display()));
        }
    }
    Ok(())
}

fn parse_kinds(arguments: &ProfileArguments) -> Result<Vec<Kind>, Failure> {
    let usage = |reason: String| Failure::Usage(format!("--kind: {reason}"));
    let mut kinds: Vec<Kind> = Vec::new();
    for name in &arguments.kind {
        let kind = name.parse().map_err(|error: ProfileError| usage(error.to_string()))?;
        if kinds.contains(&kind) {
            return Err(usage(format!("{kind} is given twice")));
        }
        kinds.push(kind);
    }
    let others = [
        ("--hz", arguments.hz.is_some(), Kind::Cpu),
        ("--alloc-interval", arguments.alloc_interval.is_some(), Kind::Alloc),
    ];
    if let Some((flag, _, of)) = others.iter().find(|(_, is_given, of)| *is_given && !kinds.contains(of)) {
        return Err(Failure::Usage(format!("{flag} is for {of} only, and --kind does not name it")));
    }
    Ok(kinds)
}

/// Where a profile of a kind is kept: with its kind before the ending if there are several.
fn path_of(path: &Path, format: Format, kind: Kind, kinds: usize) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.strip_suffix(format.ending()) {
        Some(stem) if kinds > 1 => path.with_file_name(format!("{stem}.{kind}{}", format.ending())),
        _ => path.to_owned(),
    }
}

/// A profile as the node sent it.
struct Taken {
    samples: usize,
    bytes: Vec<u8>,
}

/// All kinds at the same time. The first failure is returned at once, without waiting for the others.
fn record(url: &Url, kinds: &[Kind], targets: Vec<String>, seconds: u32) -> Result<Vec<Taken>, Failure> {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let progress = Progress::begin(format!("a profile of {url} ({})", names.join(", ")), seconds);
    let (taken_in, taken) = mpsc::channel();
    for (index, (kind, target)) in kinds.iter().zip(targets).enumerate() {
        let (url, kind, taken_in) = (url.clone(), *kind, taken_in.clone());
        thread::spawn(move || taken_in.send((index, ask(&url, kind, target, seconds))));
    }
    drop(taken_in);
    let mut found: Vec<Option<Taken>> = kinds.iter().map(|_| None).collect();
    for (index, outcome) in taken {
        found[index] = Some(outcome?);
    }
    drop(progress);
    let lost = || Failure::Failed("a thread that asked for a profile failed unexpectedly".to_owned());
    found.into_iter().map(|taken| taken.ok_or_else(lost)).collect()
}

/// What the node is asked for, of each kind.
fn targets(kinds: &[Kind], format: Format, arguments: &ProfileArguments) -> Result<Vec<String>, Failure> {
    let interval = arguments.alloc_interval.as_deref().map(alloc_interval).transpose();
    let interval = interval.map_err(|reason| Failure::Usage(format!("--alloc-interval: {reason}")))?;
    let of_kind = |kind: Kind| match kind {
        Kind::Cpu => arguments.hz.map(|hz| format!("&hz={hz}")),
        Kind::Alloc => interval.map(|bytes| format!("&alloc_interval={bytes}")),
        Kind::Lock => None,
    };
    let target = |kind: &Kind| {
        let more = of_kind(*kind).unwrap_or_default();
        format!("/debug/profile/{kind}?seconds={}&format={format}{more}", arguments.seconds)
    };
    Ok(kinds.iter().map(target).collect())
}

fn ask(url: &Url, kind: Kind, target: String, seconds: u32) -> Result<Taken, Failure> {
    let patience = Duration::from_secs(seconds.into()) + LATE_MAX;
    let request = Request { method: "GET", target, fields: Vec::new(), body: None };
    let response = request.send_with_patience(url, Some(patience))?;
    let status = response.status;
    if status != OK && REFUSALS.contains(&status) {
        return Err(Failure::refused(response));
    }
    let samples = response
        .header(PROFILE_HEADER)
        .and_then(|said| said.strip_prefix(kind.name())?.strip_prefix("; samples=")?.parse().ok());
    let (OK, Some(samples)) = (status, samples) else {
        let found =
            format!("an answer to GET /debug/profile/{kind} with {status} and no header {PROFILE_HEADER}");
        return Err(response.not_a_node(found, "a profile").into());
    };
    let mut bytes = Vec::new();
    response.body(|piece| {
        bytes.extend_from_slice(piece);
        if bytes.len() > PROFILE_BYTES_MAX {
            let limit = format!("{url} sent more than {PROFILE_BYTES_MAX} bytes, expected a profile");
            return Err(Failure::Failed(limit));
        }
        Ok(())
    })?;
    Ok(Taken { samples, bytes })
}

/// A line with the remaining time, on a terminal only. Dropped, it is erased.
struct Progress {
    stop: Option<Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    fn begin(what: String, seconds: u32) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress { stop: None, thread: None };
        }
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || tell(&what, seconds, &stopped));
        Progress { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // It can do nothing but print.
            let _ = thread.join();
        }
    }
}

fn tell(what: &str, seconds: u32, stopped: &Receiver<Infallible>) {
    let mut passed = 0;
    loop {
        let state = match seconds.saturating_sub(passed) {
            0 => "the node looks up the names".to_owned(),
            left => format!("{left} s left"),
        };
        // If it cannot be printed, nothing is lost.
        let _ = write!(io::stderr(), "\r{what}: {state}\x1b[K");
        if stopped.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
            let _ = write!(io::stderr(), "\r\x1b[K");
            return;
        }
        passed += 1;
    }
}
