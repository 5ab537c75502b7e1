use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Connection, Launch, Node, assert_refusal, entity, range, value, wait_for};

const BYTES: usize = 1 << 20;

/// A connection whose PUT of [`BYTES`] bytes has been admitted, and half of which has been sent.
fn half_a_put(node: &Node, key: &str) -> Connection {
    let mut connection = node.connect();
    connection.send(format!(
        "PUT {} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {BYTES}\r\n\r\n",
        entity(key)
    ));
    assert_eq!(connection.response().status, 100);
    connection.send(&value(7, BYTES)[..BYTES / 2]);
    connection
}

#[test]
fn requests_in_flight_are_finished_and_new_ones_refused() {
    let mut node = Launch::patient().start();
    let mut slow = half_a_put(&node, "slow");
    node.signal("TERM");
    let refused = wait_for("a node that drains", || {
        let mut connection = Connection::try_open(node.address()).ok()?;
        let response = connection.try_request("GET", "/v0/status", None).ok()?;
        (response.status != 200).then_some(response)
    });
    assert_refusal(&refused, 503, "GET /v0/status of a node that drains");
    assert!(refused.text().contains("drain"), "{}", refused.text());
    let put = node.connect().request("PUT", &entity("late"), Some(b"value"));
    assert_refusal(&put, 503, "PUT to a node that drains");

    slow.send(&value(7, BYTES)[BYTES / 2..]);
    assert_eq!(slow.response().status, 201);
    assert_eq!(node.wait().code(), Some(0), "{}", node.log());
    node.start_again();
    assert!(node.connect().value("slow") == Some(value(7, BYTES)));
    assert_eq!(node.connect().value("late"), None);
}

/// A terminal signals a script and what the script has started, and the script passes it on.
#[test]
fn a_signal_that_comes_twice_is_one_wish() {
    // Signals that came too far apart on a busy machine tell nothing.
    let sent_at_once = || {
        let node = Launch::patient().start();
        let slow = half_a_put(&node, "slow");
        let began = Instant::now();
        node.signals(&["INT", "TERM", "INT", "TERM"]);
        (began.elapsed() < Duration::from_millis(500)).then_some((node, slow))
    };
    let (mut node, mut slow) =
        (0..10).find_map(|_| sent_at_once()).expect("signals within half a second, in one of ten rounds");
    // Longer than signals are of one wish.
    thread::sleep(Duration::from_millis(1_500));
    assert!(!node.has_ended(), "{}", node.log());
    slow.send(&value(7, BYTES)[BYTES / 2..]);
    assert_eq!(slow.response().status, 201);
    assert_eq!(node.wait().code(), Some(0), "{}", node.log());
    assert!(node.log().contains("everything is on disk"), "{}", node.log());
}

#[test]
fn a_signal_that_comes_again_later_stops_at_once() {
    let mut node = Launch::patient().start();
    let _slow = half_a_put(&node, "slow");
    node.signal("TERM");
    wait_for("the start of the drain", || node.log().contains("SIGTERM: finishing").then_some(()));
    // Longer than signals are of one wish, also for a node that stands still for a time.
    thread::sleep(Duration::from_secs(4));
    node.signal("TERM");
    assert_eq!(node.wait().code(), Some(1), "{}", node.log());
    assert!(node.log().contains("a second signal: stopped at once, as by a crash"), "{}", node.log());
}

#[test]
fn a_range_under_way_is_finished() {
    let mut node = Launch::patient().start();
    let mut connection = node.connect();
    for index in 0..100_u64 {
        connection.put(format!("key{index:02}"), &value(index, 200_000));
    }
    connection.send_request("GET", &range("key", None), None);
    assert_eq!(connection.response_head().status, 200);
    node.signal("TERM");
    for index in 0..100_u64 {
        let (key, found) = connection.next_record().expect("a stream").expect("a record");
        assert_eq!(key, format!("key{index:02}").into_bytes());
        assert!(found == value(index, 200_000), "{index}");
    }
    assert_eq!(connection.next_record().expect("the end of a stream"), None);
    connection.expect_closed();
    assert_eq!(node.wait().code(), Some(0), "{}", node.log());
}

#[test]
fn idle_connections_hold_up_nobody() {
    let mut node = Node::start();
    let mut idle: Vec<Connection> = (0..20).map(|_| node.connect()).collect();
    for connection in idle.iter_mut().step_by(2) {
        connection.put("key", b"value");
    }
    node.stop();
    for connection in &mut idle {
        connection.expect_closed();
    }
}
