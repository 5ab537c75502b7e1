use crate::support::{Node, assert_refusal, entity};

const HEADERS_BYTES_MAX: usize = 16 << 10;

/// A request for the status with headers of about `bytes` bytes in `count` of them.
fn request_with_headers(count: usize, bytes: usize) -> String {
    let mut headers = String::new();
    for index in 0..count {
        let name = format!("X-{index:05}: ");
        let value: String = "v".repeat(bytes / count - name.len() - 2);
        headers.extend([name, value, "\r\n".to_owned()]);
    }
    format!("GET /v0/status HTTP/1.1\r\nHost: h\r\n{headers}\r\n")
}

#[test]
fn headers_up_to_16_kib_are_fine() {
    let node = Node::start();
    let mut connection = node.connect();
    for (count, bytes) in [(1, 8_000), (1, 15_000), (10, 15_000), (90, 15_000), (200, 15_000), (600, 15_000)]
    {
        connection.send(request_with_headers(count, bytes));
        let response = connection.response();
        assert_eq!(response.status, 200, "{bytes} bytes in {count} headers: {response:?}");
    }
}

#[test]
fn many_headers_are_fine_behind_empty_lines_and_other_requests() {
    let node = Node::start();
    let mut connection = node.connect();
    let many = request_with_headers(200, 15_000);
    connection.send(format!("\r\n{many}{many}\r\n\n{many}"));
    for index in 0..3 {
        assert_eq!(connection.response().status, 200, "{index}");
    }
}

#[test]
fn headers_over_16_kib_are_refused() {
    let node = Node::start();
    for (count, bytes) in [(1, HEADERS_BYTES_MAX + 512), (50, 20_000), (1_500, 25_000), (1, 100_000)] {
        let mut connection = node.connect();
        // The node may have answered and closed before it has everything.
        let _ = connection.try_send(request_with_headers(count, bytes));
        let request = format!("{bytes} bytes in {count} headers");
        assert_refusal(&connection.response(), 431, &request);
        connection.expect_closed();
        assert_eq!(node.connect().request("GET", "/v0/status", None).status, 200);
    }
}

#[test]
fn headers_that_do_not_end_are_refused_where_the_limit_is() {
    let node = Node::start();
    let starts = ["GET /v0/status HTTP/1.1\r\nHost: h\r\nX-Long: ", "GET /v0/status HTTP/1.1\r\nX-"];
    for start in starts {
        let mut connection = node.connect();
        let _ = connection.try_send(format!("{start}{}", "v".repeat(HEADERS_BYTES_MAX + 1_024)));
        assert_refusal(&connection.response(), 431, start);
        connection.expect_closed();
    }
}

#[test]
fn a_put_with_headers_that_are_too_large_stores_nothing() {
    let node = Node::start();
    let mut connection = node.connect();
    let cookie = "c".repeat(HEADERS_BYTES_MAX + 512);
    let head = format!("PUT {} HTTP/1.1\r\nCookie: {cookie}\r\nContent-Length: 5\r\n\r\n", entity("k"));
    let _ = connection.try_send(format!("{head}value"));
    assert_refusal(&connection.response(), 431, &head);
    assert_eq!(node.connect().value("k"), None);
}

#[test]
fn a_request_line_that_is_too_long_is_refused() {
    let node = Node::start();
    for length in [17_000, 100_000] {
        let mut connection = node.connect();
        let _ = connection
            .try_send(format!("GET /v0/entity?id={} HTTP/1.1\r\nHost: h\r\n\r\n", "k".repeat(length)));
        let response = connection.response();
        assert!([400, 431].contains(&response.status), "{response:?}");
        assert_refusal(&response, response.status, "a long request line");
    }
}

#[test]
fn a_client_that_expects_to_be_told_is_told() {
    let node = Node::start();
    let mut connection = node.connect();
    let value = vec![b'v'; 100_000];
    for expect in ["Expect: 100-continue", "expect: 100-Continue"] {
        let head = format!(
            "PUT {} HTTP/1.1\r\nHost: h\r\n{expect}\r\nContent-Length: {}\r\n\r\n",
            entity("k"),
            value.len()
        );
        connection.send(head);
        assert_eq!(connection.response().status, 100, "{expect}");
        connection.send(&value);
        assert_eq!(connection.response().status, 201, "{expect}");
        assert!(connection.value("k").as_ref() == Some(&value));
        connection.delete("k");
    }
}

#[test]
fn a_client_may_send_its_body_without_waiting_to_be_told() {
    let node = Node::start();
    let mut connection = node.connect();
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        entity("k")
    );
    connection.send(format!("{head}value"));
    let mut response = connection.response();
    if response.status == 100 {
        response = connection.response();
    }
    assert_eq!(response.status, 201);
    assert_eq!(connection.value("k").as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_client_that_expects_to_be_told_hears_of_a_refusal_first() {
    let node = Node::start();
    let too_long = format!("Content-Length: {}\r\n", (64 << 20) + 1);
    let length = "Content-Length: 5\r\n";
    let requests = [
        (format!("PUT {}", entity("k")), too_long.as_str(), 413),
        (format!("PUT {}", entity("k")), "Transfer-Encoding: chunked\r\n", 411),
        ("PUT /v0/entity".to_owned(), length, 400),
        ("PUT /v0/entity?id=".to_owned(), length, 400),
        ("PUT /v0/entity?id=k&replicas=2/3".to_owned(), length, 400),
        ("PUT /nothing".to_owned(), length, 400),
        ("POST /v0/entity?id=k".to_owned(), length, 400),
        ("PUT /v0/status".to_owned(), length, 405),
    ];
    for (start, length, status) in requests {
        let mut connection = node.connect();
        connection.send(format!("{start} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n{length}\r\n"));
        assert_refusal(&connection.response(), status, &start);
    }
    assert_eq!(node.connect().value("k"), None);
}
