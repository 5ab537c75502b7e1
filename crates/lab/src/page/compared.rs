//! The page of a comparison.

use std::fmt::Write as _;

use ladoga_profiler::Changed;
use serde_json::Value;

use super::embedded;
use super::frame::{OPEN_STAGES_MAX, contents, facts, page};
use super::run::spectra;
use super::summary::{Finding, strip};
use super::words::escape;

/// What the column of changes is called: whoever divides the two medians beside it finds another figure.
pub(crate) const CHANGE: &str = "change (median of pairs)";

pub(super) const SCRIPT: &str = include_str!("assets/compared.js");

/// What two reports, or two servers, have in common.
#[derive(Debug)]
pub(crate) struct ComparedPage {
    /// What the two are called.
    pub(crate) sides: [String; 2],
    /// Where each comes from.
    pub(crate) sources: [String; 2],
    /// What differs besides the figures.
    pub(crate) differences: Vec<String>,
    pub(crate) remarks: Vec<String>,
    pub(crate) runs: Vec<ComparedRun>,
}

/// One stage on both sides.
#[derive(Debug)]
pub(crate) struct ComparedRun {
    pub(crate) title: String,
    pub(crate) rows: Vec<ComparedRow>,
    pub(crate) spectrum_title: String,
    pub(crate) spectra: [Vec<(f64, f64)>; 2],
    pub(crate) profiles: Vec<ComparedProfile>,
}

/// What profiles of one kind differ by.
#[derive(Debug)]
pub(crate) struct ComparedProfile {
    pub(crate) kind: String,
    pub(crate) question: &'static str,
    /// The reason, if there is none.
    pub(crate) flame: Result<ComparedFlame, String>,
}

/// A differential flame graph.
#[derive(Debug)]
pub(crate) struct ComparedFlame {
    /// As the script takes it.
    pub(crate) data: Value,
    /// How noise was estimated.
    pub(crate) basis: String,
    pub(crate) changes: Vec<Changed>,
    /// Frames that differ by more than noise, callers included, and all that are wide enough to be seen.
    pub(crate) coloured: (usize, usize),
}

/// One figure.
#[derive(Debug)]
pub(crate) struct ComparedRow {
    pub(crate) figure: String,
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) change: String,
    pub(crate) verdict: String,
    /// Whether the verdict is that it changed.
    pub(crate) is_change: bool,
}

pub(crate) fn render(compared: &ComparedPage) -> String {
    let version = format!("ladoga {}", ladoga_profiler::program_version());
    let mut body = facts(&[("compared by", version)]);
    body.push_str(&strip(&findings(compared)));
    body.push_str(&head(compared));
    if compared.runs.len() > 1 {
        let link = |(number, run): (usize, &ComparedRun)| (format!("#stage-{number}"), run.title.clone());
        body.push_str(&contents(&compared.runs.iter().enumerate().map(link).collect::<Vec<_>>()));
    }
    for (number, run) in compared.runs.iter().enumerate() {
        let is_open = compared.runs.len() <= OPEN_STAGES_MAX;
        body.push_str(&section(run, number, &compared.sides, is_open));
    }
    body.push_str(&flames(compared));
    let data = embedded::script_json(&embedded::comparison_data());
    page("Comparison of two reports", &body, &data, SCRIPT)
}

/// The data of the differential flame graphs, by run and profile.
fn flames(compared: &ComparedPage) -> String {
    let data =
        |profile: &ComparedProfile| profile.flame.as_ref().map_or(Value::Null, |flame| flame.data.clone());
    let of_run = |run: &ComparedRun| run.profiles.iter().map(data).collect::<Vec<Value>>();
    let flames: Vec<Vec<Value>> = compared.runs.iter().map(of_run).collect();
    let json = embedded::script_json(&flames);
    format!("<script id=\"flames\" type=\"application/json\">{json}</script>\n")
}

/// The comparison of the servers of a report, for that report's own page.
pub(super) fn summary(compared: &ComparedPage) -> String {
    let [before, after] = &compared.sides;
    let mut out =
        format!("<section>\n<h2 id=\"compared\">{} against {}</h2>\n", escape(after), escape(before));
    out.push_str(&head(compared));
    for (number, run) in compared.runs.iter().enumerate() {
        let _ = writeln!(out, "<h3>{}</h3>\n{}", escape(&run.title), table(run, &compared.sides));
        if !run.profiles.is_empty() {
            out.push_str("<details class=\"round\"><summary>What the profiles differ by</summary>\n");
            differences(&mut out, run, number);
            out.push_str("</details>\n");
        }
    }
    out.push_str(&flames(compared));
    out.push_str("</section>\n");
    out
}

/// Where the sides come from, what differs, and what a reader has to know.
fn head(compared: &ComparedPage) -> String {
    let mut out = String::from("<dl>");
    for (side, source) in compared.sides.iter().zip(&compared.sources) {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(side), escape(source));
    }
    out.push_str("</dl>\n");
    for remark in compared.differences.iter().chain(&compared.remarks) {
        let _ = writeln!(out, "<p class=\"remark\">{}</p>", escape(remark));
    }
    out
}

fn table(run: &ComparedRun, [before, after]: &[String; 2]) -> String {
    let mut out = format!(
        "<div class=\"scroll\"><table class=\"cards pairs\">\n<thead><tr><th>figure</th><th>{CHANGE}</th><th class=\"text\">verdict</th>\
         <th>{}</th><th>{}</th></tr></thead>\n<tbody>\n",
        escape(before),
        escape(after)
    );
    for row in &run.rows {
        let class = if row.is_change { "told" } else { "noise" };
        let _ = writeln!(
            out,
            "<tr class=\"{class}\"><td>{}</td><td data-label=\"change\">{}</td><td class=\"text\" data-label=\"verdict\">{}</td>\
             <td data-label=\"{}\">{}</td><td data-label=\"{}\">{}</td></tr>",
            escape(&row.figure),
            escape(&row.change),
            escape(&row.verdict),
            escape(before),
            escape(&row.before),
            escape(after),
            escape(&row.after)
        );
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// At most so many changes are listed on top; the others are listed with their stages.
const CHANGES_MAX: usize = 6;

/// What changed, before anything else.
fn findings(compared: &ComparedPage) -> Vec<Finding> {
    let rows = || compared.runs.iter().flat_map(|run| run.rows.iter().map(move |row| (run, row)));
    let changes: Vec<(&ComparedRun, &ComparedRow)> = rows().filter(|(_, row)| row.is_change).collect();
    let untold = rows().filter(|(_, row)| row.verdict.starts_with("cannot be told")).count();
    let mut out = vec![("", format!("{} of {} figures changed", changes.len(), rows().count()))];
    if untold > 0 {
        out.push(("bad", format!("{untold} figures cannot be told")));
    }
    for (run, row) in changes.iter().take(CHANGES_MAX) {
        let class = if row.verdict.starts_with("better") { "good" } else { "bad" };
        out.push((class, format!("{}, {}: {}, {}", run.title, row.figure, row.change, row.verdict)));
    }
    if changes.len() > CHANGES_MAX {
        out.push(("", format!("and {} more", changes.len() - CHANGES_MAX)));
    }
    out
}

fn section(run: &ComparedRun, number: usize, sides: &[String; 2], is_open: bool) -> String {
    let changes = run.rows.iter().filter(|row| row.is_change).count();
    let mut out = format!(
        "<details class=\"stage\" id=\"stage-{number}\"{}><summary><h2>{}</h2> <span>{changes} of {} figures changed</span>\
         </summary>\n{}",
        if is_open { " open" } else { "" },
        escape(&run.title),
        run.rows.len(),
        table(run, sides)
    );
    out.push_str("<div class=\"charts\">\n");
    let ([before, after], [name_before, name_after]) = (&run.spectra, sides);
    out.push_str(&spectra(&run.spectrum_title, &[(name_before, 3, before), (name_after, 0, after)]));
    out.push_str("</div>\n");
    differences(&mut out, run, number);
    out.push_str("</details>\n");
    out
}

fn differences(out: &mut String, run: &ComparedRun, number: usize) {
    for (index, profile) in run.profiles.iter().enumerate() {
        difference(out, profile, number, index);
    }
}

fn difference(out: &mut String, profile: &ComparedProfile, number: usize, index: usize) {
    let question = profile.question;
    match &profile.flame {
        Ok(flame) => {
            let (coloured, frames) = flame.coloured;
            let _ = write!(
                out,
                "<div class=\"difference\" data-run=\"{number}\" data-profile=\"{index}\">\n<h3>{question}: the difference</h3>\n\
                 <p>{coloured} of {frames} frames have a colour. Red takes a larger share than before, blue a smaller one. {}</p>\n\
                 <div class=\"flame-graph\"></div>\n</div>\n",
                escape(&flame.basis)
            );
        }
        Err(reason) => {
            let _ = writeln!(
                out,
                "<p class=\"missing\">{question}: no differential flame graph: {}.</p>",
                escape(reason)
            );
        }
    }
}
