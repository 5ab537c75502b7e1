use crate::support::{Connection, Launch, Node, Response, assert_refusal, entity, range, value, wait_until};

/// Far above any bound that a node should have.
const ATTEMPTS: usize = 2_000;
const BYTES: usize = 1 << 20;

/// A node whose bounds are reached before a client is found slow.
fn small_node() -> Node {
    Launch::patient().flag("--memory", "16MiB").start()
}

/// Announces a PUT and waits for `100 Continue`, or for another answer.
fn announce_put(node: &Node, key: &str, bytes: usize) -> (Connection, Response) {
    let mut connection = node.connect();
    connection.send(format!(
        "PUT {} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {bytes}\r\n\r\n",
        entity(key)
    ));
    let response = connection.response();
    (connection, response)
}

#[test]
fn large_values_over_capacity_are_refused_before_they_are_sent_and_the_others_arrive() {
    let node = small_node();
    let mut admitted = Vec::new();
    let refused = (0..ATTEMPTS).find_map(|number| {
        let (connection, response) = announce_put(&node, &format!("key{number:04}"), BYTES);
        if response.status == 100 {
            admitted.push(connection);
            return None;
        }
        Some(response)
    });
    let refused = refused.expect("a bound for values that are on their way in");
    assert_refusal(&refused, 503, "PUT over capacity");

    // Reads, deletions and the status are not what there is too much of.
    assert_eq!(node.connect().request("GET", "/v0/status", None).status, 200);
    assert_eq!(node.connect().value("absent"), None);
    node.connect().delete("absent");

    let mut arrived = Vec::new();
    for (number, connection) in admitted.iter_mut().enumerate() {
        // If it took long to announce all of them, the first ones gave way to the last ones.
        let _ = connection.try_send(value(number as u64, BYTES));
        match connection.try_response() {
            Ok(response) if response.status == 201 => arrived.push(number),
            Ok(response) => assert_refusal(&response, 408, "a value that gave way"),
            Err(_) => {}
        }
    }
    assert!(arrived.len() >= 8, "only {} values may come in at once", arrived.len());
    // There is room again.
    let (mut connection, response) = announce_put(&node, "again", BYTES);
    assert_eq!(response.status, 100);
    connection.send(value(0, BYTES));
    assert_eq!(connection.response().status, 201);
    for number in arrived {
        assert!(node.connect().value(format!("key{number:04}")) == Some(value(number as u64, BYTES)));
    }
}

#[test]
fn ranges_over_capacity_are_refused_and_the_others_go_on() {
    let node = small_node();
    let mut writer = node.connect();
    // More than the sockets between the two ends hold.
    for index in 0..256_u64 {
        writer.put(format!("key{index:03}"), &value(index, 100_000));
    }
    let mut stalled = Vec::new();
    let refused = (0..ATTEMPTS).find_map(|_| {
        let mut connection = node.connect();
        connection.send_request("GET", &range("key", None), None);
        let head = connection.response_head();
        if head.status == 200 {
            stalled.push(connection);
            return None;
        }
        let length = head.header("content-length").expect("a length").parse().expect("a length");
        let body = connection.try_read_exactly(length).expect("a reason");
        Some(Response { body, ..head })
    });
    assert_refusal(&refused.expect("a bound for ranges under way"), 503, "a range over capacity");
    assert!(stalled.len() >= 8, "only {} ranges at once", stalled.len());

    assert!(writer.value("key000") == Some(value(0, 100_000)));
    writer.put("key000", b"new");
    // The last one has had the least time to be found slow.
    let mut last = stalled.pop().expect("a stream");
    for index in 0..256_u64 {
        let (_, found) = last.next_record().expect("a stream").expect("a record");
        assert!(found == value(index, 100_000), "key{index:03}");
    }
    assert_eq!(last.next_record().expect("the end of a stream"), None);
    // One has ended, so another may begin.
    wait_until("room for a range", || {
        let mut connection = node.connect();
        connection.send_request("GET", &range("key", Some(b"key005")), None);
        connection.response_head().status == 200
    });
}

#[test]
fn connections_over_capacity_are_refused_and_the_others_go_on() {
    let limited = ["sh", "-c", "ulimit -n 640 && exec \"$@\"", "sh"].map(str::to_owned);
    let node = Launch::patient().wrapper(&limited).start();
    let mut open = Vec::new();
    let refused = (0..ATTEMPTS).find_map(|_| {
        let mut connection = node.connect();
        let response = connection.request("GET", "/v0/status", None);
        if response.status == 200 {
            open.push(connection);
            return None;
        }
        connection.expect_closed();
        Some(response)
    });
    assert_refusal(&refused.expect("a bound for connections"), 503, "a connection over capacity");
    assert!(open.len() >= 100, "only {} connections at once", open.len());
    for (number, connection) in open.iter_mut().enumerate() {
        connection.put(format!("key{number}"), b"value");
    }
    open.truncate(50);
    wait_until("room for a connection", || node.connect().request("GET", "/v0/status", None).status == 200);
}
