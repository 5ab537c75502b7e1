//! The tables on top: one row a run, and the published figures beside ours.

use std::fmt::Write as _;

use super::words::{count, escape, micros};
use crate::record::{Conditions, Published, Report, Run, Unit};

const NONE: &str = "–";

pub(super) fn tables(report: &Report) -> String {
    let mut out = runs(report);
    out.push_str(&published(report));
    out
}

/// How a run is called: its stage, and whose it is where there are several.
pub(super) fn title(report: &Report, run: &Run) -> String {
    let mut title = run.stage.clone();
    if report.subjects.len() > 1 {
        let _ = write!(title, ", {}", run.subject);
    }
    if report.runs.iter().any(|other| other.round > 1) {
        let _ = write!(title, ", round {}", run.round);
    }
    title
}

fn runs(report: &Report) -> String {
    let mut out = String::from(
        "<div class=\"scroll\"><table>\n<thead><tr><th>run</th><th>answered/s</th><th>p50</th><th>p99</th>\
         <th>p99.9</th><th>max</th><th>errors</th><th>server CPU, µs/request</th></tr></thead>\n<tbody>\n",
    );
    for (number, run) in report.runs.iter().enumerate() {
        let latency = |of: fn(&crate::record::Latency) -> f64| {
            run.latency.map_or_else(|| NONE.to_owned(), |latency| micros(of(&latency)))
        };
        let cpu = run.node.cpu_us_per_request.map_or_else(|| NONE.to_owned(), |cpu| format!("{cpu:.2}"));
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#run-{number}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{cpu}</td></tr>",
            escape(&title(report, run)),
            answered(run),
            latency(|latency| latency.p50),
            latency(|latency| latency.p99),
            latency(|latency| latency.p999),
            latency(|latency| latency.max),
            count(run.bad_answers() as f64),
        );
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// With the rate that was asked for, if it was not reached.
fn answered(run: &Run) -> String {
    let answered = count(run.per_second);
    run.missed_rate().map_or(answered.clone(), |rate| format!("{answered} of {}: not reached", count(rate)))
}

/// Every figure of a publication beside ours, below what was done for both.
fn published(report: &Report) -> String {
    let mut rows = String::new();
    for (number, run) in report.runs.iter().enumerate() {
        let Some(conditions) = &run.conditions else { continue };
        let name = format!(
            "<td rowspan=\"{}\"><a href=\"#run-{number}\">{}</a><br>{}</td>",
            run.published.len(),
            escape(&title(report, run)),
            escape(&in_words(conditions))
        );
        for (index, figure) in run.published.iter().enumerate() {
            let name = if index == 0 { name.as_str() } else { "" };
            let _ = writeln!(rows, "<tr>{name}{}</tr>", of_figure(run, figure));
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<h2>Beside the published load tests</h2>\n<p>They were measured by others, on other machines. Each run does what the \
         publication did; where nothing stands, it names no figure.</p>\n\
         <div class=\"scroll\"><table>\n<thead><tr><th>run</th><th>figure</th><th>published, before</th><th>published</th>\
         <th>here</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

fn in_words(conditions: &Conditions) -> String {
    let Conditions { source, load, store, answers, connections, server_threads } = conditions;
    let threads = server_threads.map(|threads| format!(", server threads: {threads}")).unwrap_or_default();
    format!("{source}: {load}, {store}, {answers}, connections: {connections}{threads}")
}

fn of_figure(run: &Run, figure: &Published) -> String {
    let text = |value: Option<f64>| match (value, figure.unit) {
        (None, _) => NONE.to_owned(),
        (Some(value), Unit::Micros) => micros(value),
        (Some(value), Unit::PerSecond) => format!("{}/s", count(value)),
    };
    let mark = if run.missed_rate().is_some() { " (rate not reached)" } else { "" };
    let cells = [figure.figure.clone(), text(figure.before), text(figure.theirs), text(figure.ours) + mark];
    cells.map(|cell| format!("<td>{}</td>", escape(&cell))).concat()
}
