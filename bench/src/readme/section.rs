//! What stands between the two lines of README.md: a table, and where its figures come from.

use std::fmt::Write as _;

use ladoga_lab::page::date;

use super::KEPT;
use crate::page::{printable, with_commas};
use crate::report::{Archive, COMMAND, Published, Series};
use crate::stop::{Outcome, failed};

/// A row of the table.
pub(super) struct Claim {
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
const SERVERS: &[(&str, &str)] = &[("nginx", "nginx, which stores nothing"), ("redis", "Redis")];

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

pub(super) const CLAIMS: [Claim; 7] = [
    claim("p1", "", SERVERS),
    claim("p2", "", SERVERS),
    claim("p3", "", &[("redis", "Redis")]),
    engine("p4", "as the fill left it, 1 thread"),
    engine("p4", "reopened, 1 thread"),
    engine("p5", "not synced, 1 thread"),
    engine("p5", "synced, 64 threads"),
];

/// A contest for each row of the table.
pub(super) fn choose(archive: &Archive) -> Outcome<Vec<&Published>> {
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
        if let Some(why) = contest.rows.iter().find_map(|row| contest.why_void(&row.subject)) {
            return failed(format!("the results of {} count for nothing: {why}", claim.id));
        }
        chosen.push(*contest);
    }
    Ok(chosen)
}

/// The section, with an empty line at both ends.
pub(super) fn section(kept: &str) -> Outcome<String> {
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
        "`{}` on {day}, {rounds} {}. {}. {}.{warning}",
        plain(&command),
        if rounds == 1 { "round" } else { "rounds" },
        versions.join(", "),
        plain(&contest.machine.to_string())
    )
}

/// Text that stands in a table, between backticks, or anywhere else in Markdown, and nothing but text.
fn plain(text: &str) -> String {
    printable(text).replace('`', "'").replace('|', "/").replace('<', "‹").replace('[', "(").replace(']', ")")
}
