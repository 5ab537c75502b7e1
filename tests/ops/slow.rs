use serde_json::Value;

use crate::support::{Ladoga, Launch, Node, entity, wait_until};

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
    let node = Launch::new().env("LADOGA_SLOW_REQUEST", "500ms").start();
    let mut waiting = node.connect();
    waiting.send("GET /v0/changes HTTP/1.1\r\nHost: h\r\nPrefer: wait=1\r\n\r\n");
    assert_eq!(waiting.response().status, 304);
    // It would have been told before this is answered.
    assert_eq!(waiting.request("GET", "/v0/status", None).status, 200);
    assert!(!node.log().contains("/v0/changes"), "{}", node.log());
}
