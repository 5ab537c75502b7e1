//! The figures of README.md: written from results that are kept beside it, and checked against them.

use std::fmt::Write as _;
use std::path::Path;

use ladoga_lab::page::date;

use crate::arguments::Arguments;
use crate::context::{bench_folder, results_file, root_folder};
use crate::files;
use crate::page::{printable, with_commas};
use crate::report::{Archive, COMMAND, Published, Series};
use crate::stop::{OrFail, Outcome, failed};

const BEGIN: &str = "<!-- measured: begin; `ladoga-bench readme` writes what is between these two lines -->";
const END: &str = "<!-- measured: end -->";
/// What a section says that comes from no file of results.
const BY_HAND: &str = "made by hand";
const KEPT: &str = "bench/results-readme.jsonl";

/// A row of the table.
struct Claim {
    id: &'static str,
    part: &'static str,
    figure: &'static str,
    /// Behind the figure.
    unit: &'static str,
    /// The references, and their names for people.
    references: &'static [(&'static str, &'static str)],
}

const RATE: &str = "requests/s";
const CPU: &str = "server CPU, µs/request";
const EACH: &str = "µs/operation";
const ENGINES: &[(&str, &str)] = &[("fjall", "fjall"), ("RocksDB", "RocksDB")];
const SERVERS: &[(&str, &str)] = &[("nginx", "nginx"), ("redis", "Redis")];

const fn claim(
    id: &'static str,
    part: &'static str,
    references: &'static [(&'static str, &'static str)],
) -> Claim {
    Claim { id, part, figure: RATE, unit: "/s", references }
}

const fn engine(id: &'static str, part: &'static str) -> Claim {
    Claim { figure: EACH, unit: " µs", ..claim(id, part, ENGINES) }
}

const CLAIMS: [Claim; 7] = [
    claim("p1", "", SERVERS),
    claim("p2", "", SERVERS),
    claim("p3", "", &[("redis", "Redis")]),
    engine("p4", "as the fill left it, 1 thread"),
    engine("p4", "reopened, 1 thread"),
    engine("p5", "not synced, 1 thread"),
    engine("p5", "synced, 64 threads"),
];

/// The command `readme`.
pub(crate) fn run(arguments: &Arguments) -> Outcome<bool> {
    let (readme, kept) = (root_folder().join("README.md"), bench_folder().join("results-readme.jsonl"));
    if arguments.check {
        check(&text_of(&readme)?, files::read(&kept)?.as_deref())?;
        return Ok(true);
    }
    let results = arguments.results.clone().unwrap_or_else(results_file);
    write(&readme, &kept, &results, arguments.results.is_some())?;
    Ok(true)
}

fn text_of(readme: &Path) -> Outcome<String> {
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
    let lines: String = chosen.iter().flat_map(|one| &one.lines).map(|line| format!("{line}\n")).collect();
    let section = section(&lines)?;
    let old = text_of(readme)?;
    let (before, _, after) = split(&old)?;
    files::replace(kept, &lines)?;
    files::replace(readme, &format!("{before}{section}{after}"))?;
    println!("README.md has the figures of {} results, which are kept in {KEPT}", chosen.len());
    for one in chosen.iter().filter_map(|one| one.machine.warning().map(|warning| (&one.id, warning))) {
        println!("{}: {}", one.0, one.1);
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

/// A contest for each row of the table.
fn choose(archive: &Archive) -> Outcome<Vec<&Published>> {
    let latest = archive.latest();
    let mut chosen = Vec::new();
    for claim in &CLAIMS {
        let found = latest.iter().find(|one| (one.id.as_str(), one.part.as_str()) == (claim.id, claim.part));
        let ours = found.and_then(|one| one.series(&one.rows.first()?.subject, claim.figure));
        let Some((contest, _)) = found.zip(ours) else {
            let part = if claim.part.is_empty() { String::new() } else { format!(" ({})", claim.part) };
            return failed(format!(
                "there are no results of {}{part}: run `{COMMAND} {}`",
                claim.id, claim.id
            ));
        };
        if contest.is_smoke {
            return failed(format!("the results of {} are those of the smoke, which mean nothing", claim.id));
        }
        chosen.push(*contest);
    }
    Ok(chosen)
}

/// The section, with an empty line at both ends.
fn section(kept: &str) -> Outcome<String> {
    let archive = Archive::read(kept);
    if let Some(line) = archive.unreadable.first() {
        return failed(format!("line {line} of {KEPT} cannot be read: run `{COMMAND} readme`"));
    }
    let chosen = choose(&archive)?;
    let mut out = String::from(
        "\n\nEach row was measured in turns with its references, in one run on one machine, where the load generator takes a core \
         of its own: the median of the rounds, with the lowest and the highest in brackets.\n\n\
         | | Ladoga | beside it |\n| --- | --- | --- |\n",
    );
    for (claim, contest) in CLAIMS.iter().zip(&chosen) {
        let ours = contest.rows.first().map_or("", |row| &row.subject);
        let references = claim
            .references
            .iter()
            .map(|(subject, name)| format!("{name}: {}", cell(contest, subject, claim)));
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            plain(&with_commas(&contest.title)),
            cell(contest, ours, claim),
            references.collect::<Vec<_>>().join("; ")
        );
    }
    out.push('\n');
    for (source, names) in sources(&chosen) {
        let _ = writeln!(out, "- {}: {source}", names.join(", "));
    }
    let _ = write!(
        out,
        "\nThis section is written by `{COMMAND} readme`, from [{KEPT}]({KEPT}), which has every round.\n\n"
    );
    Ok(out)
}

/// `138,494/s (131,051..139,860) at 7.01 µs of CPU`
fn cell(contest: &Published, subject: &str, claim: &Claim) -> String {
    let Some(series) = contest.series(subject, claim.figure) else { return "not measured".to_owned() };
    let decimals =
        |figure: &str| contest.columns.iter().find(|one| one.name == figure).map_or(0, |one| one.decimals);
    let text = series.text(decimals(claim.figure));
    // The unit belongs to the median, which is before the spread.
    let text = match text.split_once(" (") {
        Some((median, spread)) => format!("{median}{} ({spread}", claim.unit),
        None => format!("{text}{}", claim.unit),
    };
    match contest.series(subject, CPU).and_then(Series::median) {
        Some(cpu) => format!("{text} at {cpu:.*} µs of CPU", decimals(CPU)),
        None => text,
    }
}

/// Where the figures come from, each with the comparisons that it is the source of.
fn sources(chosen: &[&Published]) -> Vec<(String, Vec<String>)> {
    let mut sources: Vec<(String, Vec<String>)> = Vec::new();
    for contest in chosen {
        let name = contest.comparison().to_uppercase();
        let source = source(contest);
        match sources.iter_mut().find(|(known, _)| *known == source) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => sources.push((source, vec![name])),
        }
    }
    sources
}

fn source(contest: &Published) -> String {
    let day: String = date(contest.time).chars().take(10).collect();
    let rounds = contest.rows.iter().flat_map(|row| &row.series).map(Series::count).max().unwrap_or(0);
    // The same for all comparisons of one run.
    let command = contest.command.replace(&format!(" {}", contest.comparison()), " NAME");
    let versions: Vec<String> =
        contest.versions.iter().map(|(name, version)| plain(&format!("{name} {version}"))).collect();
    let warning = contest.machine.warning().map(|warning| format!(" **{warning}.**")).unwrap_or_default();
    format!(
        "`{}` on {day}, {rounds} rounds. {}. {}.{warning}",
        plain(&command),
        versions.join(", "),
        plain(&contest.machine.to_string())
    )
}

/// Text that stands in a table, between backticks, or anywhere else in Markdown, and nothing but text.
fn plain(text: &str) -> String {
    printable(text).replace('`', "'").replace('|', "/").replace('<', "‹").replace('[', "(").replace(']', ")")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{Line, complete, file};

    fn readme(section: &str) -> String {
        format!("# Ladoga\n\n{BEGIN}{section}{END}\n\nMore.\n")
    }

    fn reason(outcome: Outcome) -> String {
        outcome.expect_err("it fails").to_string()
    }

    #[test]
    fn the_readme_has_the_figures_of_the_kept_results() {
        let readme = text_of(&root_folder().join("README.md")).expect("the README");
        let kept = files::read(&bench_folder().join("results-readme.jsonl")).expect("it can be read");
        assert_eq!(check(&readme, kept.as_deref()), Ok(()));
    }

    #[test]
    fn the_section_has_a_row_a_claim_and_says_where_it_is_from() {
        let section = section(&complete()).expect("all results");
        for part in [
            "| GET of 1,000,000 records | 138,494/s (124,645..152,343) at 7.00 µs of CPU | nginx: 135,000/s (121,500..148,500) at \
             7.00 µs of CPU; Redis: 101,000/s",
            "| storage alone: not synced, 1 thread | 0.50 µs (0.50..0.55) | fjall: 3.25 µs (3.25..3.58); RocksDB: 4.00 µs",
            "- P1, P2, P3, P4, P5: `cargo run --release --manifest-path bench/Cargo.toml -- NAME --threads 1` on 2026-11-25, 3 rounds. \
             ladoga abc1234, nginx 1.22.1, fjall 3.1.13. 2 cores (AMD EPYC), 24 GiB of memory, Linux 6.18, data on ext4.\n",
            "[bench/results-readme.jsonl](bench/results-readme.jsonl)",
        ] {
            assert!(section.contains(part), "{part} in {section}");
        }
        assert_eq!(section.matches("\n| ").count(), CLAIMS.len() + 2, "{section}");
    }

    #[test]
    fn a_figure_that_was_changed_is_found() {
        let kept = complete();
        let section = section(&kept).expect("all results");
        assert_eq!(check(&readme(&section), Some(&kept)), Ok(()));
        let changed = readme(&section.replace("138,494/s", "238,494/s"));
        let reason = reason(check(&changed, Some(&kept)));
        assert!(
            reason.contains("238,494/s")
                && reason.contains("expected: | GET of 1,000,000 records | 138,494/s"),
            "{reason}"
        );
    }

    #[test]
    fn without_results_the_section_says_that_it_is_made_by_hand() {
        assert_eq!(check(&readme("\n\nThis table was made by hand.\n\n"), None), Ok(()));
        assert!(reason(check(&readme("\n| a | 1/s |\n"), None)).contains("no bench/results-readme.jsonl"));
        let reason = reason(check(&readme("\n\nThis table was made by hand.\n\n"), Some(&complete())));
        assert!(reason.contains("does not have the figures"), "{reason}");
    }

    #[test]
    fn the_two_lines_stand_there_once_and_in_order() {
        for (text, part) in [
            ("nothing".to_owned(), "no line"),
            (readme("") + BEGIN, "twice"),
            (format!("{END}\n{BEGIN}"), "before"),
            (format!("{BEGIN}\n"), "no line"),
        ] {
            assert!(reason(check(&text, None)).contains(part), "{text}");
        }
    }

    #[test]
    fn results_that_are_not_enough_are_refused() {
        let all = complete();
        let without: String = all
            .lines()
            .filter(|line| !line.contains("\"comparison\":\"p3\""))
            .map(|line| format!("{line}\n"))
            .collect();
        assert!(section(&without).expect_err("p3 is missing").to_string().contains("no results of p3"));
        let smoke = all.replace("\"smoke\":false", "\"smoke\":true");
        assert!(section(&smoke).expect_err("of the smoke").to_string().contains("mean nothing"));
        let torn = &all[..all.len() - 10];
        assert!(section(torn).expect_err("half of a line").to_string().contains("cannot be read"));
    }

    #[test]
    fn a_reference_that_is_missing_is_named_and_a_busy_machine_is_too() {
        let without: String = complete()
            .lines()
            .filter(|line| !line.contains("\"RocksDB\""))
            .map(|line| format!("{line}\n"))
            .collect();
        let section = section(&without.replace("\"busy\":0.01", "\"busy\":0.4")).expect("ours are there");
        assert!(section.contains("RocksDB: not measured"), "{section}");
        assert!(
            section.contains("**40 % of the cores were busy before the run: do not quote these figures.**"),
            "{section}"
        );
    }

    #[test]
    fn hostile_text_stays_text() {
        let title = format!("a|b `c` <b>\n{END} [x](javascript:y)");
        let hostile = Line {
            title: &title,
            commit: "`|\n## x",
            figures: &[("requests/s", 0, true, &[1.0])],
            time: crate::report::fixture::NOON + 1,
            ..Line::default()
        };
        let section = section(&(complete() + &file(&[hostile]))).expect("all results");
        assert!(
            !section.contains(END) && !section.contains("\n## x") && !section.contains("<b>"),
            "{section}"
        );
        assert!(
            section.contains(
                "| a/b 'c' ‹b> ‹!-- measured: end --> (x)(javascript:y) | 1/s | nginx: not measured;"
            ),
            "{section}"
        );
    }

    #[test]
    fn new_results_replace_those_that_were_kept() {
        let folder = std::env::temp_dir().join(format!("ladoga-bench-readme-{}", std::process::id()));
        let [readme_file, kept, results] =
            ["README.md", "kept.jsonl", "results.jsonl"].map(|name| folder.join(name));
        let run = |is_named| write(&readme_file, &kept, &results, is_named);
        files::replace(&readme_file, &readme("\nmade by hand\n")).expect("a file");
        assert!(reason(run(false)).contains("does not exist"));
        files::replace(&results, &complete()).expect("a file");
        assert_eq!(run(false), Ok(()));
        let newer = Line {
            figures: &[("requests/s", 0, true, &[150_000.0])],
            time: crate::report::fixture::NOON + 60,
            ..Line::default()
        };
        files::replace(&results, &file(&[newer])).expect("a file");
        assert_eq!(run(true), Ok(()), "the others are kept");
        let text = text_of(&readme_file).expect("a file");
        let kept_text = files::read(&kept).expect("a file").expect("it is there");
        std::fs::remove_dir_all(&folder).expect("a folder");
        assert!(text.contains("| 150,000/s |") && text.contains("124,393/s"), "{text}");
        assert!(text.starts_with("# Ladoga") && text.ends_with("More.\n"), "{text}");
        assert_eq!(check(&text, Some(&kept_text)), Ok(()));
        assert_eq!(kept_text.lines().filter(|line| line.contains("\"comparison\":\"p1\"")).count(), 1);
    }
}
