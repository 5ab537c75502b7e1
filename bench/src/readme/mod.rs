//! The figures of README.md: written from results that are kept beside it, and checked against them.

mod section;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::arguments::Arguments;
use crate::context::{bench_folder, results_file, root_folder};
use crate::files;
use crate::report::{Archive, COMMAND, text_of};
use crate::stop::{OrFail, Outcome, failed};
use section::{choose, section};

const BEGIN: &str = "<!-- measured: begin; `ladoga-bench readme` writes what is between these two lines -->";
const END: &str = "<!-- measured: end -->";
/// What a section says that comes from no file of results.
const BY_HAND: &str = "made by hand";
const KEPT: &str = "bench/results-readme.jsonl";

/// The command `readme`.
pub(crate) fn run(arguments: &Arguments) -> Outcome<bool> {
    let (readme, kept) = (root_folder().join("README.md"), bench_folder().join("results-readme.jsonl"));
    if arguments.check {
        let kept = files::read(&kept)?;
        check(&read(&readme)?, kept.as_deref())?;
        println!(
            "README.md {}",
            if kept.is_some() {
                "has the figures of its results"
            } else {
                "says that its figures were made by hand"
            }
        );
        return Ok(true);
    }
    let results = arguments.results.clone().unwrap_or_else(results_file);
    write(&readme, &kept, &results, arguments.results.is_some())?;
    Ok(true)
}

fn read(readme: &Path) -> Outcome<String> {
    files::read(readme)?.or_fail(|| format!("{} does not exist", readme.display()))
}

/// Of what was kept and what was measured since, the newest. The results are written first: without them, the check fails, and
/// the same command again makes up for it.
fn write(readme: &Path, kept: &Path, results: &Path, is_named: bool) -> Outcome {
    let known = files::read(kept)?;
    let new = files::read(results)?;
    if new.is_none() && (is_named || known.is_none()) {
        return failed(format!(
            "{} does not exist: run p1 to p5, or name a file with --results",
            results.display()
        ));
    }
    let text = [known.unwrap_or_default(), new.unwrap_or_default()].join("\n");
    let archive = Archive::read(&text);
    let chosen = choose(&archive)?;
    let lines = text_of(chosen.iter().flat_map(|one| &one.lines));
    let section = section(&lines)?;
    let old = read(readme)?;
    let (before, _, after) = split(&old)?;
    files::replace(kept, &lines)?;
    files::replace(readme, &format!("{before}{section}{after}"))?;
    println!("README.md has the figures of {} results, which are kept in {KEPT}", chosen.len());
    let mut warnings: Vec<String> =
        chosen.iter().filter_map(|one| Some(format!("{}: {}", one.id, one.machine.warning()?))).collect();
    warnings.dedup();
    for warning in warnings {
        println!("{warning}");
    }
    Ok(())
}

/// Whether README.md has what the kept results say; without such, whether it says so.
fn check(readme: &str, kept: Option<&str>) -> Outcome {
    let (_, found, _) = split(readme)?;
    let Some(kept) = kept else {
        if found.contains(BY_HAND) {
            return Ok(());
        }
        return failed(format!(
            "README.md has figures, but there is no {KEPT} that they come from: run `{COMMAND} readme`, and commit both files"
        ));
    };
    let expected = section(kept)?;
    if found == expected {
        return Ok(());
    }
    let (line, wanted) = first_difference(found, &expected);
    failed(format!(
        "README.md does not have the figures of {KEPT}: run `{COMMAND} readme`\n  found:    {line}\n  expected: {wanted}"
    ))
}

fn first_difference<'a>(found: &'a str, expected: &'a str) -> (&'a str, &'a str) {
    let end = "(nothing)";
    let (mut found, mut expected) = (found.lines(), expected.lines());
    loop {
        match (found.next(), expected.next()) {
            (None, None) => return (end, end),
            (one, other) if one != other => return (one.unwrap_or(end), other.unwrap_or(end)),
            _ => {}
        }
    }
}

/// What is before the section, the section, and what is after it. The two lines that enclose it belong to neither.
fn split(readme: &str) -> Outcome<(&str, &str, &str)> {
    let place = |marker: &str| {
        let mut found = readme.match_indices(marker);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            (None, _) => failed(format!("README.md has no line `{marker}`")),
            (Some(_), Some(_)) => failed(format!("README.md has `{marker}` twice")),
        }
    };
    let (begin, end) = (place(BEGIN)? + BEGIN.len(), place(END)?);
    if begin > end {
        return failed(format!("README.md has `{END}` before `{BEGIN}`"));
    }
    Ok((&readme[..begin], &readme[begin..end], &readme[end..]))
}
