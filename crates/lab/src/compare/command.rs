use std::path::{Path, PathBuf};

use super::judge::{Better, Rounds, Verdict, judge};
use crate::error::{LabError, Outcome};
use crate::files;
use crate::page::{self, ComparedPage, ComparedRun, NamedStacks, count, micros};
use crate::record::{OWN, Profiled, Report, Run, SecondRow};

/// Compares two reports: prints what changed, and writes a page where one is wanted.
pub(crate) fn compare(paths: [&PathBuf; 2], page_path: Option<&Path>) -> Outcome<()> {
    page_path.map_or(Ok(()), files::check_writable)?;
    let [before, after] = [page::read_report(paths[0])?, page::read_report(paths[1])?];
    let compared = compare_reports(&before, &after, paths.map(|path| path.display().to_string()));
    if compared.runs.is_empty() {
        return Err(LabError::Usage("the two reports have no run in common".to_owned()));
    }
    print(&compared);
    if let Some(path) = page_path {
        files::replace(path, page::render_comparison(&compared))?;
        println!("\nWritten to {}.", path.display());
    }
    Ok(())
}

fn compare_reports(before: &Report, after: &Report, names: [String; 2]) -> ComparedPage {
    let mut runs = Vec::new();
    for key in keys(before) {
        let [old, new] = [runs_of(before, key), runs_of(after, key)];
        if !new.is_empty() {
            runs.push(compare_runs(key, &old, &new));
        }
    }
    let [one, other] = names;
    let source = |name: String, report: &Report| {
        format!(
            "{name}: {} · {} × {}, {}",
            report.title, report.machine.cores, report.machine.cpu, report.machine.kernel
        )
    };
    let sources = [source(one, before), source(other, after)];
    ComparedPage { sources, remarks: remarks(before, after), runs }
}

type Key<'a> = (&'a str, &'a str);

fn key_of(run: &Run) -> Key<'_> {
    (&run.stage, &run.subject)
}

/// Every stage of every subject, once.
fn keys(report: &Report) -> Vec<Key<'_>> {
    let mut keys = Vec::new();
    for run in &report.runs {
        if !keys.contains(&key_of(run)) {
            keys.push(key_of(run));
        }
    }
    keys
}

fn runs_of<'a>(report: &'a Report, key: Key<'_>) -> Vec<&'a Run> {
    report.runs.iter().filter(|run| key_of(run) == key).collect()
}

fn remarks(before: &Report, after: &Report) -> Vec<String> {
    let mut remarks = vec![
        "A change is told where a Mann-Whitney U test over the seconds of all rounds gives p < 0.01, where it is at \
         least 3 %, and where it is larger than what the rounds of one side differ by. Everything else is within noise."
            .to_owned(),
    ];
    if before.machine != after.machine {
        remarks.push(
            "The two reports come from different machines or versions: a change may be theirs.".to_owned(),
        );
    }
    if [before, after].iter().any(|report| report.runs.iter().all(|run| run.round == 1)) {
        remarks.push(
            "One report has one round only: how much two rounds of the same work differ is not known there. \
             --rounds 3 shows it."
                .to_owned(),
        );
    }
    let only = |one: &Report, other: &Report| {
        keys(one)
            .into_iter()
            .filter(|key| runs_of(other, *key).is_empty())
            .map(|key| key.0.to_owned())
            .collect::<Vec<_>>()
    };
    for (whose, missing) in [("before", only(before, after)), ("after", only(after, before))] {
        if !missing.is_empty() {
            remarks.push(format!("Only in the report {whose}: {}.", missing.join("; ")));
        }
    }
    remarks
}

fn compare_runs(key: Key<'_>, before: &[&Run], after: &[&Run]) -> ComparedRun {
    let mut rows = Vec::new();
    let mut row = |name: &str, of: &dyn Fn(&SecondRow) -> Option<f64>, better, text: fn(f64) -> String| {
        let verdict = judge(&seconds(before, of), &seconds(after, of), better);
        rows.push(row_of(name, &verdict, text));
    };
    row("answered/s", &|second| Some(second.completed as f64), Better::Higher, count);
    for (index, name) in ["p50", "p99", "p99.9", "max"].into_iter().enumerate() {
        row(name, &|second| Some(second.latency?[index]), Better::Lower, micros);
    }
    let cpu = |runs: &[&Run]| -> Rounds {
        runs.iter().map(|run| run.node.cpu_us_per_request.into_iter().collect()).collect()
    };
    let verdict = judge(&cpu(before), &cpu(after), Better::Lower);
    if verdict.change.is_some() {
        rows.push(row_of("server CPU a request", &verdict, micros));
    }
    let spectrum = |runs: &[&Run]| runs.first().map(|run| run.spectrum.clone()).unwrap_or_default();
    ComparedRun {
        title: if key.1 == OWN { key.0.to_owned() } else { format!("{}, {}", key.0, key.1) },
        rows,
        spectra: [spectrum(before), spectrum(after)],
        difference: difference(before, after),
    }
}

fn seconds(runs: &[&Run], of: &dyn Fn(&SecondRow) -> Option<f64>) -> Rounds {
    runs.iter().map(|run| run.seconds.iter().filter_map(of).collect()).collect()
}

fn row_of(name: &str, verdict: &Verdict, text: fn(f64) -> String) -> [String; 5] {
    let value = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), text);
    let change = verdict.change.map_or_else(String::new, |change| format!("{:+.1} %", change * 100.0));
    [name.to_owned(), value(verdict.before), value(verdict.after), change, verdict.words.clone()]
}

fn difference(before: &[&Run], after: &[&Run]) -> Result<serde_json::Value, String> {
    let [before, after] = [stacks(before)?, stacks(after)?];
    Ok(before.difference(&after))
}

/// The samples of all rounds; why there are none.
fn stacks(runs: &[&Run]) -> Result<NamedStacks, String> {
    let (mut all, mut reason) = (NamedStacks::default(), "no run".to_owned());
    for run in runs {
        match &run.profile {
            Profiled::Missing(missing) => reason.clone_from(missing),
            Profiled::Samples { data, .. } => match NamedStacks::of_samples(data) {
                Some(stacks) => all.add(&stacks),
                None => "the samples in the report make no sense".clone_into(&mut reason),
            },
        }
    }
    if all.is_empty() { Err(reason) } else { Ok(all) }
}

fn print(compared: &ComparedPage) {
    println!("before: {}\nafter:  {}", compared.sources[0], compared.sources[1]);
    for remark in &compared.remarks {
        println!("note: {remark}");
    }
    for run in &compared.runs {
        println!("\n{}", run.title);
        for [figure, before, after, change, verdict] in &run.rows {
            println!("  {figure:<20} {before:>12} {after:>12} {change:>10}  {verdict}");
        }
        if let Err(reason) = &run.difference {
            println!("  no differential flame graph: {reason}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;

    #[test]
    fn a_report_compared_with_itself_is_all_noise() {
        let report = fixture::report();
        let compared = compare_reports(&report, &report, ["a".to_owned(), "b".to_owned()]);
        assert_eq!(compared.runs.len(), 2);
        for row in compared.runs.iter().flat_map(|run| &run.rows) {
            assert!(row[4].starts_with("within noise") || row[4].starts_with("cannot be told"), "{row:?}");
        }
        assert!(compared.runs[0].difference.is_ok(), "{:?}", compared.runs[0].difference);
        assert!(compared.runs[1].difference.as_ref().is_err_and(|reason| reason.contains("404")));
    }

    #[test]
    fn what_is_slower_is_named() {
        let (before, mut after) = (fixture::report(), fixture::report());
        for row in &mut after.runs[0].seconds {
            row.latency = row.latency.map(|latency| latency.map(|micros| micros * 1.5));
        }
        after.runs.truncate(1);
        let compared = compare_reports(&before, &after, ["a".to_owned(), "b".to_owned()]);
        let p99 = compared.runs[0].rows.iter().find(|row| row[0] == "p99").unwrap();
        assert_eq!((p99[3].as_str(), p99[4].starts_with("worse")), ("+50.0 %", true), "{p99:?}");
        assert!(compared.remarks.iter().any(|remark| remark.starts_with("Only in the report before: ")));
    }
}
