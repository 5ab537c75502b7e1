//! What a person reads first: how it went in a few words, and a row a stage.

use std::fmt::Write as _;

use super::groups::{Group, Spread, title};
use super::quantity::percent;
use super::words::{NONE, count, escape, micros, short_micros};
use crate::record::{Conditions, Latency, Published, Report, Run, Unit};
use crate::units::counted;

/// Whether a sentence is `good`, `bad`, or neither, and the sentence.
pub type Finding = (&'static str, String);

/// How it went, the worst last.
pub(super) fn findings(report: &Report, groups: &[Group<'_>]) -> Vec<Finding> {
    let (runs, stages) = (counted(report.runs.len() as u64, "run"), counted(groups.len() as u64, "stage"));
    let mut out = vec![("", format!("{runs} of {stages}"))];
    for bound in &report.slo {
        let (class, word) = if bound.holds { ("good", "holds") } else { ("bad", "missed") };
        out.push((class, format!("SLO {}: {word}, found {}", bound.bound, bound.found)));
    }
    let failing = worst(groups, |group| group.most_errors().filter(|share| *share > 0.0));
    match failing {
        Some((share, group)) => {
            out.push(("bad", format!("Errors: up to {} in {}", percent(share), group.title)));
        }
        None if report.runs.iter().any(|run| run.failures().of > 0) => {
            out.push(("good", "No errors".to_owned()));
        }
        None => out.push(("bad", "No request was made".to_owned())),
    }
    let missed: Vec<&Group<'_>> = groups.iter().filter(|group| group.missed_rate().is_some()).collect();
    if let Some(first) = missed.first() {
        let others = if missed.len() > 1 { format!(" and {} more", missed.len() - 1) } else { String::new() };
        out.push(("bad", format!("Rate not reached in {}{others}", first.title)));
    }
    let cores = report.machine.cores;
    let disturbed =
        report.runs.iter().filter(|run| run.disturbance.notable_other_cores(cores).is_some()).count();
    if disturbed > 0 {
        let all = report.runs.len();
        out.push(("bad", format!("Other processes disturbed {disturbed} of {}", counted(all as u64, "run"))));
    }
    let limited = report.runs.iter().filter(|run| !run.generator.limits.is_empty()).count();
    if limited > 0 {
        let all = counted(report.runs.len() as u64, "run");
        out.push(("bad", format!("The load generator, or the host, was a limit in {limited} of {all}")));
    }
    if report.whole_runs() < report.planned || report.is_interrupted {
        let why = if report.is_interrupted { "Interrupted" } else { "Not whole" };
        out.push(("bad", format!("{why}: {} are in here", report.made())));
    }
    out
}

fn worst<'a, 'b>(
    groups: &'b [Group<'a>],
    of: impl Fn(&Group<'a>) -> Option<f64>,
) -> Option<(f64, &'b Group<'a>)> {
    let found = groups.iter().filter_map(|group| Some((of(group)?, group)));
    found.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// What a reader is to see first.
pub fn strip(findings: &[Finding]) -> String {
    let item = |(class, text): &Finding| format!("<li class=\"{class}\">{}</li>", escape(text));
    format!("<ul class=\"verdicts\">{}</ul>\n", findings.iter().map(item).collect::<String>())
}

const HEADS: [&str; 7] = ["answered/s", "p50", "p99", "p99.9", "max", "errors", "CPU a request"];

/// A row for each stage: the median of its rounds, and their range below it.
pub(super) fn table(groups: &[Group<'_>]) -> String {
    let has_rounds = groups.iter().any(|group| group.runs.len() > 1);
    let head = |name: &&str| format!("<th>{name}</th>");
    let heads: String = HEADS.iter().map(head).collect();
    let mut out = format!(
        "<div class=\"scroll\"><table class=\"cards\">\n<thead><tr><th>stage</th>{heads}</tr></thead>\n<tbody>\n"
    );
    for (index, group) in groups.iter().enumerate() {
        let cells = figures(group).into_iter().zip(HEADS).map(|(cell, head)| labelled(head, &cell));
        let cells: String = cells.collect();
        let title = escape(&group.title);
        let _ = writeln!(out, "<tr><td><a href=\"#stage-{index}\">{title}</a></td>{cells}</tr>");
    }
    out.push_str("</tbody></table></div>\n");
    if has_rounds {
        out.push_str(
            "<p class=\"small\">The median of the rounds; below it the lowest and the highest. Rounds that were cut off count only if there are no others.</p>\n",
        );
    }
    out
}

/// A cell that tells on a phone what it is.
fn labelled(head: &str, cell: &str) -> String {
    format!("<td data-label=\"{head}\">{cell}</td>")
}

fn figures(group: &Group<'_>) -> [String; HEADS.len()] {
    let text = |spread: Option<Spread>, text: fn(f64) -> String, short: fn(f64) -> String| {
        let Some(Spread { low, median, high }) = spread else { return NONE.to_owned() };
        let [low, high] = [low, high].map(short);
        let median = text(median);
        if low == high { median } else { format!("{median}<small>{low} – {high}</small>") }
    };
    let latency = |of: fn(&Latency) -> f64| text(group.latency(of), micros, short_micros);
    let mut answered = text(group.spread(|run| Some(run.per_second)), count, count);
    if let (Some(share), Some(rate)) = (group.missed_rate(), group.runs[0].1.rate) {
        let _ = write!(
            answered,
            "<small class=\"bad\">{} of {}: not reached</small>",
            percent(share),
            count(rate)
        );
    }
    let errors = group.errors();
    let class = if errors.is_some_and(|errors| errors.high > 0.0) { "bad" } else { "" };
    [
        answered,
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        latency(|latency| latency.p999),
        latency(|latency| latency.max),
        format!("<span class=\"{class}\">{}</span>", text(errors, percent, percent)),
        text(group.spread(|run| run.node.cpu_us_per_request), micros, short_micros),
    ]
}

/// A line of figures, for the head of a stage that is folded.
pub(super) fn figures_in_short(group: &Group<'_>) -> String {
    let latency = |name: &str, of: fn(&Latency) -> f64| {
        group.latency(of).map(|spread| format!("{name} {}", micros(spread.median)))
    };
    let answered = group.spread(|run| Some(run.per_second)).map(|rate| format!("{}/s", count(rate.median)));
    let errors = group.errors().filter(|errors| errors.high > 0.0);
    let parts = [
        answered,
        latency("p50", |latency| latency.p50),
        latency("p99", |latency| latency.p99),
        latency("max", |latency| latency.max),
        errors.map(|errors| format!("errors {}", percent(errors.median))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// A row a round of one stage.
pub(super) fn rounds(group: &Group<'_>) -> String {
    let head = |name: &&str| format!("<th>{name}</th>");
    let heads: String = HEADS.iter().map(head).collect();
    let mut out = format!(
        "<div class=\"scroll\"><table class=\"cards\">\n<thead><tr><th>round</th>{heads}</tr></thead>\n<tbody>\n"
    );
    for (number, run) in &group.runs {
        let alone = Group { title: String::new(), runs: vec![(*number, *run)] };
        let cells = figures(&alone).into_iter().zip(HEADS);
        let cells: String = cells.map(|(cell, head)| labelled(head, &cell)).collect();
        let cut = if run.is_interrupted { ", cut off" } else { "" };
        let _ =
            writeln!(out, "<tr><td><a href=\"#run-{number}\">round {}</a>{cut}</td>{cells}</tr>", run.round);
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// The title of a run: its stage, and its round if there are several.
fn title_of_run(report: &Report, run: &Run) -> String {
    let title = title(report, run);
    let has_rounds = report.runs.iter().any(|other| other.round > 1);
    if has_rounds { format!("{title}, round {}", run.round) } else { title }
}

/// Beside a rate that was not reached.
fn not_reached(run: &Run) -> String {
    let queue = if run.queue_grew() { ": latencies here are those of a queue that grew" } else { "" };
    format!("<small class=\"bad\">rate not reached{queue}</small>")
}

/// Every published figure above ours, beside the settings of both; nothing if there are none.
pub(super) fn published(report: &Report) -> String {
    let mut names: Vec<&str> = Vec::new();
    for figure in report.runs.iter().flat_map(|run| &run.published) {
        if !names.contains(&figure.figure.as_str()) {
            names.push(&figure.figure);
        }
    }
    let rows: String = report
        .runs
        .iter()
        .enumerate()
        .filter_map(|(number, run)| {
            Some(beside_published(report, (number, run), run.conditions.as_ref()?, &names))
        })
        .collect();
    if rows.is_empty() {
        return rows;
    }
    let head = |name: &&str| format!("<th>{}</th>", escape(name));
    let heads: String = names.iter().map(head).collect();
    format!(
        "<h2 id=\"published\">Beside the published load tests</h2>\n<p>They were measured by others, on other machines. Each run does what the \
         publication did; where nothing stands, it names no figure.</p>\n\
         <div class=\"scroll\"><table class=\"cards\">\n<thead><tr><th>run</th><th class=\"text\">measured</th>{heads}</tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// One of the figures of a line.
type FigureOf = fn(&Published) -> Option<f64>;

/// The rows of a run: what was published, where anything was, and what was measured here.
fn beside_published(
    report: &Report,
    (number, run): (usize, &Run),
    conditions: &Conditions,
    names: &[&str],
) -> String {
    let sources: [(&str, FigureOf); 3] = [
        ("published, before", |figure| figure.before),
        ("published", |figure| figure.theirs),
        ("here", |figure| figure.ours),
    ];
    let has_any = |of: FigureOf| run.published.iter().any(|figure| of(figure).is_some());
    let shown = || sources.iter().filter(|(_, of)| has_any(*of));
    let mark = run.missed_rate().map_or_else(String::new, |_| not_reached(run));
    let mut name = format!(
        "<td class=\"published\" rowspan=\"{}\"><a href=\"#run-{number}\">{}</a><small>{}</small>{mark}</td>",
        shown().count(),
        escape(&title_of_run(report, run)),
        escape(&in_words(conditions))
    );
    let mut rows = String::new();
    for (source, of) in shown() {
        let cell = |wanted: &&str| {
            let figure = run.published.iter().find(|figure| figure.figure == **wanted);
            let text = figure.map_or_else(String::new, |figure| figure_text(figure, of(figure)));
            labelled(&escape(wanted), &escape(&text))
        };
        let cells: String = names.iter().map(cell).collect();
        let _ = writeln!(rows, "<tr>{name}<td class=\"text wide\">{source}</td>{cells}</tr>");
        name.clear();
    }
    rows
}

fn figure_text(figure: &Published, value: Option<f64>) -> String {
    match (value, figure.unit) {
        (None, _) => NONE.to_owned(),
        (Some(value), Unit::Micros) => micros(value),
        (Some(value), Unit::PerSecond) => format!("{}/s", count(value)),
    }
}

fn in_words(conditions: &Conditions) -> String {
    let Conditions { source, load, store, answers, connections, server_threads } = conditions;
    let threads = server_threads.map(|threads| format!(", server threads: {threads}")).unwrap_or_default();
    format!("{source}: {load}, {store}, {answers}, connections: {connections}{threads}")
}
