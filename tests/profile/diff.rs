use std::fs;

use serde_json::json;

use crate::load::Load;
use crate::support::{Browser, Directory, Ladoga, Node, Outcome, Page, files_below};

/// What a program of ten seconds did.
struct Profiled {
    kind: &'static str,
    /// So many of a hundred samples are in a function of ours, below which they are in `early` or `late`.
    planted: u64,
    /// Whether a little more of them is in `early`, by chance.
    is_shaken: bool,
    thread: &'static str,
}

/// The page of its heat map. `late` has a second caller, which is too rare to be seen.
fn page(profiled: &Profiled) -> String {
    let Profiled { kind, planted, is_shaken, thread } = *profiled;
    let [steady, early, late, rare] = [1, 3, 4, 7];
    let rows: Vec<u64> = (0..1_000)
        .flat_map(|at| {
            let early_share = 5 + u64::from(is_shaken && at / 100 % 3 == 0);
            let leaf = match at % 100 {
                place if place < early_share => early,
                place if place < planted => late,
                _ => steady,
            };
            let step = u64::from(at % 2 == 0 && at > 0);
            let seldom = if at % 100 == 0 { vec![0, 0, rare, 20_000] } else { Vec::new() };
            [vec![step, 0, leaf, 2_000_000], seldom].concat()
        })
        .collect();
    let data = json!({
        "kind": kind, "unit": "nanoseconds", "cellMs": 20, "cells": 500, "threads": [thread],
        "tree": {
            "names": [thread, "steady", "planted", "early", "late", "rare"],
            "parent": [-1, 0, 0, 2, 2, 0, 5, 6],
            "name": [0, 1, 2, 3, 4, 5, 2, 4],
        },
        "samples": rows,
    });
    format!("<script id=\"data\" type=\"application/json\">{data}</script>")
}

fn diff(directory: &Directory, arguments: &[&str]) -> Outcome {
    Ladoga::new(["profile", "diff"].iter().chain(arguments)).current_dir(directory.path()).run()
}

#[test]
fn what_is_more_than_noise_is_told_and_drawn() {
    let directory = Directory::new();
    for (name, kind, planted, is_shaken, thread) in [
        ("before.html", "cpu", 10, true, "loop-0"),
        ("same.html", "cpu", 10, false, "loop-1"),
        ("slower.html", "cpu", 25, false, "loop-1"),
        ("memory.html", "alloc", 25, false, "loop-1"),
    ] {
        let profiled = Profiled { kind, planted, is_shaken, thread };
        fs::write(directory.path().join(name), page(&profiled)).expect("a profile");
    }
    let same = diff(&directory, &["before.html", "same.html", "-o", "same-diff.html"]).expect_success();
    assert!(same.text().starts_with("no frame differs by more than noise\n"), "{same:?}");
    let slower = diff(&directory, &["before.html", "slower.html", "-o", "diff.html"]).expect_success();
    assert!(slower.text().contains("+15.4 points    4.6 % to  20.0 %  late"), "{slower:?}");
    assert!(slower.text().contains("diff.html"), "{slower:?}");
    diff(&directory, &["before.html", "memory.html"]).expect_failure(2, &["memory.html", "two of a kind"]);
    diff(&directory, &["before.html", "absent.html"]).expect_failure(2, &["absent.html"]);
    diff(&directory, &["before.html", "same.html", "-o", "diff.svg"])
        .expect_failure(2, &["diff.svg", ".html"]);
    diff(&directory, &["before.html", "same.html", "-o", "./before.html"])
        .expect_failure(2, &["before.html", "choose another name"]);
    diff(&directory, &["before.html"]).expect_failure(2, &["AFTER"]);
    diff(&directory, &["before.html", "/dev/zero"]).expect_failure(2, &["/dev/zero", "more than 512 MiB"]);

    let Some(mut browser) = Browser::start() else { return };
    for (name, is_noise) in [("same-diff.html", true), ("diff.html", false)] {
        let mut page = browser.open(&directory.path().join(name), 1280, 900);
        // From the base and reversed; then only the stacks with a match, which are a tenth of all.
        for (view, search) in [("", ""), ("reverse", ""), ("", "planted"), ("reverse", "planted")] {
            view_as(&mut page, view, search);
            let frames = page.evaluate("ladogaProfile.flame.frames()");
            let frames = frames.as_array().expect("frames");
            let late = frames.iter().find(|frame| frame["name"] == "late").expect("it is drawn");
            assert_eq!(late["isNoise"], is_noise, "{name}, {view} {search}: {late}");
            assert!(
                frames.iter().any(|frame| frame["name"] == "loop"),
                "threads of a role are one: {frames:?}"
            );
            let coloured = frames.iter().filter(|frame| frame["isNoise"] == false).count();
            assert_eq!(coloured == 0, is_noise, "{name}, {view} {search}: {frames:?}");
            view_as(&mut page, view, "");
        }
        assert_eq!(page.complaints(), [""; 0]);
    }
}

#[test]
fn few_samples_are_not_compared() {
    let directory = Directory::new();
    for (name, rows) in [("none.html", &[][..]), ("one.html", &[0_u64, 0, 1, 2_000_000])] {
        let data = json!({
            "kind": "alloc", "unit": "bytes", "cellMs": 20, "cells": 50, "threads": ["loop-0"],
            "tree": { "names": ["loop-0", "alone"], "parent": [-1, 0], "name": [0, 1] },
            "samples": rows,
        });
        let page = format!("<script id=\"data\" type=\"application/json\">{data}</script>");
        fs::write(directory.path().join(name), page).expect("a profile");
    }
    let told = diff(&directory, &["none.html", "one.html"]).expect_success();
    assert!(
        told.text().starts_with("too few samples to compare: 0 and 1, and each profile needs 20. "),
        "{told:?}"
    );
    assert!(!told.text().contains("differ"), "{told:?}");
}

/// Presses the button of a view, or lets it go, and leaves out what does not match, if something is searched.
fn view_as(page: &mut Page<'_>, view: &str, search: &str) {
    // Without a search, nothing is left out.
    page.write(".search", search);
    if !search.is_empty() {
        page.click("button.filter");
    }
    let is_reversed = page.evaluate("document.querySelector('button.reverse').ariaPressed === 'true'");
    if is_reversed != (view == "reverse") {
        page.click("button.reverse");
    }
}

#[test]
fn profiles_of_a_node_are_compared() {
    let node = Node::start();
    let _load = Load::on(&node);
    let directory = Directory::new();
    let profile = |seconds: &str, name: &str| {
        let words = ["profile", "--url", &node.url(), "--seconds", seconds, "-o", name];
        Ladoga::new(words).current_dir(directory.path()).run().expect_success();
    };
    profile("1", "e.folded");
    for pair in [["a.heatmap.html", "b.heatmap.html"], ["c.html", "d.html"]] {
        // Where others have the cores, a node has few samples a second.
        let told = ["1", "4", "16"].into_iter().find_map(|seconds| {
            pair.into_iter().for_each(|name| profile(seconds, name));
            let told = diff(&directory, &pair).expect_success();
            (!told.text().starts_with("too few samples")).then_some(told)
        });
        let told = told.expect("enough samples");
        assert!(
            told.text().contains("differs by more than noise") || told.text().contains("differ by more"),
            "{told:?}"
        );
        assert!(told.text().contains("what chance alone does to so many samples"), "{told:?}");
    }
    diff(&directory, &["a.heatmap.html", "d.html"])
        .expect_failure(2, &["a.heatmap.html is a heat map and d.html is a flame graph"]);
    diff(&directory, &["a.heatmap.html", "b.heatmap.html", "-o", "change.html"]).expect_success();
    let change = fs::read_to_string(directory.path().join("change.html")).expect("a page");
    let origins =
        change.split("<dd>").filter(|row| row.contains(" UTC · ladoga ") && row.contains(" serve "));
    assert_eq!(origins.count(), 2, "which program, when and how started, for both sides");
    diff(&directory, &["a.heatmap.html", "e.folded"]).expect_failure(2, &["e.folded", "-o X.html"]);
    assert_eq!(files_below(directory.path()).len(), 6, "something was left behind");
}
