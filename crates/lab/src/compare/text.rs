//! A comparison as text.

use crate::output::Output;
use crate::page::{CHANGE, ComparedPage, ComparedProfile, ComparedRow};

/// Prints it: a line for each figure.
pub(crate) fn print(compared: &ComparedPage, output: &mut Output) {
    for (side, source) in compared.sides.iter().zip(&compared.sources) {
        output.line(format_args!("{:<8}{source}", format!("{side}:")));
    }
    for remark in compared.differences.iter().chain(&compared.remarks) {
        output.line(format_args!("note: {remark}"));
    }
    for run in &compared.runs {
        output.line(format_args!("\n{}", run.title));
        let ([before, after], change) = (&compared.sides, CHANGE);
        output.line(format_args!("  {:<22} {before:>32} {after:>32} {change:>30}  verdict", "figure"));
        for row in &run.rows {
            let ComparedRow { figure, before, after, change, verdict, .. } = row;
            output.line(format_args!("  {figure:<22} {before:>32} {after:>32} {change:>30}  {verdict}"));
        }
        for profile in &run.profiles {
            print_profile(profile, output);
        }
    }
}

fn print_profile(profile: &ComparedProfile, output: &mut Output) {
    const CHANGES_MAX: usize = 5;
    match &profile.flame {
        Err(reason) => {
            output.line(format_args!("  no differential flame graph ({}): {reason}", profile.kind));
        }
        Ok(flame) => {
            let (coloured, frames) = flame.coloured;
            let kind = &profile.kind;
            output.line(format_args!(
                "  {kind} profile: {coloured} of {frames} frames differ by more than noise. {}",
                flame.basis
            ));
            for changed in flame.changes.iter().take(CHANGES_MAX) {
                output.line(format_args!("    {changed}"));
            }
        }
    }
}
