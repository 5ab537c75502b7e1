use super::document::{charts, render};
use super::verdict::{Verdict, judge};
use super::{expected, targets};
use crate::comparisons::ALL;
use crate::report::Archive;
use crate::report::fixture::{Line, complete, file};

const LATENCY: &[(&str, usize, bool, &[f64])] = &[
    ("good/s", 0, false, &[6561.0]),
    ("p50, ms", 3, true, &[0.038, 0.04, 0.039]),
    ("p99.9, ms", 3, true, &[3.4, 2.5, 63.8]),
    ("max, ms", 3, true, &[64.0, f64::NAN, 80.0]),
];

fn page(text: &str) -> String {
    let page = render(&Archive::read(text));
    let unescaped = page.split("<script").next().unwrap_or_default();
    for wrong in ["NaN", "inf\"", "http://", "https://"] {
        assert!(!unescaped.contains(wrong), "{wrong} in {unescaped}");
    }
    page
}

fn with_latency() -> String {
    let p6 = |subject| Line {
        comparison: "p6",
        title: "PUT at a rate",
        subject,
        figures: LATENCY,
        ..Line::default()
    };
    complete() + &file(&[p6("ladoga"), p6("nginx")])
}

#[test]
fn the_page_has_machine_versions_commands_figures_verdicts_and_charts() {
    let page = page(&with_latency());
    for part in [
        "<dt>measured</dt><dd>2026-11-25 12:00 UTC</dd>",
        "<dt>machine</dt><dd>2 cores (AMD EPYC), 24 GiB of memory, Linux 6.18, data on ext4</dd>",
        "<dt>versions</dt><dd>ladoga abc1234, nginx 1.22.1, fjall 3.1.13</dd>",
        "cargo run --release --manifest-path bench/Cargo.toml -- p1 --threads 1",
        "<h3>GET of 1,000,000 records</h3>",
        "<td data-label=\"requests/s\">138,494<small>124,645 – 152,343</small></td>",
        "<td>ladoga / nginx</td><td data-label=\"requests/s\">1.03 ×</td>",
        "<span class=\"good\">holds</span>",
        "short: P2, P3",
        "<b>Requests a second: more is better</b>",
        "<b>µs a get: less is better</b>",
        "<b>P6: PUT at a rate</b>",
        "<title>ladoga, p99.9: 3.400 (2.500..63.800) ms</title>",
        "<dt>P7</dt><dd>not run</dd>",
        "\"comparison\":\"p1\"",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    for comparison in &ALL {
        assert!(
            page.contains(&format!("<details class=\"stage\" id=\"{}\">", comparison.name)),
            "{}",
            comparison.name
        );
    }
}

#[test]
fn verdicts_say_by_how_much() {
    let archive = Archive::read(&complete());
    let latest = archive.latest();
    let words = |comparison: &str| -> Vec<String> {
        let judged = targets::targets(comparison).into_iter().map(|target| judge(target, &latest));
        judged.map(|one| format!("{} {}", one.bound(), one.words())).collect()
    };
    assert_eq!(words("p1"), ["≥ 1 × holds", "≤ 1 × holds"]);
    assert_eq!(words("p2")[0], "≥ 1 × short by 4 %");
    assert_eq!(words("p3"), ["≥ 1.3 × short by 15 %"]);
    assert_eq!(words("p4")[0], "≤ 0.6 µs holds");
    assert_eq!(words("p4")[5], "– no target in numbers");
    assert_eq!(words("p6"), ["≤ 1 ms not measured", "≤ 1.5 × not measured"]);
}

#[test]
fn wrong_answers_make_a_figure_count_for_nothing() {
    let row = |subject, bad: &'static [(&str, usize, bool, &[f64])]| Line {
        subject,
        figures: bad,
        ..Line::default()
    };
    let text = file(&[
        row("ladoga", &[("requests/s", 0, true, &[9.0]), ("bad answers", 0, false, &[3.0])]),
        row("nginx", &[("requests/s", 0, true, &[1.0]), ("bad answers", 0, false, &[0.0])]),
    ]);
    let archive = Archive::read(&text);
    let judged = judge(targets::targets("p1")[0], &archive.latest());
    assert_eq!(judged.verdict, Verdict::Void("ladoga gave bad answers".to_owned()));
    assert_eq!(judge(targets::targets("p1")[1], &archive.latest()).words(), "no round has a value");
}

/// Every comparison with such a column: a 504 at once is a short latency, and a goodput beside it is none.
#[test]
fn a_figure_counts_for_nothing_whatever_its_column_of_bad_answers_is_called() {
    let verdict = |comparison, part, subject, figure, bad: (&str, f64)| {
        let figures: &[(&str, usize, bool, &[f64])] =
            &[(figure, 3, true, &[1.0, 1.0]), (bad.0, 0, false, &[0.0, bad.1])];
        let row = |subject| Line { comparison, part, subject, figures, ..Line::default() };
        let archive = Archive::read(&file(&[row(subject), row("all is well")]));
        judge(targets::targets(comparison)[0], &archive.latest()).verdict
    };
    let frozen = "one of three is frozen, after the first second";
    let overload = "overload, 512 connections";
    for (bad, is_void) in [(0.0, false), (1.0, true)] {
        let unanswered = ("bad or unanswered", bad);
        for (found, words) in [
            (verdict("p6", "", "ladoga", "p99.9, ms", unanswered), "ladoga gave bad answers, or none"),
            (
                verdict("p15", "put-frozen", frozen, "p99, ms", unanswered),
                "one of three is frozen, after the first second gave bad answers, or none",
            ),
            (
                verdict("p11", "small", overload, "goodput / peak", ("other bad", bad)),
                "overload, 512 connections gave bad answers beside 503, or none",
            ),
        ] {
            let expected = if is_void { Verdict::Void(words.to_owned()) } else { Verdict::Holds };
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn what_is_missing_is_named_with_its_reason() {
    let figures: &[(&str, usize, bool, &[f64])] = &[("requests/s", 0, true, &[9.0])];
    let only = Line { figures, notes: &["skipped: nginx is not installed"], ..Line::default() };
    let stops = "{\"comparison\":\"p3\",\"time\":1,\"skipped\":\"wrk is not installed\"}\n\
                 {\"comparison\":\"p1\",\"time\":1795608060,\"failed\":\"it <ended>\"}\n";
    let page = page(&(file(&[only]) + stops));
    for part in [
        "<dt>P1</dt><dd>the last run was failed: it &lt;ended&gt;; the figures are of a run before; nginx was not measured: nginx is not \
         installed; redis was not measured: nginx is not installed</dd>",
        "<dt>P3</dt><dd>the last run was skipped: wrk is not installed</dd>",
        "<dt>P2</dt><dd>not run</dd>",
        "Not drawn, because not measured: P6; P7; P15 put-well",
        ">not measured</text>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn figures_that_are_not_to_be_quoted_are_marked() {
    let figures: &[(&str, usize, bool, &[f64])] = &[("requests/s", 0, true, &[9.0])];
    let text = file(&[Line { figures, busy: 0.3, is_smoke: true, ..Line::default() }]) + "half of a li\n";
    let page = page(&text);
    for part in
        ["they mean nothing", "30 % of the cores were busy", "1 lines of the results could not be read"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn text_out_of_a_file_does_no_harm() {
    let hostile = "</title></script><script>alert(1)</script>\u{0}\u{1b}[2J & \"quoted\"";
    let figures: &[(&str, usize, bool, &[f64])] = &[
        ("requests/s", 0, true, &[9.0, f64::MAX]),
        ("p99, ms", 3, true, &[f64::MAX, 1e-300]),
        (hostile, 0, true, &[1.0]),
    ];
    let rows: String = ["p1", "p6", "p7", hostile]
        .into_iter()
        .flat_map(|comparison| ["ladoga", hostile].map(|subject| (comparison, subject)))
        .map(|(comparison, subject)| {
            let line = Line {
                comparison,
                subject,
                title: hostile,
                notes: &[hostile],
                commit: hostile,
                figures,
                ..Line::default()
            };
            file(&[line])
        })
        .collect();
    let page = page(&rows);
    assert!(!page.contains("<script>alert") && !page.contains('\0') && !page.contains('\u{1b}'));
    assert!(page.len() < 400_000, "huge numbers make no huge page: {}", page.len());
    for chart in charts(&Archive::read(&rows)) {
        let file = chart.as_file();
        assert!(!file.contains("<script") && !file.contains('\0') && !file.contains('\u{1b}'), "{file}");
    }
}

#[test]
fn a_chart_stands_alone_with_its_title_its_legend_and_its_source() {
    let archive = Archive::read(&with_latency());
    let charts = charts(&archive);
    let names: Vec<&str> = charts.iter().map(|chart| chart.name).collect();
    let expected = [
        "http-throughput",
        "http-cpu",
        "engine-get",
        "engine-put",
        "engine-synced-1",
        "engine-synced-64",
        "latency-p6",
    ];
    assert_eq!(names, expected);
    for chart in charts {
        let file = chart.as_file();
        assert!(file.starts_with("<svg xmlns=") && file.ends_with("</svg>\n"), "{file}");
        assert!(file.contains("ladoga abc1234") && file.contains("prefers-color-scheme"), "{file}");
        assert!(!file.contains("NaN") && !file.contains("var(--missing)"), "{file}");
    }
}

#[test]
fn nothing_but_a_failure_is_still_a_page() {
    let page = page("{\"comparison\":\"p1\",\"time\":1,\"failed\":\"no port\"}\n");
    assert!(page.contains("<dt>measured</dt><dd>never</dd>") && page.contains("failed: no port"), "{page}");
}

#[test]
fn names_that_no_comparison_has_are_found() {
    let unknown = expected::unknown_names(&Archive::read(&complete()));
    assert!(unknown.iter().any(|name| name.starts_with("p6 ")), "{unknown:?}");
    assert!(!unknown.iter().any(|name| name.starts_with("p4 ")), "{unknown:?}");
    let renamed = complete().replace("\"part\":\"reopened, 1 thread\"", "\"part\":\"opened again\"");
    let unknown = expected::unknown_names(&Archive::read(&renamed));
    assert!(unknown.iter().any(|name| name == "p4 reopened, 1 thread"), "{unknown:?}");
    let stopped = "{\"comparison\":\"p6\",\"time\":1,\"skipped\":\"x\"}\n";
    let unknown = expected::unknown_names(&Archive::read(&(complete() + stopped)));
    assert!(!unknown.iter().any(|name| name.starts_with("p6 ")), "{unknown:?}");
}
