//! Requests that need to know whether their node was here before wait for those who can tell.

use crate::cluster::{launches, target};
use crate::support::{Connection, Launch, Node, assert_refusal, entity, range, wait_until};

/// A launch whose requests have so much time.
fn with_quorum_timeout(launch: Launch, timeout_ms: &str) -> Launch {
    launch.env("LADOGA_QUORUM_TIMEOUT_MS", timeout_ms)
}

/// Requests that need to know whether the node was here before, and their bodies.
fn requests() -> Vec<(&'static str, String, Option<Vec<u8>>)> {
    vec![
        ("PUT", entity("key"), Some(b"value".to_vec())),
        // Of another key: two writes of one at the same time may both not know whether they happened, while a node is away.
        ("PUT", target("other", "1/3"), Some(b"value".to_vec())),
        ("PUT", entity("large"), Some(vec![b'v'; 1 << 20])),
        ("GET", entity("key"), None),
        ("GET", target("key", "3/3"), None),
        ("DELETE", entity("gone"), None),
        ("GET", format!("{}&scope=cluster", range("a", None)), None),
    ]
}

/// Sends each request over a connection of its own, and reads no answer.
fn send(node: &Node, requests: &[(&str, String, Option<Vec<u8>>)]) -> Vec<Connection> {
    let send = |(method, target, body): &(&str, String, Option<Vec<u8>>)| {
        let mut connection = node.connect();
        connection.send_request(method, target, body.as_deref());
        connection
    };
    requests.iter().map(send).collect()
}

/// Waits until a node has requests that it has not answered: each has a connection, and there is one that asks.
fn wait_until_they_wait(node: &Node, requests: usize) {
    let expected = requests as f64 + 1.0;
    wait_until("requests that wait", || node.metrics().sum("ladoga_connections", &[]) >= Some(expected));
}

#[test]
fn requests_wait_for_the_nodes_that_start_after_them() {
    let mut launches = launches(3).into_iter();
    let mut node = launches.next().expect("a launch").start();
    let requests = requests();
    let waiting = send(&node, &requests);
    wait_until_they_wait(&node, requests.len());
    assert_eq!(node.connect().request("GET", "/v0/status", None).status, 200);
    assert_eq!(node.connect().request("GET", &range("a", None), None).records(), [], "its own it has");
    let others: Vec<Node> = launches.map(Launch::start).collect();
    for (mut connection, (method, target, _)) in waiting.into_iter().zip(&requests) {
        let response = connection.response();
        // Whichever was first: a read that comes before the write finds nothing.
        let expected: &[u16] = match *method {
            "PUT" => &[201],
            "DELETE" => &[202],
            _ => &[200, 404],
        };
        // Those who asked for all nodes may have asked before the last one was there.
        let may_fail = target.contains("3/3");
        let is_expected = expected.contains(&response.status) || (may_fail && response.status == 504);
        assert!(is_expected, "{method} {target}: {} {:?}", response.status, response.body);
    }
    drop(others);
    node.stop();
}

/// Requests that wait hold their connections and nothing else, however many there are, and whatever comes behind them.
#[test]
fn many_requests_wait_and_those_behind_them_are_answered_in_their_order() {
    const CLIENTS: usize = 300;
    let mut launches = launches(2).into_iter();
    let node = launches.next().expect("a launch").start();
    let mut waiting: Vec<Connection> = (0..CLIENTS)
        .map(|n| {
            let mut connection = node.connect();
            let (key, value) = (format!("key{n}"), format!("value{n}"));
            connection.send_request("PUT", &entity(&key), Some(value.as_bytes()));
            connection.send_request("GET", &entity(&key), None);
            connection.send_request("GET", "/v0/status", None);
            connection
        })
        .collect();
    wait_until_they_wait(&node, CLIENTS);
    let other = launches.next().expect("a launch").start();
    for (n, connection) in waiting.iter_mut().enumerate() {
        assert_eq!(connection.response().status, 201);
        let response = connection.response();
        assert_eq!((response.status, response.text()), (200, &*format!("value{n}")));
        assert_eq!(connection.response().text(), "serving\n");
    }
    drop(other);
}

/// What was not read of a refused value is not taken for a request.
#[test]
fn a_value_that_waited_in_vain_is_not_taken_for_a_request() {
    let launch = with_quorum_timeout(launches(2).remove(0), "300");
    let node = launch.start();
    for bytes in [10, 100_000, 1 << 20] {
        let mut connection = node.connect();
        let request = format!("DELETE {} HTTP/1.1\r\nHost: l\r\n\r\n", entity("key"));
        let value = request.repeat(bytes / request.len() + 1);
        // If the node closes early, not all of it is taken.
        let head =
            format!("PUT {} HTTP/1.1\r\nHost: l\r\nContent-Length: {}\r\n\r\n", entity("key"), value.len());
        connection.send(head);
        let _ = connection.try_send(&value);
        assert_refusal(&connection.response(), 504, "a PUT that waited in vain");
        let deletions = node.metrics().sum("ladoga_requests_total", &["operation=\"delete\""]);
        assert!(deletions.is_none_or(|count| count < 1.0), "bytes of a value were served");
    }
}

#[test]
fn what_is_wrong_with_a_request_is_told_before_the_node_is_ready() {
    let node = launches(3).remove(0).start();
    let ask = |method: &str, target: &str| node.connect().request(method, target, None);
    for replicas in ["0/3", "4/3", "1/4", "x", "2", "/"] {
        for method in ["GET", "DELETE"] {
            assert_refusal(&ask(method, &target("k", replicas)), 400, replicas);
        }
        let put = node.connect().request("PUT", &target("k", replicas), Some(b"value"));
        assert_refusal(&put, 400, replicas);
        let range = format!("{}&scope=cluster&replicas={replicas}", range("a", None));
        assert_refusal(&ask("GET", &range), 400, replicas);
    }
    for target in ["/v0/entity?id=k&ack=0", "/v0/entity?id=k&ack=4", "/v0/entity", "/v0/entity?id="] {
        assert_refusal(&ask("GET", target), 400, target);
    }
    assert_refusal(&ask("PATCH", &entity("k")), 405, "PATCH of an entity");
    assert_refusal(&ask("POST", &entity("k")), 400, "POST of an entity that says nothing");
    let mut connection = node.connect();
    connection.send(format!("PUT {} HTTP/1.1\r\nHost: l\r\nContent-Length: 99999999\r\n\r\n", entity("k")));
    assert_refusal(&connection.response(), 413, "a value that is too large");
    let mut connection = node.connect();
    connection.send(format!("PUT {} HTTP/1.1\r\nHost: l\r\n\r\n", entity("k")));
    assert_refusal(&connection.response(), 411, "a value without a length");
}

#[test]
fn who_does_not_answer_is_named_when_the_time_of_a_request_is_over() {
    let launches: Vec<_> =
        launches(3).into_iter().map(|launch| with_quorum_timeout(launch, "1000")).collect();
    let urls: Vec<_> = launches.iter().map(Launch::url).collect();
    let mut launches = launches.into_iter();
    let mut node = launches.next().expect("a launch").start();
    for (connection, (method, target, _)) in send(&node, &requests()).iter_mut().zip(&requests()) {
        let response = connection.response();
        assert_refusal(&response, 504, &format!("{method} {target}"));
        assert!(urls[1..].iter().all(|url| response.text().contains(url)), "{}", response.text());
    }
    // Its own entities are there without any other node.
    assert_eq!(node.connect().request("GET", &range("a", None), None).records(), []);
    // It never heard from another node, so it knows no more when it is started again.
    node.restart();
    let read = node.connect().request("GET", &entity("key"), None);
    assert_refusal(&read, 504, "GET of a node that was started again");
    // One is enough, for what does not need the third.
    let other = launches.next().expect("a launch").start();
    for node in [&node, &other] {
        node.connect().put("key", b"value");
        assert_eq!(node.connect().value("key"), Some(b"value".to_vec()));
        let response = node.connect().request("GET", &target("key", "3/3"), None);
        assert_refusal(&response, 504, "GET of all with one that was never started");
        assert!(response.text().contains(&urls[2]), "{}", response.text());
    }
}

#[test]
fn a_node_that_is_stopped_does_not_wait_for_requests_that_wait() {
    // Longer than any test, so that nothing but the end of the node ends them.
    let launches = launches(3).into_iter().map(|launch| with_quorum_timeout(launch, "600000"));
    let mut node = launches.collect::<Vec<_>>().remove(0).start();
    let requests = requests();
    let waiting = send(&node, &requests);
    wait_until_they_wait(&node, requests.len());
    node.stop();
    for (mut connection, (method, target, _)) in waiting.into_iter().zip(&requests) {
        let response = connection.response();
        assert_refusal(&response, 503, &format!("{method} {target}"));
        assert!(response.text().contains("draining"), "{}", response.text());
    }
}

#[test]
fn clients_that_leave_while_they_wait_are_noticed() {
    let launches = launches(3).into_iter().map(|launch| with_quorum_timeout(launch, "600000"));
    let node = launches.collect::<Vec<_>>().remove(0).start();
    let requests: Vec<_> =
        requests().into_iter().filter(|(_, target, _)| !target.contains("large")).collect();
    let waiting = send(&node, &requests);
    wait_until_they_wait(&node, requests.len());
    drop(waiting);
    wait_until("connections that are gone", || node.metrics().sum("ladoga_connections", &[]) < Some(3.0));
}
