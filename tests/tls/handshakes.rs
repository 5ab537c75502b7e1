use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::certs::Certs;
use crate::support::{DEADLINE, Launch, Node, Port, assert_refusal, entity, wait_until};

const HOST: &str = "127.0.0.1";

/// How many handshakes came to nothing for this reason.
fn failed(certs: &Certs, node: &Node, reason: &str) -> u64 {
    let metrics = certs.trusting().open(node.address()).request("GET", "/metrics", None);
    let name = format!("ladoga_tls_handshakes_failed_total{{reason=\"{reason}\"}} ");
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(&*name)).expect("a reason");
    line.parse().expect("a number")
}

/// Reads to the end, also if that is a reset.
fn drain(mut socket: TcpStream) -> Vec<u8> {
    socket.set_read_timeout(Some(DEADLINE)).expect("a time-out");
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes);
    bytes
}

/// What a client sends first.
fn client_hello(certs: &Certs, node: &Node) -> Vec<u8> {
    let mut hello = Vec::new();
    certs.trusting().session(node.address()).write_tls(&mut hello).expect("bytes");
    hello
}

#[test]
fn a_plain_request_is_told_what_is_wrong() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let mut connection = node.connect();
    let refused = connection.request("GET", &entity("a"), None);
    assert_refusal(&refused, 400, "a request without TLS");
    assert!(refused.text().contains("speaks TLS") && refused.closes(), "{refused:?}");
    connection.expect_closed();
    // The same if it sends a value at once.
    let mut connection = node.connect();
    connection.send_request("PUT", &entity("a"), Some(&vec![b'v'; 1 << 20]));
    assert_eq!(connection.response().status, 400);
    wait_until("counted", || failed(&certs, &node, "not_tls") == 2);
}

#[test]
fn a_handshake_with_a_plain_port_is_told_what_is_wrong() {
    let certs = Certs::of(&[HOST]);
    let node = Node::start();
    assert!(certs.trusting().try_open(node.address()).is_err());
    let url = format!("https://{}", node.address());
    let outcome = crate::support::Ladoga::new(["get", "a", "--url", &url, "-k"]).run();
    outcome.expect_failure(1, &["does not speak TLS", "use http://"]);
    assert_eq!(node.connect().request("GET", "/v0/status", None).status, 200);
}

#[test]
fn half_a_handshake_is_cut_off_and_holds_up_nobody() {
    let certs = Certs::of(&[HOST]);
    let launch = certs.with(Launch::new().env("LADOGA_REQUEST_TIMEOUT_MS", "5000"), HOST);
    let node = certs.start(launch);
    let hello = client_hello(&certs, &node);
    // Those that waited until it serves may have been too slow themselves.
    let before = failed(&certs, &node, "timeout");
    let open = || TcpStream::connect(node.address()).expect("a connection");
    let mut halves: Vec<TcpStream> = [0, 1, 5, hello.len() / 2, hello.len() - 1, hello.len()]
        .iter()
        .map(|&sent| {
            let mut socket = open();
            socket.write_all(&hello[..sent]).expect("bytes that can be sent");
            socket
        })
        .collect();
    assert_eq!(certs.trusting().open(node.address()).request("GET", "/v0/status", None).status, 200);
    for half in halves.drain(..) {
        drain(half);
    }
    wait_until("counted", || failed(&certs, &node, "timeout") == before + 6);
    // Who leaves in the middle is counted, too.
    let mut gone = open();
    gone.write_all(&hello[..9]).expect("bytes that can be sent");
    gone.shutdown(Shutdown::Both).expect("a connection");
    wait_until("counted", || failed(&certs, &node, "closed") >= 1);
}

#[test]
fn a_handshake_byte_by_byte_is_one() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let mut socket = TcpStream::connect(node.address()).expect("a connection");
    socket.set_nodelay(true).expect("an option");
    let mut session = certs.trusting().session(node.address());
    while session.is_handshaking() {
        let mut bytes = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut bytes).expect("bytes");
        }
        for byte in bytes {
            socket.write_all(&[byte]).expect("a byte that can be sent");
        }
        if session.is_handshaking() {
            session.read_tls(&mut socket).expect("bytes");
            session.process_new_packets().expect("a handshake");
        }
    }
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    stream.write_all(b"GET /v0/status HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn nonsense_ends_its_own_connection_only() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let mut served = certs.trusting().open(node.address());
    let hello = client_hello(&certs, &node);
    let mut flipped: Vec<Vec<u8>> = (0..hello.len().min(120))
        .step_by(7)
        .map(|at| {
            let mut bytes = hello.clone();
            bytes[at] ^= 0xff;
            bytes
        })
        .collect();
    flipped.push([&[22, 3, 1, 255, 255][..], &vec![0; 70_000]].concat());
    flipped.push(vec![22; 100_000]);
    for bytes in flipped {
        let mut socket = TcpStream::connect(node.address()).expect("a connection");
        // It may be closed before all is sent.
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(Shutdown::Write);
        drain(socket);
        assert_eq!(served.request("GET", "/v0/status", None).status, 200);
    }
}

/// The library was asked for an alert about it behind its last message, which it does not permit.
#[test]
fn nonsense_behind_the_end_is_discarded() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    for _ in 0..5 {
        let mut connection = certs.trusting().open(node.address());
        connection.send("GARBAGE\r\n\r\n");
        assert_eq!(connection.response().status, 400);
        let junk = [&[0x17, 3, 3, 0, 48][..], &[7; 48]].concat();
        connection.send_unencrypted(&[&junk[..], &vec![0; 100_000]].concat());
        let _ = connection.rest();
    }
    assert_eq!(certs.trusting().open(node.address()).request("GET", "/v0/status", None).status, 200);
    assert!(!node.log().contains("panicked"), "{}", node.log());
}

#[test]
fn a_flood_of_handshakes_lets_others_in() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let hello = client_hello(&certs, &node);
    // More than there may be at a time, all of which wait for ever.
    let flood: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut socket = TcpStream::connect(node.address()).expect("a connection");
            socket.write_all(&hello).expect("bytes that can be sent");
            socket
        })
        .collect();
    for _ in 0..20 {
        let mut connection = certs.trusting().open(node.address());
        assert_eq!(connection.request("GET", "/v0/status", None).status, 200);
    }
    drop(flood);
}

/// It was told in plain text, which a client of TLS takes for an attack.
#[test]
fn a_connection_over_capacity_is_told_by_an_alert() {
    const MORE_THAN_THERE_MAY_BE: usize = 700;
    const INTERNAL_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];
    let certs = Certs::of(&[HOST]);
    let limited = ["sh", "-c", "ulimit -n 640 && exec \"$@\"", "sh"].map(str::to_owned);
    let node = certs.start(certs.with(Launch::patient().wrapper(&limited), HOST));
    let mut crowd: Vec<TcpStream> = (0..MORE_THAN_THERE_MAY_BE)
        .map(|_| TcpStream::connect(node.address()).expect("a connection"))
        .collect();
    assert_eq!(drain(crowd.pop().expect("the last one")), INTERNAL_ERROR);
    drop(crowd);
    wait_until("room for a connection", || certs.trusting().try_open(node.address()).is_ok());
}

#[test]
fn only_versions_that_are_safe_are_spoken() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let connection = certs.trusting().by(versions).open(node.address());
        assert_eq!(connection.version(), Some(versions[0].version));
    }
    // TLS 1.1: a hello that knows nothing newer.
    let mut hello = vec![3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
    let mut record = vec![22, 3, 1, 0, hello.len() as u8 + 4, 1, 0, 0, hello.len() as u8];
    record.extend(hello);
    let mut socket = TcpStream::connect(node.address()).expect("a connection");
    socket.write_all(&record).expect("bytes that can be sent");
    let answer = drain(socket);
    assert_eq!((answer[0], answer[5]), (21, 2), "a fatal alert: {answer:?}");
    // Who speaks only HTTP/2 has nothing in common with it.
    assert!(certs.trusting().speaking(&["h2"]).try_open(node.address()).is_err());
    assert_eq!(certs.trusting().speaking(&[]).open(node.address()).protocol(), None);
    wait_until("counted", || failed(&certs, &node, "incompatible") >= 2);
}

#[test]
fn a_node_that_stops_waits_for_no_handshake() {
    let certs = Certs::of(&[HOST]);
    let mut node = certs.start(certs.launch(HOST));
    let hello = client_hello(&certs, &node);
    let mut half = TcpStream::connect(node.address()).expect("a connection");
    half.write_all(&hello[..hello.len() / 2]).expect("bytes that can be sent");
    let mut served = certs.trusting().open(node.address());
    assert_eq!(served.request("PUT", &entity("a"), Some(b"v")).status, 201);
    // Its time-outs are longer than a test may take.
    node.stop();
    drain(half);
    assert_eq!(served.rest().expect("an end as TLS has it"), b"");
}

/// It had the time of an idle connection, which by the protocol of Redis has no end.
#[test]
fn a_part_of_a_record_is_the_beginning_of_a_request() {
    let (certs, port) = (Certs::of(&[HOST]), Port::claim());
    let launch = Launch::new().env("LADOGA_REQUEST_TIMEOUT_MS", "5000");
    let node = certs.start(certs.with(launch.flag("--resp", &port.address().to_string()), HOST));
    let part = [&[23, 3, 3, 0x41, 0][..], &[7; 100]].concat();
    let mut begun = Vec::new();
    for (address, told) in
        [(node.address(), "HTTP/1.1 408 "), (port.address(), "-ERR the request did not arrive in time")]
    {
        for sent in [1, 5, part.len()] {
            let mut connection = certs.trusting().speaking(&[]).open(address);
            connection.send_unencrypted(&part[..sent]);
            begun.push((connection, told, sent));
        }
    }
    for (connection, told, sent) in &mut begun {
        let rest = connection.rest().expect("an end as TLS has it");
        assert!(rest.starts_with(told.as_bytes()), "{sent}: {}", rest.escape_ascii());
    }
}

/// Of a record that came in two parts, the first was the beginning of a request, and so it was if there was none in it.
#[test]
fn a_record_that_brings_nothing_is_no_request_however_it_is_cut() {
    let (certs, port) = (Certs::of(&[HOST]), Port::claim());
    let launch = Launch::new().env("LADOGA_REQUEST_TIMEOUT_MS", "3000");
    let node = certs.start(certs.with(launch.flag("--resp", &port.address().to_string()), HOST));
    // Parts that came too far apart on a busy machine tell nothing: that is a record that did not arrive in time.
    let sent_in_time = || {
        let mut idle: Vec<_> = [node.address(), port.address()]
            .into_iter()
            .flat_map(|address| [1, 5, 12].map(|sent| (address, sent)))
            .map(|(address, sent)| {
                let by = certs.trusting().by(&[&rustls::version::TLS13]).speaking(&[]);
                let mut connection = by.open(address);
                let record = connection.empty_record();
                (connection, record, sent)
            })
            .collect();
        let began = Instant::now();
        for (connection, record, sent) in &mut idle {
            connection.send_unencrypted(&record[..*sent]);
        }
        // The parts are to arrive one after the other, and then nothing for longer than a request may take.
        thread::sleep(Duration::from_millis(150));
        for (connection, record, sent) in &mut idle {
            connection.send_unencrypted(&record[*sent..]);
        }
        (began.elapsed() < Duration::from_secs(1)).then_some(idle)
    };
    let mut idle = (0..10).find_map(|_| sent_in_time()).expect("parts within a second, in one of ten rounds");
    thread::sleep(Duration::from_secs(4));
    for (number, (connection, ..)) in idle.iter_mut().enumerate() {
        if number < 3 {
            assert_eq!(connection.request("GET", &entity("a"), None).status, 404);
        } else {
            connection.send("PING\r\n");
            assert_eq!(connection.line(), "+PONG\r\n");
        }
    }
}
