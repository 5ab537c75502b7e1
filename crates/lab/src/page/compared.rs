//! The page of a comparison.

use std::fmt::Write as _;

use ladoga_profiler::FLAME_SCRIPT;
use serde_json::{Value, json};

use super::document::page;
use super::embedded;
use super::run::spectra;
use super::words::escape;

const SCRIPT: &str = include_str!("assets/compared.js");

/// What two reports have in common.
pub(crate) struct ComparedPage {
    /// Where each comes from.
    pub(crate) sources: [String; 2],
    pub(crate) remarks: Vec<String>,
    pub(crate) runs: Vec<ComparedRun>,
}

/// One stage of one subject, before and after.
pub(crate) struct ComparedRun {
    pub(crate) title: String,
    /// Figure, before, after, change, verdict.
    pub(crate) rows: Vec<[String; 5]>,
    pub(crate) spectra: [Vec<(f64, f64)>; 2],
    /// As [`super::NamedStacks::difference`] has it; a reason where there is none.
    pub(crate) difference: Result<Value, String>,
}

pub(crate) fn render(compared: &ComparedPage) -> String {
    let [before, after] = &compared.sources;
    let mut body = format!(
        "<dl><dt>before</dt><dd>{}</dd><dt>after</dt><dd>{}</dd></dl>\n",
        escape(before),
        escape(after)
    );
    for remark in &compared.remarks {
        let _ = writeln!(body, "<p class=\"remark\">{}</p>", escape(remark));
    }
    let mut flames = Vec::new();
    for (number, run) in compared.runs.iter().enumerate() {
        body.push_str(&section(run, number));
        flames.push(run.difference.as_ref().map_or(Value::Null, Clone::clone));
    }
    let data = embedded::script_json(&json!({ "format": Value::Null, "flames": flames }));
    page("Comparison of two reports", &body, &data, &[FLAME_SCRIPT, SCRIPT])
}

fn section(run: &ComparedRun, number: usize) -> String {
    let mut out = format!(
        "<section class=\"run\">\n<h2>{}</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>figure</th>\
         <th>change</th><th class=\"text\">verdict</th><th>before</th><th>after</th></tr></thead>\n<tbody>\n",
        escape(&run.title)
    );
    for [figure, before, after, change, verdict] in &run.rows {
        let class = if verdict.starts_with("within noise") || verdict.starts_with("cannot") {
            "noise"
        } else {
            "told"
        };
        let _ = writeln!(
            out,
            "<tr class=\"{class}\"><td>{}</td><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td></tr>",
            escape(figure),
            escape(change),
            escape(verdict),
            escape(before),
            escape(after)
        );
    }
    out.push_str("</tbody></table></div>\n<div class=\"charts\">\n");
    let [before, after] = &run.spectra;
    out.push_str(&spectra("Latency by percentile", &[("before", 3, before), ("after", 0, after)]));
    out.push_str("</div>\n");
    match &run.difference {
        Ok(_) => {
            let _ = write!(
                out,
                "<div class=\"profile\" data-run=\"{number}\">\n<h3>Where the CPU time went: the difference</h3>\n\
                 <p>Red takes a larger share than before, blue a smaller one.</p>\n<div class=\"bar\">\
                 <input class=\"search\" type=\"search\" placeholder=\"Search functions\" aria-label=\"Search functions\">\
                 <button type=\"button\" class=\"reset\">Reset zoom</button></div>\n<p class=\"tip\" aria-live=\"polite\"></p>\n\
                 <div class=\"scroll\"><canvas class=\"flame\" role=\"img\" aria-label=\"Differential flame graph\"></canvas></div>\n</div>\n"
            );
        }
        Err(reason) => {
            let _ =
                writeln!(out, "<p class=\"missing\">No differential flame graph: {}.</p>", escape(reason));
        }
    }
    out.push_str("</section>\n");
    out
}
