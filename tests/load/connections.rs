use std::thread;

use crate::support::{Connection, Launch, Node, Random, entity, value};

const CONNECTIONS: usize = 200;

#[test]
fn two_hundred_connections_are_served_at_once() {
    let node = Node::start();
    let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| node.connect()).collect();
    for round in 0..5 {
        // All of them have a request in flight before the first answer is read.
        for (number, connection) in connections.iter_mut().enumerate() {
            let value = format!("{number} in {round}");
            connection.send_request("PUT", &entity(format!("key{number}")), Some(value.as_bytes()));
        }
        for connection in &mut connections {
            assert_eq!(connection.response().status, 201);
        }
        for (number, connection) in connections.iter_mut().enumerate() {
            connection.send_request("GET", &entity(format!("key{}", CONNECTIONS - 1 - number)), None);
        }
        for (number, connection) in connections.iter_mut().enumerate() {
            assert_eq!(connection.response().text(), format!("{} in {round}", CONNECTIONS - 1 - number));
        }
    }
    // A metric counts them, and nothing else does: no other test uses this node.
    assert_eq!(node.metrics().sum("ladoga_connections", &[]), Some(CONNECTIONS as f64 + 1.0));
}

#[test]
fn connections_come_and_go() {
    let node = Node::start();
    thread::scope(|scope| {
        for thread in 0..8 {
            let node = &node;
            scope.spawn(move || {
                for index in 0..100 {
                    let key = format!("{thread}-{index}");
                    node.connect().put(&key, key.as_bytes());
                    assert_eq!(node.connect().value(&key), Some(key.into_bytes()));
                }
            });
        }
    });
    let records = node.connect().request("GET", &crate::support::range("0", None), None).records();
    assert_eq!(records.len(), 800);
}

#[test]
fn half_of_the_connections_may_send_rubbish() {
    let node = Node::start();
    thread::scope(|scope| {
        for thread in 0..8 {
            let node = &node;
            scope.spawn(move || {
                for index in 0..100 {
                    let mut connection = node.connect();
                    if (thread + index) % 2 == 0 {
                        connection.send(format!("\0{thread}\r\n{index}\r\n\r\n"));
                        assert_eq!(connection.response().status, 400);
                        connection.expect_closed();
                    } else {
                        connection.put(format!("{thread}-{index}"), b"value");
                        assert_eq!(
                            connection.value(format!("{thread}-{index}")).as_deref(),
                            Some(&b"value"[..])
                        );
                    }
                }
            });
        }
    });
}

/// The requests of a client that is never idle, and the status that each has to be answered with.
fn endless_request(random: &mut Random, out: &mut Vec<u8>) -> u16 {
    let target = entity(format!("key{}", random.below(200)));
    let length = match random.below(10) {
        0 => return append(out, "DELETE", &target, None, 202),
        1..4 => return append(out, "GET", "/v0/entity?id=absent", None, 404),
        4..8 => random.below(100),
        8 => random.below(3_000),
        _ if random.below(30) == 0 => 262_000 + random.below(60_000),
        _ => random.below(40_000),
    };
    append(out, "PUT", &target, Some(&value(length, length as usize)), 201)
}

fn append(out: &mut Vec<u8>, method: &str, target: &str, body: Option<&[u8]>, status: u16) -> u16 {
    let length = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.len()));
    out.extend_from_slice(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{length}\r\n").as_bytes());
    out.extend_from_slice(body.unwrap_or_default());
    status
}

#[test]
fn a_connection_that_is_never_idle_goes_on() {
    const REQUESTS: usize = 20_000;
    let node = Launch::new().flag("--fsync", "never").start();
    thread::scope(|scope| {
        for seed in 0..3 {
            let (mut sender, mut reader) = node.connect().split();
            scope.spawn(move || {
                let (mut random, mut out) = (Random::new(seed), Vec::new());
                for _ in 0..REQUESTS {
                    endless_request(&mut random, &mut out);
                    // The cuts between writes have nothing to do with those between requests.
                    if out.len() > 10_000 {
                        let rest = out.split_off(10_000);
                        sender.send(&out);
                        out = rest;
                    }
                }
                sender.send(&out);
                sender.finish_sending();
            });
            scope.spawn(move || {
                let (mut random, mut out) = (Random::new(seed), Vec::new());
                for number in 0..REQUESTS {
                    let expected = endless_request(&mut random, &mut out);
                    out.clear();
                    let response = reader.response();
                    assert_eq!(response.status, expected, "request {number}: {}", response.text());
                }
                reader.expect_closed();
            });
        }
    });
}
