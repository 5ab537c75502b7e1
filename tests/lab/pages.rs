//! The reports in a real browser. If none is installed, this is skipped with a printed reason.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::data_of;
use crate::support::{Browser, Directory, Ladoga, Node, Page};

const CELL_MS: u64 = 20;
const BEGIN: &str = "<script id=\"report\" type=\"application/json\">";

/// A report of a node of its own, as a person makes one.
fn report(directory: &Directory) -> PathBuf {
    let path = directory.path().join("report.html");
    let words = "lab run --workloads put,get --rates 300 -d 3s --rounds 1 -c2 --keys 2k --memory 64MiB -o";
    let words = words.split_whitespace().map(str::to_owned).chain([path.display().to_string()]);
    Ladoga::new(words).run().expect_success();
    path
}

/// The report with samples that are known: the first half of each run in `early`, the second in `late`.
fn with_known_samples(report: &Path) -> PathBuf {
    with_data(report, "known.html", |data| {
        for run in data["runs"].as_array_mut().expect("runs") {
            know_samples(run, CELL_MS);
        }
    })
}

/// One sample in so many milliseconds.
fn know_samples(run: &mut Value, every_ms: u64) {
    let found = &mut run["profiles"][0]["found"]["Samples"];
    assert!(found.is_object(), "the node was profiled: {found}");
    // A run may last for longer than it should.
    let half = (run["elapsed_s"].as_f64().expect("a time") * 1000.0) as u64 / every_ms / 2;
    let step = every_ms / CELL_MS;
    let rows: Vec<u64> = (0..2 * half)
        .flat_map(|sample| [step * u64::from(sample > 0), 0, if sample < half { 2 } else { 3 }, 10_000_000])
        .collect();
    let found = &mut run["profiles"][0]["found"]["Samples"];
    found["offset_ms"] = json!(0.0);
    found["data"] = json!({
        "unit": "nanoseconds", "cellMs": CELL_MS, "cells": 2 * half * step, "threads": ["loop"],
        "tree": { "names": ["loop", "main", "early", "late"], "parent": [-1, 0, 1, 1], "name": [0, 1, 2, 3] },
        "samples": rows,
    });
}

/// The page of a report, with other data in it.
fn with_data(report: &Path, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut data = data_of(report);
    change(&mut data);
    let page = fs::read_to_string(report).expect("a report");
    let (head, rest) = page.split_once(BEGIN).expect("the data");
    let (_, tail) = rest.split_once("</script>").expect("its end");
    let data = data.to_string().replace('<', "\\u003c");
    let path = report.with_file_name(name);
    fs::write(&path, format!("{head}{BEGIN}{data}</script>{tail}")).expect("a page");
    path
}

/// Charts, those of them in which something is drawn, rows of tables, and by how much the page is too wide. On a busy machine, a node may
/// have been looked at once in a run: a point without neighbours is 1 long.
fn look(page: &mut Page<'_>) -> [u64; 4] {
    let found = page.evaluate(
        "(() => { const charts = [...document.querySelectorAll('figure svg')]; \
         const isDrawn = chart => [...chart.querySelectorAll('.line,.heat')].some(path => path.getTotalLength() > 0.9); \
         return [charts.length, charts.filter(isDrawn).length, document.querySelectorAll('table tbody tr').length, \
         document.documentElement.scrollWidth - document.documentElement.clientWidth]; })()",
    );
    serde_json::from_value(found).expect("four numbers")
}

/// What is drawn of a function in the first flame graph: its share, and its share before.
fn frame(page: &mut Page<'_>, frames: &str, name: &str) -> Option<(f64, Option<f64>)> {
    let frames = page.evaluate(frames);
    let found = frames.as_array().expect("frames").iter().find(|frame| frame["name"] == name)?;
    Some((found["share"].as_f64().expect("a share"), found["before"].as_f64()))
}

/// Flame graphs are drawn when they come into sight, or go to paper.
fn draw_all(page: &mut Page<'_>) {
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))");
    for run in 0..2 {
        page.wait_until(&format!("ladogaReport.frames({run}).length > 5"));
    }
}

/// Of a sheet with more than a heading.
const SHEET_LENGTH_MIN: usize = 600;

/// At the pointer, and by keys.
fn values_are_told(page: &mut Page<'_>) {
    page.evaluate("document.querySelector('svg.plot').scrollIntoView({ block: 'center' })");
    page.hover("svg.plot", (0.5, 0.5));
    page.wait_until("!document.querySelector('.hover').hidden");
    let at_pointer = page.text(".hover");
    assert!(
        at_pointer.contains(" %") && at_pointer.contains('s'),
        "a percentile and its latency: {at_pointer}"
    );
    page.hover(".pick", (0.5, 0.5));
    assert!(page.text(".hover").contains("requests in this column"), "{}", page.text(".hover"));
    page.focus("svg.plot");
    page.press("ArrowRight");
    let first = page.text(".hover");
    page.press("ArrowRight");
    assert_ne!(page.text(".hover"), first, "the next value");
    page.press("Escape");
    assert_eq!(page.evaluate("document.querySelector('.hover').hidden"), true);
}

/// The flame graph of a range is far below its heat map.
fn what_was_chosen_is_told_where_it_was_chosen(page: &mut Page<'_>, words: &str) {
    assert!(page.text(".here").starts_with(words), "{}", page.text(".here"));
    let is_in_sight = |page: &mut Page<'_>, selector: &str| {
        page.evaluate(&format!(
            "(r => r.top >= 0 && r.bottom <= innerHeight)(document.querySelector('{selector}').getBoundingClientRect())"
        ))
    };
    assert_eq!(is_in_sight(page, ".here"), true, "without scrolling");
    page.click(".here button");
    let top = "document.querySelector('.profile .range').getBoundingClientRect().top";
    page.wait_until(&format!("{top} >= 0 && {top} < innerHeight / 2"));
}

fn keys_choose_and_a_search_lights_up(page: &mut Page<'_>) {
    page.focus(".heatmap");
    // Keys go on from the place of the pointer, unless the selection was cleared.
    page.press("Escape");
    page.press("ArrowRight");
    let one = page.text(".range");
    page.press("Shift+ArrowRight");
    assert!(one.starts_with("0.00 s to 0.1") && page.text(".range").starts_with("0.00 s to 0.2"), "{one}");
    page.press("Escape");
    assert!(page.text(".range").starts_with("The whole run"), "{}", page.text(".range"));
    let count = |page: &mut Page<'_>, what: &str| {
        page.evaluate(&format!(
            "document.querySelectorAll('.heatmap:not(.samples)[data-run=\"0\"] .lit {what}').length"
        ))
        .as_u64()
    };
    page.write(".search", "^ear.y$");
    let lit = count(page, ".match").expect("a number");
    assert!((10..=20).contains(&lit) && count(page, ".veil") == Some(0), "half of 30 columns: {lit}");
    page.click("button.filter");
    assert!(count(page, ".veil") >= Some(10), "the other half is veiled");
    page.screenshot("report-search");
    page.click("button.filter");
    page.write(".search", "");
    assert_eq!(count(page, ".match"), Some(0));
}

#[test]
fn a_report_of_many_runs_is_short_and_its_contents_open_what_they_name() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let file = directory.path().join("many.html");
    let words = "lab run --workloads put,get,status --rates 200 -d 1s --rounds 2 -c1 --keys 100 --memory 64MiB --no-profile -o";
    let words = words.split_whitespace().map(str::to_owned).chain([file.display().to_string()]);
    Ladoga::new(words).run().expect_success();
    let mut page = browser.open(&file, 1400, 900);
    let height =
        |page: &mut Page<'_>| page.evaluate("document.body.scrollHeight").as_f64().expect("a height");
    let folded = height(&mut page);
    assert!(folded < 1800.0, "six runs are {folded} pixels high");
    assert!(
        page.text("table.cards").contains(" – "),
        "rounds with their spread: {}",
        page.text("table.cards")
    );
    page.screenshot("report-many");
    page.click("nav a[href='#stage-1']");
    page.wait_until("document.querySelector('#stage-1').open && !document.querySelector('#stage-0').open");
    assert!(height(&mut page) > folded);
    page.click("#stage-1 table a[href='#run-4']");
    page.wait_until("document.querySelector('#run-4').checkVisibility()");
    assert_eq!(page.complaints(), [""; 0]);
    let mut phone = browser.open(&file, 390, 800);
    phone.prefer("dark");
    assert_eq!(look(&mut phone)[3], 0, "nothing is wider than a phone");
    phone.screenshot("report-many-phone");
    assert_eq!(phone.complaints(), [""; 0]);
}

#[test]
fn the_summary_and_the_contents_of_the_suite_are_in_sight() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let file = directory.path().join("suite.html");
    let words = "lab run --suite reports --quick -d 300ms --memory 64MiB --no-profile -o";
    let words = words.split_whitespace().map(str::to_owned).chain([file.display().to_string()]);
    let names = ["--only".to_owned(), "4 server threads".to_owned()];
    Ladoga::new(words.chain(names)).run().expect_success();
    let mut page = browser.open(&file, 1400, 900);
    let clipped = page.evaluate(
        "(() => { const box = document.querySelector('table.cards').closest('.scroll'); return box.scrollWidth - box.clientWidth; })()",
    );
    assert_eq!(clipped, 0, "every column of the summary is in sight");
    assert!(
        page.text("p.remark").contains("figures mean nothing"),
        "the first note: {}",
        page.text("p.remark")
    );
    assert!(page.text("pre.command").ends_with("--only '4 server threads'"), "{}", page.text("pre.command"));
    page.screenshot("report-suite");
    let mut phone = browser.open(&file, 390, 800);
    let top = phone.evaluate("document.querySelector('nav').offsetTop").as_f64().expect("a number");
    assert!(top < 800.0, "the contents begin at {top}");
    phone.screenshot("report-suite-phone");
    assert_eq!((page_errors(&mut phone), look(&mut phone)[3]), (0, 0));
    let clipped = phone.evaluate(
        "Math.max(...[...document.querySelectorAll('.scroll')].filter(box => box.querySelector('table')).map(box => box.scrollWidth - box.clientWidth))",
    );
    assert_eq!(clipped, 0, "no table has to be scrolled sideways");
    let label = phone.evaluate(
        "getComputedStyle(document.querySelector('#published ~ .scroll td[data-label=p99]'), '::before').content",
    );
    assert_eq!(label, "\"p99\"", "a card names its figures");
}

fn page_errors(page: &mut Page<'_>) -> usize {
    page.complaints().len()
}

#[test]
fn a_report_is_drawn_and_a_selection_opens_its_flame_graph() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let file = report(&directory);
    let mut page = browser.open(&file, 1400, 900);
    let [charts, drawn, rows, too_wide] = look(&mut page);
    assert!(charts >= 2 * 7 && drawn == charts, "{drawn} of {charts} charts are drawn");
    assert_eq!((rows, too_wide), (2, 0), "a row a stage, and nothing wider than the window");
    let head = page.text("dl.head");
    for part in ["measured", " UTC", ", commit ", "ladoga serve", "machine", "Linux"] {
        assert!(head.contains(part), "{part} in the head: {head}");
    }
    assert!(page.text("pre.command").contains("lab run --workloads put,get"));
    assert!(page.text(".verdicts").contains("2 runs of 2 stages"), "{}", page.text(".verdicts"));
    values_are_told(&mut page);
    draw_all(&mut page);
    page.screenshot("report-desktop");
    page.prefer("dark");
    page.screenshot("report-desktop-dark");
    let sheets = page.print("report");
    assert!(sheets.len() <= 8 && sheets.iter().all(|length| *length > SHEET_LENGTH_MIN), "{sheets:?}");
    assert_eq!(page.complaints(), [""; 0]);

    let mut page = browser.open(&with_known_samples(&file), 1280, 900);
    let shares =
        |page: &mut Page<'_>| ["early", "late"].map(|name| frame(page, "ladogaReport.frames(0)", name));
    page.drag(".pick", (0.05, 0.5), (0.4, 0.5));
    assert_eq!(shares(&mut page), [Some((1.0, None)), None], "the first half");
    page.drag(".pick", (0.6, 0.5), (0.95, 0.5));
    assert_eq!(shares(&mut page), [None, Some((1.0, None))], "the second half");
    let words = page.text(".range");
    assert!(words.contains(" s to ") && words.contains(" requests, the slowest at least "), "{words}");
    what_was_chosen_is_told_where_it_was_chosen(&mut page, &words);
    page.click(".against");
    let against = frame(&mut page, "ladogaReport.frames(0)", "late").expect("it is drawn");
    assert!(against.0 > 0.99 && against.1.is_some_and(|before| before < 0.5), "{against:?}");
    page.screenshot("report-selection");
    page.click(".whole");
    page.click(".against");
    assert_eq!(shares(&mut page), [Some((0.5, None)), Some((0.5, None))], "the whole run");
    keys_choose_and_a_search_lights_up(&mut page);
    assert_eq!(page.complaints(), [""; 0]);

    let mut phone = browser.open(&file, 390, 800);
    assert_eq!(look(&mut phone)[3], 0, "nothing is wider than a phone");
    draw_all(&mut phone);
    phone.screenshot("report-phone");
    phone.swipe(".pick", (0.2, 0.5), (0.7, 0.5));
    assert!(
        phone.text(".range").contains(" requests, the slowest"),
        "a finger selects: {}",
        phone.text(".range")
    );
    assert_eq!(phone.complaints(), [""; 0]);
}

#[test]
fn a_run_of_hours_is_seen_in_several_scales() {
    const SECONDS: usize = 7_200;
    const REQUESTS: &str = ".heatmap:not(.samples)";
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    // As if the first run had lasted for two hours, with one request a second.
    let file = with_data(&report(&directory), "hours.html", |data| {
        let run = &mut data["runs"][0];
        let columns = run["heat"]["columns"].as_array().expect("columns");
        // One of those that the page was drawn with.
        let bucket = columns.iter().find_map(|cells| cells[0][0].as_u64()).expect("a request");
        run["elapsed_s"] = json!(SECONDS);
        run["heat"] = json!({
            "column_ms": 36_000, "columns": vec![json!([[bucket, 36]]); 200],
            "fine": { "column_ms": 1_000, "columns": vec![json!([[bucket, 1]]); SECONDS] },
        });
        know_samples(run, 1_000);
    });
    let mut page = browser.open(&file, 1400, 900);
    let scales = page.evaluate("[...document.querySelector('.scales select').options].map(o => o.text)");
    assert_eq!(scales, json!(["Scale: whole run", "Scale: 1 h", "Scale: 10 min", "Scale: 1 min"]));
    let cells = |page: &mut Page<'_>, map: &str| {
        let script = format!(
            "[...document.querySelectorAll('{map}[data-run=\"0\"] .heat')].reduce((n, e) => n + e.getAttribute('d').split('z').length - 1, 0)"
        );
        page.evaluate(&script).as_u64().expect("a number")
    };
    let whole = cells(&mut page, REQUESTS);
    page.drag(".pick", (0.503, 0.5), (0.503, 0.5));
    page.focus(".heatmap");
    for (shown, requests, samples) in [
        ("30:18 to 1:30:18, a column is 18 s", 200, 3_600),
        ("55:18 to 1:05:18, a column is 3 s", 200, 600),
        ("59:48 to 1:00:48, a column is 1 s", 60, 60),
    ] {
        page.press("+");
        let words = page.text(".scales span").replace(".0 ", " ").replace(".0,", ",");
        assert_eq!(words, shown);
        assert_eq!(
            (cells(&mut page, REQUESTS), cells(&mut page, ".samples")),
            (requests, samples),
            "{shown}"
        );
    }
    page.screenshot("report-hours-minute");
    page.drag(".pick", (0.005, 0.5), (0.995, 0.5));
    let words = page.text(".range");
    assert!(words.starts_with("59:48.0 to 1:00:48.0: 60 requests"), "{words}");
    let shares = ["early", "late"]
        .map(|name| frame(&mut page, "ladogaReport.frames(0)", name).map(|(share, _)| share));
    assert_eq!(shares, [Some(0.2), Some(0.8)], "the first twelve seconds are of the first half");
    page.click(".scales button:last-of-type");
    assert!(page.text(".scales span").starts_with("1:00:18"), "{}", page.text(".scales span"));
    page.focus(".heatmap");
    for _ in 0..3 {
        page.press("-");
    }
    page.screenshot("report-hours");
    assert_eq!(cells(&mut page, REQUESTS), whole, "the whole run is as it was");
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn what_the_profiles_of_two_servers_differ_by_is_in_their_report() {
    let Some(mut browser) = Browser::start() else { return };
    let (directory, one, other) = (Directory::new(), Node::start(), Node::start());
    let file = directory.path().join("both.html");
    // At a rate at which no round is without a sample: it would not count.
    let words = format!(
        "lab run -d 1s -c1 --keys 50 --workloads get --rates 2000 --rounds 5 --url {} --pid {} --peer {} --peer-pid {} -o",
        one.url(),
        one.pid(),
        other.url(),
        other.pid()
    );
    let words = words.split_whitespace().map(str::to_owned).chain([file.display().to_string()]);
    let outcome = Ladoga::new(words).run().expect_success();
    assert!(outcome.text().contains(" frames differ by more than noise"), "{}", outcome.text());
    let mut page = browser.open(&file, 1400, 900);
    page.click("#compared ~ details summary");
    page.wait_until("ladogaComparison.frames(0).length > 5");
    let frames = page.evaluate("ladogaComparison.frames(0)");
    let frames = frames.as_array().expect("frames");
    assert!(frames.iter().all(|frame| frame["isNoise"].is_boolean()), "each is told: {frames:?}");
    let words = page.text(".difference");
    assert!(words.contains("frames have a colour") && words.contains("5 and 5 rounds"), "{words}");
    page.screenshot("report-both");
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn a_comparison_is_drawn() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = Directory::new();
    let known = with_known_samples(&report(&directory));
    let (file, known) = (directory.path().join("compared.html"), known.display().to_string());
    Ladoga::new(["lab", "compare", &known, &known, "-o", &file.display().to_string()]).run().expect_success();
    for (width, name) in [(1400, "comparison-desktop"), (390, "comparison-phone")] {
        let mut page = browser.open(&file, width, 900);
        let [charts, drawn, _, too_wide] = look(&mut page);
        assert_eq!((charts, drawn, too_wide), (2, 2, 0), "at a width of {width}");
        let early = frame(&mut page, "ladogaComparison.frames(0)", "early");
        assert_eq!(early, Some((0.5, Some(0.5))), "nothing changed");
        let across = page.evaluate("getComputedStyle(document.querySelector('.pairs tbody tr')).gridTemplateColumns.split(' ').length");
        assert_eq!(
            across,
            if width < 600 { 2 } else { 1 },
            "figures of a card beside each other, at a width of {width}"
        );
        page.screenshot(name);
        assert_eq!(page.complaints(), [""; 0]);
    }
}
