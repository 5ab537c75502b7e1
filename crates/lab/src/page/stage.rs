//! One stage: what its rounds found together, the round in the middle, and the others, folded.

use std::fmt::Write as _;

use super::groups::Group;
use super::run::{Named, section, spectra};
use super::summary::{figures_in_short, rounds};
use super::words::escape;

/// More colours than lines could not be told apart: the median round has a colour of its own, the others share one.
const TYPICAL: usize = 0;
const OTHERS: usize = 3;

/// `number` is that of the stage; `is_open` if it is one of few.
pub(super) fn draw(group: &Group<'_>, number: usize, is_open: bool, cores: usize) -> String {
    let open = if is_open { " open" } else { "" };
    let mut out = format!(
        "<details class=\"stage\" id=\"stage-{number}\"{open}><summary><h2>{}</h2> <span>{}</span></summary>\n",
        escape(&group.title),
        escape(&figures_in_short(group))
    );
    let typical = group.typical();
    let (first, run) = group.runs[typical];
    if group.runs.len() > 1 {
        out.push_str(&rounds(group));
        out.push_str(&together(group, typical));
        let round = run.round;
        let _ = writeln!(out, "<h3>Round {round}, the one in the middle by its p99</h3>");
    }
    out.push_str(&section(run, first, cores));
    for (index, (number, run)) in group.runs.iter().enumerate() {
        if index != typical {
            let alone = Group { title: String::new(), runs: vec![(*number, *run)] };
            let _ = writeln!(
                out,
                "<details class=\"round\"><summary>Round {} <span>{}</span></summary>\n{}</details>",
                run.round,
                escape(&figures_in_short(&alone)),
                section(run, *number, cores)
            );
        }
    }
    out.push_str("</details>\n");
    out
}

/// The percentiles of all rounds in one drawing: what differs by chance is seen at once.
fn together(group: &Group<'_>, typical: usize) -> String {
    let names: Vec<String> = group.runs.iter().map(|(_, run)| format!("round {}", run.round)).collect();
    let mut lines: Vec<Named<'_>> = Vec::new();
    for (index, ((_, run), name)) in group.runs.iter().zip(&names).enumerate() {
        lines.push((name, if index == typical { TYPICAL } else { OTHERS }, &run.spectrum));
    }
    // The last one is drawn above the others.
    lines.sort_by_key(|(_, colour, _)| *colour == TYPICAL);
    format!("<div class=\"charts\">\n{}</div>\n", spectra("Latency by percentile, all rounds", &lines))
}
