use std::process::Command;
use std::thread;

use rustls::ProtocolVersion;

use crate::certs::Certs;
use crate::support::{Port, entity, skip_without, value, wait_until};

const HOST: &str = "127.0.0.1";

#[test]
fn what_is_stored_by_tls_is_read_by_tls() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let mut connection = certs.trusting().open(node.address());
    assert_eq!(connection.protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(connection.version(), Some(ProtocolVersion::TLSv1_3));
    // As long as what is encrypted at once, and a little more or less; in a piece; in a file of its own.
    for length in [0, 1, 4_095, 4_096, 16_383, 16_384, 16_385, 65_536, 70_001, 300_000, 5 << 20] {
        let (target, stored) = (entity(format!("k{length}")), value(length as u64, length));
        assert_eq!(connection.request("PUT", &target, Some(&stored)).status, 201, "{length}");
        let got = connection.request("GET", &target, None);
        assert_eq!((got.status, got.body.len()), (200, length));
        assert!(got.body == stored, "another value of {length} bytes");
    }
    assert_eq!(connection.request("HEAD", &entity("k1"), None).status, 200);
    let range = connection.request("GET", "/v0/entities?start=k&end=l", None);
    assert_eq!(range.records().len(), 11);
    assert_eq!(connection.request("DELETE", &entity("k1"), None).status, 202);
    assert_eq!(connection.request("GET", &entity("k1"), None).status, 404);
    let metrics = connection.request("GET", "/metrics", None);
    for name in
        ["ladoga_tls_handshakes_total ", "ladoga_tls_certificate_expiry_seconds{file=\"certificate\"} "]
    {
        let line = metrics.text().lines().find_map(|line| line.strip_prefix(name)).expect(name);
        assert!(line.parse::<f64>().expect("a number") >= 1.0, "{name}{line}");
    }
}

#[test]
fn requests_in_a_row_and_byte_by_byte_are_answered_in_order() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let mut connection = certs.trusting().open(node.address());
    let many = 500;
    let puts: Vec<u8> = (0..many)
        .flat_map(|n| {
            format!("PUT /v0/entity?id=k{n} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc").into_bytes()
        })
        .collect();
    connection.send(puts);
    for _ in 0..many {
        assert_eq!(connection.response().status, 201);
    }
    // Each byte is a record of its own.
    for byte in b"GET /v0/entity?id=k7 HTTP/1.1\r\nHost: h\r\n\r\n" {
        connection.send([*byte]);
    }
    assert_eq!(connection.response().body, b"abc");
    // Who has said everything gets all the same what it has asked for, and then the end.
    connection.send("GET /v0/entity?id=k8 HTTP/1.1\r\nHost: h\r\n\r\n");
    connection.close_sending();
    assert_eq!(connection.response().body, b"abc");
    assert_eq!(connection.rest().expect("an end as TLS has it"), b"");
}

#[test]
fn a_reader_that_pauses_gets_all_of_a_large_value() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let stored = value(3, 24 << 20);
    let mut connection = certs.trusting().open(node.address());
    assert_eq!(connection.request("PUT", &entity("large"), Some(&stored)).status, 201);
    // More than the buffers of both sides hold: the node has to wait in the middle of a record.
    connection.send("GET /v0/entity?id=large HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut other = certs.trusting().open(node.address());
    assert_eq!(other.request("HEAD", &entity("large"), None).status, 200);
    assert!(connection.response().body == stored);
    assert_eq!(connection.request("GET", "/v0/status", None).status, 200);
}

#[test]
fn changes_are_followed_by_tls() {
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let (mut follower, mut writer) =
        (certs.trusting().open(node.address()), certs.trusting().open(node.address()));
    follower.send("GET /v0/changes?start=a HTTP/1.1\r\nHost: h\r\n\r\n");
    thread::scope(|scope| {
        let following = scope.spawn(|| {
            loop {
                if follower.line().contains("\"key\":\"told\"") {
                    return;
                }
            }
        });
        wait_until("a change that is told", || {
            assert_eq!(writer.request("PUT", &entity("told"), Some(b"v")).status, 201);
            following.is_finished()
        });
    });
}

#[test]
fn clients_of_redis_are_served_by_tls() {
    let certs = Certs::of(&[HOST]);
    let port = Port::claim();
    let node = certs.start(certs.launch(HOST).flag("--resp", &port.address().to_string()));
    let mut client = certs.trusting().speaking(&[]).open(port.address());
    client.send("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n7\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n");
    assert_eq!(client.read_exactly(9), b"+OK\r\n:8\r\n");
    let mut connection = certs.trusting().open(node.address());
    assert_eq!(connection.request("GET", &entity("a"), None).body, b"8");
    // One without TLS is told what is wrong.
    let mut plain = crate::support::Connection::open(port.address());
    plain.send("*1\r\n$4\r\nPING\r\n");
    let told = String::from_utf8(plain.rest()).expect("text");
    assert!(told.starts_with("-ERR this port speaks TLS"), "{told}");
}

#[test]
fn curl_reads_and_writes() {
    if Command::new("curl").arg("--version").output().is_err() {
        return skip_without("curl", "there is no curl");
    }
    let certs = Certs::of(&[HOST]);
    let node = certs.start(certs.launch(HOST));
    let authority = certs.made("ca.pem");
    for version in ["--tlsv1.3", "--tls-max=1.2"] {
        let url = format!("https://{}{}", node.address(), entity(version));
        let curl = |arguments: &[&str]| {
            let flag: Vec<&str> = version.split('=').collect();
            let output = Command::new("curl")
                .args(["--silent", "--show-error", "--fail", "--max-time", "90", "--cacert", &authority])
                .args(flag)
                .args(arguments)
                .arg(&url)
                .output()
                .expect("curl");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        curl(&["--data-binary", "deep", "--request", "PUT"]);
        assert_eq!(curl(&[]), b"deep", "{version}");
    }
}
