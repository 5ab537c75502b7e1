use ladoga_node::Limits;

use crate::scripted::{LARGE_BYTES, Running, Script};

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

#[test]
fn large_values_on_their_way_in_are_bounded() {
    let running = Running::start_with(Limits { uploads_max: 2, ..Limits::default() });
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
fn bytes_of_small_values_on_their_way_in_are_bounded() {
    let running = Running::start_with(Limits { body_bytes_max: 20_000, ..Limits::default() });
    // One on each event loop.
    let mut admitted: Vec<_> = (0..2).map(|_| running.connect()).collect();
    for client in &mut admitted {
        client.announce("k", 9_000);
        assert_eq!(client.head().split(' ').nth(1), Some("100"));
    }
    let mut client = running.connect();
    client.announce("k", 2_000);
    assert_eq!(client.answer().status, 503);
    for mut client in admitted {
        client.send(vec![b'v'; 9_000]);
        assert_eq!(client.answer().status, 201);
    }
    assert_eq!(running.connect().put("k", &[b'w'; 2_000]).status, 201);
}

#[test]
fn answers_larger_than_memory_are_bounded() {
    let running = Running::start_with(Limits { streams_max: 1, ..Limits::default() });
    running.store.insert("large", &vec![b'v'; 64 << 20]);
    let mut slow = running.connect();
    slow.send("GET /v0/entity?id=large HTTP/1.1\r\n\r\n");
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
