//! Requests that two readers could parse differently, behind others and cut anywhere: what follows them is no request, whatever
//! it looks like.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::support::{
    Connection, Exchange, Expected, Launch, Node, SMUGGLED, cuts_from, entity, exchange_cut,
    value_of_requests,
};

fn node() -> Node {
    let node = Launch::patient().flag("--fsync", "never").start();
    node.connect().put("victim", b"alive");
    node
}

#[track_caller]
fn assert_unharmed(node: &Node, what: &str) {
    assert_eq!(node.connect().value("victim").as_deref(), Some(&b"alive"[..]), "{what}");
}

fn inline(node: &Node) -> Exchange {
    let value = Arc::new(value_of_requests(0, 100_000));
    node.connect().put("inline", &value);
    Exchange::get("inline", &value)
}

/// A request for the status, with as many headers.
fn with_headers(count: usize) -> Exchange {
    let headers: Vec<String> = (0..count).map(|number| format!("X-{number}: v\r\n")).collect();
    Exchange::new("GET /v0/status", &headers.concat(), b"", Expected::Something)
}

/// Two lengths that the HTTP library uses as marks: it forgot the head, and took what followed for the next request.
#[test]
fn what_follows_the_greatest_lengths_is_no_request_wherever_it_is_cut() {
    let node = node();
    let (inline, status) = (inline(&node), with_headers(0));
    let many = with_headers(200).request;
    let many =
        String::from_utf8(many).expect("text").replace("GET /v0/status", "DELETE /v0/entity?id=victim");
    for (what, behind) in [("a short head", SMUGGLED), ("many headers", &many)] {
        for length in [u64::MAX - 1, u64::MAX] {
            let headers = format!("Content-Length: {length}\r\n");
            let put =
                Exchange::new("PUT /v0/entity?id=k", &headers, behind.as_bytes(), Expected::Closed(&[413]));
            for before in [vec![], vec![status.clone()], vec![inline.clone()], vec![inline.clone(); 2]] {
                let ahead: usize = before.iter().map(|exchange| exchange.request.len()).sum();
                let pipeline = [before, vec![put.clone()]].concat();
                let mut cuts = cuts_from(ahead);
                cuts.truncate(put.request.len() - behind.len() + 2);
                cuts.push(vec![]);
                exchange_cut(node.address(), &pipeline, &cuts, &format!("{length} before {what}"));
                assert_unharmed(&node, what);
            }
        }
    }
    assert_eq!(node.connect().value("k"), None);
}

#[test]
fn heads_that_were_read_ahead_have_their_limits() {
    let node = node();
    let inline = inline(&node);
    let address = node.address();
    // The head is still incomplete at its limit; what the client sends then is not waited for.
    let endless = format!("GET /v0/status HTTP/1.1\r\nX-Long: {}", "v".repeat(16_500));
    let endless = Exchange { request: endless.into_bytes(), expected: Expected::Closed(&[431]) };
    let line = Exchange {
        request: format!("GET /v0/entity?id={}", "k".repeat(17_000)).into_bytes(),
        expected: Expected::Closed(&[431]),
    };
    for last in [endless, line] {
        for before in [vec![inline.clone()], vec![inline.clone(), inline.clone()]] {
            let pipeline = [before, vec![last.clone()]].concat();
            exchange_cut(address, &pipeline, &[vec![], vec![10], vec![10, 100], vec![200]], "a long head");
        }
    }
    // Below it, nothing changes.
    let long =
        Exchange::new("GET /v0/status", &format!("X: {}\r\n", "v".repeat(16_000)), b"", Expected::Something);
    let pipeline = [inline.clone(), long.clone(), inline.clone(), inline.clone(), long.clone(), long];
    exchange_cut(address, &pipeline, &cuts_from(0)[..20], "heads below the limit");
}

#[test]
fn many_headers_are_fine_behind_streamed_values() {
    let node = node();
    let inline = inline(&node);
    let mut pipeline = vec![inline.clone(), with_headers(200), inline.clone(), inline, with_headers(500)];
    // So much follows the head that together they would be over its limit.
    pipeline.extend((0..500).map(|_| with_headers(0)));
    exchange_cut(node.address(), &pipeline, &cuts_from(0)[..20], "many headers");
    // The same on a connection that reads much at once, because much came.
    let mut connection = node.connect();
    for round in 0..20 {
        connection.send(with_headers(0).request.repeat(1_000));
        for _ in 0..1_000 {
            assert_eq!(connection.response().status, 200, "round {round}");
        }
    }
    connection.send([with_headers(200).request, with_headers(0).request.repeat(1_000)].concat());
    for index in 0..1_001 {
        let response = connection.response();
        assert_eq!(response.status, 200, "answer {index}: {}", response.text());
    }
}

#[test]
fn a_head_that_was_read_ahead_and_does_not_end_is_answered_and_closed() {
    // Long enough for what is sent whole, also where the machine stands still for a time. All wait at once.
    let node = Launch::new().env("LADOGA_REQUEST_TIMEOUT_MS", "5000").start();
    let (address, inline) = (node.address(), inline(&node));
    thread::scope(|scope| {
        for before in [vec![], vec![inline.clone()], vec![inline.clone(), inline.clone()]] {
            for part in ["G", "GET /v0/status HTTP/1.1\r\nHost: h\r\n"] {
                let part = Exchange { request: part.into(), expected: Expected::Closed(&[408]) };
                let pipeline = [before.clone(), vec![part]].concat();
                scope.spawn(move || {
                    exchange_cut(address, &pipeline, &[vec![], vec![10]], "a head that does not end");
                });
            }
        }
    });
}

#[test]
fn a_body_nobody_asked_for_is_no_request_behind_streamed_values() {
    let node = node();
    let inline = inline(&node);
    let length = format!("Content-Length: {}\r\n", SMUGGLED.len());
    let chunked = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    let bodies = [(length.as_str(), SMUGGLED), ("Transfer-Encoding: chunked\r\n", &chunked)];
    let starts = ["GET /v0/entity?id=inline", "GET /v0/entity?id=absent", "DELETE /v0/entity?id=absent"];
    let last = "GET /v0/status HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    for start in starts {
        for (headers, body) in bodies {
            let request = Exchange::new(start, headers, body.as_bytes(), Expected::Something).request;
            let what = format!("{start} with {headers}");
            for cut in 0..request.len() {
                let (mut sender, mut reader) = node.connect().split();
                sender.send([&inline.request, &request[..cut]].concat());
                expect_inline(&mut reader, &inline);
                let _ = sender.try_send(&request[cut..]);
                let _ = sender.try_send(last);
                // The connection goes on after the whole body, or ends.
                let Ok(answer) = reader.try_response() else { continue };
                assert!([200, 202, 404].contains(&answer.status), "{what}, cut at {cut}: {answer:?}");
                if let Ok(last) = reader.try_response() {
                    assert_eq!((last.status, last.closes()), (200, true), "{what}, cut at {cut}");
                }
                reader.expect_closed();
            }
            assert_unharmed(&node, &what);
        }
    }
}

fn expect_inline(reader: &mut Connection, inline: &Exchange) {
    let Expected::Value(value) = &inline.expected else { unreachable!("it is the read of a value") };
    let response = reader.response();
    assert!(response.status == 200 && response.body == **value);
}

#[test]
fn a_last_answer_arrives_though_much_was_sent_behind_it() {
    let node = node();
    let inline = inline(&node);
    let Expected::Value(value) = &inline.expected else { unreachable!("it is the read of a value") };
    let close = "Connection: close\r\n";
    let target = format!("GET {}", entity("inline"));
    for last in [
        Exchange::new(&target, close, b"", inline.expected.clone()),
        Exchange::new("GET /v0/entity?id=victim", close, b"", Expected::Value(Arc::new(b"alive".to_vec()))),
    ] {
        for round in 0..20 {
            let (mut sender, mut reader) = node.connect().split();
            let behind = SMUGGLED.repeat(20_000);
            let bytes = [&inline.request, &last.request, behind.as_bytes()].concat();
            thread::scope(|scope| {
                scope.spawn(move || sender.try_send(bytes));
                expect_inline(&mut reader, &inline);
                let answer = reader.response();
                assert_eq!(answer.status, 200, "round {round}");
                assert!(answer.closes() && (answer.body == **value || answer.body == b"alive"));
                reader.expect_closed();
            });
        }
    }
    assert_unharmed(&node, "what is behind the last answer");
}

/// A client that is still sending must get the answer, which a reset would discard.
#[test]
fn a_last_answer_arrives_though_its_client_goes_on_to_send() {
    const PIECE_BYTES: usize = 64 << 10;
    const PIECES: usize = 256;
    let node = node();
    let value = value_of_requests(9, PIECES * PIECE_BYTES);
    node.connect().put("large", &value);
    let mut connection = node.connect();
    connection.limit_receiving_to(PIECE_BYTES);
    let last = format!("GET {} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", entity("large"));
    connection.send(format!("{last}{SMUGGLED}"));
    assert_eq!(connection.response_head().status, 200);
    for (index, expected) in value.chunks(PIECE_BYTES).enumerate() {
        // By now the node has handed its last byte to the system; these bytes are all that it still gets.
        if index >= PIECES - 8 {
            let _ = connection.try_send("D");
        }
        let piece = connection.try_read_exactly(expected.len());
        assert!(piece.unwrap_or_else(|error| panic!("piece {index}: {error}")) == expected);
    }
    connection.finish_sending();
    connection.expect_closed();
    assert_unharmed(&node, "what is behind the last answer");
}

/// A client that asks and does not read makes the node wait, not grow.
#[test]
fn a_client_that_pipelines_and_does_not_read_takes_little_memory() {
    const CONNECTIONS: usize = 12;
    let mut node = Launch::patient().flag("--fsync", "never").flag("--memory", "64MiB").start();
    let inline = inline(&node);
    // What the value took on its way in is not there any more, and is not given back while it is measured.
    node.restart();
    let before = node.resident_bytes();
    // More than the buffers of the system take.
    let bytes = inline.request.repeat((24 << 20) / inline.request.len());
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| node.connect().split()).collect();
    thread::scope(|scope| {
        for (sender, _) in &mut connections {
            let bytes = &bytes;
            scope.spawn(move || {
                sender.limit_sending_to(Duration::from_millis(300));
                sender.try_send(bytes).expect_err("24 MiB of requests were taken");
            });
        }
    });
    let grown = node.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "grown by {} KiB", grown >> 10);
    for (_, reader) in &mut connections {
        for _ in 0..20 {
            expect_inline(reader, &inline);
        }
    }
}
