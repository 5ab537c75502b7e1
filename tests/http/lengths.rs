use crate::support::{Node, assert_refusal, entity};

const VALUE_BYTES_MAX: u64 = 64 << 20;

/// A PUT of `key` with these headers and nothing behind them.
fn put_head(key: &str, headers: &str) -> String {
    format!("PUT {} HTTP/1.1\r\nHost: h\r\n{headers}\r\n", entity(key))
}

#[test]
fn a_put_without_a_length_is_refused() {
    let node = Node::start();
    for (headers, body) in [
        ("", ""),
        ("", "a value of unknown length"),
        ("Content-Type: text/plain\r\n", ""),
        ("Transfer-Encoding: chunked\r\n", "5\r\nvalue\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", ""),
        ("Transfer-Encoding: Chunked\r\n", "zz\r\n"),
    ] {
        let mut connection = node.connect();
        let request = format!("{}{body}", put_head("k", headers));
        connection.send(&request);
        let response = connection.response();
        assert_refusal(&response, 411, &request);
        assert!(response.closes(), "where the body ends is unknown, so nothing can follow: {response:?}");
        connection.expect_closed();
    }
    assert_eq!(node.connect().value("k"), None);
}

#[test]
fn a_chunked_body_does_not_become_a_request() {
    let node = Node::start();
    node.connect().put("victim", b"value");
    let smuggled = "DELETE /v0/entity?id=victim HTTP/1.1\r\nHost: h\r\n\r\n";
    for start in
        ["PUT /v0/entity?id=k", "POST /v0/entity?id=k", "GET /v0/entity?id=k", "DELETE /v0/entity?id=k"]
    {
        let mut connection = node.connect();
        let body = format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len());
        connection.send(format!("{start} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}"));
        connection.finish_sending();
        connection.rest();
        assert_eq!(node.connect().value("victim").as_deref(), Some(&b"value"[..]), "{start}");
    }
}

#[test]
fn a_value_over_the_limit_is_refused_before_its_body_is_sent() {
    let node = Node::start();
    for length in [VALUE_BYTES_MAX + 1, 1 << 32, 1 << 40, u64::from(u32::MAX), i64::MAX as u64, u64::MAX - 2]
    {
        let mut connection = node.connect();
        let request = put_head("k", &format!("Content-Length: {length}\r\n"));
        connection.send(&request);
        let response = connection.response();
        assert_refusal(&response, 413, &request);
        assert!(response.closes(), "the body would be taken for a request: {response:?}");
        connection.expect_closed();
    }
    assert_eq!(node.connect().value("k"), None);
}

/// Two lengths that the HTTP library uses as marks: it forgot the head, and took what followed for the next request.
#[test]
fn the_greatest_lengths_are_refused_as_any_that_is_too_great() {
    let node = Node::start();
    node.connect().put("victim", b"value");
    let headers = "X: y\r\n".repeat(200);
    let body = format!("{headers}DELETE /v0/entity?id=victim HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
    for length in [u64::MAX - 1, u64::MAX] {
        for (before, more_headers, behind) in [
            ("", "", ""),
            ("", "", &body[headers.len()..]),
            ("", "", &"v".repeat(20_000)),
            ("", &*headers, &*body),
            ("\r\n\r\n", "", ""),
            ("GET /v0/status HTTP/1.1\r\nHost: h\r\n\r\n", "", ""),
            ("GET /v0/status HTTP/1.1\r\nHost: h\r\n\r\n", &headers, "v"),
        ] {
            let mut connection = node.connect();
            let head = put_head("k", &format!("{more_headers}Content-Length: {length}\r\n"));
            connection.send(format!("{before}{head}{behind}"));
            if before.starts_with("GET") {
                assert_eq!(connection.response().status, 200);
            }
            let what = format!("{length} bytes behind {before:?}, {} headers", more_headers.len());
            assert_refusal(&connection.response(), 413, &what);
            connection.expect_closed();
            assert_eq!(node.connect().value("victim").as_deref(), Some(&b"value"[..]), "{what}");
        }
    }
    assert_eq!(node.connect().value("k"), None);
}

#[test]
fn a_refusal_reaches_a_client_that_sends_its_body_without_waiting() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.send(put_head("k", &format!("Content-Length: {}\r\n", VALUE_BYTES_MAX + 1)));
    // As much as a client has sent before it looks for an answer; the node may be gone before all is out.
    let _ = connection.try_send(vec![b'v'; 256 << 10]);
    assert_refusal(&connection.response(), 413, "PUT with a body that nobody reads");
}

#[test]
fn a_length_that_is_none_is_malformed() {
    let node = Node::start();
    node.connect().put("k", b"old");
    let lengths = [
        "Content-Length: \r\n",
        "Content-Length: -1\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5x\r\n",
        "Content-Length: five\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5.0\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 99999999999999999999999999\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ];
    for headers in lengths {
        let mut connection = node.connect();
        let request = format!("{}value", put_head("k", headers));
        connection.send(&request);
        let response = connection.response();
        assert!([400, 411, 413].contains(&response.status), "{headers:?} was answered {response:?}");
        assert_refusal(&response, response.status, &request);
        connection.expect_closed();
        assert_eq!(node.connect().value("k").as_deref(), Some(&b"old"[..]), "{headers:?}");
    }
}

#[test]
fn two_ways_to_tell_the_length_are_one_too_many() {
    let node = Node::start();
    node.connect().put("k", b"old");
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ] {
        let mut connection = node.connect();
        let request =
            format!("{}0\r\n\r\nDELETE /v0/entity?id=k HTTP/1.1\r\nHost: h\r\n\r\n", put_head("k", headers));
        connection.send(&request);
        let response = connection.response();
        assert!([400, 411].contains(&response.status), "{headers:?} was answered {response:?}");
        assert_refusal(&response, response.status, &request);
        connection.expect_closed();
        assert_eq!(node.connect().value("k").as_deref(), Some(&b"old"[..]), "{headers:?}");
    }
}
