use crate::support::{Connection, Node, entity, range, value, wait_until};

fn put(key: &str, value: &str) -> String {
    format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{value}", entity(key), value.len())
}

fn get(key: &str) -> String {
    format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", entity(key))
}

#[test]
fn a_connection_serves_many_requests() {
    let node = Node::start();
    let mut connection = node.connect();
    for index in 0..500 {
        let key = format!("key{index}");
        connection.put(&key, key.as_bytes());
        assert_eq!(connection.value(&key), Some(key.into_bytes()));
    }
}

#[test]
fn a_hundred_requests_in_one_write_are_answered_in_order() {
    let node = Node::start();
    let mut connection = node.connect();
    let puts: String = (0..100).map(|index| put(&format!("key{index}"), &format!("value{index}"))).collect();
    connection.send(puts);
    for index in 0..100 {
        assert_eq!(connection.response().status, 201, "{index}");
    }
    let gets: String = (0..100).map(|index| get(&format!("key{index}"))).collect();
    connection.send(gets);
    for index in 0..100 {
        let response = connection.response();
        assert_eq!((response.status, response.text()), (200, format!("value{index}").as_str()));
    }
}

#[test]
fn pipelined_requests_see_those_before_them() {
    let node = Node::start();
    let mut connection = node.connect();
    let delete = format!("DELETE {} HTTP/1.1\r\nHost: h\r\n\r\n", entity("key"));
    let listing = format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", range("key", None));
    for _ in 0..25 {
        connection.send(
            [
                put("key", "one"),
                get("key"),
                put("key", "two"),
                get("key"),
                delete.clone(),
                get("key"),
                listing.clone(),
            ]
            .concat(),
        );
        assert_eq!(connection.response().status, 201);
        assert_eq!(connection.response().text(), "one");
        assert_eq!(connection.response().status, 201);
        assert_eq!(connection.response().text(), "two");
        assert_eq!(connection.response().status, 202);
        assert_eq!(connection.response().status, 404);
        assert_eq!(connection.response().records(), []);
    }
}

#[test]
fn pipelined_requests_of_all_sizes_are_answered_in_order() {
    let node = Node::start();
    let mut writer = node.connect();
    let mut reader = node.connect();
    let sizes = [0, 300_000, 5, 1 << 20, 70_000, 262_144, 1];
    for round in 0..3_u64 {
        let mut requests = Vec::new();
        for (index, size) in sizes.into_iter().enumerate() {
            let head = format!(
                "PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n",
                entity(format!("key{index}"))
            );
            requests.extend_from_slice(head.as_bytes());
            requests.extend_from_slice(&value(round * 10 + index as u64, size));
        }
        writer.send(requests);
        for size in sizes {
            assert_eq!(writer.response().status, 201, "{size}");
        }
        reader.send((0..sizes.len()).map(|index| get(&format!("key{index}"))).collect::<String>());
        for (index, size) in sizes.into_iter().enumerate() {
            assert!(
                reader.response().body == value(round * 10 + index as u64, size),
                "{size} in round {round}"
            );
        }
    }
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let node = Node::start();
    let mut connection = node.connect();
    for byte in [put("slow", "value"), get("slow")].concat().bytes() {
        connection.send([byte]);
    }
    assert_eq!(connection.response().status, 201);
    assert_eq!(connection.response().text(), "value");
}

#[test]
fn a_request_may_be_cut_anywhere() {
    let node = Node::start();
    let mut connection = node.connect();
    let request = [put("key", "one\r\n\r\ntwo"), get("key")].concat();
    for cut in 1..request.len() {
        connection.send(&request[..cut]);
        connection.send(&request[cut..]);
        assert_eq!(connection.response().status, 201, "{cut}");
        assert_eq!(connection.response().text(), "one\r\n\r\ntwo", "{cut}");
    }
}

#[test]
fn white_space_around_headers_does_not_add_up() {
    let node = Node::start();
    let mut connection = node.connect();
    let padding = " ".repeat(200);
    let put = format!(
        "PUT {} HTTP/1.1\r\nHost: h\r\nX-Padded:{padding}v{padding}\r\nContent-Length:{padding}5\r\n\r\nvalue",
        entity("key")
    );
    for number in 0..200 {
        connection.send(put.repeat(3));
        for _ in 0..3 {
            let response = connection.response();
            assert_eq!(response.status, 201, "round {number}: {}", response.text());
        }
    }
}

#[test]
fn a_client_that_wants_to_close_is_closed() {
    let node = Node::start();
    node.connect().put("key", b"value");
    for option in ["close", "Close", "CLOSE"] {
        let mut connection = node.connect();
        connection.send(format!("GET {} HTTP/1.1\r\nHost: h\r\nConnection: {option}\r\n\r\n", entity("key")));
        let response = connection.response();
        assert_eq!((response.status, response.text(), response.closes()), (200, "value", true));
        connection.expect_closed();
    }
    let mut connection = node.connect();
    connection.send(format!("GET {} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", range("key", None)));
    assert_eq!(connection.response().records().len(), 1);
    connection.expect_closed();
}

#[test]
fn http_1_0_is_spoken_too() {
    let node = Node::start();
    node.connect().put("key", b"value");
    let mut connection = node.connect();
    connection.send(format!("GET {} HTTP/1.0\r\n\r\n", entity("key")));
    let answer = String::from_utf8(connection.rest()).expect("text");
    assert!(answer.starts_with("HTTP/1.") && answer.contains(" 200 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\nvalue"), "{answer}");

    let mut connection = node.connect();
    for _ in 0..3 {
        connection.send(format!(
            "PUT {} HTTP/1.0\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nnew",
            entity("k")
        ));
        let length = expect_old_answer(&mut connection, "201");
        assert_eq!(length, 0);
    }
}

/// Reads the head of an answer of either version; gives the length of its body.
fn expect_old_answer(connection: &mut Connection, status: &str) -> usize {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(connection.try_read_exactly(1).expect("an answer"));
    }
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    assert!(head.starts_with("http/1.") && head[8..].starts_with(&format!(" {status} ")), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.expect("a length").parse().expect("a length")
}

#[test]
fn a_range_for_http_1_0_has_no_chunks() {
    let node = Node::start();
    node.connect().put("key", b"value");
    let mut connection = node.connect();
    connection.send(format!("GET {} HTTP/1.0\r\n\r\n", range("key", None)));
    let answer = String::from_utf8(connection.rest()).expect("text");
    assert!(!answer.to_ascii_lowercase().contains("transfer-encoding"), "RFC 9112, 6.1: {answer}");
    let refused = answer.contains(" 400 ") || answer.contains(" 505 ");
    assert!(refused || answer.ends_with("\r\n\r\nkey\nvalue"), "{answer}");
}

#[test]
fn a_client_that_has_sent_all_still_gets_its_answers() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.send([put("key", "value"), get("key")].concat());
    connection.finish_sending();
    assert_eq!(connection.response().status, 201);
    assert_eq!(connection.response().text(), "value");
    connection.expect_closed();
}

#[test]
fn a_request_that_breaks_off_does_nothing() {
    let node = Node::start();
    let mut witness = node.connect();
    witness.put("cut", b"old");
    let request = put("cut", &"new".repeat(1_000));
    let body = request.len() - 3_000;
    for cut in [1, 10, body / 2, body - 2, body, body + 1, body + 1_500, request.len() - 1] {
        for half in [true, false] {
            let mut connection = node.connect();
            connection.send(&request[..cut]);
            if half {
                connection.finish_sending();
                connection.rest();
            }
            drop(connection);
            assert_eq!(witness.value("cut").as_deref(), Some(&b"old"[..]), "cut after {cut} bytes");
        }
    }
    // The same with a value that goes to a file of its own while it arrives.
    let head = format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", entity("cut"), 8 << 20);
    for sent in [0, 100_000, 1 << 20, (8 << 20) - 1] {
        let mut connection = node.connect();
        connection.send(&head);
        connection.send(vec![b'n'; sent]);
        connection.finish_sending();
        connection.rest();
        assert_eq!(witness.value("cut").as_deref(), Some(&b"old"[..]), "cut after {sent} bytes of the value");
    }
    assert_eq!(witness.request("GET", &range("a", None), None).records().len(), 1);
}

#[test]
fn a_client_that_goes_away_takes_nothing_with_it() {
    let node = Node::start();
    let mut witness = node.connect();
    let large = value(1, 4 << 20);
    for index in 0..8 {
        witness.put(format!("large{index}"), &large);
    }
    for round in 0..20 {
        let mut connection = node.connect();
        connection.send(format!(
            "{}{}{}",
            get("large0"),
            get("large1"),
            put(&format!("last{round}"), "value")
        ));
        if round % 2 == 0 {
            assert_eq!(connection.response_head().status, 200);
        }
    }
    for round in 0..20 {
        let mut connection = node.connect();
        connection.send_request("GET", &range("large", None), None);
        if round % 2 == 0 {
            assert_eq!(connection.response_head().status, 200);
        }
    }
    wait_until("a node that goes on", || node.connect().request("GET", "/v0/status", None).status == 200);
    assert!(witness.value("large7") == Some(large));
}
