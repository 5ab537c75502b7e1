//! The highest rate that holds the SLO: doubled until one does not, then halved in between. What to try next is
//! decided purely; the runs are made elsewhere.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::cli::Options;
use crate::cli::command_line;
use crate::clock::unix_ms;
use crate::error::Outcome;
use crate::load::{Load, built_in, workload};
use crate::output::Output;
use crate::page::{self, Curve, CurvePoint};
use crate::report::{Asked, Live, limit_in_words, limit_name, misses_in_words, misses_share};
use crate::slo::Slo;
use crate::stats::Limit;
use crate::stop::Interruption;
use crate::units::{format_metric, format_time_us};
use crate::{files, stats};

/// The bounds without `--slo`.
pub(crate) const SLO_DEFAULT: &str = "p99<10ms,errors<0.1%";
const RATE_FIRST: u64 = 1_000;
const RATE_MAX: u64 = 100_000_000;
/// The search ends once the bounds are so close to each other.
const PRECISION: f64 = 0.05;
/// A run that keeps less than this part of its rate did not hold it.
const KEPT_SHARE: f64 = 0.98;

/// What is known: the highest rate that held, and the lowest that did not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Search {
    held: Option<u64>,
    broke: Option<u64>,
}

impl Search {
    /// The rate to try next; none if the knee is known well enough.
    fn next(&self) -> Option<u64> {
        match (self.held, self.broke) {
            (None, None) => Some(RATE_FIRST),
            (Some(held), None) => (held < RATE_MAX).then(|| held.saturating_mul(2).min(RATE_MAX)),
            (None, Some(broke)) => (broke > 1).then_some(broke / 2),
            (Some(held), Some(broke)) => {
                let is_close = (broke - held) as f64 <= broke as f64 * PRECISION;
                let middle = u64::midpoint(held, broke);
                (!is_close && middle > held).then_some(middle)
            }
        }
    }

    fn learn(&mut self, rate: u64, held: bool) {
        if held { self.held = Some(rate) } else { self.broke = Some(rate) }
    }
}

/// Why nothing more is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The knee is known well enough.
    Found,
    /// By a signal.
    Interrupted,
    /// At this rate no request was answered.
    Unanswered(u64),
}

/// A rate that was tried.
struct Step {
    rate: u64,
    answered_per_s: f64,
    /// p50, p99, p99.9 and the largest, in microseconds; none if nothing was answered or waited for.
    latency: Option<[f64; 4]>,
    /// Whether nothing is known of any request, not even that its connection broke.
    is_dead: bool,
    /// Why the rate did not hold; empty if it did.
    reasons: Vec<String>,
    /// What limited the run besides the server, as for a run on its own.
    limits: Vec<Limit>,
    /// Which part of the answers were `404`.
    misses_share: f64,
}

impl Step {
    fn new(rate: u64, outcome: &stats::RunOutcome, reasons: Vec<String>) -> Self {
        let latencies = outcome.all().corrected;
        let at = |percentile| latencies.value_at_percentile(percentile) as f64 / 1000.0;
        let latency = (!latencies.is_empty()).then(|| [50.0, 99.0, 99.9, 100.0].map(at));
        let (answered_per_s, misses_share) = (outcome.per_second(), misses_share(outcome));
        let is_dead = outcome.latencies.classes().is_empty();
        Self { rate, answered_per_s, latency, is_dead, reasons, limits: outcome.limits(), misses_share }
    }

    fn verdict(&self) -> String {
        let holds = if self.reasons.is_empty() { "holds".to_owned() } else { self.reasons.join("; ") };
        let limits: Vec<&str> = self.limits.iter().copied().map(limit_of_row).collect();
        if limits.is_empty() { holds } else { format!("{holds} ({})", limits.join(", ")) }
    }

    fn row(&self) -> String {
        let text = |us: f64| format!("{:>11}", format_time_us(us));
        let latencies =
            self.latency.map_or_else(|| format!("{:>11}", "-").repeat(4), |us| us.map(text).concat());
        format!("{:>10}{:>12}{latencies}", self.rate, format_metric(self.answered_per_s))
    }
}

/// Runs the search, printing a row for every rate.
pub(crate) fn find(options: &Options, interruption: &Interruption) -> Outcome<ExitCode> {
    let slo = match &options.slo {
        Some(slo) => slo.clone(),
        None => Slo::parse(SLO_DEFAULT).map_err(crate::error::LabError::Usage)?,
    };
    let started_unix_s = unix_ms() / 1000;
    let mut output = Output::default();
    output.line(format_args!("Searching the highest rate that holds {slo} @ {}", options.target.url));
    let [p50, p99, p999, max] = ["p50", "p99", "p99.9", "max"];
    output.line(format_args!("{:>10}{:>12}{p50:>11}{p99:>11}{p999:>11}{max:>11}  ", "rate", "answered/s"));
    let (search, steps, end) = try_rates(options, &slo, interruption, &mut output)?;
    let knee = search.held.filter(|_| end == End::Found);
    let conclusion = conclusion(&slo, search, end);
    let caveats: Vec<String> =
        [caveat(search, &steps), misses(&steps, options.asked())].into_iter().flatten().collect();
    if let Some(knee) = knee {
        output.line(format_args!("\nThe curve up to the knee:"));
        for step in steps.iter().filter(|step| step.rate <= knee) {
            output.line(format_args!("{}", step.row()));
        }
        output.line(format_args!(""));
    }
    output.line(format_args!("{conclusion}"));
    caveats.iter().for_each(|caveat| output.line(format_args!("{caveat}")));
    let curve = Curve {
        title: format!("The knee of {}", options.target.url),
        command: command_line(),
        started_unix_s,
        conclusion,
        caveat: (!caveats.is_empty()).then(|| caveats.join(" ")),
        knee: knee.map(|knee| knee as f64),
        points: steps.iter().map(point_of).collect(),
    };
    // A search that has tried nothing has nothing to say, and what an earlier one wrote stays.
    if !steps.is_empty() {
        write(options, &curve, &json_of(&options.target.url, &slo, (search, end), &steps))?;
    }
    output.finish()?;
    Ok(match (end, knee) {
        (End::Interrupted, _) => interruption.exit_code(),
        (_, Some(_)) => ExitCode::SUCCESS,
        (_, None) => ExitCode::FAILURE,
    })
}

/// What is known in the end, the rates that were tried, in their order, and why no more were.
fn try_rates(
    options: &Options,
    slo: &Slo,
    interruption: &Interruption,
    output: &mut Output,
) -> Outcome<(Search, Vec<Step>, End)> {
    let (mut search, mut steps, mut end) = (Search::default(), Vec::new(), End::Found);
    let workload = workload(options);
    while let Some(rate) = search.next() {
        let load = built_in(options, workload.clone(), Some(rate));
        let Some(step) = try_rate(&load, (options, slo), rate, interruption)? else {
            end = End::Interrupted;
            break;
        };
        output.line(format_args!("{}  {}", step.row(), step.verdict()));
        search.learn(rate, step.reasons.is_empty());
        let is_dead = step.is_dead;
        steps.push(step);
        if is_dead {
            end = End::Unanswered(rate);
            break;
        }
    }
    steps.sort_by_key(|step| step.rate);
    Ok((search, steps, end))
}

/// One run; none if it was interrupted.
fn try_rate(
    load: &Load<'_>,
    (options, slo): (&Options, &Slo),
    rate: u64,
    interruption: &Interruption,
) -> Outcome<Option<Step>> {
    let stop = &interruption.stop;
    let mut live = Live::new(options.duration_ms);
    let outcome = load.run(stop, &mut live, &mut || {})?;
    live.clear();
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let reasons = reasons(slo, &outcome, options.allow_misses);
    Ok(Some(Step::new(rate, &outcome, reasons)))
}

/// Why the rate did not hold.
fn reasons(slo: &Slo, outcome: &stats::RunOutcome, misses_are_good: bool) -> Vec<String> {
    let broken = slo.check(outcome, misses_are_good);
    let not_kept = (outcome.due().kept_share() < KEPT_SHARE).then(|| "the rate was not kept".to_owned());
    broken.iter().map(ToString::to_string).chain(not_kept).collect()
}

fn conclusion(slo: &Slo, search: Search, end: End) -> String {
    let why = match end {
        End::Found => {
            return match search.held {
                Some(knee) => format!("Knee: {knee} requests/sec hold {slo}."),
                None => format!("No rate that was tried holds {slo}."),
            };
        }
        End::Interrupted => "The search was interrupted".to_owned(),
        End::Unanswered(rate) => {
            format!("No request was answered at {rate} requests/sec, which ended the search")
        }
    };
    let known = match (search.held, search.broke) {
        (Some(held), _) => format!("{held} requests/sec hold {slo}, and it is not known whether more do"),
        (None, Some(_)) => format!("no rate that was tried holds {slo}"),
        (None, None) => "no rate was tried to its end".to_owned(),
    };
    format!("{why} before the knee was found: {known}.")
}

/// A rate that the generator could not keep says nothing about the server.
fn caveat(search: Search, steps: &[Step]) -> Option<String> {
    let Step { rate, limits, .. } = bound(search, steps).filter(|step| !step.limits.is_empty())?;
    let limits: Vec<String> = limits.iter().copied().map(limit_in_words).collect();
    Some(format!("The server may hold more: at {rate} requests/sec, {}.", limits.join("; and ")))
}

/// What the run that missed most says of it.
fn misses(steps: &[Step], asked: Asked) -> Option<String> {
    let most = steps.iter().max_by(|one, other| one.misses_share.total_cmp(&other.misses_share))?;
    let told = misses_in_words(most.misses_share, asked)?;
    Some(format!("At {} requests/sec, {told}.", most.rate))
}

/// The step that bounds the knee from above: what limited it, limited the knee.
fn bound(search: Search, steps: &[Step]) -> Option<&Step> {
    steps.iter().find(|step| Some(step.rate) == search.broke)
}

/// What limited a run, as short as a row needs it; it is told in full below the rows.
const fn limit_of_row(limit: Limit) -> &'static str {
    match limit {
        Limit::Cpu(_) => "the generator had no CPU left",
        Limit::Late(_) => "the generator was late",
        Limit::Steal(_) => "the host took CPU time away",
    }
}

fn limits_json(step: &Step) -> Value {
    json!({ "limits": step.limits.iter().copied().map(limit_name).collect::<Vec<_>>() })
}

fn point_of(step: &Step) -> CurvePoint {
    CurvePoint {
        rate: step.rate as f64,
        answered_per_s: step.answered_per_s,
        latency: step.latency,
        verdict: step.verdict(),
    }
}

fn json_of(url: &str, slo: &Slo, (search, end): (Search, End), steps: &[Step]) -> Value {
    let step = |step: &Step| {
        let latency = step
            .latency
            .map(|[p50, p99, p999, max]| json!({ "p50": p50, "p99": p99, "p99.9": p999, "max": max }));
        json!({
            "rate": step.rate,
            "requests_per_second": step.answered_per_s,
            "latency_us": latency,
            "holds": step.reasons.is_empty(),
            "reasons": step.reasons,
            "generator": limits_json(step),
        })
    };
    json!({
        "url": url,
        "slo": slo.to_string(),
        "interrupted": end == End::Interrupted,
        "complete": end == End::Found,
        // What held before the search was cut short is in the curve, and may be far below the knee.
        "knee": search.held.filter(|_| end == End::Found),
        "generator": bound(search, steps).map_or_else(|| json!({ "limits": [] }), limits_json),
        "curve": steps.iter().map(step).collect::<Vec<_>>(),
    })
}

fn write(options: &Options, curve: &Curve, data: &Value) -> Outcome<()> {
    if let Some(path) = &options.json {
        files::replace(path, format!("{data:#}\n"))?;
    }
    if let Some(path) = &options.html {
        files::replace(path, page::render_curve(curve, data))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "knee_tests.rs"]
mod tests;
