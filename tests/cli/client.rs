use crate::support::{Directory, Ladoga, Launch, Node, Outcome, Port, ladoga_in, value};

/// Runs a command of the client against this node.
fn run(node: &Node, arguments: &[&str]) -> Outcome {
    ask(node, arguments).run()
}

fn ask(node: &Node, arguments: &[&str]) -> Ladoga {
    let url = node.url();
    Ladoga::new(arguments.iter().copied().chain(["--url", &url]))
}

#[test]
fn a_value_is_put_read_and_deleted() {
    let node = Node::start();
    let put = run(&node, &["put", "lake", "deep and cold"]).expect_success();
    assert_eq!(put.stdout, b"", "scripts like it quiet");
    assert_eq!(node.connect().value("lake").as_deref(), Some(&b"deep and cold"[..]));
    let get = run(&node, &["get", "lake"]).expect_success();
    assert_eq!(get.text().trim_end_matches('\n'), "deep and cold");
    run(&node, &["delete", "lake"]).expect_success();
    assert_eq!(node.connect().value("lake"), None);
    run(&node, &["delete", "lake"]).expect_success();
}

#[test]
fn a_value_is_put_for_a_while() {
    let node = Node::start();
    run(&node, &["put", "lake", "deep", "--ttl", "1h"]).expect_success();
    assert!(node.connect().get("lake").header("ladoga-expires").is_some());
    run(&node, &["put", "lake", "deep"]).expect_success();
    assert_eq!(node.connect().get("lake").header("ladoga-expires"), None);
    for ttl in ["0s", "60", "-5s", "soon", ""] {
        run(&node, &["put", "lake", "dry", "--ttl", ttl])
            .expect_failure(2, &["--ttl", "60s, 5m, 12h or 30d"]);
    }
    assert_eq!(node.connect().value("lake").as_deref(), Some(&b"deep"[..]));
}

#[test]
fn a_write_may_say_when_it_is_on_disk() {
    let node = Launch::new().flag("--fsync", "never").start();
    let syncs = || node.metrics().sum("ladoga_wal_sync_duration_seconds_count", &[]).expect("a histogram");
    let before = syncs();
    for command in [
        &["put", "lake", "7"][..],
        &["increment", "lake", "2"],
        &["expire", "lake", "1h", "--if-match", "*"],
        &["delete", "lake"],
    ] {
        let with = |fsync: &'static str| [command, &["--fsync", fsync][..]].concat();
        run(&node, command).expect_success();
        run(&node, &["put", "lake", "7", "--fsync", "never"]).expect_success();
        let unsynced = syncs();
        run(&node, &with("always")).expect_success();
        assert!((syncs() - unsynced - 1.0).abs() < 0.5, "{command:?}");
        run(&node, &["put", "lake", "7"]).expect_success();
        for wrong in ["", "Always", "sometimes"] {
            run(&node, &with(wrong)).expect_failure(2, &["--fsync", "always, everysec or never"]);
        }
    }
    assert!((syncs() - before - 4.0).abs() < 0.5);
    run(&node, &["get", "lake", "--fsync", "always"]).expect_failure(2, &["--fsync"]);
}

#[test]
fn the_expiry_of_a_value_is_changed() {
    let node = Node::start();
    run(&node, &["put", "lake", "deep"]).expect_success();
    let expires = || node.connect().get("lake").header("ladoga-expires").map(str::to_owned);
    let changed = run(&node, &["expire", "lake", "1h"]).expect_success();
    assert_eq!(changed.stdout, b"", "scripts like it quiet");
    assert!(expires().is_some());
    let etag = run(&node, &["get", "lake", "--etag"]).expect_success().text().to_owned();
    run(&node, &["expire", "lake", "none", "--if-match", etag.trim()]).expect_success();
    assert_eq!(expires(), None);
    run(&node, &["expire", "lake", "1h", "--if-match", etag.trim()]).expect_failure(1, &["lake", "ETag"]);
    // By the flag of `put`, too, and once only.
    run(&node, &["expire", "lake", "--ttl", "1h"]).expect_success();
    assert!(expires().is_some());
    run(&node, &["expire", "lake", "--ttl", "none"]).expect_success();
    run(&node, &["expire", "lake", "--ttl", "60"]).expect_failure(2, &["--ttl", "60s, 5m, 12h or 30d"]);
    run(&node, &["expire", "lake", "-1s"]).expect_failure(2, &["'-1s'", "60s, 5m, 12h or 30d"]);
    run(&node, &["expire", "lake", "1h", "--ttl", "1h"]).expect_failure(2, &["--ttl"]);
    run(&node, &["expire", "lake"]).expect_failure(2, &["DURATION"]);
    run(&node, &["expire", "sea", "1h"]).expect_failure(1, &["sea", "does not exist"]);
    run(&node, &["expire", "sea", "1h", "--if-match", "*"]).expect_failure(1, &["sea", "does not exist"]);
    for life in ["0s", "60", "-5s", "soon", "", "NONE"] {
        run(&node, &["expire", "lake", life]).expect_failure(2, &["or none"]);
    }
    assert_eq!(expires(), None);
    assert_eq!(node.connect().value("lake").as_deref(), Some(&b"deep"[..]));
}

#[test]
fn a_key_that_is_not_there_is_a_failure() {
    let node = Node::start();
    let missing = run(&node, &["get", "absent"]).expect_failure(1, &["absent"]);
    assert_eq!(missing.stdout, b"");
    assert_eq!(missing.stderr.lines().count(), 1, "{missing:?}");
}

#[test]
fn the_exit_code_says_it_where_nobody_reads_the_errors() {
    let (reader, errors) = std::io::pipe().expect("a pipe");
    drop(reader);
    for arguments in [&["get", "key", "--url", "http://127.0.0.1:1"][..], &["check", "."][..]] {
        let mut command = ladoga_in(&[]);
        command.args(arguments).stderr(errors.try_clone().expect("a descriptor"));
        let status = command.status().expect("the binary starts");
        assert_eq!(status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn a_value_may_come_from_the_standard_input() {
    let node = Node::start();
    let all: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
    for bytes in [b"text\n".to_vec(), b"\n\n".to_vec(), Vec::new(), all, value(1, 2 << 20)] {
        ask(&node, &["put", "key"]).input(&bytes).run().expect_success();
        assert!(node.connect().value("key").as_ref() == Some(&bytes), "{} bytes were changed", bytes.len());
        // Not a byte more or less if it is read by another program.
        let read = run(&node, &["get", "key"]).expect_success();
        assert!(read.stdout == bytes, "{} bytes were printed as {}", bytes.len(), read.stdout.len());
    }
}

#[test]
fn an_empty_argument_is_an_empty_value() {
    let node = Node::start();
    ask(&node, &["put", "key", ""]).input(b"not this").run().expect_success();
    assert_eq!(node.connect().value("key"), Some(Vec::new()));
    assert_eq!(run(&node, &["get", "key"]).expect_success().stdout, b"");
}

#[test]
fn keys_are_taken_as_they_are_typed() {
    let node = Node::start();
    for key in [
        "a+b",
        "a b",
        "100%",
        "%41",
        "a&id=b",
        "a=b",
        "a#b",
        "a?b",
        "a/b",
        "\u{43b}\u{430}\u{434}\u{43e}\u{433}\u{430}",
        "\n",
    ] {
        run(&node, &["put", key, key]).expect_success();
        assert_eq!(node.connect().value(key).as_deref(), Some(key.as_bytes()), "{key:?}");
        assert_eq!(run(&node, &["get", key]).expect_success().stdout, key.as_bytes(), "{key:?}");
        run(&node, &["delete", key]).expect_success();
        assert_eq!(node.connect().value(key), None, "{key:?}");
    }
}

#[test]
fn a_key_may_begin_with_a_dash() {
    let node = Node::start();
    run(&node, &["put", "-", "dash"]).expect_success();
    assert_eq!(node.connect().value("-").as_deref(), Some(&b"dash"[..]));
    let url = node.url();
    Ladoga::new(["put", "--url", &url, "--", "--key", "-value"]).run().expect_success();
    assert_eq!(node.connect().value("--key").as_deref(), Some(&b"-value"[..]));
}

#[test]
fn a_range_is_printed_in_order() {
    let node = Node::start();
    for key in ["c", "a", "d", "b"] {
        node.connect().put(key, format!("value-of-{key}").as_bytes());
    }
    let printed = |arguments: &[&str]| {
        let text = run(&node, arguments).expect_success().text().to_owned();
        let found = ["a", "b", "c", "d"]
            .into_iter()
            .filter_map(|key| Some((text.find(&format!("value-of-{key}"))?, key)));
        let found: Vec<_> = found.collect();
        assert!(found.is_sorted(), "not in order: {text}");
        found.into_iter().map(|(_, key)| key).collect::<String>()
    };
    assert_eq!(printed(&["range", "a"]), "abcd");
    assert_eq!(printed(&["range", "b", "d"]), "bc");
    assert_eq!(printed(&["range", "x"]), "");
    assert_eq!(printed(&["range", "b", "b"]), "");
}

#[test]
fn the_status_is_told() {
    let node = Node::start();
    run(&node, &["status"]).expect_success();
}

#[test]
fn a_refusal_of_the_node_is_passed_on() {
    let node = Node::start();
    node.connect().put("word", b"deep");
    let named = [&*node.url(), "answered 409: ", "deep"];
    run(&node, &["increment", "word"]).expect_failure(1, &named);
}

/// The node is not asked.
#[test]
fn a_key_that_cannot_be_one_is_typed_wrong() {
    let nobody = Port::claim().url();
    let long = "k".repeat(4_097);
    for (key, reason) in [("", "the key is empty, expected 1 to 4096"), (&*long, "expected 1 to 4096")] {
        for arguments in [
            &["get", key][..],
            &["put", key, "v"],
            &["delete", key],
            &["increment", key],
            &["expire", key, "1m"],
        ] {
            let outcome = Ladoga::new(arguments.iter().copied().chain(["--url", &nobody])).run();
            outcome.expect_failure(2, &["<KEY>", reason]);
        }
        for arguments in [
            &["range", key][..],
            &["range", "a", key],
            &["range", "--after", key],
            &["count", key],
            &["count", "a", key],
            &["changes", key],
            &["changes", "a", key],
        ] {
            let outcome = Ladoga::new(arguments.iter().copied().chain(["--url", &nobody])).run();
            outcome.expect_failure(2, &[reason]);
        }
        for command in ["range", "count", "changes", "export"] {
            let outcome = Ladoga::new([command, "--prefix", key, "--url", &nobody]).run();
            outcome.expect_failure(2, &["--prefix", "expected a prefix of 1 to 4096 bytes"]);
        }
        let sides = ["copy", "--from", &nobody, "--to", "http://127.0.0.1:1"];
        for (flag, reason) in [("--prefix", "expected a prefix"), ("--after", reason)] {
            let outcome = Ladoga::new(sides.iter().copied().chain([flag, key])).run();
            outcome.expect_failure(2, &[flag, reason]);
        }
    }
}

#[test]
fn a_number_that_is_none_is_told_with_what_is_expected() {
    for (arguments, expected) in [
        (&["backup", "create", "--to", "b", "--ack", "0"][..], "expected a number of nodes, at least 1"),
        (&["backup", "log", "--to", "b", "--ack", "many"], "expected a number of nodes, at least 1"),
        (&["increment", "x", "abc"], "expected a number from -9223372036854775808 to 9223372036854775807"),
        (&["increment", "x", "9223372036854775808"], "expected a number from -9223372036854775808"),
        (&["range", "a", "--limit", "-1"], "expected a number from 1 to 18446744073709551615"),
        (&["status", "--watch", "abc"], "expected a number from 1 to 3600"),
        (&["status", "--watch", "0"], "expected a number from 1 to 3600"),
        (
            &["copy", "--from", "http://a", "--to", "http://b", "--requests", "65"],
            "expected a number from 1 to 64",
        ),
        (&["profile", "-o", "a.html", "--hz", "x"], "expected a number from 99 to 1000"),
    ] {
        Ladoga::new(arguments.iter().copied()).run().expect_failure(2, &[expected]);
    }
}

#[test]
fn a_node_that_is_not_there_is_named() {
    let port = Port::claim();
    let url = port.url();
    let address = port.address().to_string();
    for arguments in [&["get", "k"][..], &["put", "k", "v"], &["delete", "k"], &["range", "a"], &["status"]] {
        let outcome = Ladoga::new(arguments.iter().copied().chain(["--url", &url])).run();
        outcome.expect_failure(1, &[&address]);
    }
}

#[test]
fn a_url_that_is_none_is_named() {
    for url in ["", "nonsense", "ftp://127.0.0.1:1", "http://", "http://127.0.0.1:65536"] {
        let outcome = Ladoga::new(["get", "k", "--url", url]).run();
        outcome.expect_reason(&["url"]);
    }
}

#[test]
fn no_message_repeats_a_password() {
    let (directory, url) = (Directory::new(), "http://me:hidden@127.0.0.1:1");
    let data = directory.path().to_str().expect("a path of text");
    let with_slash = "http://me:hid/den@127.0.0.1:1";
    let cluster = format!("{url},http://127.0.0.1:2");
    for arguments in [
        &["get", "k", "--url", url][..],
        &["get", "k", "--url", with_slash],
        &["get", "k", "--url", "me:hidden@127.0.0.1:1"],
        &["get", "k", url],
        &["status", "--url", url],
        &["copy", "--from", url, "--to", "http://127.0.0.1:2"],
        &["copy", "--from", "http://127.0.0.1:2", "--to", url],
        &["profile", "-o", "a.svg", "--url", url],
        &["serve", "--data", data, "--check-config", "--cluster", &cluster],
        &["serve", "--data", data, "--check-config", "--advertise", url],
        &["serve", "--data", data, "--check-config", "--listen", url],
        &["serve", "--data", data, "--check-config", "--otlp", url],
        &["backup", "create", "--to", data, "--url", url],
        &["backup", "create", "--to", "ftp://me:hidden@127.0.0.1"],
        #[cfg(feature = "s3")]
        &["backup", "list", "s3://me:hidden@bucket/a"],
        &["bench", url],
        &["bench", with_slash],
        &["lab", "run", "--url", url],
        &["lab", "run", "--peer", url],
    ] {
        let outcome = Ladoga::new(arguments.iter().copied()).run();
        let said = format!("{}{}", outcome.stderr, String::from_utf8_lossy(&outcome.stdout));
        assert!(!said.contains("hid") && said.contains("***@"), "{arguments:?}: {said}");
        outcome.expect_failure(2, &[]);
    }
}

#[test]
fn a_url_may_end_with_a_slash() {
    let node = Node::start();
    let url = format!("{}/", node.url());
    Ladoga::new(["put", "k", "value", "--url", &url]).run().expect_success();
    assert_eq!(node.connect().value("k").as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_large_value_passes_through_the_client() {
    let node = Node::start();
    let largest = value(3, 64 << 20);
    ask(&node, &["put", "large"]).input(&largest).run().expect_success();
    assert!(run(&node, &["get", "large"]).expect_success().stdout == largest);
    let mut over = largest;
    over.push(0);
    ask(&node, &["put", "larger"]).input(&over).run().expect_reason(&["67108864"]);
    assert_eq!(node.connect().value("larger"), None);
}

#[test]
fn the_etag_is_printed_and_compared() {
    let node = Node::start();
    run(&node, &["put", "lake", "deep", "--if-absent"]).expect_success();
    run(&node, &["put", "lake", "other", "--if-absent"]).expect_failure(1, &["lake", "ETag"]);
    let printed = run(&node, &["get", "lake", "--etag"]).expect_success().text().to_owned();
    let etag = printed.strip_suffix('\n').expect("a line");
    assert_eq!(node.connect().get("lake").header("etag"), Some(etag));
    run(&node, &["put", "lake", "deeper", "--if-match", etag]).expect_success();
    let stale = run(&node, &["put", "lake", "dry", "--if-match", etag]).expect_failure(1, &["lake"]);
    assert_eq!(stale.stderr.lines().count(), 1, "{stale:?}");
    run(&node, &["delete", "lake", "--if-match", etag]).expect_failure(1, &["lake"]);
    assert_eq!(node.connect().value("lake").as_deref(), Some(&b"deeper"[..]));
    let printed = run(&node, &["get", "lake", "--etag"]).expect_success().text().to_owned();
    // Without its quotes, as a shell may leave it.
    run(&node, &["delete", "lake", "--if-match", printed.trim().trim_matches('"')]).expect_success();
    run(&node, &["delete", "lake", "--if-match", "*"]).expect_failure(1, &["lake"]);
    run(&node, &["get", "lake", "--etag"]).expect_failure(1, &["lake"]);
}

#[test]
fn an_etag_that_is_none_is_a_usage_error() {
    let node = Node::start();
    for etag in ["", "a b", "\"a\", \"b\""] {
        run(&node, &["put", "k", "v", "--if-match", etag]).expect_failure(2, &["--if-match"]);
        run(&node, &["delete", "k", "--if-match", etag]).expect_failure(2, &["--if-match"]);
    }
    run(&node, &["put", "k", "v", "--if-absent", "--if-match", "*"]).expect_failure(2, &["--if-absent"]);
    assert_eq!(node.connect().value("k"), None);
}

#[test]
fn a_number_is_added_to() {
    let node = Node::start();
    let print = |arguments: &[&str]| run(&node, arguments).expect_success().text().to_owned();
    assert_eq!(print(&["increment", "visits"]), "1\n");
    assert_eq!(print(&["increment", "visits", "41"]), "42\n");
    assert_eq!(print(&["increment", "visits", "-50"]), "-8\n");
    node.connect().put("word", b"deep");
    run(&node, &["increment", "word"]).expect_failure(1, &["deep"]);
    run(&node, &["increment", "visits", "much"]).expect_failure(2, &["much"]);
}
