use std::thread;

use crate::support::{Connection, Node, entity};

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
