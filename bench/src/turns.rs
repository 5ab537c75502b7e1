//! Two builds of the node in turns: every comparison is run with one and with the other, alternately, each time as a
//! process of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::arguments::Arguments;
use crate::comparisons::ALL;
use crate::context::{RESULTS_VARIABLE, bench_folder, results_file_of};
use crate::report::Series;
use crate::stop::{OrFail, Outcome, failed};

/// One of the two builds: the node, and the program that measures it. P4 and P5 measure the engine that is linked into the
/// latter.
#[derive(Debug)]
struct Build {
    node: PathBuf,
    bench: PathBuf,
}

/// A row's figure: comparison, title, subject, name.
type Figure = (String, String, String, String);

/// What was measured with each of the two, a value a turn.
type Figures = BTreeMap<Figure, [Series; 2]>;

/// Runs the turns and prints a table. False if a comparison failed.
pub(crate) fn run(arguments: &Arguments) -> Outcome<bool> {
    let builds = builds(arguments)?;
    let mut figures = Figures::new();
    let mut passed = true;
    for name in names(arguments)? {
        for turn in 0..arguments.rounds.unwrap_or(3) {
            // A B B A: what changes steadily meets both alike.
            for index in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
                println!("\n## {name}, turn {}, {}", turn + 1, ["before", "after"][index]);
                passed &= take_turn(&builds[index], name, arguments, &mut figures, (turn, index))?;
            }
        }
        println!("\n{}", table(&figures, name));
    }
    println!("# Before and after\n\n{}", table(&figures, ""));
    Ok(passed)
}

fn builds(arguments: &Arguments) -> Outcome<[Build; 2]> {
    let Some(before) = &arguments.before else {
        return failed("turns needs --before FILE, the node of before");
    };
    let bench = this_program()?;
    let after = crate::references::node::binary(bench_folder().parent().unwrap_or_else(|| Path::new(".")))?;
    let bench_before = arguments.before_bench.clone().unwrap_or_else(|| bench.clone());
    for program in [before, &bench_before] {
        if !program.is_file() {
            return failed(format!("{} does not exist", program.display()));
        }
    }
    Ok([Build { node: before.clone(), bench: bench_before }, Build { node: after, bench }])
}

fn names(arguments: &Arguments) -> Outcome<Vec<&'static str>> {
    let Some(list) = &arguments.comparisons else { return Ok(ALL.iter().map(|one| one.name).collect()) };
    let find = |name: &str| ALL.iter().find(|one| one.name == name).map(|one| one.name);
    list.split(',')
        .map(|name| find(name).or_fail(|| format!("there is no comparison `{name}`")))
        .collect::<Result<_, _>>()
}

fn take_turn(
    build: &Build,
    name: &str,
    arguments: &Arguments,
    figures: &mut Figures,
    place: (usize, usize),
) -> Outcome<bool> {
    let results = results_file_of(None);
    let known = fs::read_to_string(&results).map_or(0, |text| text.len());
    let own = results.with_file_name("turn.jsonl");
    if own.exists() {
        // One that was interrupted left it.
        fs::remove_file(&own).or_fail(|| format!("cannot remove {}", own.display()))?;
    }
    // These have an engine linked in, or read what the nodes of a cluster say of themselves.
    let is_of_the_build = matches!(name, "p4" | "p5" | "lookup" | "p14" | "p15");
    let bench = if is_of_the_build { &build.bench } else { &this_program()? };
    let mut command = child(bench, build, name, arguments, &own);
    let status = command.status().or_fail(|| format!("cannot start {}", bench.display()))?;
    // A program of before this variable appends to the results.
    for (file, known) in [(&own, 0), (&results, known)] {
        let text = fs::read_to_string(file).unwrap_or_default();
        let new = text.get(known..).unwrap_or_default();
        for line in new.lines().filter(|line| !line.is_empty()) {
            let row: Value =
                serde_json::from_str(line).or_fail(|| format!("cannot read {}", file.display()))?;
            note(figures, &row, place);
        }
        set_aside(file, known, new)?;
    }
    Ok(status.success())
}

/// Takes rows out of the results: those of one round, or of the build of before, are not today's figures.
fn set_aside(results: &Path, known: usize, new: &str) -> Outcome {
    if new.is_empty() {
        return Ok(());
    }
    let aside = results.with_file_name("turns.jsonl");
    let append = || {
        OpenOptions::new().append(true).create(true).open(&aside)?.write_all(new.as_bytes())?;
        OpenOptions::new().write(true).open(results)?.set_len(known as u64)
    };
    append().or_fail(|| format!("cannot move rows from {} to {}", results.display(), aside.display()))
}

fn this_program() -> Outcome<PathBuf> {
    std::env::current_exe().or_fail(|| "cannot find this program".to_owned())
}

/// One round of a comparison, with what the command line says of it.
fn child(bench: &Path, build: &Build, name: &str, arguments: &Arguments, own: &Path) -> Command {
    let mut command = Command::new(bench);
    command.args([name, "--rounds", "1"]);
    command.env("LADOGA_BIN", &build.node).env("CARGO_MANIFEST_DIR", bench_folder());
    command.env(RESULTS_VARIABLE, own);
    let threads = arguments.threads.map(|threads| threads as u64);
    let numbers =
        [("--records", arguments.records), ("--seconds", arguments.seconds), ("--threads", threads)];
    for (flag, number) in numbers.into_iter().filter_map(|(flag, number)| Some((flag, number?))) {
        command.args([flag, &number.to_string()]);
    }
    for (flag, text) in [("--memory", &arguments.memory), ("--only", &arguments.only)] {
        if let Some(text) = text {
            command.args([flag, text]);
        }
    }
    command
}

/// Writes down a row of a turn of one of the two. A turn that failed has no value, and moves none to another turn: what is
/// compared was measured one after the other.
fn note(figures: &mut Figures, row: &Value, (turn, index): (usize, usize)) {
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    for (name, figure) in row["figures"].as_object().into_iter().flatten() {
        let key = (text("comparison"), text("title"), text("subject"), name.clone());
        if let Some(median) = figure["median"].as_f64() {
            let series = &mut figures.entry(key).or_default()[index];
            while series.values().len() < turn {
                series.push(f64::NAN);
            }
            series.push(median);
        }
    }
}

/// The figures of a comparison, or of all if `name` is empty.
fn table(figures: &Figures, name: &str) -> String {
    let mut out = String::from(
        "| | of | figure | before | after | after / before |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    let wanted = figures.iter().filter(|((comparison, ..), _)| name.is_empty() || comparison == name);
    for ((comparison, title, subject, figure), [before, after]) in wanted {
        let (before_text, after_text) = (before.text(decimals(before)), after.text(decimals(after)));
        let ratio = after.ratio_to(before).text(2);
        let _ = writeln!(
            out,
            "| {} {title} | {subject} | {figure} | {before_text} | {after_text} | {ratio} |",
            comparison.to_uppercase()
        );
    }
    out
}

/// Enough to tell three digits.
fn decimals(series: &Series) -> usize {
    match series.median().map_or(0.0, f64::abs) {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::results_file_of;

    fn row(median: f64) -> Value {
        serde_json::json!({
            "comparison": "p1", "title": "get", "subject": "ladoga", "figures": { "req/s": { "median": median } },
        })
    }

    /// All later turns were compared with the one before or after.
    #[test]
    fn a_turn_that_failed_moves_no_other() {
        let all = [(0, 0, 100.0), (0, 1, 110.0), (1, 1, 220.0), (1, 0, 200.0), (2, 0, 400.0), (2, 1, 440.0)];
        for failed in 0..all.len() {
            let mut figures = Figures::new();
            for (_, (turn, index, median)) in all.iter().enumerate().filter(|(at, _)| *at != failed) {
                note(&mut figures, &row(*median), (*turn, *index));
            }
            let table = table(&figures, "p1");
            assert!(table.ends_with("| 1.10 (1.10..1.10) |\n"), "without {failed}: {table}");
        }
    }

    #[test]
    fn figures_of_both_builds_stand_side_by_side() {
        let mut figures = Figures::new();
        for (turn, index, median) in [(0, 0, 100.0), (0, 1, 120.0), (1, 1, 90.0), (1, 0, 100.0)] {
            note(&mut figures, &row(median), (turn, index));
        }
        let table = table(&figures, "p1");
        assert!(
            table.ends_with(
                "| P1 get | ladoga | req/s | 100 (100..100) | 105 (90..120) | 1.05 (0.90..1.20) |\n"
            ),
            "{table}"
        );
        assert_eq!(super::table(&figures, "p2").lines().count(), 2);
    }

    /// Rows of the build of before were in the results until a turn was over, and stayed there if it was interrupted.
    #[test]
    fn a_turn_has_a_file_of_its_own() {
        let build = Build { node: "node".into(), bench: "bench".into() };
        let own = Path::new("out/turn.jsonl");
        let command = child(&build.bench, &build, "p1", &Arguments::default(), own);
        let named = command.get_envs().find(|(name, _)| *name == RESULTS_VARIABLE);
        assert_eq!(named.and_then(|(_, file)| file), Some(own.as_os_str()));
        assert_eq!(results_file_of(Some(own.into())), own);
        assert!(results_file_of(None).ends_with("out/results.jsonl"));
    }

    #[test]
    fn rows_of_turns_are_none_of_the_results() {
        let folder = std::env::temp_dir().join(format!("ladoga-bench-turns-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("results.jsonl");
        fs::write(&file, "old\nnew\n").expect("a file");
        set_aside(&file, 4, "new\n").expect("both can be written");
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a file");
        assert_eq!((read("results.jsonl"), read("turns.jsonl")), ("old\n".to_owned(), "new\n".to_owned()));
        fs::remove_dir_all(&folder).expect("a folder to remove");
    }
}
