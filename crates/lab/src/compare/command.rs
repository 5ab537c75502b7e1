use std::path::{Path, PathBuf};

use super::figures::{Figure, figures_of, whole};
use super::judge::{
    CHANGE_MIN, Change, Design, INTERVAL_ROUNDS_MIN, Kind, LEVEL, Side, Told, Verdict, judge, median,
};
use super::permutation::EXACT_ROUNDS_MAX;
use super::profiles::compare_profiles;
use super::settings::{described, differences, disturbed, source};
use super::text::print;
use crate::error::{LabError, Outcome};
use crate::files;
use crate::output::Output;
use crate::page::{self, ComparedPage, ComparedRow, ComparedRun, percent};
use crate::record::{OWN, Report, Run};

/// Rounds of a stage that are compared; the pairs of rounds measured apart grow with their square.
const ROUNDS_MAX: usize = 500;
/// If more than this share of the requests failed, latencies are those of answers with an error too.
const ERRORS_NOTABLE: f64 = 0.01;

/// Whether profiles are compared as well, which takes a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profiles {
    Compared,
    /// More runs are to come.
    NotYet,
    /// The campaign failed, if only in its last run.
    NotAfterFailure,
}

impl Profiles {
    /// Why they are not.
    const fn left_out(self) -> Option<&'static str> {
        match self {
            Profiles::Compared => None,
            Profiles::NotYet => Some(
                "What the profiles of the two servers differ by is not told here: they are compared once all runs are made.",
            ),
            Profiles::NotAfterFailure => {
                Some("What the profiles of the two servers differ by is not told: the campaign failed.")
            }
        }
    }
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
            let is_alone = [before, after].iter().all(|report| report.subjects.len() == 1);
            let title = if is_alone || key.1 == OWN { key.0 } else { format!("{}, {}", key.0, key.1) };
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
    remarks.extend(left_out([before, after]));
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
    let remarks = left_out([report]).into_iter().chain(failing(&pairs, [&other.name, &own.name]));
    let remarks = remarks.chain(disturbed("in all", report.runs.iter(), report.machine.cores));
    let has_profiles = report.runs.iter().any(|run| !run.profiles.is_empty());
    let remarks = remarks.chain(profiles.left_out().filter(|_| has_profiles).map(str::to_owned));
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
         median over pairs of rounds ({pairs}), so it is not exactly that of the two medians. A change is told if a permutation test on ranks{blocks} (exact for up to {EXACT_ROUNDS_MAX} rounds of both sides), corrected by Holm for {figures} figures, gives p < {LEVEL}, \
         and if it is at least {:.0} %. Intervals are of 95 % each; that of a side with fewer than {INTERVAL_ROUNDS_MIN} rounds is all that was seen there.",
        CHANGE_MIN * 100.0
    )
}

/// Says that there are more rounds than are compared.
fn left_out<const N: usize>(reports: [&Report; N]) -> Option<String> {
    let rounds_of = |report: &Report, key: &(String, String)| {
        report.runs.iter().filter(|run| (&run.stage, &run.subject) == (&key.0, &key.1)).count()
    };
    let of_report = |report: &&Report| keys(report).iter().map(|key| rounds_of(report, key)).max();
    let most = reports.iter().filter_map(of_report).max().filter(|rounds| *rounds > ROUNDS_MAX)?;
    Some(format!("Only the first {ROUNDS_MAX} rounds of a run are compared, of up to {most}."))
}

/// Who fails fast answers a lot, and quickly: figures of such a side are named.
fn failing(pairs: &[Pair<'_>], sides: [&str; 2]) -> Vec<String> {
    let mut remarks = Vec::new();
    for pair in pairs {
        for (side, runs) in sides.iter().zip([&pair.before, &pair.after]) {
            let failures = || whole(runs).map(Run::failures);
            let (bad, all): (u64, u64) =
                (failures().map(|found| found.failed).sum(), failures().map(|found| found.of).sum());
            let share = bad as f64 / all.max(1) as f64;
            if share > ERRORS_NOTABLE {
                remarks.push(format!(
                    "{}: {} of the requests of `{side}` had no good answer. Its latencies and answers per second count \
                     answers with an error too, so a better one may only mean that it fails fast; requests whose connection broke are in \
                     neither.",
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
        spectrum_title: match whole(&pair.before).count() {
            1 => "Latency by percentile: one round".to_owned(),
            rounds => format!("Latency by percentile: the median of {rounds} rounds"),
        },
        profiles: match profiles {
            Profiles::Compared => compare_profiles(&pair.before, &pair.after),
            Profiles::NotYet | Profiles::NotAfterFailure => Vec::new(),
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

/// The median of the whole rounds, at every percentile that all of them have.
fn spectrum(runs: &[&Run]) -> Vec<(f64, f64)> {
    let spectra: Vec<_> =
        whole(runs).map(|run| &run.spectrum).filter(|spectrum| !spectrum.is_empty()).collect();
    let points = spectra.iter().map(|spectrum| spectrum.len()).min().unwrap_or(0);
    let at = |point: usize| {
        let values: Vec<f64> = spectra.iter().map(|spectrum| spectrum[point].1).collect();
        Some((spectra[0][point].0, median(&values)?))
    };
    (0..points).filter_map(at).collect()
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
