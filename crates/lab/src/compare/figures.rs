//! What is compared: figures of whole runs, by round. Pure.

use super::judge::{Better, Design, Kind, Rounds};
use crate::page::{count, micros, percent};
use crate::record::{Latency, Run};

/// A figure of one stage on both sides.
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) rounds: Rounds,
    pub(super) text: fn(f64) -> String,
}

type Of<'a> = &'a dyn Fn(&Run) -> Option<f64>;

/// Every figure of a stage. Runs that were interrupted are no whole ones, so they are left out.
pub(super) fn figures_of(before: &[&Run], after: &[&Run], design: Design) -> Vec<Figure> {
    let figure = |name: &str, kind, better, text, of: Of<'_>| {
        let (before, after) = match design {
            Design::Apart => (values(before, of), values(after, of)),
            Design::Alternating => pairs(before, after, of),
        };
        Figure { name: name.to_owned(), rounds: Rounds { kind, better, before, after }, text }
    };
    let amount = |name, text, of: Of<'_>| figure(name, Kind::Amount, Better::Lower, text, of);
    let latency = |name, of: fn(&Latency) -> f64| amount(name, micros, &|run| run.latency.as_ref().map(of));
    let mut figures = vec![
        figure("answered/s", Kind::Amount, Better::Higher, count, &|run| Some(run.per_second)),
        latency("p50", |latency| latency.p50),
        latency("p99", |latency| latency.p99),
        latency("p99.9", |latency| latency.p999),
        latency("max", |latency| latency.max),
    ];
    let cpu = amount("server CPU a request", micros, &|run| run.node.cpu_us_per_request);
    if !cpu.rounds.before.is_empty() && !cpu.rounds.after.is_empty() {
        figures.push(cpu);
    }
    let share = |name: &str, of: Of<'_>| figure(name, Kind::Share, Better::Lower, percent, of);
    figures.push(share("errors", &|run| run.failures().share()));
    let kinds = kinds(before.iter().chain(after));
    // One kind alone is the row above.
    for kind in kinds.iter().filter(|_| kinds.len() > 1) {
        let of_kind = |run: &Run| share_of(run, count_of(run, kind));
        figures.push(share(&format!("errors: {kind}"), &of_kind));
    }
    figures
}

/// Those that were not interrupted.
pub(super) fn whole<'a>(runs: &[&'a Run]) -> impl Iterator<Item = &'a Run> {
    runs.iter().copied().filter(|run| !run.is_interrupted)
}

fn values(runs: &[&Run], of: Of<'_>) -> Vec<f64> {
    whole(runs).filter_map(of).collect()
}

/// Of the rounds that both sides have.
fn pairs(before: &[&Run], after: &[&Run], of: Of<'_>) -> (Vec<f64>, Vec<f64>) {
    let pair = |run: &&Run| {
        let other = after.iter().find(|other| other.round == run.round)?;
        let is_whole = !run.is_interrupted && !other.is_interrupted;
        is_whole.then_some(()).and_then(|()| Some((of(run)?, of(other)?)))
    };
    before.iter().filter_map(pair).unzip()
}

const FAILED_CONNECTIONS: &str = "connections that failed";
const UNANSWERED: &str = "no answer by the end";

fn share_of(run: &Run, count: u64) -> Option<f64> {
    let all = run.failures().of;
    (all > 0).then(|| count as f64 / all as f64)
}

fn kinds<'a>(runs: impl Iterator<Item = &'a &'a Run>) -> Vec<String> {
    let mut kinds = Vec::new();
    for run in runs {
        let answers =
            run.answers.iter().filter(|answer| run.is_error(answer)).map(|answer| answer.class.as_str());
        for kind in answers.chain([FAILED_CONNECTIONS, UNANSWERED]) {
            if count_of(run, kind) > 0 && !kinds.iter().any(|known| known == kind) {
                kinds.push(kind.to_owned());
            }
        }
    }
    kinds.sort();
    kinds
}

fn count_of(run: &Run, kind: &str) -> u64 {
    match kind {
        FAILED_CONNECTIONS => run.connect_errors,
        UNANSWERED => run.lost(),
        class => run.answers.iter().filter(|answer| answer.class == class).map(|answer| answer.count).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;

    #[test]
    fn errors_are_told_apart_where_there_are_several_kinds() {
        let report = fixture::report();
        let run = &report.runs[0];
        let figures = figures_of(&[run], &[run], Design::Apart);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "answered/s",
                "p50",
                "p99",
                "p99.9",
                "max",
                "server CPU a request",
                "errors",
                "errors: 503",
                "errors: no answer by the end",
            ]
        );
        assert!((figures[6].rounds.before[0] - 13.0 / 9003.0).abs() < 1e-9, "{:?}", figures[6].rounds);
    }

    #[test]
    fn rounds_of_an_alternation_are_paired_and_whole() {
        let report = fixture::report();
        let round = |number: u32, is_interrupted: bool| Run {
            round: number,
            is_interrupted,
            per_second: f64::from(number),
            ..report.runs[0].clone()
        };
        let (one, two, three) = (round(1, false), round(2, false), round(3, false));
        let (other_three, other_one) = (round(3, true), round(1, false));
        let figures = figures_of(&[&one, &two, &three], &[&other_one, &other_three], Design::Alternating);
        assert_eq!((&figures[0].rounds.before[..], &figures[0].rounds.after[..]), (&[1.0][..], &[1.0][..]));
    }
}
