//! The page as a whole.

use std::fmt::Write as _;

use super::compared::{self, ComparedPage};
use super::frame::{OPEN_STAGES_MAX, command, contents, facts, page};
use super::groups::groups;
use super::words::{bytes, date, escape};
use super::{embedded, stage, summary};
use crate::record::{Machine, Report};
use crate::stats::HELD_S;

const SCRIPT: &str = include_str!("assets/page.js");
/// The rows of the summary lead to the stages as well: more of them need no second list.
const LISTED_STAGES_MAX: usize = 12;
const SHOWN_NOTES_MAX: usize = 1;

/// The whole file, with the comparison of its servers, if there are two.
pub(crate) fn render(report: &Report, compared: Option<&ComparedPage>) -> String {
    let groups = groups(report);
    let published = summary::published(report);
    let mut body = head(report);
    body.push_str(&summary::strip(&summary::findings(report, &groups)));
    body.push_str(&notes(&report.notes));
    let mut links = vec![("#summary".to_owned(), "Summary".to_owned())];
    if compared.is_some() {
        links.push(("#compared".to_owned(), "The servers compared".to_owned()));
    }
    if !published.is_empty() {
        links.push(("#published".to_owned(), "Beside the published load tests".to_owned()));
    }
    if groups.len() > LISTED_STAGES_MAX {
        links.push(("#stage-0".to_owned(), format!("{} stages", groups.len())));
    } else {
        let stages = groups.iter().enumerate();
        links.extend(stages.map(|(number, group)| (format!("#stage-{number}"), group.title.clone())));
    }
    links.push(("#about".to_owned(), "How it was measured".to_owned()));
    body.push_str(&contents(&links));
    let _ = write!(body, "<h2 id=\"summary\">Summary</h2>\n{}", summary::table(&groups));
    if let Some(compared) = compared {
        body.push_str(&compared::summary(compared));
    }
    body.push_str(&published);
    let is_open = groups.len() <= OPEN_STAGES_MAX;
    if !is_open {
        body.push_str(
            "<p class=\"bar\"><button type=\"button\" class=\"open-all\">Open every stage</button></p>\n",
        );
    }
    for (number, group) in groups.iter().enumerate() {
        body.push_str(&stage::draw(group, number, is_open, report.machine.cores));
    }
    body.push_str(&about(report));
    let scripts = if compared.is_some() { [SCRIPT, compared::SCRIPT].concat() } else { SCRIPT.to_owned() };
    page(&report.title, &body, &embedded::script_json(report), &scripts)
}

/// The first of them; the others are folded, for the summary has to be in sight.
fn notes(notes: &[String]) -> String {
    let (shown, folded) = notes.split_at(notes.len().min(SHOWN_NOTES_MAX));
    let draw = |notes: &[String]| -> String {
        notes.iter().fold(String::new(), |mut out, note| {
            let _ = writeln!(out, "<p class=\"remark\">{}</p>", escape(note));
            out
        })
    };
    let mut out = draw(shown);
    if !folded.is_empty() {
        let count = folded.len();
        let _ = write!(
            out,
            "<details class=\"notes\"><summary>More notes: {count}</summary>\n{}</details>\n",
            draw(folded)
        );
    }
    out
}

/// Its origin: time, server, command.
fn head(report: &Report) -> String {
    let mut rows = vec![
        ("measured", date(report.started_unix_s)),
        ("lab", format!("ladoga {}", report.machine.version)),
    ];
    for subject in &report.subjects {
        let build = subject.build.as_ref().map(|build| format!(", build {build}")).unwrap_or_default();
        rows.push((&subject.name, format!("{}{build}", subject.what)));
    }
    rows.push(("machine", machine(&report.machine)));
    format!("{}{}", facts(&rows), command(&report.command))
}

fn about(report: &Report) -> String {
    let mut out = String::from("<section>\n<h2 id=\"about\">How it was measured</h2>\n<dl>\n");
    let mut row = |name: &str, text: &str| {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(text));
    };
    row(
        "latency",
        "counts from the moment at which a request was due (open loop) or sent (closed loop: throughput only), and \
         contains requests that were answered with an error, and those that timed out, with the time that they waited. A request \
         whose connection broke has none",
    );
    row(
        "errors",
        "answers other than 2xx and 3xx, unless a miss (404) was expected; time-outs, and connections that broke or could not be \
         made; and requests without an answer by the end whose connection had failed, or was silent for longer than the \
         slowest answer took and than 100 ms. Other requests that were on their way or waited at the end are no errors. An SLO has the same \
         errors, and its latencies contain all requests that were due, with the time that they waited",
    );
    row(
        "over time",
        &format!(
            "a latency is drawn at the time at which its request was due, or {HELD_S} s before it ended if that is later; requests a \
             second and errors at the time at which they ended"
        ),
    );
    row(
        "heat map",
        "darker means more requests, on a logarithmic scale, so that a single slow one is visible",
    );
    row(
        "load generator",
        &format!(
            "ladoga bench {}, on the same machine unless the address says otherwise",
            report.machine.version
        ),
    );
    row(
        "keys",
        "Tab goes from chart to chart, arrows read values, Shift and arrows choose a range, Escape lets it go; in the heat map of a \
         long run + and - change the scale, Page Up and Page Down go along it",
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
