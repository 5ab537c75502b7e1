//! The page as a whole.

use std::fmt::Write as _;

use ladoga_profiler::FLAME_SCRIPT;

use super::compared::{self, ComparedPage};
use super::words::{bytes, date, escape};
use super::{embedded, run, summary};
use crate::record::{Machine, Report};

pub(super) const STYLE: &str = include_str!("assets/page.css");
const SCRIPT: &str = include_str!("assets/page.js");

/// The whole file, with what the comparison of its servers told, if there are two.
pub(crate) fn render(report: &Report, compared: Option<&ComparedPage>) -> String {
    let mut body = String::new();
    let _ = writeln!(body, "<p>{}</p>", escape(&date(report.started_unix_s)));
    let _ = writeln!(body, "<pre class=\"command\">{}</pre>", escape(&report.command));
    for note in notes(report) {
        let _ = writeln!(body, "<p class=\"remark\">{}</p>", escape(&note));
    }
    if let Some(compared) = compared {
        body.push_str(&compared::summary(compared));
    }
    body.push_str(&summary::tables(report));
    for (number, one) in report.runs.iter().enumerate() {
        let title = summary::title(report, one);
        let section = run::section(one, number, &title, report.machine.cores);
        if one.round == 1 {
            body.push_str(&section);
        } else {
            let title = escape(&title);
            let _ =
                writeln!(body, "<details class=\"round\"><summary>{title}</summary>\n{section}</details>");
        }
    }
    body.push_str(&about(report));
    page(&report.title, &body, &embedded::script_json(report), &[FLAME_SCRIPT, SCRIPT])
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if report.runs.len() < report.planned {
        let why = if report.is_interrupted { "Interrupted" } else { "Not whole" };
        notes.push(format!("{why}: {} of {} runs are in here.", report.runs.len(), report.planned));
    }
    notes.extend(report.notes.iter().cloned());
    notes
}

fn about(report: &Report) -> String {
    let mut out = String::from("<section>\n<h2>What was measured, and how</h2>\n<dl>\n");
    let mut row = |name: &str, text: &str| {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(text));
    };
    for subject in &report.subjects {
        row(&subject.name, &subject.what);
    }
    row("machine", &machine(&report.machine));
    row(
        "latency",
        "counts from the moment at which a request was due (open loop) or sent (closed loop: throughput only), and \
         contains requests that failed or timed out with the time that they waited",
    );
    row(
        "over time",
        "a latency stands where its request was due; requests a second and errors stand where they ended",
    );
    row("heat map", "darker means more requests, by their logarithm: a single slow one is seen");
    row(
        "load generator",
        &format!(
            "ladoga bench {}, on the same machine unless the address says otherwise",
            report.machine.version
        ),
    );
    out.push_str("</dl>\n</section>\n");
    out
}

pub(super) fn machine(machine: &Machine) -> String {
    let memory = machine.memory_bytes.map(|memory| format!(", {}", bytes(memory as f64)));
    format!(
        "{} × {}{}, {}, {}",
        machine.cores,
        machine.cpu,
        memory.unwrap_or_default(),
        machine.system,
        machine.kernel
    )
}

/// A file of its own: nothing in it asks the network for anything.
pub(super) fn page(title: &str, body: &str, data: &str, scripts: &[&str]) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\
         {}\n<script>\n{}\n</script>\n</body>\n</html>\n",
        embedded::element(data),
        scripts.join("\n")
    )
}
