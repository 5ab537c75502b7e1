use crate::support::{Node, Random, Response, assert_refusal, entity, value};

/// Sends `bytes` on a connection of their own, which has to be answered 400 and closed. The node goes on, and so does
/// a connection that was there before.
fn expect_malformed(node: &Node, witness: &mut crate::support::Connection, bytes: &[u8]) {
    let shown = bytes.escape_ascii().to_string();
    let mut connection = node.connect();
    let _ = connection.try_send(bytes);
    let response =
        connection.try_response().unwrap_or_else(|error| panic!("{shown:?} was not answered: {error}"));
    assert_refusal(&response, 400, &shown);
    assert!(response.text().matches("expected").count() < 2, "{}", response.text());
    assert!(response.closes(), "{shown:?} was answered {response:?}");
    connection.expect_closed();
    assert_eq!(witness.value("witness").as_deref(), Some(&b"alive"[..]), "after {shown:?}");
}

fn expect_all_malformed<B: AsRef<[u8]>>(requests: impl IntoIterator<Item = B>) {
    let node = Node::start();
    let mut witness = node.connect();
    witness.put("witness", b"alive");
    for bytes in requests {
        expect_malformed(&node, &mut witness, bytes.as_ref());
    }
    assert_eq!(witness.value("k"), None, "something of a malformed request was done");
}

#[test]
fn what_is_no_request_line_is_answered_and_closed() {
    expect_all_malformed([
        "\0\r\n\r\n",
        "garbage\r\n\r\n",
        "GET\r\n\r\n",
        "GET \r\n\r\n",
        "GET /v0/status\r\n\r\n",
        "GET /v0/status \r\n\r\n",
        "GET HTTP/1.1\r\n\r\n",
        " GET /v0/status HTTP/1.1\r\nHost: h\r\n\r\n",
        "/v0/status HTTP/1.1\r\n\r\n",
        "GET /v0/status HTTP/1.1 again\r\nHost: h\r\n\r\n",
        "GET /v0/entity?id=a b HTTP/1.1\r\nHost: h\r\n\r\n",
        "G\0T /v0/status HTTP/1.1\r\nHost: h\r\n\r\n",
        "G(T /v0/status HTTP/1.1\r\nHost: h\r\n\r\n",
        "G\u{7f}T /v0/status HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /v0/status\0 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /v0/entity?id=\0 HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /v0/entity?id=\u{1} HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /v0/entity?id=\u{7f} HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /v0/entity?id=a\tb HTTP/1.1\r\nHost: h\r\n\r\n",
        "PUT /v0/entity?id=k#b HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
        "GET http://h/v0/entity?id=k# HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET v0/status HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET  /v0/status HTTP/1.1\r\nHost: h\r\n\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ]);
}

#[test]
fn other_versions_are_answered_and_closed() {
    expect_all_malformed([
        "GET /v0/status HTTP/0.9\r\nHost: h\r\n\r\n",
        "GET /v0/status HTTP/1.2\r\nHost: h\r\n\r\n",
        "GET /v0/status HTTP/1.10\r\nHost: h\r\n\r\n",
        "GET /v0/status HTTP/1\r\nHost: h\r\n\r\n",
        "GET /v0/status HTTP/2.0\r\nHost: h\r\n\r\n",
        "GET /v0/status HTTP/11\r\nHost: h\r\n\r\n",
        "GET /v0/status http/1.1\r\nHost: h\r\n\r\n",
        "GET /v0/status HTPP/1.1\r\nHost: h\r\n\r\n",
        "GET /v0/status HTTP1.1\r\nHost: h\r\n\r\n",
        "GET /v0/status RTSP/1.0\r\nHost: h\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]);
}

#[test]
fn what_is_no_header_is_answered_and_closed() {
    let headers = [
        "no colon",
        ": no name",
        "Host : space before the colon",
        "Ho st: space within",
        "X-\0: nul in the name",
        "X: nul in\0 the value",
        "X: a \u{1} control",
        "X: \u{7f}",
        "X(: parenthesis",
        "\u{e9}: not ASCII",
        "X: a\rb",
        " Folded: at the start",
    ];
    expect_all_malformed(
        headers.map(|header| format!("GET /v0/status HTTP/1.1\r\nHost: h\r\n{header}\r\n\r\n")),
    );
    expect_all_malformed(headers.map(|header| {
        let head = format!("PUT {} HTTP/1.1\r\nContent-Length: 5\r\n{header}\r\n\r\n", entity("k"));
        format!("{head}value")
    }));
}

#[test]
fn binary_noise_is_answered_and_closed() {
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &value(1, 500)].concat();
    let mut noise = vec![hello, vec![0; 64], vec![0xff; 64], (0..=u8::MAX).collect()];
    // The first byte decides, or else the noise might be the beginning of a line that never ends.
    noise.extend((2..40).map(|seed| [&[0x80][..], &value(seed, 200)].concat()));
    expect_all_malformed(noise);
}

#[test]
fn a_connection_that_went_well_is_closed_by_what_is_malformed() {
    let node = Node::start();
    let mut witness = node.connect();
    witness.put("witness", b"alive");
    let put =
        |key: &str| format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nvalue", entity(key));
    let mut connection = node.connect();
    connection.send(format!("{}{}\0\0\0\r\n\r\n{}", put("first"), put("second"), put("third")));
    assert_eq!(connection.response().status, 201);
    assert_eq!(connection.response().status, 201);
    let response = connection.response();
    assert_refusal(&response, 400, "the third of four");
    assert!(response.closes());
    connection.expect_closed();
    assert_eq!(witness.value("first").as_deref(), Some(&b"value"[..]));
    assert_eq!(witness.value("second").as_deref(), Some(&b"value"[..]));
    assert_eq!(witness.value("third"), None);
}

#[test]
fn a_length_that_is_wrong_spoils_only_its_own_connection() {
    let node = Node::start();
    let mut connection = node.connect();
    // Two bytes more than announced: they are the beginning of the next request, which is none.
    connection.send(format!(
        "PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nvalue\0\0\r\n\r\n",
        entity("k")
    ));
    assert_eq!(connection.response().status, 201);
    assert_refusal(&connection.response(), 400, "what followed");
    connection.expect_closed();
    assert_eq!(node.connect().value("k").as_deref(), Some(&b"value"[..]));
}

#[test]
fn targets_in_other_forms_are_understood_or_refused() {
    let node = Node::start();
    let mut connection = node.connect();
    let absolute = "GET http://elsewhere:1/v0/status HTTP/1.1\r\nHost: h\r\n\r\n";
    connection.send(absolute);
    assert_eq!(connection.response().status, 200, "RFC 9112, 3.2.2: a server must accept the absolute form");
    connection.send("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_refusal(&connection.response(), 400, "OPTIONS *");
    let mut connection = node.connect();
    connection.send("CONNECT elsewhere:80 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_refusal(&connection.response(), 400, "CONNECT");
}

/// Every answer in `bytes`; anything else panics. An answer that is cut off is ignored: if the node closes a connection on
/// which the client still sends, the end may be lost.
fn answers(mut bytes: &[u8]) -> Vec<Response> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let Ok(answer) = Response::read(&mut bytes, false) else { break };
        answers.push(answer);
    }
    answers
}

#[test]
fn requests_with_changed_bytes_are_answered_or_closed_and_never_confuse_the_node() {
    let node = Node::start();
    let mut witness = node.connect();
    witness.put("witness", b"alive");
    let requests = [
        format!("GET {} HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", entity("k")),
        format!(
            "PUT {}&replicas=1/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nvalue",
            entity("k\u{e9}")
        ),
        format!("DELETE {} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", entity("k")),
        "GET /v0/entities?start=a&end=b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_owned(),
    ];
    let statuses = [200, 201, 202, 400, 404, 405, 408, 411, 413, 431];
    let mut random = Random::new(2);
    for round in 0..1_500 {
        let mut bytes = requests[round % 4].repeat(2).into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = random.next() as u8,
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"\r\n\0 :%/\t"[random.below(8) as usize]),
            }
        }
        let mut connection = node.connect();
        connection.send(&bytes);
        connection.finish_sending();
        let answers = answers(&connection.rest());
        assert!(
            answers.iter().all(|answer| statuses.contains(&answer.status)),
            "{} was answered {answers:?}",
            bytes.escape_ascii()
        );
        for answer in answers.iter().filter(|answer| answer.status >= 400) {
            assert_refusal(answer, answer.status, "a request with changed bytes");
        }
    }
    assert_eq!(witness.value("witness").as_deref(), Some(&b"alive"[..]));
}
