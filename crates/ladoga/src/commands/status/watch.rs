use std::io::Write;
use std::thread;
use std::time::Duration;

use super::super::output;
use super::samples::Samples;
use super::view::View;
use super::{get, table};
use crate::client::{ClientError, Url};
use crate::commands::Failure;
use crate::commands::cluster::{ClusterReport, report};

/// Moves to the top left of a terminal and clears it; what was scrolled out of it stays.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Metrics, and when they were looked at.
struct Look {
    samples: Samples,
    at_ns: u64,
}

/// Shows what a node does, until the process is ended or nobody reads. The node has to be there at the beginning; later it may be away
/// for a while.
pub(super) fn watch(url: &Url, seconds: u32) -> Result<(), Failure> {
    let clock = ladoga_env::real::env()?.clock;
    let look = || Ok(Look { samples: samples(url)?, at_ns: clock.monotonic_ns() });
    let mut before = look()?;
    let is_screen = output().is_terminal();
    loop {
        thread::sleep(Duration::from_secs(u64::from(seconds)));
        let shown = match look() {
            Err(Failure::Failed(reason)) if is_screen => format!("{reason}\n"),
            Err(Failure::Failed(reason)) => format!("failed: {reason}\n"),
            Err(failure) => return Err(failure),
            Ok(now) => {
                let passed_ns = now.at_ns.saturating_sub(before.at_ns).max(1);
                let view =
                    View { before: &before.samples, now: &now.samples, seconds: passed_ns as f64 / 1e9 };
                let shown =
                    if is_screen { screen(url, &view) } else { format!("{}{}\n", view.line(), nodes(url)) };
                before = now;
                shown
            }
        };
        let clear = if is_screen { CLEAR } else { "" };
        let mut out = output();
        out.write_all([clear, &shown].concat().as_bytes())?;
        out.flush()?;
    }
}

fn samples(url: &Url) -> Result<Samples, Failure> {
    let samples = Samples::parse(&get(url, "/metrics")?);
    if samples.are_of_a_node() {
        return Ok(samples);
    }
    let (found, expected) = ("no metric of a node".to_owned(), "some that begin with ladoga_");
    Err(ClientError::NotANode { url: url.clone(), found, expected }.into())
}

fn screen(url: &Url, view: &View<'_>) -> String {
    let cluster = match report(url) {
        Ok(ClusterReport::Of(report)) => table(&report),
        Ok(ClusterReport::Refused(reason)) | Err(Failure::Failed(reason)) => format!("  {reason}\n"),
        Ok(ClusterReport::Alone) | Err(_) => String::new(),
    };
    let seconds = view.seconds;
    format!("{url}, the last {seconds:.1} s (Ctrl-C ends)\n\n{}{cluster}", view.screen())
}

/// How many nodes of the cluster there are, and how many of them answer this one; nothing if it stands alone or
/// does not say.
fn nodes(url: &Url) -> String {
    let Ok(ClusterReport::Of(report)) = report(url) else { return String::new() };
    let nodes = report["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let up = nodes.iter().filter(|node| matches!(node["state"].as_str(), Some("self" | "up"))).count();
    format!(" nodes_up={up} nodes={}", nodes.len())
}
