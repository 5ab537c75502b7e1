use std::fs;

use serde_json::json;

use crate::load::Load;
use crate::support::{Browser, Directory, Ladoga, Node, Outcome, files_below};

/// A heat map's page of ten seconds, in which a function of ours takes so many of a hundred samples.
fn page(kind: &str, planted: u64, thread: &str) -> String {
    let rows: Vec<u64> = (0..1_000)
        .flat_map(|at| [u64::from(at % 2 == 0 && at > 0), 0, 1 + u64::from(at % 100 < planted), 2_000_000])
        .collect();
    let data = json!({
        "kind": kind, "unit": "nanoseconds", "cellMs": 20, "cells": 500, "threads": [thread],
        "tree": { "names": [thread, "steady", "planted"], "parent": [-1, 0, 0], "name": [0, 1, 2] },
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
    for (name, kind, planted, thread) in [
        ("before.html", "cpu", 10, "loop-0"),
        ("same.html", "cpu", 10, "loop-1"),
        ("slower.html", "cpu", 25, "loop-1"),
        ("memory.html", "alloc", 25, "loop-1"),
    ] {
        fs::write(directory.path().join(name), page(kind, planted, thread)).expect("a profile");
    }
    let same = diff(&directory, &["before.html", "same.html", "-o", "same-diff.html"]).expect_success();
    assert!(same.text().starts_with("no frame differs by more than noise\n"), "{same:?}");
    let slower = diff(&directory, &["before.html", "slower.html", "-o", "diff.html"]).expect_success();
    assert!(slower.text().contains("+15.0 points   10.0 % to  25.0 %  planted"), "{slower:?}");
    assert!(slower.text().contains("diff.html"), "{slower:?}");
    diff(&directory, &["before.html", "memory.html"]).expect_failure(2, &["memory.html", "two of a kind"]);
    diff(&directory, &["before.html", "absent.html"]).expect_failure(2, &["absent.html"]);
    diff(&directory, &["before.html", "same.html", "-o", "diff.svg"])
        .expect_failure(2, &["diff.svg", ".html"]);
    diff(&directory, &["before.html"]).expect_failure(2, &["AFTER"]);
    diff(&directory, &["before.html", "/dev/zero"]).expect_failure(2, &["/dev/zero", "more than 512 MiB"]);

    let Some(mut browser) = Browser::start() else { return };
    for (name, is_noise) in [("same-diff.html", true), ("diff.html", false)] {
        let mut page = browser.open(&directory.path().join(name), 1280, 900);
        let frames = page.evaluate("ladogaProfile.flame.frames()");
        let frames = frames.as_array().expect("frames");
        let planted = frames.iter().find(|frame| frame["name"] == "planted").expect("it is drawn");
        assert_eq!(planted["isNoise"], is_noise, "{name}: {planted}");
        assert!(frames.iter().any(|frame| frame["name"] == "loop"), "threads of a role are one: {frames:?}");
        assert_eq!(page.complaints(), [""; 0]);
    }
}

#[test]
fn profiles_of_a_node_are_compared() {
    let node = Node::start();
    let _load = Load::on(&node);
    let directory = Directory::new();
    for name in ["a.heatmap.html", "b.heatmap.html", "c.html", "d.html", "e.folded"] {
        let words = ["profile", "--url", &node.url(), "--seconds", "1", "-o", name];
        Ladoga::new(words).current_dir(directory.path()).run().expect_success();
    }
    for pair in [["a.heatmap.html", "b.heatmap.html"], ["c.html", "d.html"], ["a.heatmap.html", "d.html"]] {
        let told = diff(&directory, &pair).expect_success();
        assert!(
            told.text().contains("differs by more than noise") || told.text().contains("differ by more"),
            "{told:?}"
        );
        assert!(told.text().contains("what chance alone does to so many samples"), "{told:?}");
    }
    diff(&directory, &["a.heatmap.html", "e.folded"]).expect_failure(2, &["e.folded", "-o X.html"]);
    assert_eq!(files_below(directory.path()).len(), 5, "something was left behind");
}
