use std::sync::Arc;
use std::time::Duration;

use ladoga_env::sim::SimClock;
use ladoga_node::{Config, Limits, Placement};

use crate::running::Running;
use crate::scripted::{LARGE_BYTES, Script};

#[test]
fn connections_over_the_limit_are_told_and_closed() {
    let running = Running::start_with(Limits { connections_max: 4, ..Limits::default() });
    let mut clients: Vec<_> = (0..4).map(|_| running.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/v0/status").status, 200);
    }
    let mut over = running.connect();
    let answer = over.answer();
    assert_eq!(answer.status, 503);
    assert!(answer.closes() && answer.head.contains("\r\nretry-after: 1\r\n"), "{answer:?}");
    drop(clients);
    // There is room again once the node has noticed.
    while running.connect().get("/v0/status").status != 200 {}
}

/// Asks until it holds; what hangs ends with the test.
fn wait_until(mut condition: impl FnMut() -> bool) {
    while !condition() {}
}

/// A node whose clock stands still, so that no client is slow.
fn timeless(limits: Limits) -> Running {
    Running::start_by(Arc::new(SimClock::new()), limits)
}

#[test]
fn large_values_on_their_way_in_are_bounded() {
    let running = timeless(Limits { uploads_max: 2, ..Limits::default() });
    let mut admitted: Vec<_> = (0..2).map(|_| running.connect()).collect();
    for client in &mut admitted {
        client.announce("k", LARGE_BYTES);
        assert_eq!(client.head().split(' ').nth(1), Some("100"));
    }
    let mut client = running.connect();
    client.announce("k", LARGE_BYTES);
    assert_eq!(client.answer().status, 503);
    assert_eq!(running.connect().put("small", b"value").status, 201);
    for mut client in admitted {
        client.send(vec![b'v'; LARGE_BYTES as usize]);
        assert_eq!(client.answer().status, 201);
    }
    assert_eq!(running.connect().put("k", &[b'w'; LARGE_BYTES as usize]).status, 201);
}

#[test]
fn what_is_announced_takes_no_room_and_what_has_arrived_does() {
    // All of it is 10,000 bytes, whatever event loop they arrive at: room for one value.
    let running = timeless(Limits { body_bytes_max: 10_000, ..Limits::default() });
    let mut announced = Vec::new();
    for _ in 0..4 {
        let mut client = running.connect();
        client.announce("k", 9_900);
        assert_eq!(client.head().split(' ').nth(1), Some("100"));
        announced.push(client);
    }
    let (first, last) = announced.split_first_mut().expect("four");
    first.send(vec![b'v'; 9_000]);
    wait_until(|| {
        let mut client = running.connect();
        client.announce("k", 9_900);
        client.head().split(' ').nth(1) == Some("503")
    });
    // A request that was admitted before the node was full finds out when its value arrives; a small value is always taken.
    for client in &mut *last {
        client.send(vec![b'v'; 9_900]);
        let answer = client.answer();
        assert!(answer.status == 503 && answer.closes(), "{answer:?}");
    }
    assert_eq!(running.connect().put("k", &[b'w'; 8_000]).status, 201);
    first.send(vec![b'v'; 900]);
    assert_eq!(first.answer().status, 201);
    assert_eq!(running.connect().put("k", &[b'w'; 9_900]).status, 201);
}

/// The loop that served had 1/128 of the room: these were refused, although nobody else sent anything.
#[test]
fn the_room_for_values_is_not_divided_by_event_loops_that_do_not_serve() {
    let any = "127.0.0.1:0".parse().expect("an address");
    let config = Config { placement: Placement::AsLoadAsks, ..Config::alone(vec![any], 128) };
    assert_eq!(config.limits.body_bytes_max, Limits::default().body_bytes_max);
    let running = Running::opening_with(Arc::new(SimClock::new()), config);
    running.node.open(Arc::clone(&running.store));
    let mut clients: Vec<_> = (0..40).map(|_| running.connect()).collect();
    for client in &mut clients {
        client.announce("k", 9_900);
        assert_eq!(client.head().split(' ').nth(1), Some("100"));
        client.send(vec![b'v'; 9_000]);
    }
    for client in &mut clients {
        client.send(vec![b'v'; 900]);
    }
    for client in &mut clients {
        assert_eq!(client.answer().status, 201);
    }
}

#[test]
fn who_stops_sending_gives_way_and_is_told() {
    let clock = SimClock::new();
    let limits = Limits { uploads_max: 1, body_bytes_max: 10_000, ..Limits::default() };
    let limits = Limits { request_timeout_ms: 600_000, idle_timeout_ms: 600_000, ..limits };
    let running = Running::start_by(Arc::new(clock.clone()), limits);
    let cases = [
        (LARGE_BYTES, 0, "resource=\"upload\"} 1\n"),
        (LARGE_BYTES, 100, "resource=\"upload\"} 2\n"),
        (9_900, 9_000, "resource=\"value\"} 1\n"),
    ];
    for (bytes, sent, counted) in cases {
        let mut stopped = running.connect();
        stopped.announce("stopped", bytes);
        assert_eq!(stopped.head().split(' ').nth(1), Some("100"));
        stopped.send(vec![b'v'; sent]);
        wait_until(|| {
            clock.advance(Duration::from_millis(100));
            let mut other = running.connect();
            other.announce("k", bytes);
            if other.head().split(' ').nth(1) == Some("100") {
                other.send(vec![b'w'; bytes as usize]);
                let status = other.answer().status;
                assert!(status == 201 || status == 503, "{status}");
            }
            running.connect().get("/metrics").text().contains(counted)
        });
        let answer = stopped.answer();
        assert!(
            answer.status == 408 && answer.closes() && answer.text().contains("arrived too slowly"),
            "{answer:?}"
        );
    }
    assert_eq!(running.store.value("stopped"), None);
}

#[test]
fn answers_larger_than_memory_are_bounded() {
    let running = timeless(Limits { streams_max: 1, ..Limits::default() });
    running.store.insert("large", &vec![b'v'; 64 << 20]);
    let mut slow = running.connect();
    slow.send("GET /v0/entity?id=large HTTP/1.1\r\nhost: h\r\n\r\n");
    assert!(slow.head().starts_with("http/1.1 200 ok\r\n"));
    for target in ["/v0/entity?id=large", "/v0/entities?start=a"] {
        assert_eq!(running.connect().get(target).status, 503, "{target}");
    }
    drop(slow);
    while running.connect().get("/v0/entities?start=zzz").status != 200 {}
}

#[test]
fn requests_that_wait_do_not_bound_those_that_need_not() {
    let running = Running::start();
    running.store.insert("k", b"value");
    running.store.tell(Script { holds: true, ..Script::default() });
    let mut waiting: Vec<_> = (0..50).map(|_| running.connect()).collect();
    for client in &mut waiting {
        client.send_put("other", b"value");
    }
    let mut client = running.connect();
    for _ in 0..100 {
        assert_eq!(client.get("/v0/entity?id=k").text(), "value");
    }
    running.store.release();
    for client in &mut waiting {
        assert_eq!(client.answer().status, 201);
    }
}
