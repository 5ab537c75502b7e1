//! One run, with all that watches it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hdrhistogram::Histogram;
use ladoga_profiler::Kind;

use super::disturbance::Meter;
use super::profile::Profiling;
use super::sampler::Sampler;
use crate::clock::unix_ms;
use crate::engine::Watcher;
use crate::error::Outcome;
use crate::load::Load;
use crate::record::{Disturbance, Heat, HeatRecorder, KindProfile, NodeSeries};
use crate::report::Live;
use crate::stats::{RunOutcome, Second};

/// A run, and what was seen of it.
pub(super) struct Watched {
    pub(super) outcome: RunOutcome,
    pub(super) started_unix_ms: Option<u64>,
    pub(super) heat: Heat,
    pub(super) disturbance: Disturbance,
    pub(super) node: NodeSeries,
    pub(super) profiles: Vec<KindProfile>,
}

/// Makes it. What is measured begins once all connections are made, and ends before the server writes down what it is asked for.
pub(super) fn watched_run(
    load: &Load<'_>,
    server: Option<u32>,
    profiles: &[(Kind, String)],
    stop: &Arc<AtomicBool>,
) -> Outcome<Watched> {
    let duration_ms = load.plan.duration_ns / 1_000_000;
    let (mut profiling, mut started_unix_ms) = (None, None);
    // It looks at all processes, which takes a while: not between the beginnings, or the ends, of what is measured.
    let meter = Meter::start(server);
    let sampler = RefCell::new(Sampler::start(load.target, server));
    let mut watchers =
        Watchers { live: Live::new(duration_ms), heat: HeatRecorder::default(), sampler: &sampler };
    let outcome = load.run(stop, &mut watchers, &mut || {
        started_unix_ms = Some(unix_ms());
        profiling = Some(Profiling::start(load.target, duration_ms, profiles));
        sampler.borrow_mut().begin();
    });
    // Of a run that failed, nobody said that it has ended.
    sampler.borrow_mut().end();
    let disturbance = meter.finish();
    let Watchers { live, heat, .. } = watchers;
    live.clear();
    let sampled = sampler.into_inner().finish();
    let is_cut = outcome.as_ref().map_or(true, |outcome| outcome.is_interrupted || outcome.complete == 0);
    let profiles = profiling.map_or_else(Vec::new, |profiling| profiling.finish(is_cut));
    let outcome = outcome?;
    let node = sampled.of_run(outcome.elapsed_ns as f64 / 1e9);
    let heat = heat.heat();
    Ok(Watched { outcome, started_unix_ms, heat, disturbance, node, profiles })
}

/// The live view, the heat map and the samples of the server, which see the same run.
struct Watchers<'a> {
    live: Live,
    heat: HeatRecorder,
    sampler: &'a RefCell<Sampler>,
}

impl Watcher for Watchers<'_> {
    fn second(&mut self, second: &Second, latencies: &Histogram<u64>) {
        self.live.second(second, latencies);
    }

    fn interval(&mut self, number: u64, latencies: &Histogram<u64>) {
        self.heat.interval(number, latencies);
    }

    fn ended(&mut self) {
        self.sampler.borrow_mut().end();
    }
}

#[cfg(test)]
#[path = "watched_run_tests.rs"]
mod tests;
