use std::io::Write;
use std::time::Duration;

use crate::client::{RespClient, RespNode, request};
use crate::support::{Launch, Random, wait_until};

#[test]
fn a_pipeline_is_answered_in_order_however_it_is_cut() {
    let node = RespNode::start();
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for n in 0..300 {
        let (key, value) = (format!("k{}", n % 7), format!("value {n}"));
        bytes.extend(request(&[b"SET", key.as_bytes(), value.as_bytes()]));
        expected.extend_from_slice(b"+OK\r\n");
        if n % 3 == 0 {
            bytes.extend_from_slice(format!("GET {key}\r\n").as_bytes());
            expected.extend_from_slice(format!("${}\r\n{value}\r\n", value.len()).as_bytes());
        }
        if n % 4 == 0 {
            bytes.extend(request(&[b"INCR", b"n"]));
            expected.extend_from_slice(format!(":{}\r\n", n / 4 + 1).as_bytes());
        }
        if n % 5 == 0 {
            bytes.extend(request(&[b"PING"]));
            expected.extend_from_slice(b"+PONG\r\n");
        }
    }
    for round in 0..8 {
        let (mut random, mut client) = (Random::new(round), node.connect());
        client.ask("DEL n");
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let cut = if round == 0 { 1 } else { 1 + random.below(200 * round) as usize };
            let (now, later) = rest.split_at(cut.min(rest.len()));
            client.send(now);
            rest = later;
        }
        client.finish_sending();
        assert_eq!(client.rest().escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}

#[test]
fn what_is_no_request_ends_its_connection_alone() {
    let node = RespNode::start();
    let mut other = node.connect();
    let long = vec![b'1'; 70_000];
    for (bytes, error) in [
        (&b"*x\r\n"[..], "invalid multibulk length"),
        (b"*1\r\n+PING\r\n", "expected '$', got '+'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$67108865\r\n", "invalid bulk length"),
        (b"*3000000\r\n", "invalid multibulk length"),
        (b"GET \"k\r\n", "unbalanced quotes in request"),
        (&long, "too big inline request"),
        (&[b"*", &long[..]].concat(), "too big mbulk count string"),
        (&[b"*1\r\n$", &long[..]].concat(), "too big bulk count string"),
    ] {
        let mut client = node.connect();
        client.send(bytes);
        let expected = format!("-ERR Protocol error: {error}\r\n");
        assert_eq!(String::from_utf8_lossy(&client.rest()), expected);
        assert_eq!(other.ask("PING"), "+PONG\r\n");
    }
}

/// What is not read is not kept: the node stops reading, and in the end cuts the connection.
#[test]
fn a_client_that_floods_and_does_not_read_is_cut_off_without_memory() {
    let node =
        RespNode::launch(Launch::new().flag("--fsync", "never").env("LADOGA_ANSWER_TIMEOUT_MS", "1500"));
    let mut client = node.connect();
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &[7; 10_000]]), b"+OK\r\n");
    let before = node.node.resident_bytes();
    let flood = request(&[b"GET", b"k"]).repeat(1_000);
    client.stream().set_write_timeout(Some(Duration::from_millis(500))).expect("a connection");
    // It ends when the node takes no more, or cuts it off.
    let is_stopped = (0..20_000).any(|_| client.stream().write_all(&flood).is_err());
    assert!(is_stopped, "the node reads on and on");
    let grown = node.node.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    wait_until("the node to cut the connection off", || {
        node.node.metrics().sum("ladoga_responses_aborted_total", &[]) == Some(1.0)
    });
    assert_eq!(node.connect().ask("PING"), "+PONG\r\n");
}

#[test]
fn a_request_that_does_not_arrive_ends_its_connection() {
    // Long enough for the requests by which it is seen that the node serves.
    let node = RespNode::launch(Launch::new().env("LADOGA_REQUEST_TIMEOUT_MS", "2000"));
    let mut client = node.connect();
    client.send(b"*2\r\n$3\r\nGET\r\n");
    let rest = String::from_utf8_lossy(&client.rest()).into_owned();
    assert!(rest.starts_with("-ERR the request did not arrive in time"), "{rest}");
}

#[test]
fn requests_in_flight_are_answered_before_the_node_ends() {
    let mut node = RespNode::start();
    let mut client = node.connect();
    assert_eq!(client.ask("SET k v"), "+OK\r\n");
    node.node.stop();
    assert!(client.rest().is_empty());
    node.node.start_again();
    let mut client = RespClient::open(node.address());
    assert_eq!(client.ask("GET k"), "$1\r\nv\r\n");
}

#[test]
fn an_idle_connection_stays() {
    let node = RespNode::launch(Launch::new().env("LADOGA_IDLE_TIMEOUT_MS", "50"));
    let mut client = node.connect();
    assert_eq!(client.ask("PING"), "+PONG\r\n");
    // Others are closed meanwhile.
    let mut http = node.node.connect();
    assert!(http.rest().is_empty());
    assert_eq!(client.ask("PING"), "+PONG\r\n");
}
