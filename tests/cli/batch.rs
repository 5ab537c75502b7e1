use std::fs;

use serde_json::Value;

use crate::support::{Directory, Ladoga, Node, Outcome, Port};

const OPERATIONS: &str = "\
{\"op\":\"put\",\"key\":\"lake\",\"value\":\"deep\"}
{\"op\":\"get\",\"key\":\"lake\"}
{\"op\":\"increment\",\"key\":\"visits\",\"by\":2}
{\"op\":\"delete\",\"key\":\"lake\"}
";

fn batch(node: &Node, arguments: &[&str], input: &str) -> Outcome {
    let url = node.url();
    let arguments = ["batch"].iter().chain(arguments).copied().chain(["--url", &url]);
    Ladoga::new(arguments).input(input.as_bytes()).run()
}

fn statuses(outcome: &Outcome) -> Vec<u64> {
    let status = |line: &str| {
        let answer: Value = serde_json::from_str(line).expect("JSON");
        answer["status"].as_u64().expect("a status")
    };
    outcome.text().lines().map(status).collect()
}

#[test]
fn operations_come_from_a_file_or_from_standard_input() {
    let node = Node::start();
    let directory = Directory::new();
    let file = directory.path().join("operations.ndjson");
    fs::write(&file, OPERATIONS).expect("a file");
    let from_file = batch(&node, &[file.to_str().expect("text")], "").expect_success();
    assert_eq!(statuses(&from_file), [201, 200, 200, 202]);
    assert_eq!(from_file.stderr, "", "it did not take long");
    let from_input = batch(&node, &["-"], OPERATIONS.trim_end()).expect_success();
    assert_eq!(statuses(&from_input), [201, 200, 200, 202]);
    assert_eq!(node.connect().value("visits").as_deref(), Some(&b"4"[..]));
    assert_eq!(batch(&node, &["-"], "").expect_success().text(), "");
}

#[test]
fn the_first_operation_that_failed_is_named() {
    let node = Node::start();
    let input = OPERATIONS.to_owned() + "{\"op\":\"get\",\"key\":\"lake\"}\nnonsense\n";
    let outcome = batch(&node, &["-"], &input);
    assert_eq!(statuses(&outcome), [201, 200, 200, 202, 404, 400]);
    outcome.expect_failure(1, &["2 of 6 operations failed", "number 5", "404"]);
}

#[test]
fn many_operations_are_all_answered() {
    let node = Node::start();
    let lines = (0..50_000).map(|n| format!("{{\"op\":\"increment\",\"key\":\"n{}\"}}\n", n % 100));
    let input = lines.collect::<Vec<_>>().concat();
    let outcome = batch(&node, &["-"], &input).expect_success();
    assert_eq!(outcome.text().lines().count(), 50_000);
    assert_eq!(node.connect().value("n7").as_deref(), Some(&b"500"[..]));
}

#[test]
fn all_operations_happen_or_none() {
    let node = Node::start();
    let done =
        batch(&node, &["--atomic", "-"], "{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n").expect_success();
    assert_eq!(statuses(&done), [201]);
    let input = "{\"op\":\"delete\",\"key\":\"a\"}\n{\"op\":\"delete\",\"key\":\"b\",\"if_match\":\"*\"}\n";
    let refused = batch(&node, &["--atomic", "-"], input);
    assert_eq!(statuses(&refused), [424, 412]);
    refused.expect_failure(1, &["nothing was carried out", "412"]);
    assert_eq!(node.connect().value("a").as_deref(), Some(&b"1"[..]));
    let line = "{\"op\":\"put\",\"key\":\"a\",\"value\":\"2\"}\n";
    batch(&node, &["--atomic", "-"], &line.repeat(1_001)).expect_failure(1, &["1000 operations"]);
    batch(&node, &["--atomic", "-"], &line.repeat(20_000)).expect_failure(1, &["524288 bytes"]);
    assert_eq!(node.connect().value("a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn what_cannot_be_done_is_told() {
    let node = Node::start();
    batch(&node, &["nowhere.ndjson"], "").expect_failure(1, &["cannot read nowhere.ndjson"]);
    batch(&node, &[], "").expect_failure(2, &["FILE"]);
    let port = Port::claim();
    let gone = port.url();
    for arguments in [&["batch", "-", "--url"][..], &["batch", "-", "--atomic", "--url"]] {
        let arguments = arguments.iter().copied().chain([&gone[..]]);
        let outcome = Ladoga::new(arguments).input(OPERATIONS.as_bytes()).run();
        outcome.expect_failure(1, &["cannot reach", &gone]);
    }
    Ladoga::new(["batch", "-", "--url", "nonsense"]).run().expect_failure(2, &["--url", "nonsense"]);
}
