use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ladoga_env::sim::SimClock;
use ladoga_node::{Config, Limits};

use crate::client::Client;
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
        thread::yield_now();
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
        thread::yield_now();
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

/// A node with a port for clients of Redis, a clock of its own, and a client that has begun to send a value.
fn uploading(idle_timeout_ms: u64) -> (Running, SimClock, TcpStream) {
    let (clock, any) = (SimClock::new(), "127.0.0.1:0".parse().expect("an address"));
    let limits = Limits { idle_timeout_ms, ..impatient() };
    let config = Config { resp: vec![any], limits, ..Config::alone(vec![any], 1) };
    let running = Running::opening_with(Arc::new(clock.clone()), config);
    running.node.open(Arc::clone(&running.store));
    let mut socket = TcpStream::connect(running.node.resp_addresses()[0]).expect("a node that listens");
    socket.set_nodelay(true).expect("a connection");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a connection");
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LARGE_BYTES}\r\n");
    socket.write_all(head.as_bytes()).expect("a node that reads");
    (running, clock, socket)
}

/// How many bytes of values have arrived.
fn received(client: &mut Client) -> u64 {
    let metrics = client.get("/metrics");
    let line = metrics.text().lines().find_map(|line| line.strip_prefix("ladoga_request_body_bytes_total "));
    line.and_then(|count| count.parse().ok()).expect("a metric")
}

#[test]
fn a_value_for_the_port_of_redis_may_not_trickle() {
    const IDLE_MS: u64 = 20;
    let (running, clock, mut socket) = uploading(IDLE_MS);
    for sent in 1..=20 {
        // Each byte comes in time for one.
        socket.write_all(b"v").expect("a node that listens to the end");
        socket.set_nonblocking(true).expect("a connection");
        let mut watcher = running.connect();
        while received(&mut watcher) < sent && socket.peek(&mut [0]).is_err() {
            thread::yield_now();
        }
        let is_over = socket.peek(&mut [0]).is_ok();
        socket.set_nonblocking(false).expect("a connection");
        if is_over {
            break;
        }
        clock.advance(Duration::from_millis(IDLE_MS + 10));
        // It is closed once the event loop has looked at the clock.
        assert_eq!(watcher.rest(), (Vec::new(), true));
    }
    let mut told = [0; 43];
    socket.read_exact(&mut told).expect("a node that has waited long enough");
    assert_eq!(told.escape_ascii().to_string(), "-ERR the request did not arrive in time, th");
}

#[test]
fn the_time_in_which_an_uploaded_value_is_stored_is_not_the_clients() {
    let (running, clock, mut socket) = uploading(u64::MAX / 2);
    running.store.tell(Script { holds: true, ..Script::default() });
    let (mut watcher, mut slow) = (running.connect(), running.connect());
    socket.write_all(&vec![b'v'; LARGE_BYTES as usize]).expect("a node that reads");
    while received(&mut watcher) < LARGE_BYTES {
        thread::yield_now();
    }
    // The request has an end that comes by itself.
    socket.write_all(b"\r\n").expect("a node that reads");
    while running.store.value("k").is_none() {
        thread::yield_now();
    }
    slow.send("G");
    thread::scope(|scope| {
        let refused = scope.spawn(|| slow.answer().status);
        while !refused.is_finished() {
            clock.advance(Duration::from_millis(61));
            thread::yield_now();
        }
        assert_eq!(refused.join().expect("an answer"), 408);
    });
    running.store.release();
    let mut reply = [0; 5];
    socket.read_exact(&mut reply).expect("a reply");
    assert_eq!(reply.escape_ascii().to_string(), "+OK\\r\\n");
}
