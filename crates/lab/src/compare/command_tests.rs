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
    assert_eq!(page.runs[0].title, before.runs[0].stage, "there is one server");
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
fn an_interrupted_round_is_in_no_spectrum() {
    let before = with_rounds(fixture::report(), 2, |_| 1.0);
    let mut after = before.clone();
    let cut = Run { is_interrupted: true, spectrum: vec![(0.0, 1.0), (50.0, 9e9)], ..after.runs[0].clone() };
    after.runs.push(Run { round: 3, ..cut });
    for (one, other) in [(&before, &after), (&after, &before)] {
        let page = compared(one, other);
        let run = &page.runs[0];
        assert_eq!(run.spectra[0], run.spectra[1]);
        assert_eq!(run.spectrum_title, "Latency by percentile: the median of 2 rounds");
    }
}

/// The larger one of two was told as their median.
#[test]
fn the_spectrum_of_two_rounds_is_in_their_middle() {
    let mut report = with_rounds(fixture::report(), 2, |_| 1.0);
    for (run, micros) in report.runs.iter_mut().zip([10.0, 30.0]) {
        run.spectrum = vec![(50.0, micros)];
    }
    assert_eq!(compared(&report, &report).runs[0].spectra, [vec![(50.0, 20.0)], vec![(50.0, 20.0)]]);
}

#[test]
fn what_an_interval_of_few_rounds_is_gets_told() {
    let report = with_rounds(fixture::report(), 8, |_| 1.0);
    let told = compared(&report, &report).remarks.pop().expect("the method");
    assert!(
        told.ends_with("of 95 % each; that of a side with fewer than 6 rounds is all that was seen there."),
        "{told}"
    );
}

#[test]
fn a_side_that_fails_is_named_for_its_latencies_are_those_of_failures() {
    let before = with_rounds(fixture::report(), 8, |_| 1.0);
    let mut after = with_rounds(fixture::report(), 8, |_| 0.1);
    after.runs.iter_mut().for_each(|run| run.lost = Some(1_000));
    let is_named = |page: &ComparedPage| {
        page.remarks.iter().any(|remark| {
            remark.contains("`after` had no good answer")
                && remark.contains("fails fast; requests whose connection broke")
        })
    };
    assert!(is_named(&compared(&before, &after)));
    assert!(!is_named(&compared(&before, &before)));
}

#[test]
fn a_report_of_very_many_rounds_is_compared_in_part() {
    let report = with_rounds(fixture::report(), 2 * ROUNDS_MAX as u32, |_| 1.0);
    assert_eq!(runs_where(&report, |_| true).len(), ROUNDS_MAX);
    let few = with_rounds(fixture::report(), ROUNDS_MAX as u32, |_| 1.0);
    assert_eq!(left_out([&few, &few]), None);
    let told = left_out([&few, &report]).expect("a remark");
    assert!(told.starts_with("Only the first 500 rounds of a run are compared, of up to 1000"), "{told}");
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
    assert!(compare_servers(&report, Profiles::NotYet).is_none(), "there is one server");
    let peer = with_rounds(fixture::report(), 8, |round| 1.4 * drift(round));
    report.runs.extend(peer.runs.into_iter().map(|run| Run { subject: "peer".to_owned(), ..run }));
    report.subjects.push(Subject { name: "peer".to_owned(), ..report.subjects[0].clone() });
    let figures = compare_servers(&report, Profiles::NotYet).unwrap();
    assert!(figures.runs[0].profiles.is_empty() && !figures.runs[0].rows.is_empty());
    let says_so = |page: &ComparedPage| page.remarks.iter().any(|remark| remark.contains("profiles"));
    assert!(says_so(&figures), "{:?}", figures.remarks);
    let page = compare_servers(&report, Profiles::Compared).unwrap();
    assert!(!says_so(&page), "{:?}", page.remarks);
    assert!(page.runs[0].profiles[0].flame.is_ok(), "{page:?}");
    assert_eq!(page.sides, ["peer", "ladoga"]);
    let p99 = row(&page, "p99");
    assert!(p99.verdict.starts_with("better (p = 0.00") && p99.change.starts_with("-28.6 %"), "{p99:?}");
    assert!(!row(&page, "errors").is_change, "{page:?}");
    assert!(!page.sources[0].starts_with("peer: "), "its name is said once: {:?}", page.sources);
    assert_eq!(page.runs.len(), 1);
}
