//! A comparison as text.

use crate::page::{CHANGE, ComparedPage, ComparedProfile, ComparedRow};

/// Prints it: a line for each figure.
pub(crate) fn print(compared: &ComparedPage) {
    for (side, source) in compared.sides.iter().zip(&compared.sources) {
        println!("{:<8}{source}", format!("{side}:"));
    }
    for remark in compared.differences.iter().chain(&compared.remarks) {
        println!("note: {remark}");
    }
    for run in &compared.runs {
        println!("\n{}", run.title);
        let ([before, after], change) = (&compared.sides, CHANGE);
        println!("  {:<22} {before:>32} {after:>32} {change:>30}  verdict", "figure");
        for row in &run.rows {
            let ComparedRow { figure, before, after, change, verdict, .. } = row;
            println!("  {figure:<22} {before:>32} {after:>32} {change:>30}  {verdict}");
        }
        for profile in &run.profiles {
            print_profile(profile);
        }
    }
}

fn print_profile(profile: &ComparedProfile) {
    const CHANGES_MAX: usize = 5;
    match &profile.flame {
        Err(reason) => println!("  no differential flame graph ({}): {reason}", profile.kind),
        Ok(flame) => {
            let (coloured, frames) = flame.coloured;
            let kind = &profile.kind;
            println!(
                "  {kind} profile: {coloured} of {frames} frames differ by more than noise. {}",
                flame.basis
            );
            for changed in flame.changes.iter().take(CHANGES_MAX) {
                println!("    {changed}");
            }
        }
    }
}
