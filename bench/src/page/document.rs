//! The page as a whole.

use std::fmt::Write as _;

use ladoga_lab::page::{Page, contents, date, facts, strip};
use serde_json::{Value, json};

use super::chart::{Chart, STYLE};
use super::charts::{Section, sections};
use super::expected::missing;
use super::tables;
use super::targets::targets;
use super::text::{clean, printable};
use super::verdict::{Judged, Verdict, judge};
use crate::comparisons::{ALL, Comparison};
use crate::report::{Archive, COMMAND, Published, Series};

/// A comparison, what became of its targets, and what it lacks.
struct Judgement {
    comparison: &'static Comparison,
    judged: Vec<Judged>,
    missing: Vec<String>,
}

/// The whole file.
pub(super) fn render(archive: &Archive) -> String {
    let latest = archive.latest();
    let judgements: Vec<Judgement> = ALL
        .iter()
        .map(|comparison| Judgement {
            comparison,
            judged: targets(comparison.name).into_iter().map(|target| judge(target, &latest)).collect(),
            missing: missing(comparison.name, archive, &latest),
        })
        .collect();
    let sections = sections(&latest, &source);
    let mut body = head(&latest);
    body.push_str(&strip(&findings(&judgements)));
    for remark in remarks(archive, &latest) {
        let _ = writeln!(body, "<p class=\"remark\">{}</p>", clean(&remark));
    }
    let mut links = vec![("#targets".to_owned(), "Targets".to_owned())];
    links.extend(sections.iter().map(|section| (format!("#{}", section.id), section.title.to_owned())));
    links.push(("#missing".to_owned(), "What was not measured".to_owned()));
    links.push(("#figures".to_owned(), "Every figure".to_owned()));
    links.push(("#about".to_owned(), "How it was measured".to_owned()));
    body.push_str(&contents(&links));
    let all: Vec<(&Comparison, &[Judged])> =
        judgements.iter().map(|one| (one.comparison, one.judged.as_slice())).collect();
    let _ = write!(body, "<h2 id=\"targets\">Targets</h2>\n{}", tables::targets(&all));
    body.push_str(SPREAD);
    for section in &sections {
        body.push_str(&section_of(section));
    }
    body.push_str(&not_measured(&judgements));
    body.push_str(&figures(&judgements, &latest));
    body.push_str(ABOUT);
    Page {
        title: "Ladoga, measured",
        style: &[STYLE, PAGE_STYLE].concat(),
        body: &body,
        data: &data(&latest),
    }
    .render()
}

/// Every chart, to be written into files.
pub(super) fn charts(archive: &Archive) -> Vec<Chart> {
    sections(&archive.latest(), &source).into_iter().flat_map(|section| section.charts).collect()
}

const SPREAD: &str = "<p class=\"small\">Every figure is the median of its rounds; below it the lowest and the highest. A ratio is \
    taken round by round, and compares with what was measured in turns in the same run.</p>\n";
const PAGE_STYLE: &str = include_str!("page.css");
const ABOUT: &str = "<section>\n<h2 id=\"about\">How it was measured</h2>\n<dl>\n\
    <dt>side by side</dt><dd>rounds alternate between us and the reference, on the same machine, with the same durability</dd>\n\
    <dt>bars and lines</dt><dd>end at the median of the rounds; the whiskers reach from the lowest round to the highest</dd>\n\
    <dt>CPU a request</dt><dd>user and system time of the server, divided by the requests</dd>\n\
    <dt>throughput</dt><dd>a closed loop on the machine of the server: the generator has one of its cores. No latency is quoted from it</dd>\n\
    <dt>latency</dt><dd>an open loop: it counts from when a request was due, and has requests that failed with the time that they waited</dd>\n\
    <dt>rounds</dt><dd>all of them are in this file, as JSON in the element with the id report</dd>\n\
    <dt>limits</dt><dd>Debian builds db_bench with assertions, and RocksDB without them is faster; bench/README.md has the others</dd>\n\
    </dl>\n</section>\n";

/// Values of the contests that differ, each with the comparisons that it is of if there are several.
fn by_comparison(latest: &[&Published], value: impl Fn(&Published) -> String) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for one in latest {
        let (value, name) = (value(one), one.comparison().to_uppercase());
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => groups.push((value, vec![name])),
        }
    }
    if let [(value, _)] = &groups[..] {
        return value.clone();
    }
    let groups = groups.iter().map(|(value, names)| format!("{}: {value}", names.join(", ")));
    groups.collect::<Vec<_>>().join("; ")
}

fn versions(one: &Published) -> String {
    one.versions.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
}

/// What was measured, when, and how to do it again.
fn head(latest: &[&Published]) -> String {
    let times = || latest.iter().map(|one| one.time);
    let when = match (times().min(), times().max()) {
        (Some(first), Some(last)) if date(first) != date(last) => {
            format!("{} to {}", date(first), date(last))
        }
        (Some(first), _) => date(first),
        _ => "never".to_owned(),
    };
    let rows = [
        ("measured", when),
        ("machine", by_comparison(latest, |one| one.machine.to_string())),
        ("versions", by_comparison(latest, versions)),
        ("all of it again", "make bench".to_owned()),
        ("this page again", format!("{COMMAND} page")),
    ];
    let rows = rows.map(|(name, text)| (name, printable(&text)));
    facts(&rows)
}

/// In one line, for a chart that stands alone.
fn source(contests: &[&Published]) -> String {
    let of = |value: &dyn Fn(&Published) -> String| by_comparison(contests, value);
    let rounds = contests.iter().flat_map(|one| &one.rows).flat_map(|row| &row.series).map(Series::count);
    let rounds = rounds.max().unwrap_or(0);
    let commit = |one: &Published| {
        let ladoga = one.versions.iter().find(|(name, _)| name == "ladoga");
        format!("ladoga {}", ladoga.map_or("unknown", |(_, version)| version))
    };
    format!(
        "Median, lowest and highest of {rounds} rounds. {}, {}, {}.",
        of(&|one| date(one.time).chars().take(10).collect()),
        of(&commit),
        of(&|one| one.machine.to_string())
    )
}

/// How it went, the worst last.
fn findings(judgements: &[Judgement]) -> Vec<(&'static str, String)> {
    let all = || {
        judgements.iter().flat_map(|one| one.judged.iter().map(move |judged| (one.comparison.name, judged)))
    };
    let of = |wanted: fn(&Verdict) -> bool| all().filter(move |(_, judged)| wanted(&judged.verdict));
    let names = |found: &[(&str, &Judged)]| {
        let mut names: Vec<String> = found.iter().map(|(name, _)| name.to_uppercase()).collect();
        names.dedup();
        names.join(", ")
    };
    let mut out = Vec::new();
    let holds = of(|verdict| *verdict == Verdict::Holds).count();
    let bounded = of(|verdict| *verdict != Verdict::NoBound).count();
    out.push(("good", format!("{holds} of {bounded} targets hold")));
    let short: Vec<_> = of(|verdict| matches!(verdict, Verdict::Short(_) | Verdict::Void(_))).collect();
    if !short.is_empty() {
        out.push(("bad", format!("{} short: {}", short.len(), names(&short))));
    }
    let unknown: Vec<_> = of(|verdict| matches!(verdict, Verdict::Unknown(_))).collect();
    if !unknown.is_empty() {
        out.push(("bad", format!("{} not measured: {}", unknown.len(), names(&unknown))));
    }
    out
}

/// What keeps the figures from being quoted.
fn remarks(archive: &Archive, latest: &[&Published]) -> Vec<String> {
    let mut remarks = Vec::new();
    if latest.iter().any(|one| one.is_smoke) {
        remarks.push(
            "These are figures of the smoke, which runs everything as short as can be: they mean nothing."
                .to_owned(),
        );
    }
    let busy: Vec<&Published> =
        latest.iter().copied().filter(|one| one.machine.warning().is_some()).collect();
    if !busy.is_empty() {
        remarks.push(by_comparison(&busy, |one| one.machine.warning().unwrap_or_default()));
    }
    if !archive.unreadable.is_empty() {
        let lines: Vec<String> = archive.unreadable.iter().take(10).map(usize::to_string).collect();
        let more = if archive.unreadable.len() > lines.len() { " and more" } else { "" };
        remarks.push(format!(
            "{} lines of the results could not be read and are left out: {}{more}. A run that was killed leaves half of a line; \
             older versions of this program wrote less.",
            archive.unreadable.len(),
            lines.join(", ")
        ));
    }
    let known = |one: &&&Published| ALL.iter().any(|comparison| comparison.name == one.comparison());
    let unknown = latest.iter().filter(|one| !known(one)).map(|one| one.id.clone()).collect::<Vec<_>>();
    if !unknown.is_empty() {
        remarks.push(format!(
            "This program does not know what these are, and leaves them out: {}.",
            unknown.join(", ")
        ));
    }
    remarks
}

fn section_of(section: &Section) -> String {
    let mut out = format!(
        "<h2 id=\"{}\">{}</h2>\n<p>{}</p>\n<div class=\"charts\">\n",
        section.id,
        clean(section.title),
        clean(section.words)
    );
    out.extend(section.charts.iter().map(Chart::in_page));
    out.push_str("</div>\n");
    if !section.missing.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"missing\">Not drawn, because not measured: {}.</p>",
            clean(&section.missing.join("; "))
        );
    }
    out
}

fn not_measured(judgements: &[Judgement]) -> String {
    let mut rows = Vec::new();
    for one in judgements.iter().filter(|one| !one.missing.is_empty()) {
        rows.push((one.comparison.name.to_uppercase(), printable(&one.missing.join("; "))));
    }
    let mut out = String::from("<h2 id=\"missing\">What was not measured</h2>\n");
    if rows.is_empty() {
        out.push_str("<p>Nothing is missing.</p>\n");
        return out;
    }
    let rows: Vec<(&str, String)> = rows.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    out.push_str(&facts(&rows));
    out
}

fn figures(judgements: &[Judgement], latest: &[&Published]) -> String {
    let mut out = String::from(
        "<h2 id=\"figures\">Every figure</h2>\n<p class=\"bar\"><button type=\"button\" class=\"open-all\">Open all</button></p>\n",
    );
    for one in judgements {
        let of_it: Vec<&Published> =
            latest.iter().copied().filter(|contest| contest.comparison() == one.comparison.name).collect();
        out.push_str(&tables::comparison(one.comparison, &one.judged, &of_it, &one.missing));
    }
    out
}

/// The lines that the page was made of.
fn data(latest: &[&Published]) -> Value {
    let lines = latest.iter().flat_map(|one| &one.lines);
    let rows: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    json!({ "results": rows })
}
