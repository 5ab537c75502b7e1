//! `ladoga profile`: a profile of a running node, and what two of them differ by.
//!
//! - `part`: the file that it is kept in
//! - `diff`: two of them

mod diff;
mod part;

use std::convert::Infallible;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ladoga_profiler::{Format, Kind};

use super::{Failure, parse_url};
use crate::arguments::{ProfileArguments, ProfileCommand};
use crate::client::{Request, Url};
use diff::diff;
use part::Part;

/// More than any profile of 600 seconds has; whoever sends more is no node.
const PROFILE_BYTES_MAX: usize = 1 << 30;
const OK: u16 = 200;

/// Takes a profile, or compares two.
pub(crate) fn profile(arguments: &ProfileArguments) -> Result<(), Failure> {
    match (&arguments.command, &arguments.output) {
        (Some(ProfileCommand::Diff(arguments)), _) => diff(arguments),
        (None, Some(path)) => take(arguments, path),
        (None, None) => unreachable!("it is required where there is no other command"),
    }
}

/// Has a node take a profile of itself, and keeps it in a file whose ending says how it is written.
fn take(arguments: &ProfileArguments, path: &Path) -> Result<(), Failure> {
    let url = parse_url(&arguments.node.url)?;
    let kind: Kind = arguments.kind.parse().map_err(|error| Failure::Usage(format!("--kind: {error}")))?;
    let format = Format::of_path(path).map_err(|error| Failure::Usage(format!("-o: {error}")))?;
    // Before the wait, not after it.
    drop(Part::create(path)?);
    let bytes = ask(&url, kind, format, arguments)?;
    let mut part = Part::create(path)?;
    part.write(&bytes)?;
    part.finish()?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{}: a {kind} profile of {} s, {} KiB",
        path.display(),
        arguments.seconds,
        bytes.len() >> 10
    )?;
    Ok(())
}

fn ask(url: &Url, kind: Kind, format: Format, arguments: &ProfileArguments) -> Result<Vec<u8>, Failure> {
    let seconds = arguments.seconds;
    let hz = arguments.hz.map_or_else(String::new, |hz| format!("&hz={hz}"));
    let target = format!("/debug/profile/{kind}?seconds={seconds}&format={format}{hz}");
    let progress = Progress::begin(format!("a {kind} profile of {url}"), seconds);
    let response = Request { method: "GET", target, body: None }.send(url)?;
    if response.status != OK {
        drop(progress);
        return Err(Failure::Failed(response.line()));
    }
    let mut bytes = Vec::new();
    response.body(|piece| {
        bytes.extend_from_slice(piece);
        if bytes.len() > PROFILE_BYTES_MAX {
            let limit = format!("{url} sent more than {PROFILE_BYTES_MAX} bytes, expected a profile");
            return Err(Failure::Failed(limit));
        }
        Ok(())
    })?;
    Ok(bytes)
}

/// A line that says how long it still takes, on a terminal only. Dropped, it is wiped.
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
        // Who cannot be told does not miss it.
        let _ = write!(io::stderr(), "\r{what}: {state}\x1b[K");
        if stopped.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
            let _ = write!(io::stderr(), "\r\x1b[K");
            return;
        }
        passed += 1;
    }
}
