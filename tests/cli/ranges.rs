use crate::support::{Ladoga, Node, Outcome, value};

fn run(node: &Node, arguments: &[&str]) -> Outcome {
    let url = node.url();
    Ladoga::new(arguments.iter().copied().chain(["--url", &url])).run()
}

fn with_keys(keys: &[&str]) -> Node {
    let node = Node::start();
    let mut connection = node.connect();
    for key in keys {
        connection.put(key, format!("value of {key}").as_bytes());
    }
    node
}

#[test]
fn a_range_is_of_a_prefix_of_a_length_and_in_an_order() {
    let node = with_keys(&["a", "log:1", "log:2", "log:3", "m"]);
    let printed = |arguments: &[&str]| {
        let arguments = [&["range"], arguments].concat();
        run(&node, &arguments).expect_success().text().to_owned()
    };
    assert_eq!(
        printed(&["--prefix", "log:", "--limit", "2"]),
        "log:1\tvalue of log:1\nlog:2\tvalue of log:2\n"
    );
    assert_eq!(printed(&["--prefix", "log:", "--reverse", "--limit", "1", "--keys-only"]), "log:3\n");
    assert_eq!(printed(&["--prefix", "log:", "--after", "log:1", "--keys-only"]), "log:2\nlog:3\n");
    assert_eq!(printed(&["--after", "log:2", "--reverse", "--keys-only"]), "log:1\na\n");
    assert_eq!(printed(&["log:2", "m", "--keys-only"]), "log:2\nlog:3\n");
    assert_eq!(printed(&["log:2", "--prefix", "l", "--keys-only", "--raw"]), "log:2\0log:3\0");
    assert_eq!(printed(&["--prefix", "z"]), "");
}

#[test]
fn a_range_may_be_lines_of_json() {
    let node = with_keys(&["a"]);
    node.connect().put([0xff, b'\n'], b"any\nbytes\0\xff");
    let printed = run(&node, &["range", "a", "--json"]).expect_success();
    let lines: Vec<serde_json::Value> =
        printed.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((&lines[0]["key"], &lines[0]["value"]), (&"a".into(), &"value of a".into()));
    assert_eq!(lines[0]["etag"].as_str(), node.connect().get("a").header("etag"));
    assert_eq!(lines[1]["key_base64"], "/wo=");
    assert_eq!(lines[1]["value_base64"], "YW55CmJ5dGVzAP8=");
    let keys = run(&node, &["range", "a", "b", "--json", "--keys-only"]).expect_success();
    assert!(!keys.text().contains("value"), "{}", keys.text());
}

#[test]
fn a_key_ends_where_it_ends_whatever_bytes_it_has() {
    let node = with_keys(&[]);
    let mut connection = node.connect();
    connection.put("a\nb", b"c\nd");
    connection.put([b'k', 0xff], &[0xfe]);
    let lines = run(&node, &["range", "a"]).expect_success();
    assert_eq!(lines.stdout, b"a\\nb\tc\\nd\nk\xff\t\xfe\n");
    let raw = run(&node, &["range", "a", "--raw"]).expect_success();
    assert_eq!(raw.stdout, b"a\nb\0c\nd\0k\xff\0\xfe\0");
    // A value that does not come with its line.
    connection.put("large", &value(7, 700_000));
    let large = run(&node, &["range", "--prefix", "large", "--raw"]).expect_success();
    assert!(large.stdout == [&b"large\0"[..], &value(7, 700_000), b"\0"].concat());
}

#[test]
fn keys_are_counted() {
    let node = with_keys(&["a", "log:1", "log:2", "m"]);
    node.connect().put([0], b"the first key of all");
    node.connect().delete("m");
    for (arguments, expected) in [
        (&["count"][..], "4\n"),
        (&["count", "--prefix", "log:"], "2\n"),
        (&["count", "b"], "2\n"),
        (&["count", "a", "log:2"], "2\n"),
        (&["count", "z"], "0\n"),
    ] {
        assert_eq!(run(&node, arguments).expect_success().text(), expected, "{arguments:?}");
    }
}

#[test]
fn what_is_no_range_is_told() {
    for arguments in [
        &["range"][..],
        &["range", "--limit", "5"],
        &["range", "a", "--limit", "0"],
        &["range", "a", "--limit", "-1"],
        &["range", "a", "--limit", "many"],
        &["range", "a", "--json", "--raw"],
        &["count", "a", "b", "c"],
    ] {
        Ladoga::new(arguments.iter().copied()).run().expect_failure(2, &[]);
    }
    Ladoga::new(["range"]).run().expect_failure(2, &["START", "--prefix", "--after"]);
    let node = with_keys(&[]);
    run(&node, &["range", "--prefix", ""]).expect_failure(2, &["prefix"]);
}

#[test]
fn help_of_range_shows_how() {
    for (command, words) in [
        ("range", &["--prefix", "--after", "--limit", "--reverse", "--keys-only", "--json", "last ten"][..]),
        ("count", &["--prefix", "user:"]),
    ] {
        let help = Ladoga::new([command, "--help"]).run().expect_success();
        for word in words {
            assert!(help.text().contains(word), "{command}: {word} is missing: {}", help.text());
        }
    }
}
