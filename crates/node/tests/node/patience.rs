use std::sync::Arc;
use std::time::Duration;

use ladoga_env::sim::SimClock;
use ladoga_node::Limits;

use crate::running::Running;
use crate::scripted::{LARGE_BYTES, Script};

fn impatient() -> Limits {
    Limits { request_timeout_ms: 60, answer_timeout_ms: 60, idle_timeout_ms: 60_000, ..Limits::default() }
}

/// Returns once more time has passed than a request may take: a client that began one now has been refused.
fn outlast_a_request(running: &Running) {
    let mut slow = running.connect();
    slow.send("G");
    assert_eq!(slow.answer().status, 408);
}

#[test]
fn a_head_that_stops_is_answered_408() {
    let running = Running::start_with(impatient());
    for part in ["G", "GET /v0/status HTTP/1.1\r\nhost: h\r\nx: y\r\n"] {
        let mut client = running.connect();
        client.send(part);
        let answer = client.answer();
        assert!(answer.status == 408 && answer.closes(), "{answer:?}");
        assert!(answer.text().contains("within 60 ms"), "{answer:?}");
        assert_eq!(client.rest(), (Vec::new(), true));
    }
}

#[test]
fn a_head_that_began_behind_another_request_is_not_forgotten() {
    let running = Running::start_with(impatient());
    running.store.insert("k", b"value");
    let mut client = running.connect();
    client.send("GET /v0/entity?id=k HTTP/1.1\r\nhost: h\r\n\r\nGET /v0/sta");
    assert_eq!(client.answer().text(), "value");
    assert_eq!(client.answer().status, 408);
}

#[test]
fn a_body_that_stops_is_answered_408() {
    let running = Running::start_with(impatient());
    for bytes in [10, LARGE_BYTES] {
        let mut client = running.connect();
        client.announce("k", bytes);
        assert_eq!(client.head().split(' ').nth(1), Some("100"));
        client.send("some");
        let answer = client.answer();
        assert!(answer.status == 408 && answer.closes(), "{answer:?}");
    }
    assert_eq!(running.store.value("k"), None);
}

#[test]
fn a_connection_that_rests_may_be_used_again_later() {
    let running = Running::start_with(impatient());
    running.store.insert("k", b"value");
    let mut client = running.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/v0/entity?id=k").text(), "value");
        // Longer than a request may take: that counts from its first byte on.
        outlast_a_request(&running);
    }
}

#[test]
fn a_connection_that_is_not_used_is_closed() {
    let clock = SimClock::new();
    let limits = Limits { idle_timeout_ms: 60, ..Limits::default() };
    let idle = Duration::from_millis(limits.idle_timeout_ms + 1);
    let running = Running::opening_by(Arc::new(clock.clone()), limits);
    running.node.open(Arc::clone(&running.store));
    let mut fresh = running.connect();
    let mut used = running.connect();
    while !used.get("/metrics").text().contains("ladoga_connections 2\n") {
        std::thread::yield_now();
    }
    clock.advance(idle);
    assert_eq!(fresh.rest(), (Vec::new(), true));
    assert_eq!(used.rest(), (Vec::new(), true));
}

#[test]
fn the_time_of_the_store_is_not_the_clients() {
    // A value of more than 8 KiB needs room, which it may have to wait for: that was the last of its time to arrive.
    for bytes in [5, 9_000] {
        let running = Running::start_with(impatient());
        running.store.tell(Script { holds: true, ..Script::default() });
        let mut client = running.connect();
        client.send_put("k", &vec![b'v'; bytes]);
        outlast_a_request(&running);
        running.store.release();
        assert_eq!(client.answer().status, 201, "{bytes} bytes");
    }
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let running = Running::start_with(impatient());
    running.store.insert("large", &vec![b'v'; 64 << 20]);
    let mut client = running.connect();
    client.send("GET /v0/entity?id=large HTTP/1.1\r\nhost: h\r\n\r\n");
    let head = client.head();
    assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
    let mut other = running.connect();
    while !other.get("/metrics").text().contains("ladoga_responses_aborted_total 1\n") {
        std::thread::yield_now();
    }
    let (taken, in_order) = client.rest();
    assert!(taken.len() < 64 << 20 && !in_order, "{} bytes", taken.len());
}

#[test]
fn an_answer_may_take_longer_than_a_request() {
    let running = Running::start_with(Limits { answer_timeout_ms: 20_000, ..impatient() });
    let value = vec![b'v'; 64 << 20];
    running.store.insert("large", &value);
    let mut client = running.connect();
    client.send("GET /v0/entity?id=large HTTP/1.1\r\nhost: h\r\n\r\n");
    outlast_a_request(&running);
    assert!(client.answer().body == value);
    assert_eq!(client.get("/v0/status").status, 200);
}
