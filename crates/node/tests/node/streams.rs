use std::time::Duration;

use ladoga_node::Limits;

use crate::running::Running;
use crate::scripted::{LARGE_BYTES, Script};

const LARGE: usize = LARGE_BYTES as usize * 3 + 7;

fn with_a_large_value() -> (Running, Vec<u8>) {
    let running = Running::start();
    let value: Vec<u8> = (0..LARGE).map(|index| index as u8).collect();
    running.store.insert("large", &value);
    running.store.insert("small", b"value");
    (running, value)
}

#[test]
fn a_large_value_and_a_range_go_through_a_connection_that_goes_on() {
    let (running, value) = with_a_large_value();
    let mut client = running.connect();
    for _ in 0..3 {
        let answer = client.get("/v0/entity?id=large");
        assert!(answer.status == 200 && !answer.closes() && answer.body == value);
        assert!(answer.head.contains("\r\ncontent-type: application/octet-stream\r\n"), "{}", answer.head);
        assert!(answer.head.contains("\r\ndate: "), "{}", answer.head);
        assert_eq!(client.get("/v0/entity?id=small").text(), "value");
    }
    // All of it in one packet, with the next request behind the stream.
    client.send("GET /v0/entity?id=large HTTP/1.1\r\nhost: h\r\n\r\nGET /v0/entity?id=small HTTP/1.1\r\nhost: h\r\n\r\n".repeat(5));
    for _ in 0..5 {
        assert!(client.answer().body == value);
        assert_eq!(client.answer().text(), "value");
    }
}

#[test]
fn a_large_value_comes_in_and_out_as_it_was() {
    let running = Running::start();
    let value: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut client = running.connect();
    assert_eq!(client.put("k", &value).status, 201);
    assert!(running.store.value("k").as_ref() == Some(&value));
    assert!(client.get("/v0/entity?id=k").body == value);
    client.send("HEAD /v0/entity?id=k HTTP/1.1\r\nhost: h\r\n\r\n");
    assert!(client.head().contains("\r\ncontent-length: 800000\r\n"));
    assert_eq!(client.get("/v0/status").status, 200);
}

#[test]
fn what_breaks_off_is_not_taken_for_a_whole() {
    let (running, value) = with_a_large_value();
    running.store.tell(Script { breaks_after: Some(2), ..Script::default() });
    let mut client = running.connect();
    client.send("GET /v0/entity?id=large HTTP/1.1\r\nhost: h\r\n\r\n");
    assert!(client.head().starts_with("http/1.1 200 ok\r\n"));
    let (sent, in_order) = client.rest();
    assert!(!in_order && sent.len() < value.len() && value.starts_with(&sent));

    running.store.tell(Script { breaks_after: Some(1), ..Script::default() });
    for version in ["1.0", "1.1"] {
        let mut client = running.connect();
        client.send(format!("GET /v0/entities?start=a HTTP/{version}\r\nhost: h\r\n\r\n"));
        assert!(client.head().starts_with("http/1.1 200 ok\r\n"));
        let (sent, in_order) = client.rest();
        assert!(!in_order && !sent.ends_with(b"0\r\n\r\n"), "HTTP/{version}");
    }
}

/// The next answer would be taken for the rest of it.
#[test]
fn a_large_value_that_ends_early_is_not_taken_for_a_whole() {
    let (running, value) = with_a_large_value();
    running.store.tell(Script { ends_after: Some(2), ..Script::default() });
    let mut client = running.connect();
    client.send("GET /v0/entity?id=large HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    assert!(client.head().starts_with("http/1.1 200 ok\r\n"));
    let (sent, in_order) = client.rest();
    assert!(!in_order && sent.len() < value.len() && value.starts_with(&sent));
}

/// A proxy or a client gives up on an answer that does not move.
#[test]
fn a_range_that_finds_nothing_for_long_shows_that_it_goes_on() {
    let running = Running::start();
    running.store.insert("lake", b"deep");
    running.store.insert("pond", b"shallow");
    let ask = |field: &str| {
        let mut client = running.connect();
        client.send(format!("GET /v0/entities?start=a HTTP/1.1\r\nhost: h\r\n{field}\r\n"));
        let (until_head, answer) = client.timed_answer();
        assert_eq!(answer.status, 200, "{answer:?}");
        (until_head, answer.text().to_owned())
    };
    let lines = "accept: application/x-ndjson\r\n";
    let line = |key, value| {
        format!("{{\"key\":\"{key}\",\"etag\":\"\\\"0000000000000001-0000\\\"\",\"value\":\"{value}\"}}\n")
    };
    let records = format!("{}{}", line("lake", "deep"), line("pond", "shallow"));
    assert_eq!(ask(lines).1, records, "nothing else where there is no hurry");

    running.store.tell(Script { empty_pieces: 26, ..Script::default() });
    let slow = Duration::from_millis(2_600);
    // On a machine that stands still for a time, the head may come as late as the rest.
    let ask_until_soon = |field: &str| {
        let (_, body) = (0..5)
            .map(|_| ask(field))
            .find(|(until_head, _)| *until_head < slow)
            .expect("a head before the rest");
        body
    };
    let body = ask_until_soon(lines);
    let empty = body.lines().filter(|line| line.is_empty()).count();
    // One with the head, and one a second from then on.
    assert!((2..=8).contains(&empty), "{empty} empty lines: {body:?}");
    let full: Vec<&str> = body.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(full, records.lines().collect::<Vec<_>>());
    // Where any byte would be a part of a record, the head alone shows it.
    assert_eq!(ask_until_soon(""), "lake\ndeeppond\nshallow");
}

/// A count has nothing to send before its end, so a client that left would keep its place, and the disk busy, until then.
#[test]
fn a_range_that_finds_nothing_ends_for_a_client_that_left() {
    let running = Running::start_with(Limits { answer_timeout_ms: 300, ..Limits::default() });
    running.store.insert("lake", b"deep");
    let ask = |script: Script, field: &str| {
        running.store.tell(script);
        let mut client = running.connect();
        client.send(format!("GET /v0/entities?start=a&count=true HTTP/1.1\r\nhost: h\r\n{field}\r\n"));
        client
    };
    let (short, endless) = (20, 1_000_000);
    // Who stays gets the answer, however long that takes.
    let mut staying = ask(Script { empty_pieces: short, ..Script::default() }, "");
    assert_eq!(staying.answer().text(), "1\n");
    for field in ["", "accept: application/x-ndjson\r\n"] {
        drop(ask(Script { empty_pieces: endless, ..Script::default() }, field));
    }
    let ended = || {
        let metrics = running.connect().get("/metrics");
        let count =
            metrics.text().lines().find_map(|line| line.strip_prefix("ladoga_responses_aborted_total "));
        count.expect("a counter").parse::<u32>().expect("a number")
    };
    let in_time = (0..900).find(|_| {
        std::thread::sleep(Duration::from_millis(100));
        ended() == 2
    });
    assert!(in_time.is_some(), "{} of two ranges have ended", ended());
}

#[test]
fn what_cannot_be_read_at_all_is_refused() {
    let (running, _) = with_a_large_value();
    running.store.tell(Script { breaks_after: Some(0), ..Script::default() });
    let mut client = running.connect();
    for target in ["/v0/entity?id=large", "/v0/entities?start=a"] {
        let answer = client.get(target);
        assert_eq!(answer.status, 500, "{target}");
        assert!(answer.text().contains("block 7 is corrupt"), "{answer:?}");
    }
    running.store.tell(Script::default());
    assert_eq!(client.get("/v0/entity?id=small").text(), "value");
}

#[test]
fn a_stream_whose_client_wants_to_close_is_the_last() {
    let (running, value) = with_a_large_value();
    for header in ["connection: close\r\n", "content-length: 3\r\n"] {
        let mut client = running.connect();
        client.send(format!("GET /v0/entity?id=large HTTP/1.1\r\nhost: h\r\n{header}\r\nabc"));
        let answer = client.answer();
        assert!(answer.closes() && answer.body == value, "{header}");
        assert_eq!(client.rest(), (Vec::new(), true), "{header}");
    }
}

#[test]
fn values_in_memory_of_every_size_go_through_one_connection() {
    let (running, _) = with_a_large_value();
    let mut client = running.connect();
    for bytes in [0, 1, 9_999] {
        let value = vec![b'm'; bytes];
        assert_eq!(client.put("k", &value).status, 201);
        assert!(client.get("/v0/entity?id=k").body == value, "{bytes}");
    }
}
