use std::path::{Path, PathBuf};

use super::figures::{Figure, figures_of};
use super::judge::{CHANGE_MIN, Change, Design, Kind, LEVEL, Side, Told, Verdict, judge};
use super::profiles::compare_profiles;
use super::settings::{described, differences, disturbed, source};
use super::text::print;
use crate::error::{LabError, Outcome};
use crate::files;
use crate::output::Output;
use crate::page::{self, ComparedPage, ComparedRow, ComparedRun, percent};
use crate::record::{OWN, Report, Run};

/// Rounds of a stage that are compared; the work grows with their square.
const ROUNDS_MAX: usize = 500;
/// If more than this share of the requests failed, latencies are those of failures too.
const ERRORS_NOTABLE: f64 = 0.01;

/// Whether profiles are compared as well, which takes a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profiles {
    Compared,
    LeftOut,
}

/// Compares two reports: prints what changed, and writes a page where one is wanted.
pub(crate) fn compare(paths: [&PathBuf; 2], page_path: Option<&Path>) -> Outcome<()> {
    if let Some(path) = page_path {
        if paths.iter().any(|report| files::is_same_file(report, path)) {
            let path = path.display();
            return Err(LabError::Usage(format!(
                "-o is {path}, a report that is compared: choose another name"
            )));
        }
        files::check_writable(path)?;
    }
    let [before, after] = [page::read_report(paths[0])?, page::read_report(paths[1])?];
    let compared = compare_reports(&before, &after, paths.map(|path| path.display().to_string()));
    if compared.runs.is_empty() {
        let [one, other] = [&before, &after].map(runs_of);
        return Err(LabError::Usage(format!(
            "the two reports have no run in common, so nothing can be compared. Before: {one}. After: {other}"
        )));
    }
    let mut output = Output::default();
    print(&compared, &mut output);
    if let Some(path) = page_path {
        files::replace(path, page::render_comparison(&compared))?;
        output.line(format_args!("\nWritten to {}.", path.display()));
    }
    output.finish()
}

fn compare_reports(before: &Report, after: &Report, names: [String; 2]) -> ComparedPage {
    let key_of = |run: &Run| (run.stage.clone(), run.subject.clone());
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    let (mut only_before, only_after) = (Vec::new(), missing_in(before, after));
    for key in keys(before) {
        let of = |report| runs_where(report, |run| key_of(run) == key);
        let [old, new] = [of(before), of(after)];
        if new.is_empty() {
            only_before.push(key.0.clone());
        } else {
            let title = if key.1 == OWN { key.0 } else { format!("{}, {}", key.0, key.1) };
            pairs.push(Pair { title, before: old, after: new });
        }
    }
    let (runs, figures) = compare_pairs(&pairs, Design::Apart, Profiles::Compared);
    let mut remarks = vec![
        "The two reports were measured apart: what the machine did in between looks like a change. ladoga lab run \
         --peer measures two servers in alternation."
            .to_owned(),
    ];
    let cores = |report: &Report| report.machine.cores;
    remarks.extend(failing(&pairs, ["before", "after"]));
    remarks.extend(disturbed("before", before.runs.iter(), cores(before)));
    remarks.extend(disturbed("after", after.runs.iter(), cores(after)));
    for (whose, missing) in [("before", only_before), ("after", only_after)] {
        if !missing.is_empty() {
            remarks.push(format!("Only in the report {whose}: {}.", missing.join("; ")));
        }
    }
    remarks.push(method(figures, Design::Apart));
    let [one, other] = names;
    ComparedPage {
        sides: ["before".to_owned(), "after".to_owned()],
        sources: [source(&one, before), source(&other, after)],
        differences: differences(before, after),
        remarks,
        runs,
    }
}

/// The two servers of a report that were measured in alternation; none where there is one server, or no round of both.
pub(crate) fn compare_servers(report: &Report, profiles: Profiles) -> Option<ComparedPage> {
    let other = report.subjects.iter().find(|subject| subject.name != OWN)?;
    let own = report.subjects.iter().find(|subject| subject.name == OWN)?;
    let mut pairs = Vec::new();
    for (stage, _) in keys(report).into_iter().filter(|(_, subject)| subject == OWN) {
        let of = |name: &str| runs_where(report, |run| run.stage == stage && run.subject == name);
        let [before, after] = [of(&other.name), of(&own.name)];
        if !before.is_empty() {
            pairs.push(Pair { title: stage, before, after });
        }
    }
    let (runs, figures) = compare_pairs(&pairs, Design::Alternating, profiles);
    let remarks = failing(&pairs, [&other.name, &own.name]).into_iter();
    let remarks = remarks.chain(disturbed("in all", report.runs.iter(), report.machine.cores));
    (!runs.is_empty()).then(|| ComparedPage {
        sides: [other.name.clone(), own.name.clone()],
        // The sides have their names already.
        sources: [other, own].map(|subject| described(subject)[subject.name.len() + 2..].to_owned()),
        differences: Vec::new(),
        remarks: remarks.chain([method(figures, Design::Alternating)]).collect(),
        runs,
    })
}

/// The method, for a reader who wants to know.
fn method(figures: usize, design: Design) -> String {
    let blocks = match design {
        Design::Apart => "",
        Design::Alternating => ", aligned within blocks of neighbouring rounds",
    };
    let pairs = match design {
        Design::Apart => "each round before with each round after",
        Design::Alternating => "rounds of the two sides within a block",
    };
    format!(
        "The unit is the round: each value is that of a whole run, the median of all rounds with its interval. The change is the \
         median over pairs of rounds ({pairs}), so it is not exactly that of the two medians. A change is told if an exact permutation test on ranks{blocks}, corrected by Holm for {figures} figures, gives p < {LEVEL}, \
         and if it is at least {:.0} %. Intervals are of 95 % each.",
        CHANGE_MIN * 100.0
    )
}

/// Who fails fast answers a lot, and quickly: figures of such a side are named.
fn failing(pairs: &[Pair<'_>], sides: [&str; 2]) -> Vec<String> {
    let mut remarks = Vec::new();
    for pair in pairs {
        for (side, runs) in sides.iter().zip([&pair.before, &pair.after]) {
            let whole = || runs.iter().filter(|run| !run.is_interrupted);
            let failures = || whole().map(|run| run.failures());
            let (bad, all): (u64, u64) =
                (failures().map(|found| found.failed).sum(), failures().map(|found| found.of).sum());
            let share = bad as f64 / all.max(1) as f64;
            if share > ERRORS_NOTABLE {
                remarks.push(format!(
                    "{}: {} of the requests of `{side}` had no good answer. Its latencies and answers per second count \
                     failures too, so a better one may only mean that it fails fast.",
                    pair.title,
                    percent(share)
                ));
            }
        }
    }
    remarks
}

/// A stage on both sides.
struct Pair<'a> {
    title: String,
    before: Vec<&'a Run>,
    after: Vec<&'a Run>,
}

/// The rows of every stage, and how many figures were judged together.
fn compare_pairs(pairs: &[Pair<'_>], design: Design, profiles: Profiles) -> (Vec<ComparedRun>, usize) {
    let figures: Vec<Vec<Figure>> =
        pairs.iter().map(|pair| figures_of(&pair.before, &pair.after, design)).collect();
    let rounds: Vec<_> = figures.iter().flatten().map(|figure| figure.rounds.clone()).collect();
    let mut verdicts = judge(&rounds, design).into_iter();
    let run = |(pair, figures): (&Pair<'_>, Vec<Figure>)| ComparedRun {
        title: pair.title.clone(),
        rows: figures.iter().zip(verdicts.by_ref()).map(|(figure, verdict)| row(figure, &verdict)).collect(),
        spectra: [spectrum(&pair.before), spectrum(&pair.after)],
        spectrum_title: match pair.before.len() {
            1 => "Latency by percentile: one round".to_owned(),
            rounds => format!("Latency by percentile: the median of {rounds} rounds"),
        },
        profiles: match profiles {
            Profiles::Compared => compare_profiles(&pair.before, &pair.after),
            Profiles::LeftOut => Vec::new(),
        },
    };
    (pairs.iter().zip(figures).map(run).collect(), rounds.len())
}

/// Every stage of every subject, once.
fn keys(report: &Report) -> Vec<(String, String)> {
    let mut keys = Vec::new();
    for run in &report.runs {
        let key = (run.stage.clone(), run.subject.clone());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// The stages of a report, in words.
fn runs_of(report: &Report) -> String {
    keys(report).into_iter().map(|(stage, _)| stage).collect::<Vec<_>>().join("; ")
}

fn missing_in(report: &Report, other: &Report) -> Vec<String> {
    let known = keys(report);
    keys(other).into_iter().filter(|key| !known.contains(key)).map(|key| key.0).collect()
}

fn runs_where(report: &Report, is_wanted: impl Fn(&Run) -> bool) -> Vec<&Run> {
    report.runs.iter().filter(|run| is_wanted(run)).take(ROUNDS_MAX).collect()
}

fn row(figure: &Figure, verdict: &Verdict) -> ComparedRow {
    let side = |side: Option<Side>| {
        let text = |side: Side| {
            let [median, low, high] = [side.median, side.low, side.high].map(figure.text);
            if low == high { median } else { format!("{median} [{low} to {high}]") }
        };
        side.map_or_else(|| "–".to_owned(), text)
    };
    ComparedRow {
        figure: figure.name.clone(),
        before: side(verdict.before),
        after: side(verdict.after),
        change: verdict.change.map_or_else(String::new, |change| change_in_words(change, figure.rounds.kind)),
        verdict: in_words(verdict.told),
        is_change: verdict.told.is_change(),
    }
}

fn change_in_words(change: Change, kind: Kind) -> String {
    let text = |by: f64| match kind {
        // No change has no sign.
        Kind::Amount if (by * 1000.0).round() == 0.0 => "0.0 %".to_owned(),
        Kind::Amount => format!("{:+.1} %", by * 100.0),
        Kind::Share if by > 0.0 => format!("+{}", percent(by)),
        Kind::Share => percent(by),
    };
    match change.interval {
        Some((low, high)) => format!("{} [{} to {}]", text(change.by), text(low), text(high)),
        None => text(change.by),
    }
}

fn in_words(told: Told) -> String {
    let chance = |p: f64| if p < 0.0001 { "p < 0.0001".to_owned() } else { format!("p = {p:.4}") };
    match told {
        Told::Better(p) => format!("better ({})", chance(p)),
        Told::Worse(p) => format!("worse ({})", chance(p)),
        Told::Noise(p) => format!("within noise ({})", chance(p)),
        Told::Unclear(p) => format!("unclear ({}): more rounds would tell", chance(p)),
        Told::Small(_) => format!("within noise: less than {:.0} %", CHANGE_MIN * 100.0),
        Told::Drifted(by) => {
            format!("within noise: the rounds of one side drifted by {:.0} % themselves", by * 100.0)
        }
        Told::TooFew { before, after, needed } => {
            let rounds =
                |count: usize| if count == 1 { "1 round".to_owned() } else { format!("{count} rounds") };
            let found = if before == after {
                rounds(before)
            } else {
                format!("{before} and {} on the two sides", rounds(after))
            };
            format!("cannot be told: {found}, {needed} needed")
        }
        Told::NotMeasured => "cannot be told: nothing was measured on one side".to_owned(),
        Told::Never => "none on either side".to_owned(),
    }
}

/// The median of the rounds, at every percentile that all of them have.
fn spectrum(runs: &[&Run]) -> Vec<(f64, f64)> {
    let spectra: Vec<_> =
        runs.iter().map(|run| &run.spectrum).filter(|spectrum| !spectrum.is_empty()).collect();
    let points = spectra.iter().map(|spectrum| spectrum.len()).min().unwrap_or(0);
    let at = |point: usize| {
        let mut values: Vec<f64> = spectra.iter().map(|spectrum| spectrum[point].1).collect();
        values.sort_by(f64::total_cmp);
        (spectra[0][point].0, values[values.len() / 2])
    };
    (0..points).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;
    use crate::record::Subject;

    fn with_rounds(mut report: Report, rounds: u32, scale: impl Fn(u32) -> f64) -> Report {
        let run = report.runs[0].clone();
        let round = |round: u32| {
            let mut run = Run { round, ..run.clone() };
            let scale = scale(round) * (1.0 + f64::from(round * 7 % 5) / 100.0);
            run.latency = run.latency.map(|mut latency| {
                latency.p99 *= scale;
                latency
            });
            run
        };
        report.runs = (1..=rounds).map(round).collect();
        report
    }

    fn compared(before: &Report, after: &Report) -> ComparedPage {
        compare_reports(before, after, ["a".to_owned(), "b".to_owned()])
    }

    fn row<'a>(page: &'a ComparedPage, figure: &str) -> &'a ComparedRow {
        page.runs[0].rows.iter().find(|row| row.figure == figure).unwrap()
    }

    #[test]
    fn one_round_is_too_few_for_any_verdict() {
        let report = fixture::report();
        let compared = compared(&report, &report);
        assert_eq!(compared.runs.len(), 2);
        for row in compared.runs.iter().flat_map(|run| &run.rows) {
            let is_told = row.verdict.starts_with("cannot be told: ") || row.verdict.starts_with("none on");
            assert!(is_told && !row.is_change, "{row:?}");
        }
        assert_eq!(row(&compared, "p99").verdict, "cannot be told: 1 round, 6 needed");
        let difference = |run: usize| &compared.runs[run].profiles[0].flame;
        assert!(difference(0).is_ok(), "{:?}", difference(0));
        assert!(difference(1).as_ref().is_err_and(|reason| reason.contains("404")));
    }

    #[test]
    fn what_is_slower_is_named() {
        let before = with_rounds(fixture::report(), 8, |_| 1.0);
        let after = with_rounds(fixture::report(), 8, |_| 1.5);
        let page = compared(&before, &after);
        let p99 = row(&page, "p99");
        assert!(p99.is_change && p99.verdict.starts_with("worse (p = 0.00"), "{p99:?}");
        assert!(p99.change.starts_with("+50.0 % [+4"), "{p99:?}");
        assert!(row(&page, "max").verdict.starts_with("within noise"), "{:?}", row(&page, "max"));
        assert!(page.remarks.iter().any(|remark| remark.contains("measured apart")), "{:?}", page.remarks);
        let mut other = with_rounds(fixture::report(), 8, |_| 1.0);
        other.runs.iter_mut().for_each(|run| run.stage = "else".to_owned());
        other.runs.extend(after.runs.iter().take(1).cloned());
        let page = compared(&before, &other);
        assert!(page.remarks.iter().any(|remark| remark == "Only in the report after: else."), "{page:?}");
    }

    #[test]
    fn a_side_that_fails_is_named_for_its_latencies_are_those_of_failures() {
        let before = with_rounds(fixture::report(), 8, |_| 1.0);
        let mut after = with_rounds(fixture::report(), 8, |_| 0.1);
        after.runs.iter_mut().for_each(|run| run.lost = Some(1_000));
        let is_named = |page: &ComparedPage| {
            page.remarks
                .iter()
                .any(|remark| remark.contains("`after` had no good answer") && remark.contains("fails fast"))
        };
        assert!(is_named(&compared(&before, &after)));
        assert!(!is_named(&compared(&before, &before)));
    }

    #[test]
    fn a_report_of_very_many_rounds_is_compared_in_part() {
        let report = with_rounds(fixture::report(), 2 * ROUNDS_MAX as u32, |_| 1.0);
        assert_eq!(runs_where(&report, |_| true).len(), ROUNDS_MAX);
    }

    #[test]
    fn no_change_has_no_sign() {
        let change = Change { by: -0.0001, interval: Some((-0.0003, 0.001)) };
        assert_eq!(change_in_words(change, Kind::Amount), "0.0 % [0.0 % to +0.1 %]");
    }

    #[test]
    fn two_servers_of_a_report_are_compared_round_by_round() {
        // Both drift, by as much as they differ.
        let drift = |round: u32| 1.05_f64.powi(round as i32);
        let mut report = with_rounds(fixture::report(), 8, drift);
        assert!(compare_servers(&report, Profiles::LeftOut).is_none(), "there is one server");
        let peer = with_rounds(fixture::report(), 8, |round| 1.4 * drift(round));
        report.runs.extend(peer.runs.into_iter().map(|run| Run { subject: "peer".to_owned(), ..run }));
        report.subjects.push(Subject { name: "peer".to_owned(), ..report.subjects[0].clone() });
        let figures = compare_servers(&report, Profiles::LeftOut).unwrap();
        assert!(figures.runs[0].profiles.is_empty() && !figures.runs[0].rows.is_empty());
        let page = compare_servers(&report, Profiles::Compared).unwrap();
        assert!(page.runs[0].profiles[0].flame.is_ok(), "{page:?}");
        assert_eq!(page.sides, ["peer", "ladoga"]);
        let p99 = row(&page, "p99");
        assert!(p99.verdict.starts_with("better (p = 0.00") && p99.change.starts_with("-28.6 %"), "{p99:?}");
        assert!(!row(&page, "errors").is_change, "{page:?}");
        assert!(!page.sources[0].starts_with("peer: "), "its name is said once: {:?}", page.sources);
        assert_eq!(page.runs.len(), 1);
    }
}
