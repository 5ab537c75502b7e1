//! What the load generator found, as a report keeps it.

use hdrhistogram::Histogram;

use super::{
    AnswerCount, Conditions, Disturbance, Generator, Heat, KindProfile, Latency, NodeSeries, Published, Run,
    SecondRow, Unit,
};
use crate::http::Method;
use crate::report::limit_in_words;
use crate::stats::{Class, Latencies, RunOutcome};

/// What the load generator itself does not know of a run.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) stage: String,
    pub(crate) subject: String,
    pub(crate) round: u32,
    pub(crate) started_unix_ms: Option<u64>,
    pub(crate) connections: u64,
    pub(crate) threads: u64,
    pub(crate) command: String,
    pub(crate) repeat: String,
    pub(crate) heat: Heat,
    /// Without the share of steal.
    pub(crate) disturbance: Disturbance,
    pub(crate) node: NodeSeries,
    pub(crate) profiles: Vec<KindProfile>,
    pub(crate) conditions: Option<Conditions>,
    /// Without our figures.
    pub(crate) published: Vec<Published>,
    pub(crate) notes: Vec<String>,
    pub(crate) expects_misses: bool,
}

pub(crate) fn run_of(outcome: &RunOutcome, described: Described) -> Run {
    let all = outcome.all();
    let counted = |class: String, count, latencies: &Latencies| AnswerCount {
        class,
        count,
        latency: latency_of(&latencies.corrected),
    };
    let found = &outcome.latencies;
    let answer = |class: Class| counted(class.to_string(), outcome.count(class), &found.of(class));
    let answers = found.classes().into_iter().map(answer);
    let method = |method: Method| {
        counted(method.name().to_owned(), found.count_of_method(method), &found.of_method(method))
    };
    let methods = found.methods().into_iter().map(method).collect();
    let mut node = described.node;
    if outcome.complete > 0 {
        // Until now it is the CPU time of the whole run.
        node.cpu_us_per_request = node.cpu_us_per_request.map(|micros| micros / outcome.complete as f64);
    } else {
        node.cpu_us_per_request = None;
    }
    let latency = latency_of(&all.corrected);
    let mut published = described.published;
    for figure in &mut published {
        figure.ours = ours(figure, latency, outcome);
    }
    Run {
        stage: described.stage,
        subject: described.subject,
        round: described.round,
        started_unix_ms: described.started_unix_ms,
        rate: outcome.rate,
        connections: described.connections,
        threads: described.threads,
        command: described.command,
        repeat: described.repeat,
        elapsed_s: outcome.elapsed_ns as f64 / 1e9,
        is_interrupted: outcome.is_interrupted,
        requests: outcome.complete,
        per_second: outcome.per_second(),
        answers: answers.collect(),
        methods,
        connect_errors: outcome.errors.connect,
        unanswered: outcome.unanswered,
        lost: Some(outcome.lost()),
        behind: Some(outcome.due().behind),
        latency,
        uncorrected: latency_of(&all.uncorrected),
        spectrum: spectrum_of(&all.corrected),
        seconds: seconds_of(outcome),
        heat: described.heat,
        generator: Generator {
            lateness_p99: (!outcome.lateness.is_empty())
                .then(|| outcome.lateness.value_at_percentile(99.0) as f64 / 1000.0),
            cpu_us_per_request: (outcome.complete > 0)
                .then(|| outcome.cpu_ns as f64 / 1000.0 / outcome.complete as f64),
            limits: outcome.limits().into_iter().map(limit_in_words).collect(),
        },
        disturbance: Disturbance { steal_share: outcome.steal_share, ..described.disturbance },
        node,
        profiles: described.profiles,
        conditions: described.conditions,
        published,
        notes: described.notes,
        expects_misses: described.expects_misses,
    }
}

fn ours(figure: &Published, latency: Option<Latency>, outcome: &RunOutcome) -> Option<f64> {
    let of: fn(Latency) -> f64 = match (figure.unit, figure.figure.as_str()) {
        (Unit::PerSecond, _) => return Some(outcome.per_second()),
        (Unit::Micros, "p50") => |latency| latency.p50,
        (Unit::Micros, "p90") => |latency| latency.p90,
        (Unit::Micros, "p99") => |latency| latency.p99,
        (Unit::Micros, "p99.9") => |latency| latency.p999,
        (Unit::Micros, "p99.99") => |latency| latency.p9999,
        (Unit::Micros, "max") => |latency| latency.max,
        (Unit::Micros, other) => {
            unreachable!("no published figure is called {other}: a test reads all of them")
        }
    };
    latency.map(of)
}

fn latency_of(latencies: &Histogram<u64>) -> Option<Latency> {
    if latencies.is_empty() {
        return None;
    }
    let at = |percentile| latencies.value_at_percentile(percentile) as f64 / 1000.0;
    Some(Latency {
        mean: latencies.mean() / 1000.0,
        p50: at(50.0),
        p90: at(90.0),
        p99: at(99.0),
        p999: at(99.9),
        p9999: at(99.99),
        max: at(100.0),
    })
}

/// At percentiles that are closer together the closer they are to 100, as far as there are requests for them.
fn spectrum_of(latencies: &Histogram<u64>) -> Vec<(f64, f64)> {
    const POINTS_A_DECADE: u32 = 10;
    if latencies.is_empty() {
        return Vec::new();
    }
    let nines_max = (latencies.len() as f64).log10();
    let points = (nines_max * f64::from(POINTS_A_DECADE)) as u32;
    let percentile = |point: u32| 100.0 * (1.0 - 10_f64.powf(-f64::from(point) / f64::from(POINTS_A_DECADE)));
    let at = |percentile| (percentile, latencies.value_at_percentile(percentile) as f64 / 1000.0);
    (0..=points).map(|point| at(percentile(point))).collect()
}

/// The seconds that were whole.
fn seconds_of(outcome: &RunOutcome) -> Vec<SecondRow> {
    let row = |second: &crate::stats::Second| SecondRow {
        second: second.number,
        completed: second.completed,
        errors: second.errors,
        errors_by_kind: second.errors_by_kind,
        latency: second.percentiles_ns.map(|ns| ns.map(|ns| ns as f64 / 1000.0)),
    };
    outcome.seconds.iter().filter(|second| second.is_whole()).map(row).collect()
}
