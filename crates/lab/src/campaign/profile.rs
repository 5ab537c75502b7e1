//! Profiles of the server: its own profiler is asked for the time of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ladoga_profiler::{FREQUENCY_HZ_MIN, Kind};

use crate::cli::Target;
use crate::page::between;
use crate::record::{KindProfile, Profiled};

use super::client::{self, Answer};

/// Longer runs are sampled at the lowest frequency.
const LONG_SECONDS: u64 = 1_000;
/// How long writing the profile may take after it has ended.
const RENDER_TIME: Duration = Duration::from_mins(1);
/// The page of the node's heat map has its samples as JSON in here.
const DATA_BEGIN: &str = "type=\"application/json\">";
const DATA_END: &str = "</script>";

/// Profiles that go on, one of each kind.
pub(super) struct Profiling {
    give_up: Arc<AtomicBool>,
    threads: Vec<(Kind, JoinHandle<Profiled>)>,
}

impl Profiling {
    /// Asks for profiles of a run of so many milliseconds that begins now: each a kind, and its other parameters. They begin a moment
    /// later, and so end, and are written, after the run.
    pub(super) fn start(target: &Target, duration_ms: u64, profiles: &[(Kind, String)]) -> Self {
        let give_up = Arc::new(AtomicBool::new(false));
        let seconds = duration_ms.div_ceil(1000);
        let thread = |(kind, parameters): &(Kind, String)| {
            let path = path_of(*kind, seconds, parameters);
            let (target, given_up) = (target.clone(), Arc::clone(&give_up));
            (*kind, std::thread::spawn(move || fetch(&target, &path, seconds, &given_up)))
        };
        let threads = profiles.iter().map(thread).collect();
        Self { give_up, threads }
    }

    /// Waits for the profiles; those of a run that was interrupted are given up.
    pub(super) fn finish(self, is_interrupted: bool) -> Vec<KindProfile> {
        if is_interrupted {
            self.give_up.store(true, Ordering::Relaxed);
        }
        let found = |(kind, thread): (Kind, JoinHandle<Profiled>)| {
            let found = thread
                .join()
                .unwrap_or_else(|_| Profiled::Missing("fetching it failed unexpectedly".to_owned()));
            KindProfile { kind: kind.name().to_owned(), found }
        };
        self.threads.into_iter().map(found).collect()
    }
}

fn fetch(target: &Target, path: &str, seconds: u64, give_up: &AtomicBool) -> Profiled {
    let deadline = Duration::from_secs(seconds) + RENDER_TIME;
    match client::get(target, path, deadline, give_up) {
        Ok(answer) => of_answer(path, &answer),
        Err(_) if give_up.load(Ordering::Relaxed) => Profiled::Missing("the run was interrupted".to_owned()),
        Err(error) => Profiled::Missing(format!("GET {path} failed: {error}")),
    }
}

/// A profile of hours is sampled less often, so that its samples have room and its page can be opened.
fn path_of(kind: Kind, seconds: u64, parameters: &str) -> String {
    let hz = if kind == Kind::Cpu && seconds > LONG_SECONDS {
        format!("&hz={FREQUENCY_HZ_MIN}")
    } else {
        String::new()
    };
    format!("/debug/profile/{kind}?seconds={seconds}&format=heatmap{hz}{parameters}")
}

fn of_answer(path: &str, answer: &Answer) -> Profiled {
    let text = answer.text();
    if answer.status != 200 {
        let reason = text.lines().next().unwrap_or_default().to_owned();
        return Profiled::Missing(format!("GET {path} was answered with {}: {reason}", answer.status));
    }
    let data = between(&text, DATA_BEGIN, DATA_END).and_then(|data| serde_json::from_str(data).ok());
    match data {
        Some(data) => Profiled::Samples { offset_ms: 0.0, data },
        None => Profiled::Missing(format!("GET {path} was answered with something else than a heat map")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Profiled {
        of_answer("/p", &Answer { status, body: body.as_bytes().to_vec() })
    }

    #[test]
    fn samples_are_taken_out_of_the_page() {
        let page =
            "<html><script id=\"data\" type=\"application/json\">{\"cells\":5}</script><script>x</script>";
        assert_eq!(
            of(200, page),
            Profiled::Samples { offset_ms: 0.0, data: serde_json::json!({ "cells": 5 }) }
        );
    }

    #[test]
    fn a_run_of_hours_is_sampled_less_often() {
        assert_eq!(path_of(Kind::Cpu, 10, ""), "/debug/profile/cpu?seconds=10&format=heatmap");
        assert_eq!(path_of(Kind::Cpu, 7_200, ""), "/debug/profile/cpu?seconds=7200&format=heatmap&hz=99");
        assert_eq!(
            path_of(Kind::Alloc, 7_200, "&x=1"),
            "/debug/profile/alloc?seconds=7200&format=heatmap&x=1"
        );
    }

    #[test]
    fn a_server_without_a_profiler_is_a_reason() {
        let missing = |profiled| match profiled {
            Profiled::Missing(reason) => reason,
            Profiled::Samples { .. } => panic!("there are none"),
        };
        assert_eq!(missing(of(404, "no such path\n")), "GET /p was answered with 404: no such path");
        assert!(missing(of(200, "hello")).contains("something else than a heat map"));
    }
}
