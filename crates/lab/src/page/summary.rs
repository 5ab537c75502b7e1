//! The tables on top: one row a run, and the published figures beside ours.

use std::fmt::Write as _;

use super::words::{count, escape, micros};
use crate::record::{Report, Run, Unit};

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
            count(run.per_second),
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

fn published(report: &Report) -> String {
    let mut rows = String::new();
    for run in &report.runs {
        for figure in &run.published {
            let text = |value: f64| match figure.unit {
                Unit::Micros => micros(value),
                Unit::PerSecond => format!("{}/s", count(value)),
            };
            let ours = figure.ours.map_or_else(|| NONE.to_owned(), text);
            let _ = writeln!(
                rows,
                "<tr><td>{}</td><td>{}</td><td>{ours}</td><td>{}</td></tr>",
                escape(&title(report, run)),
                escape(&figure.figure),
                text(figure.theirs)
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<h2>Beside the published load tests</h2>\n<p>They were measured by others, on other machines.</p>\n\
         <div class=\"scroll\"><table>\n<thead><tr><th>run</th><th>figure</th><th>here</th><th>published</th></tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n"
    )
}
