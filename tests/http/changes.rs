//! The feed of changes, as those who follow it see it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Connection, Launch, Node, Response, assert_refusal, value, wait_until};

const EVENTS: &str = "Accept: text/event-stream\r\n";

/// Asks for changes, and answers the connection behind the head of the answer.
fn follow(node: &Node, query: &str, fields: &str) -> Connection {
    let mut connection = node.connect();
    connection.send(format!("GET /v0/changes?{query} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    let head = connection.response_head();
    assert_eq!(head.status, 200, "{query}");
    let expected = if fields.contains("event-stream") { "text/event-stream" } else { "application/x-ndjson" };
    assert_eq!(head.header("content-type"), Some(expected));
    assert_eq!(head.header("transfer-encoding"), Some("chunked"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    connection
}

fn ask(node: &Node, query: &str, fields: &str) -> Response {
    let mut connection = node.connect();
    connection.send(format!("GET /v0/changes?{query} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    connection.response()
}

/// The objects of the next chunk that has any: while a machine is slow, signs may come between.
fn next(connection: &mut Connection) -> Option<Vec<Value>> {
    loop {
        let chunk = connection.next_chunk().expect("a node that tells")?;
        let lines = chunk.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let objects: Vec<Value> = lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect();
        if !objects.is_empty() {
            return Some(objects);
        }
    }
}

/// What a client that follows knows.
#[derive(Default)]
struct Known {
    values: BTreeMap<String, Option<String>>,
    told: Vec<(String, String)>,
    token: String,
}

impl Known {
    fn take(&mut self, object: &Value) {
        if let Some(token) = object["bookmark"].as_str() {
            token.clone_into(&mut self.token);
            return;
        }
        let key = object["key"].as_str().expect("a key of text").to_owned();
        let op = object["op"].as_str().expect("what happened").to_owned();
        self.values.insert(key.clone(), object["value"].as_str().map(str::to_owned));
        self.told.push((op, key));
    }

    fn read(&mut self, connection: &mut Connection) {
        next(connection).expect("more").iter().for_each(|object| self.take(object));
    }

    fn read_until(&mut self, connection: &mut Connection, is_enough: impl Fn(&Known) -> bool) {
        while !is_enough(self) {
            self.read(connection);
        }
    }
}

fn told(changes: &[(&str, &str)]) -> Vec<(String, String)> {
    changes.iter().map(|(op, key)| ((*op).to_owned(), (*key).to_owned())).collect()
}

/// A token of now.
fn token(node: &Node) -> String {
    let answer = ask(node, "", "Prefer: wait=0\r\n");
    assert_eq!(answer.status, 304);
    answer.header("ladoga-next").expect("a token").to_owned()
}

#[test]
fn what_changes_is_told_as_it_happens() {
    let node = Node::start();
    let mut writer = node.connect();
    writer.put("before", b"1");
    let (mut all, mut some) = (follow(&node, "", ""), follow(&node, "prefix=user:", ""));
    let mut keys = follow(&node, "start=a&end=b&values=false", "");
    let (mut of_all, mut of_some, mut of_keys) = (Known::default(), Known::default(), Known::default());
    of_all.read(&mut all);
    of_some.read(&mut some);
    of_keys.read(&mut keys);
    writer.put("user:1", b"ann");
    writer.put("a", b"x");
    writer.delete("user:1");
    let with_ttl = writer.request("PUT", "/v0/entity?id=user:2&ttl=1h", Some(b"bob"));
    assert_eq!(with_ttl.status, 201);
    of_all.read_until(&mut all, |known| known.told.len() == 4);
    assert_eq!(
        of_all.told,
        told(&[("put", "user:1"), ("put", "a"), ("delete", "user:1"), ("put", "user:2")])
    );
    assert_eq!(of_all.values["a"].as_deref(), Some("x"));
    of_some.read_until(&mut some, |known| known.told.len() == 3);
    assert_eq!(of_some.told, told(&[("put", "user:1"), ("delete", "user:1"), ("put", "user:2")]));
    of_keys.read_until(&mut keys, |known| known.told.len() == 1);
    assert_eq!(of_keys.values["a"], None);
    // The entity tag is the one by which the value is changed.
    let object = &next(&mut follow(&node, "since=0&start=user:2", "")).expect("what is stored")[0];
    let etag = object["etag"].as_str().expect("a tag");
    assert_eq!(with_ttl.header("etag"), Some(etag));
    assert!(object["expires_ms"].is_u64());
}

#[test]
fn any_bytes_are_told_apart_and_a_large_value_is_told_by_its_length() {
    let node = Node::start();
    let mut writer = node.connect();
    writer.put([0xff, 0xfe], &[0xfd]);
    writer.put("large", &vec![7; 300 << 10]);
    let objects = next(&mut follow(&node, "since=0", "")).expect("what is stored");
    assert_eq!(
        (objects[0]["key"].as_str(), objects[0]["value_bytes"].as_u64()),
        (Some("large"), Some(300 << 10))
    );
    assert_eq!(objects[1]["key_base64"].as_str(), Some("//4="));
    assert_eq!(objects[1]["value_base64"].as_str(), Some("/Q=="));
}

#[test]
fn events_have_the_format_of_server_sent_events() {
    let node = Node::start();
    let mut writer = node.connect();
    let mut events = follow(&node, "", EVENTS);
    let mut text = String::from_utf8(events.next_chunk().expect("alive").expect("a chunk")).expect("text");
    assert!(
        text.starts_with("id: ") && text.ends_with("\n\n") && text.contains("\nevent: bookmark\ndata: {"),
        "{text}"
    );
    writer.put("k", b"one\ntwo");
    text = String::from_utf8(events.next_chunk().expect("alive").expect("a chunk")).expect("text");
    let (event, bookmark) = text.split_once("\n\n").expect("two events");
    let data: Value = serde_json::from_str(event.strip_prefix("data: ").expect("data")).expect("JSON");
    assert_eq!((data["op"].as_str(), data["value"].as_str()), (Some("put"), Some("one\ntwo")));
    let id = bookmark.strip_prefix("id: ").and_then(|rest| rest.split('\n').next()).expect("an identifier");

    // A browser comes back with the URL of its first request; the identifier counts.
    writer.put("later", b"v");
    let mut again = follow(&node, "since=0", &format!("{EVENTS}Last-Event-ID: {id}\r\n"));
    text = String::from_utf8(again.next_chunk().expect("alive").expect("a chunk")).expect("text");
    assert!(text.starts_with("data: {\"op\":\"put\",\"key\":\"later\""), "{text}");
    assert!(!text.contains("one"), "{text}");
}

#[test]
fn a_client_is_given_a_sign_while_nothing_changes() {
    let node = Node::start();
    let (mut lines, mut events) = (follow(&node, "", ""), follow(&node, "", EVENTS));
    next(&mut lines).expect("a bookmark");
    events.next_chunk().expect("alive").expect("a bookmark");
    assert_eq!(lines.next_chunk().expect("alive").as_deref(), Some(&b"\n"[..]));
    assert_eq!(events.next_chunk().expect("alive").as_deref(), Some(&b":\n\n"[..]));
}

#[test]
fn nothing_is_missed_over_a_kill_and_a_restart() {
    let mut node = Node::start();
    let mut known = Known::default();
    let mut connection = follow(&node, "since=0", "");
    let mut expected = BTreeMap::new();
    for round in 0..4 {
        let mut writer = node.connect();
        for n in 0..50 {
            let (key, value) = (format!("k{}", (n * 7 + round) % 30), format!("{round}-{n}"));
            if n % 5 == 4 {
                writer.delete(&key);
                expected.insert(key, None);
            } else {
                writer.put(&key, value.as_bytes());
                expected.insert(key, Some(value));
            }
            if n == 20 {
                known.read(&mut connection);
            }
        }
        assert!(!known.token.is_empty());
        if round % 2 == 0 {
            node.crash();
        } else {
            node.restart();
        }
        connection = follow(&node, &format!("since={}", known.token), "");
        known.read_until(&mut connection, |known| known.values == expected);
    }
}

/// A client that stops reading is let go of in the end; what it has missed is told when it comes back.
#[test]
fn who_reads_slowly_costs_no_memory_and_misses_nothing() {
    let node = Launch::new()
        .flag("--memory", "64MiB")
        .flag("--fsync", "never")
        .env("LADOGA_ANSWER_TIMEOUT_MS", "3000")
        .start();
    let mut writer = node.connect();
    let mut known = Known::default();
    let mut slow = follow(&node, "", "");
    known.read(&mut slow);
    let others: Vec<Connection> = (0..20).map(|_| follow(&node, "", "")).collect();
    slow.limit_receiving_to(4 << 10);
    others.iter().for_each(|other| other.limit_receiving_to(4 << 10));
    let before = node.resident_bytes();
    let value = "v".repeat(32 << 10);
    for n in 0..2_000 {
        writer.put(format!("k{}", n % 500), format!("{n}-{value}").as_bytes());
    }
    writer.put("end", b"end");
    let grown = node.resident_bytes().saturating_sub(before);
    assert!(grown < 160 << 20, "{} MiB more", grown >> 20);
    wait_until("clients that are let go of", || {
        node.metrics().sum("ladoga_changes_followers", &[]) == Some(0.0)
    });

    let mut again = follow(&node, &format!("since={}", known.token), "");
    known.read_until(&mut again, |known| known.values.contains_key("end"));
    for n in 0..500 {
        let newest = format!("{}-{value}", 1_500 + n);
        let key = format!("k{n}");
        known.read_until(&mut again, |known| known.values.get(&key) == Some(&Some(newest.clone())));
    }
    assert!(node.metrics().sum("ladoga_changes_catch_ups_total", &[]) >= Some(1.0));
}

#[test]
fn a_request_may_wait_for_one_batch_and_others_follow_it() {
    let node = Node::start();
    let since = token(&node);
    let began = Instant::now();
    assert_eq!(ask(&node, &format!("since={since}"), "Prefer: wait=1\r\n").status, 304);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());

    let (mut waiting, mut writer) = (node.connect(), node.connect());
    // With requests behind it in the pipeline.
    let request = format!("GET /v0/changes?since={since} HTTP/1.1\r\nHost: h\r\nPrefer: wait=60\r\n\r\n");
    waiting.send(format!("{request}GET /v0/entity?id=k HTTP/1.1\r\nHost: h\r\n\r\n"));
    std::thread::sleep(Duration::from_millis(200));
    writer.put("k", b"v");
    let batch = waiting.response();
    assert_eq!((batch.status, batch.header("content-type")), (200, Some("application/x-ndjson")));
    let object: Value = serde_json::from_str(batch.text()).expect("one line");
    assert_eq!(object["value"].as_str(), Some("v"));
    assert_eq!(waiting.response().text(), "v");
    let next = batch.header("ladoga-next").expect("a token");
    assert_ne!(next, since);
    for (since, status, what) in [(next, 304, "nothing is told twice"), (&*since, 200, "it is told again")] {
        let told = ask(&node, &format!("since={since}"), "Prefer: wait=0\r\n");
        let fields = ["cache-control", "x-accel-buffering", "ladoga-next"].map(|name| told.header(name));
        assert_eq!((told.status, fields), (status, [Some("no-store"), Some("no"), Some(next)]), "{what}");
    }
}

/// What is read from the tables takes several requests, and between them more is written, of keys that were read, than an answer has.
#[test]
fn one_request_after_the_other_gets_through_the_tables_however_much_is_written() {
    const KEYS: usize = 1_000;
    let node = Launch::new().flag("--memory", "64MiB").start();
    let mut writer = node.connect();
    let (mut known, mut expected, padding) = (Known::default(), BTreeMap::new(), "v".repeat(3_000));
    "0".clone_into(&mut known.token);
    let mut write = |n: usize, round: usize| {
        let (key, value) = (format!("key{n:04}"), format!("{round}-{padding}"));
        writer.put(&key, value.as_bytes());
        expected.insert(key, Some(value));
    };
    (0..KEYS).for_each(|n| write(n, 0));
    let poll = |known: &mut Known| {
        let answer = ask(&node, &format!("since={}", known.token), "Prefer: wait=0\r\n");
        answer.header("ladoga-next").expect("a token").clone_into(&mut known.token);
        let lines = answer.text().lines().map(|line| serde_json::from_str(line).expect("JSON"));
        lines.for_each(|object: Value| known.take(&object));
        answer.status == 304
    };
    for round in 1..6 {
        assert!(!poll(&mut known));
        // The ring, a 64th of the memory, does not go back to where it was before.
        (0..KEYS / 2).for_each(|n| write(n, round));
    }
    let requests = (0..300).take_while(|_| !poll(&mut known)).count();
    assert!(requests < 300, "it is told the same again and again");
    assert_eq!(known.values, expected);
}

#[test]
fn a_token_that_is_none_and_one_that_is_too_old_are_refused() {
    let node = Launch::new().env("LADOGA_CHANGES_KEEP_MS", "2000").start();
    let since = token(&node);
    let wrong = "since= since=1 since=abcdef since=0&start= since=0&values=no since=0&scope=all prefix=";
    for query in wrong.split(' ') {
        assert_refusal(&ask(&node, query, ""), 400, query);
    }
    assert_refusal(&ask(&node, &format!("since={since}00"), ""), 400, "more than a token");
    for prefer in ["Prefer: wait=soon\r\n", "Prefer: respond-async, wait=-1\r\n"] {
        assert_refusal(&ask(&node, "", prefer), 400, prefer);
    }
    let status = |since: &str| ask(&node, &format!("since={since}"), "Prefer: wait=0\r\n").status;
    // Both are good for a second or two: who is too slow to ask in time asks again, with a newer one.
    wait_until("a new token that is good", || status(&token(&node)) == 304);
    assert_refusal(&wait_for_gone(&node, &since), 410, "an old token");
    wait_until("the oldest token that is good", || {
        status(wait_for_gone(&node, &since).header("ladoga-oldest").expect("the oldest token")) == 304
    });

    let other = Node::start();
    let refusal = ask(&other, &format!("since={since}"), "");
    assert_refusal(&refusal, 410, "a token of another node");
    assert!(refusal.text().contains("another data directory"), "{}", refusal.text());
    let refused = other.connect().request("PUT", "/v0/changes", Some(b""));
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET")));
}

fn wait_for_gone(node: &Node, since: &str) -> Response {
    let mut last = None;
    wait_until("a token that is too old", || {
        let answer = ask(node, &format!("since={since}"), "Prefer: wait=0\r\n");
        let is_gone = answer.status == 410;
        last = Some(answer);
        is_gone
    });
    last.expect("it was asked")
}

#[test]
fn a_node_that_stops_ends_its_feeds_at_once() {
    let mut node = Node::start();
    let mut connections = [follow(&node, "", ""), follow(&node, "", EVENTS)];
    connections.iter_mut().for_each(|connection| drop(connection.next_chunk().expect("a bookmark")));
    let mut waiting = node.connect();
    waiting.send("GET /v0/changes HTTP/1.1\r\nHost: h\r\nPrefer: wait=300\r\n\r\n");
    wait_until("all of them", || node.metrics().sum("ladoga_changes_followers", &[]) == Some(3.0));
    let began = Instant::now();
    node.stop();
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    for connection in &mut connections {
        assert_eq!(connection.next_chunk().expect("an end"), None);
        connection.expect_closed();
    }
    assert_eq!(waiting.response().status, 304);
}

/// An old client reads up to the end of the connection; one byte at a time works as well.
#[test]
fn old_clients_and_slow_ones_are_told_too() {
    let node = Node::start();
    let mut old = node.connect();
    for byte in b"GET /v0/changes?since=0 HTTP/1.0\r\n\r\n" {
        old.send([*byte]);
    }
    node.connect().put("k", b"v");
    let head = old.response_head();
    assert_eq!((head.status, head.header("transfer-encoding")), (200, None));
    old.finish_sending();
    let body = String::from_utf8(old.rest()).expect("text");
    assert!(body.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{body}");
}

/// Ten thousand of them are for the lab; this is about what one costs.
#[test]
fn followers_that_wait_take_little_memory() {
    const FOLLOWERS: usize = 400;
    let node = Node::start();
    let mut writer = node.connect();
    writer.put("k", b"v");
    let before = node.resident_bytes();
    let mut followers: Vec<Connection> =
        (0..FOLLOWERS).map(|n| follow(&node, &format!("prefix=f{n}:"), "")).collect();
    followers.iter_mut().for_each(|follower| drop(next(follower)));
    let each = node.resident_bytes().saturating_sub(before) / FOLLOWERS as u64;
    assert!(each < 20 << 10, "{each} bytes each");
    // Those whose keys change are told, and only they.
    writer.put("f7:x", &value(7, 100));
    writer.put("f8:x", b"last");
    for n in [7, 8] {
        assert_eq!(next(&mut followers[n]).expect("a change")[0]["key"].as_str(), Some(&*format!("f{n}:x")));
    }
    assert_eq!(node.metrics().sum("ladoga_changes_followers", &[]), Some(FOLLOWERS as f64));
}

#[test]
fn who_does_not_wait_may_have_said_all() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.send("GET /v0/changes HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=0\r\n\r\n");
    connection.finish_sending();
    let answer = connection.response();
    assert_eq!(answer.status, 304, "{}", answer.text());
    assert!(answer.header("ladoga-next").is_some());
}
