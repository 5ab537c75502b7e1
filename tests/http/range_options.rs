//! What of a range is wanted, in which order, and as what.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{
    Connection, Launch, Node, Response, assert_refusal, differs_on_cassandra, percent_encoded, value,
    wait_until,
};

const LINES: &str = "Accept: application/x-ndjson\r\n";

fn ask(connection: &mut Connection, query: &str, field: &str) -> Response {
    connection.send(format!("GET /v0/entities?{query} HTTP/1.1\r\nHost: h\r\n{field}\r\n"));
    let response = connection.response();
    assert_eq!(response.status, 200, "{query}: {}", response.text());
    response
}

/// The keys of a range, each of which is a chunk.
fn keys(connection: &mut Connection, query: &str) -> Vec<String> {
    let records = ask(connection, query, "").records();
    records.into_iter().map(|(key, _)| String::from_utf8(key).expect("a key of text")).collect()
}

/// The objects of a range, each of which is a chunk and a line.
fn lines(connection: &mut Connection, query: &str) -> Vec<Value> {
    let response = ask(connection, query, LINES);
    assert_eq!(response.header("content-type"), Some("application/x-ndjson"), "{query}");
    let chunks = response.chunks.expect("a body in chunks");
    let parse = |chunk: &Vec<u8>| {
        let line = chunk.strip_suffix(b"\n").expect("a line");
        assert!(!line.contains(&b'\n'), "more than a line: {:?}", line.escape_ascii().to_string());
        serde_json::from_slice(line).expect("JSON")
    };
    chunks.iter().map(parse).collect()
}

fn with_keys(keys: &[&str]) -> (Node, Connection) {
    let node = Node::start();
    let mut connection = node.connect();
    for key in keys {
        connection.put(key, key.as_bytes());
    }
    (node, connection)
}

#[test]
fn a_prefix_is_all_that_begins_with_it() {
    let (_node, mut connection) = with_keys(&["a", "user", "user:", "user:1", "user:2", "user;", "v"]);
    assert_eq!(keys(&mut connection, "prefix=user:"), ["user:", "user:1", "user:2"]);
    assert_eq!(keys(&mut connection, "prefix=user:&start=user:1"), ["user:1", "user:2"]);
    assert_eq!(keys(&mut connection, "prefix=user:&end=user:2&reverse=true"), ["user:1", "user:"]);
    assert_eq!(keys(&mut connection, "prefix=user:&start=v"), [""; 0]);
    assert_eq!(keys(&mut connection, "prefix=w"), [""; 0]);
    connection.put([0xff, 0xff], b"last");
    let last = ask(&mut connection, "prefix=%ff", "").records();
    assert_eq!(last, [(vec![0xff, 0xff], b"last".to_vec())]);
}

#[test]
fn pages_follow_each_other_in_both_directions() {
    let (_node, mut connection) = with_keys(&[]);
    let mut expected: Vec<String> = (0..257).map(|n| format!("key{n:04}")).collect();
    for (n, key) in expected.iter().enumerate() {
        connection.put(key, format!("value{n}").as_bytes());
    }
    // What is gone is no part of a page, and of no limit.
    for key in expected.extract_if(.., |key| key.ends_with('3')) {
        connection.delete(key);
    }
    for reverse in [false, true] {
        for limit in [1, 7, 100, 1_000] {
            let (mut found, mut after) = (Vec::<String>::new(), String::new());
            loop {
                let query = format!("prefix=key&limit={limit}&reverse={reverse}{after}");
                let page = keys(&mut connection, &query);
                assert!(page.len() <= limit, "{query}: {} keys", page.len());
                let Some(last) = page.last() else { break };
                after = format!("&after={}", percent_encoded(last.as_bytes()));
                found.extend(page);
            }
            let mut expected = expected.clone();
            if reverse {
                expected.reverse();
            }
            assert_eq!(found, expected, "by {limit}, reverse: {reverse}");
        }
    }
    // A key that is not there is a place, too.
    assert_eq!(keys(&mut connection, "after=key0003&limit=1"), ["key0004"]);
    assert_eq!(keys(&mut connection, "after=key0003&limit=1&reverse=true"), ["key0002"]);
    assert_eq!(
        keys(&mut connection, "start=key0100&end=key0103&reverse=true&limit=2"),
        ["key0102", "key0101"]
    );
}

#[test]
fn the_last_keys_of_all_are_in_ranges_of_both_directions() {
    let (_node, mut connection) = with_keys(&["a"]);
    let longest = [0xff; 4_096];
    let last: [&[u8]; 5] = [&[0xfe, 0xff], &[0xff], &[0xff, 0], &[0xff, 0xff], &longest];
    last.iter().for_each(|key| connection.put(key, b"value"));
    let mut keys = |query: &str| -> Vec<Vec<u8>> {
        ask(&mut connection, query, "").records().into_iter().map(|(key, _)| key).collect()
    };
    let expected: Vec<Vec<u8>> = last[1..].iter().map(|key| key.to_vec()).collect();
    assert_eq!(keys("prefix=%ff"), expected);
    assert_eq!(keys("prefix=%ff&start=z&after=a"), expected);
    let backward: Vec<Vec<u8>> = expected.iter().rev().cloned().collect();
    assert_eq!(keys("prefix=%ff&reverse=true"), backward);
    assert_eq!(keys("start=%ff&reverse=true&limit=3"), backward[..3]);
    assert_eq!(keys("prefix=%ff&end=%ff%ff&reverse=true"), backward[2..]);
    // No key is behind the last one, and none that begins with these bytes is before the first one.
    let encoded = percent_encoded(&longest);
    let none = Vec::<Vec<u8>>::new();
    assert_eq!(keys(&format!("after={encoded}")), none);
    assert_eq!(keys(&format!("after={encoded}&reverse=true&limit=1")), backward[1..2]);
    assert_eq!(keys("prefix=%ff%ff&after=%ff%ff&reverse=true"), none);
    assert_eq!(keys("after=%ff%ff&limit=1"), backward[..1]);
    for (query, count) in
        [("prefix=%ff", "4\n"), ("prefix=%ff&limit=3", "3\n"), ("prefix=%ff&limit=9&reverse=true", "4\n")]
    {
        assert_eq!(ask(&mut connection, &format!("{query}&count=true"), "").text(), count, "{query}");
    }
}

#[test]
fn what_expired_counts_for_no_limit() {
    let (node, mut connection) = with_keys(&["b", "d"]);
    for key in ["a", "c", "e"] {
        let target = format!("/v0/entity?id={key}&ttl=1ms");
        assert_eq!(connection.request("PUT", &target, Some(b"for a moment")).status, 201);
    }
    wait_until("values that expire", || {
        ["a", "c", "e"].iter().all(|key| node.connect().get(key).status == 404)
    });
    assert_eq!(keys(&mut connection, "start=a&limit=2"), ["b", "d"]);
    assert_eq!(keys(&mut connection, "start=a&limit=2&reverse=true"), ["d", "b"]);
    assert_eq!(keys(&mut connection, "after=a&limit=1"), ["b"]);
    assert_eq!(ask(&mut connection, "start=a&limit=2&count=true", "").text(), "2\n");
    assert_eq!(ask(&mut connection, "start=a&count=true", "").text(), "2\n");
}

#[test]
fn keys_come_without_their_values() {
    let (_node, mut connection) = with_keys(&["a", "b\nc"]);
    connection.put("large", &value(1, 1 << 20));
    let response = ask(&mut connection, "start=a&values=false", "");
    let expected = [&b"a\n"[..], b"b\nc\n", b"large\n"].map(<[u8]>::to_vec);
    assert_eq!(response.chunks, Some(expected.to_vec()));
    for line in lines(&mut connection, "start=a&values=false&reverse=true") {
        let members: Vec<_> = line.as_object().expect("an object").keys().cloned().collect();
        assert_eq!(members, ["etag", "key"], "{line}");
    }
}

#[test]
fn a_count_is_a_number() {
    let (_node, mut connection) = with_keys(&["a", "b", "c", "d"]);
    connection.put("large", &value(1, 1 << 20));
    connection.delete("b");
    for (query, expected) in [
        ("start=a", 4),
        ("start=b&end=d", 1),
        ("start=b&end=d&reverse=true&values=false", 1),
        ("prefix=z", 0),
        ("start=a&limit=3", 3),
        ("after=c", 2),
    ] {
        let counted = ask(&mut connection, &format!("{query}&count=true"), "");
        assert_eq!(counted.text(), format!("{expected}\n"), "{query}");
        assert!(counted.header("content-type").is_some_and(|it| it.starts_with("text/plain")), "{query}");
        let counted = ask(&mut connection, &format!("{query}&count=true"), LINES);
        assert_eq!(counted.text(), format!("{{\"count\":{expected}}}\n"), "{query}");
    }
    assert_eq!(keys(&mut connection, "start=c&end=d&count=false"), ["c"]);
}

#[test]
fn lines_tell_any_bytes_apart() {
    let (_node, mut connection) = with_keys(&[]);
    let mut expected: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for byte in 0..=u8::MAX {
        expected.insert(vec![byte], vec![byte, b'\n', byte]);
    }
    let texts = ["", "\"", "\\", "\n", "\r\n0\r\n\r\n", "\u{2028}", "{\"key\":\"x\"}\n", "\u{1f600}"];
    for (n, text) in texts.into_iter().enumerate() {
        expected.insert([&b"text"[..], text.as_bytes(), &[n as u8]].concat(), text.into());
    }
    for bytes in [300_000, (1 << 20) + 1, (1 << 20) + 2] {
        expected.insert(format!("large{bytes}").into_bytes(), value(bytes, bytes as usize));
    }
    for (key, value) in &expected {
        connection.put(key, value);
    }
    for reverse in [false, true] {
        let found = lines(&mut connection, &format!("start=%00&reverse={reverse}"));
        let mut found: Vec<_> =
            found.iter().map(|line| (bytes_of(line, "key"), bytes_of(line, "value"))).collect();
        if reverse {
            found.reverse();
        }
        assert!(found.iter().map(|(key, value)| (key, value)).eq(&expected), "reverse: {reverse}");
    }
}

/// A member that is text, or bytes that are no text.
fn bytes_of(line: &Value, name: &str) -> Vec<u8> {
    match (&line[name], &line[&format!("{name}_base64")]) {
        (Value::String(text), Value::Null) => text.clone().into_bytes(),
        (Value::Null, Value::String(text)) => {
            let bytes = from_base64(text);
            let is_text = str::from_utf8(&bytes).is_ok();
            assert!(!is_text || bytes.len() >= 256 << 10, "text in Base64: {text}");
            bytes
        }
        found => panic!("{name} is {found:?}"),
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("{byte} is no digit"),
    };
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let digits = four.iter().take_while(|&&byte| byte != b'=').count();
        assert!(four.len() == 4 && digits >= 2, "{text}");
        let bits = four[..digits].iter().fold(0, |bits, &byte| bits << 6 | digit(byte)) << (6 * (4 - digits));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..digits]);
    }
    bytes
}

#[test]
fn a_line_has_the_version_and_the_expiry() {
    let (_node, mut connection) = with_keys(&["a"]);
    connection.request("PUT", "/v0/entity?id=b&ttl=1h", Some(b"for an hour"));
    connection.request("PUT", "/v0/entity?id=c&ttl=1ms", Some(b"for a moment"));
    std::thread::sleep(std::time::Duration::from_millis(50));
    let found = lines(&mut connection, "start=a");
    assert_eq!(found.len(), 2, "{found:?}");
    for line in &found {
        let single = connection.get(line["key"].as_str().expect("a key"));
        assert_eq!(line["etag"].as_str(), single.header("etag"));
        let expires = line["expires_ms"].as_u64().map(|ms| ms.to_string());
        assert_eq!(expires.as_deref(), single.header("ladoga-expires"));
    }
    assert!(found[0]["expires_ms"].is_null() && found[1]["expires_ms"].is_u64(), "{found:?}");
}

#[test]
fn bytes_are_for_who_does_not_ask_for_lines() {
    let (node, mut connection) = with_keys(&["a"]);
    for field in
        ["", "Accept: */*\r\n", "Accept: application/json\r\n", "Accept: application/x-ndjson;q=0\r\n"]
    {
        let response = ask(&mut connection, "start=a", field);
        assert_eq!(response.header("content-type"), Some("application/octet-stream"), "{field}");
        assert_eq!(response.chunks, Some(vec![b"a\na".to_vec()]), "{field}");
    }
    let old = |query: &str| {
        let mut connection = node.connect();
        connection.send(format!("GET /v0/entities?{query} HTTP/1.0\r\n{LINES}\r\n"));
        connection.response()
    };
    assert!(old("start=a").text().starts_with("{\"key\":\"a\","), "without chunks");
    assert_eq!(old("start=a&count=true").text(), "{\"count\":1}\n");
}

#[test]
fn what_is_no_range_is_refused() {
    let (_node, mut connection) = with_keys(&["a"]);
    for query in [
        "prefix=",
        "after=",
        "start=a&prefix=",
        "end=z",
        "limit=5",
        "reverse=true",
        "count=true",
        "start=a&limit=0",
        "start=a&limit=-1",
        "start=a&limit=many",
        "start=a&limit=",
        "start=a&limit=99999999999999999999",
        "start=a&reverse=yes",
        "start=a&reverse",
        "start=a&values=0",
        "start=a&count=1",
        "prefix=a&prefix=b",
        "start=a&count=true&count=true",
    ] {
        let target = format!("/v0/entities?{query}");
        assert_refusal(&connection.request("GET", &target, None), 400, &target);
    }
    let long = format!("/v0/entities?prefix={}", "k".repeat(4_097));
    assert_refusal(&connection.request("GET", &long, None), 400, &long);
    let longest = "k".repeat(4_096);
    connection.put(&longest, b"value");
    assert_eq!(keys(&mut connection, &format!("prefix={longest}")), [longest.as_str()]);
    assert_eq!(keys(&mut connection, &format!("after={longest}")), [""; 0]);
    assert_eq!(keys(&mut connection, &format!("after={longest}&reverse=true")), ["a"]);
}

#[test]
fn a_reader_of_lines_that_leaves_or_stops_holds_up_nobody() {
    let node = Launch::patient().flag("--memory", "16MiB").start();
    let mut writer = node.connect();
    for index in 0..1_500_u64 {
        writer.put(format!("key{index:04}"), &value(index, 16_000));
    }
    let get = "GET /v0/entities?start=key HTTP/1.1\r\nHost: h\r\nAccept: application/x-ndjson\r\n\r\n";
    let mut stopped: Vec<Connection> = (0..8).map(|_| node.connect()).collect();
    for connection in &mut stopped {
        connection.send(get);
        assert_eq!(connection.response_head().status, 200);
    }
    for _ in 0..40 {
        let mut leaving = node.connect();
        leaving.send(get);
        assert_eq!(leaving.response_head().status, 200);
        drop(leaving);
    }
    assert!(node.resident_bytes() < 80 << 20, "{} bytes resident", node.resident_bytes());
    for index in 0..100 {
        writer.put(format!("other{index}"), b"value");
    }
    assert_eq!(ask(&mut writer, "prefix=key&count=true", "").text(), "1500\n");
    // One that stopped goes on, and has missed nothing.
    let mut lines = 0;
    while let Some(chunk) = stopped[3].next_chunk().expect("a stream") {
        let line: Value = serde_json::from_slice(&chunk).expect("JSON");
        assert!(bytes_of(&line, "value") == value(lines, 16_000), "{}", line["key"]);
        lines += 1;
    }
    assert_eq!(lines, 1_500);
}

#[test]
fn ranges_over_what_was_deleted_hold_up_nobody() {
    if differs_on_cassandra("what was deleted is passed over by Cassandra, not here") {
        return;
    }
    let node = Launch::patient().flag("--fsync", "never").start();
    let mut connection = node.connect();
    ["a", "z"].into_iter().for_each(|key| connection.put(key, b"value"));
    // More at a time than may wait for the disk, each over more than is looked at in one turn.
    for batch in 0..200 {
        let delete = |n| format!("DELETE /v0/entity?id=k{batch:03}{n:03} HTTP/1.1\r\nHost: h\r\n\r\n");
        connection.send((0..250).map(delete).collect::<String>());
        (0..250).for_each(|_| assert_eq!(connection.response().status, 202));
    }
    let mut asking: Vec<Connection> = (0..32).map(|_| node.connect()).collect();
    for (n, connection) in asking.iter_mut().enumerate() {
        let reverse = n % 2 == 0;
        connection.send(format!("GET /v0/entities?start=a&reverse={reverse} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    connection.put("m", b"value");
    assert_eq!(connection.value("m").as_deref(), Some(&b"value"[..]));
    for (n, connection) in asking.iter_mut().enumerate() {
        let mut found: Vec<_> = connection.response().records().into_iter().map(|(key, _)| key).collect();
        if n % 2 == 0 {
            found.reverse();
        }
        found.retain(|key| key != b"m");
        assert_eq!(found, [b"a", b"z"]);
    }
}
