//! One page of all results, and its charts as files.
//!
//! | module | is |
//! | --- | --- |
//! | [`document`] | the page as a whole |
//! | [`tables`] | targets and figures as tables |
//! | [`charts`] | which charts there are |
//! | [`bars`], [`percentiles`] | the two kinds of them |
//! | [`chart`] | a drawing, in the page or as a file |
//! | [`targets`], [`verdict`] | the bounds of the claims, and whether they are kept |
//! | [`expected`] | what a complete set of results has |
//! | [`text`] | text that comes out of a file |

mod bars;
mod chart;
mod charts;
mod document;
mod expected;
mod percentiles;
mod tables;
mod targets;
mod text;
mod verdict;

#[cfg(test)]
mod tests;

pub(crate) use text::{printable, with_commas};

use std::fs;
use std::path::{Path, PathBuf};

use crate::arguments::Arguments;
use crate::context::results_file;
use crate::files;
use crate::report::Archive;
use crate::stop::{OrFail, Outcome, failed};

/// The command `page`.
pub(crate) fn run(arguments: &Arguments) -> Outcome<bool> {
    let results = arguments.results.clone().unwrap_or_else(results_file);
    let archive = read(&results)?;
    if let Some(folder) = &arguments.svg {
        write_charts(&archive, folder)?;
    }
    if arguments.svg.is_none() || arguments.output.is_some() {
        let output = arguments.output.clone().unwrap_or_else(|| results_file().with_file_name("page.html"));
        write(&archive, &output)?;
    }
    Ok(true)
}

/// After all comparisons: the page of their results, beside them.
pub(crate) fn write_for(results: &Path, is_smoke: bool) -> Outcome {
    let archive = read(results)?;
    let name = if is_smoke { "smoke.html" } else { "page.html" };
    write(&archive, &results.with_file_name(name))
}

/// After a smoke of everything: whether targets and charts name what the comparisons publish.
pub(crate) fn check_names(results: &Path) -> Outcome {
    let unknown = expected::unknown_names(&read(results)?);
    if unknown.is_empty() {
        return Ok(());
    }
    failed(format!(
        "src/page/ names what no comparison has published (was it renamed?):\n  {}",
        unknown.join("\n  ")
    ))
}

fn read(results: &Path) -> Outcome<Archive> {
    let text = files::read(results)?.or_fail(|| {
        format!("{} does not exist: run `make bench`, or name a file with --results", results.display())
    })?;
    let archive = Archive::read(&text);
    if archive.published.is_empty() && archive.stopped.is_empty() {
        return failed(format!("{} has no results of this program", results.display()));
    }
    Ok(archive)
}

fn write(archive: &Archive, output: &Path) -> Outcome {
    files::replace(output, &document::render(archive))?;
    println!("page: {}", output.display());
    Ok(())
}

fn write_charts(archive: &Archive, folder: &Path) -> Outcome {
    fs::create_dir_all(folder).or_fail(|| format!("cannot create {}", folder.display()))?;
    let charts = document::charts(archive);
    for chart in &charts {
        let path: PathBuf = folder.join(format!("{}.svg", chart.name));
        files::replace(&path, &chart.as_file())?;
        println!("chart: {}", path.display());
    }
    if charts.is_empty() {
        println!("no chart: nothing was measured that has one");
    }
    Ok(())
}
