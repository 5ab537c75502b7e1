use crate::support::{Launch, Node, assert_refusal, entity, wait_for};

/// A node that is not patient: tests cannot wait as long as clients in the world may take.
fn impatient() -> Node {
    Launch::new().env("LADOGA_REQUEST_TIMEOUT_MS", "300").start()
}

#[test]
fn a_head_that_does_not_arrive_is_answered_and_closed() {
    let node = impatient();
    for part in
        ["G", "GET /v0/status HTTP/1.1\r\n", "GET /v0/status HTTP/1.1\r\nHost: h\r\n", "PUT /v0/entity?id=k"]
    {
        let mut connection = node.connect();
        connection.send(part);
        let response = connection.response();
        assert_refusal(&response, 408, part);
        assert!(response.closes(), "{part:?}");
        connection.expect_closed();
    }
}

#[test]
fn a_body_that_does_not_arrive_is_answered_and_closed() {
    let node = impatient();
    for (length, sent) in [(10, 0), (10, 9), (1_000_000, 999_999), (64 << 20, 1 << 20)] {
        let mut connection = node.connect();
        connection
            .send(format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n", entity("k")));
        // (If this takes long, the node may have given up before everything is out.)
        let _ = connection.try_send(vec![b'v'; sent]);
        let response = connection.response();
        assert_refusal(&response, 408, &format!("{sent} of {length} bytes"));
        assert!(response.closes(), "{sent} of {length} bytes");
        connection.expect_closed();
    }
    assert_eq!(node.connect().value("k"), None);
}

#[test]
fn a_request_that_comes_after_others_has_its_time_too() {
    let node = impatient();
    let mut connection = node.connect();
    connection.put("k", b"value");
    connection.send(format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\nGET /v0/sta", entity("k")));
    assert_eq!(connection.response().text(), "value");
    assert_refusal(&connection.response(), 408, "the second of two");
    connection.expect_closed();
}

/// RFC 9112, 2.2: old clients send an empty line behind a body.
#[test]
fn empty_lines_begin_no_request() {
    let node = impatient();
    let mut connection = node.connect();
    for behind in ["\r\n", "\r", "\n\r\n\n"] {
        connection
            .send(format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nv{behind}", entity("k")));
        assert_eq!(connection.response().status, 201, "{behind:?}");
        std::thread::sleep(std::time::Duration::from_millis(800));
        connection.send("\n");
        std::thread::sleep(std::time::Duration::from_millis(800));
        assert_eq!(connection.value("k").as_deref(), Some(&b"v"[..]), "{behind:?}");
    }
}

#[test]
fn clients_that_dawdle_do_not_hold_up_others() {
    let node = impatient();
    let mut slow: Vec<_> = (0..50).map(|_| node.connect()).collect();
    for connection in &mut slow {
        connection.send("PUT /v0/entity?id=slow HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nvalue");
    }
    let mut quick = node.connect();
    for index in 0..200 {
        quick.put("quick", format!("{index}").as_bytes());
    }
    for mut connection in slow {
        assert_refusal(&connection.response(), 408, "a slow client");
        connection.expect_closed();
    }
    assert_eq!(node.connect().value("slow"), None);
}

#[test]
fn a_connection_that_is_not_used_is_closed_without_a_word() {
    let node = Launch::new().env("LADOGA_IDLE_TIMEOUT_MS", "1000").start();
    let mut unused = node.connect();
    unused.expect_closed();
    // (If the test is held up for as long, it is closed before it is used, or between the two requests.)
    let mut used = wait_for("a connection that is used", || {
        let mut connection = node.connect();
        let put = connection.try_request("PUT", &entity("k"), Some(b"value")).ok()?;
        assert_eq!(put.status, 201);
        let get = connection.try_request("GET", &entity("k"), None).ok()?;
        assert_eq!(get.body, b"value");
        Some(connection)
    });
    used.expect_closed();
}
