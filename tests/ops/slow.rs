use serde_json::Value;

use crate::support::{Ladoga, Launch, Node, entity, wait_for, wait_until};

const KEY: &str = "user:4711/a-key-that-is-longer-than-the-log-has-place-for";
const VALUE: &[u8] = b"never-to-be-seen-in-the-log";

/// A write whose value arrives only after other requests were answered.
fn write_slowly(node: &Node) {
    let mut slow = node.connect();
    let head = format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", entity(KEY), VALUE.len());
    slow.send(head);
    let mut other = node.connect();
    for _ in 0..20 {
        assert_eq!(other.request("GET", "/metrics", None).status, 200);
    }
    slow.send(VALUE);
    assert_eq!(slow.response().status, 201);
}

#[test]
fn a_slow_request_is_told_and_its_value_is_not() {
    let launch = Launch::new().env("LADOGA_SLOW_REQUEST", "1ms").env("LADOGA_LOG_FORMAT", "json");
    let node = launch.start();
    let told = || -> Option<Value> {
        let log = node.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let waited = |line: &Value| line["body_ms"].as_f64().is_some_and(|ms| ms > 0.0);
        let is_it =
            |line: &Value| line["message"] == "slow request" && line["method"] == "PUT" && waited(line);
        lines.into_iter().find(is_it)
    };
    wait_until("a write that is slow", || {
        write_slowly(&node);
        told().is_some()
    });
    let line = told().expect("a line");
    assert_eq!((&line["level"], &line["route"]), (&"WARN".into(), &"/v0/entity".into()), "{line}");
    assert_eq!((&line["key"], &line["key_bytes"]), (&KEY[..32].into(), &KEY.len().into()), "{line}");
    assert_eq!((&line["status"], &line["rest"]), (&"201".into(), &"commit".into()), "{line}");
    assert_eq!((&line["received_bytes"], &line["sent_bytes"]), (&VALUE.len().into(), &0.into()), "{line}");
    let ms = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} of {line}"));
    let parts = ms("ready_ms") + ms("admission_ms") + ms("body_ms") + ms("rest_ms");
    assert!(ms("total_ms") >= 1.0 && ms("body_ms") > 0.0, "{line}");
    assert!((parts - ms("total_ms")).abs() < 0.5, "the parts are the whole: {line}");
    assert!(!node.log().contains(str::from_utf8(VALUE).expect("text")), "{}", node.log());
    assert!(node.metrics().sum("ladoga_slow_requests_total", &[]).is_some_and(|count| count >= 1.0));
}

/// The line of the log about a slow request for this key.
fn line_of(node: &Node, key: &str) -> Option<Value> {
    let log = node.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.into_iter().find(|line| line["message"] == "slow request" && line["key"] == key)
}

/// The head and the beginning of a write.
fn beginning(key: &str, length: usize) -> String {
    format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\nabc", entity(key))
}

/// A node that waits for a request for this long, and for which nothing is quick.
fn impatient(timeout_ms: u64) -> Node {
    let launch = Launch::new().env("LADOGA_REQUEST_TIMEOUT_MS", &timeout_ms.to_string());
    launch.env("LADOGA_SLOW_REQUEST", "1ms").env("LADOGA_LOG_FORMAT", "json").start()
}

#[test]
fn a_write_whose_value_does_not_come_is_as_slow_as_it_was() {
    // Longer than the node stands still while it answers.
    const TIMEOUT_MS: u64 = 2_000;
    let node = impatient(TIMEOUT_MS);
    // One that would be in memory, and one that is written as it arrives.
    for (count, key, length) in [(1, "short", 10), (2, "long", 64 << 20)] {
        let mut slow = node.connect();
        slow.send(beginning(key, length));
        let response = slow.response();
        assert_eq!(response.status, 408);
        let put = [r#"operation="put""#, r#"status="408""#];
        let figure = |name: &str| node.metrics().sum(name, &put);
        assert_eq!(figure("ladoga_request_duration_seconds_count"), Some(f64::from(count)));
        let seconds = figure("ladoga_request_duration_seconds_sum").expect("a sum");
        assert!(seconds > 0.001 * f64::from(count), "{seconds}");
        wait_until("its line", || line_of(&node, key).is_some());
        let line = line_of(&node, key).expect("a line");
        assert_eq!((&line["method"], &line["status"]), (&"PUT".into(), &"408".into()), "{line}");
        assert_eq!((&line["received_bytes"], &line["rest"]), (&3.into(), &"node".into()), "{line}");
        assert_eq!(line["sent_bytes"], response.body.len(), "{line}");
        let ms = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} of {line}"));
        assert!(ms("body_ms") > 1.0 && ms("rest_ms") < ms("body_ms"), "{line}");
    }
    // Of a head that does not arrive, nobody knows what it would have been.
    let mut slow = node.connect();
    slow.send("PUT /v0/entity?id=k HTTP/1.1\r\n");
    assert_eq!(slow.response().status, 408);
    let none = [r#"operation="none""#, r#"status="408""#];
    assert_eq!(node.metrics().sum("ladoga_request_duration_seconds_count", &none), Some(1.0));
}

/// It counted as two: one that was answered at once, and this one.
#[test]
fn a_batch_counts_once_by_the_answer_that_it_gets() {
    let node = impatient(2_000);
    let batches = |status: &str| {
        let labels = [r#"operation="batch""#, status];
        node.metrics().sum("ladoga_request_duration_seconds_count", &labels[..]).unwrap_or(0.0)
    };
    let begin = |beginning: &str| {
        let mut client = node.connect();
        client.send(format!("POST /v0/batch HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n{beginning}"));
        client
    };
    assert_eq!(begin("").response().status, 408);
    assert_eq!((batches(r#"status="408""#), batches("")), (1.0, 1.0));
    // The answer has begun, whatever becomes of the rest.
    let mut begun = begin("{\"op\":\"put\",\"key\":\"k\",\"value\":\"v\"}\n");
    assert_eq!(begun.response_head().status, 200);
    assert_eq!((batches(r#"status="200""#), batches("")), (1.0, 2.0));
    drop(begun);
    assert_eq!(begin("").response().status, 408);
    assert_eq!((batches(r#"status="408""#), batches("")), (2.0, 3.0));
}

/// What the log has of a batch of which lines of this length were read.
fn line_of_batch(node: &Node, received_bytes: usize) -> Option<Value> {
    let log = node.log();
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.find(|line| line["route"] == "/v0/batch" && line["received_bytes"] == received_bytes)
}

/// A batch whose lines arrive only after other requests were answered; answers the status.
fn send_batch_slowly(node: &Node, query: &str, length: usize, lines: &str) -> u16 {
    let mut slow = node.connect();
    slow.send(format!("POST /v0/batch{query} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n"));
    let mut other = node.connect();
    for _ in 0..20 {
        assert_eq!(other.request("GET", "/metrics", None).status, 200);
    }
    slow.send(lines);
    slow.response_head().status
}

/// What its first lines did was told as the node's own work.
#[test]
fn a_batch_is_told_with_the_commit_of_its_first_lines() {
    let node = impatient(60_000);
    let operation = "{\"op\":\"put\",\"key\":\"k\",\"value\":\"v\"}\n";
    // One that is all there, and one of which more is still to come.
    for (operations, length) in [(operation.to_owned(), operation.len()), (operation.repeat(2), 1_000)] {
        let line = wait_for("a batch that is slow", || {
            assert_eq!(send_batch_slowly(&node, "", length, &operations), 200);
            line_of_batch(&node, operations.len())
        });
        assert_eq!((&line["status"], &line["rest"]), (&"200".into(), &"commit".into()), "{line}");
    }
}

/// The time in which its lines arrived was told as that of a commit, even where nothing was written.
#[test]
fn an_atomic_batch_is_told_with_the_time_in_which_its_lines_arrived() {
    let node = impatient(60_000);
    let too_large = format!("{{\"op\":\"put\",\"key\":\"k\",\"value\":\"{}\"}}\n", "v".repeat(300_000));
    for (lines, status, rest) in [
        ("{\"op\":\"put\",\"key\":\"k\",\"value\":\"v\"}\n", 200, "commit"),
        ("{\"op\":\"increment\",\"key\":\"k\"}\n", 409, "commit"),
        ("{\"op\":\"get\",\"key\":\"k\"}\n", 400, "node"),
        (&too_large, 413, "node"),
    ] {
        let line = wait_for("an atomic batch that is slow", || {
            assert_eq!(send_batch_slowly(&node, "?atomic=true", lines.len(), lines), status, "{lines}");
            line_of_batch(&node, lines.len())
        });
        assert_eq!((&line["status"], &line["rest"]), (&status.to_string().into(), &rest.into()), "{line}");
        assert!(line["body_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{line}");
    }
}

#[test]
fn what_has_not_arrived_of_a_value_is_not_told_as_received() {
    let node = impatient(60_000);
    for (key, length) in [("short", 10), ("middling", 100_000), ("long", 64 << 20)] {
        wait_until("a write that is slow", || {
            let mut broken = node.connect();
            broken.send(beginning(key, length));
            let mut other = node.connect();
            for _ in 0..20 {
                assert_eq!(other.request("GET", "/metrics", None).status, 200);
            }
            broken.finish_sending();
            assert_eq!(broken.response().status, 400);
            line_of(&node, key).is_some()
        });
        let line = line_of(&node, key).expect("a line");
        assert_eq!((&line["status"], &line["rest"]), (&"400".into(), &"node".into()), "{line}");
        assert_eq!(line["received_bytes"], 3, "{line}");
    }
}

#[test]
fn nothing_is_told_if_nothing_is_slow() {
    for never in ["never", "0"] {
        let node = Launch::new().flag("--slow-request", never).start();
        (0..10).for_each(|_| write_slowly(&node));
        assert!(!node.log().contains("slow request"), "{}", node.log());
        assert_eq!(node.metrics().sum("ladoga_slow_requests_total", &[]), Some(0.0));
    }
    let wrong = Ladoga::new(["serve", "--slow-request", "soon"]).run();
    wrong.expect_failure(2, &["--slow-request is 'soon', expected a time from 1ms to 1d"]);
}

/// It takes as long as its client asks for.
#[test]
fn waiting_for_changes_is_not_slow() {
    // Only what is not its wait could be slow, and on no machine is that 10 s.
    let node = Launch::new().env("LADOGA_SLOW_REQUEST", "10s").start();
    let mut waiting = node.connect();
    waiting.send("GET /v0/changes HTTP/1.1\r\nHost: h\r\nPrefer: wait=12\r\n\r\n");
    assert_eq!(waiting.response().status, 304);
    // It would have been told before this is answered.
    assert_eq!(waiting.request("GET", "/v0/status", None).status, 200);
    assert!(!node.log().contains("/v0/changes"), "{}", node.log());
}
