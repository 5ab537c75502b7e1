use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::in_order::{InOrder, Said};
use crate::support::{Connection, Ladoga, Node, Outcome, ladoga_in, value, wait_for};

fn run(node: &Node, arguments: &[&str], input: &[u8]) -> Outcome {
    let url = node.url();
    Ladoga::new(arguments.iter().copied().chain(["--url", &url])).input(input).run()
}

#[test]
fn a_store_is_exported_and_imported() {
    let (from, to) = (Node::start(), Node::start());
    let controls = vec![1; 200_000];
    let mut connection = from.connect();
    connection.put("lake", b"deep\n\"\\");
    connection.put([0], b"the first key of all");
    connection.put([0xff, 0], b"\0\xff");
    connection.put("large", &value(1, 3_000_000));
    connection.put("controls", &controls);
    let put = connection.request("PUT", "/v0/entity?id=fog&ttl=1h", Some(b"mist"));
    assert_eq!(put.status, 201);
    let exported = run(&from, &["export"], b"").expect_success();
    assert_eq!(exported.stderr, "6 records\n");
    let imported = run(&to, &["import", "-"], &exported.stdout).expect_success();
    assert_eq!((imported.text(), &imported.stderr[..]), ("", "6 records stored\n"));
    let mut connection = to.connect();
    for (key, expected) in [
        (&b"lake"[..], &b"deep\n\"\\"[..]),
        (&[0], b"the first key of all"),
        (&[0xff, 0], b"\0\xff"),
        (b"controls", &controls),
        (b"large", &value(1, 3_000_000)),
    ] {
        assert!(connection.value(key).as_deref() == Some(expected), "{}", key.escape_ascii());
    }
    let expires = |mut connection: Connection| -> u64 {
        let read = connection.get("fog");
        read.header("ladoga-expires").expect("it expires").parse().expect("milliseconds")
    };
    let (before, after) = (expires(from.connect()), expires(to.connect()));
    assert!(before.abs_diff(after) < 60_000, "{before} and {after}");
    let prefixed = run(&from, &["export", "--prefix", "la"], b"").expect_success();
    let keys: Vec<Value> = prefixed
        .text()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["key"].clone())
        .collect();
    assert_eq!(keys, ["lake", "large"]);
}

#[test]
fn more_records_than_a_page_are_exported_once_each() {
    const RECORDS: usize = 25_000;
    let node = Node::start();
    let address = node.address();
    thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                let keys = (0..RECORDS).filter(|number| number % 4 == part);
                for batch in keys.collect::<Vec<_>>().chunks(1_000) {
                    let line = |number: &usize| {
                        format!("{{\"op\":\"put\",\"key\":\"key{number:05}\",\"value\":\"{number}\"}}\n")
                    };
                    let body: String = batch.iter().map(line).collect();
                    assert_eq!(connection.request("POST", "/v0/batch", Some(body.as_bytes())).status, 200);
                }
            });
        }
    });
    let exported = run(&node, &["export"], b"").expect_success();
    let mut count = 0;
    for (number, line) in exported.text().lines().enumerate() {
        assert!(line.starts_with(&format!("{{\"key\":\"key{number:05}\",")), "{line}");
        count += 1;
    }
    assert_eq!(count, RECORDS);
}

#[test]
fn what_is_no_export_is_told_with_its_line() {
    let node = Node::start();
    let input = b"{\"key\":\"a\",\"value\":\"1\"}\n\nnonsense\n{\"key\":\"b\",\"value\":\"2\"}\n";
    run(&node, &["import", "-"], input).expect_failure(1, &["1 record stored", "line 3"]);
    assert_eq!(node.connect().value("a").as_deref(), Some(&b"1"[..]));
    assert_eq!(node.connect().value("b"), None);
    let expired = b"{\"key\":\"a\",\"value\":\"1\",\"expires_ms\":1}\n{\"key\":\"c\",\"value\":\"3\"}\n";
    let imported = run(&node, &["import", "-"], expired).expect_success();
    assert_eq!(imported.stderr, "1 record stored; 1 had expired\n");
    let refused = b"{\"key\":\"\",\"value\":\"1\"}\n";
    run(&node, &["import", "-"], refused)
        .expect_failure(1, &["0 records stored", "1 of 1", "in line 1, with status 400: ", "key"]);
    let both = b"{\"key\":\"\",\"value\":\"1\"}\nnonsense\n";
    run(&node, &["import", "-"], both).expect_failure(
        1,
        &[
            "in line 1, with status 400: ",
            "line 2 was not imported: it is no JSON object, it begins with 'nonsense'",
        ],
    );
    run(&node, &["import", "nowhere"], b"").expect_failure(1, &["cannot read nowhere"]);
}

#[test]
fn records_are_stored_in_the_order_of_their_lines() {
    let node = Node::start();
    let large = "x".repeat(700_000);
    let line = |key: &str, value: &str| format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}\n");
    let input =
        [line("a", "old"), line("b", &large), line("a", &large), line("b", "new"), line("", "")].concat();
    run(&node, &["import", "-"], input.as_bytes()).expect_failure(1, &["4 records stored", "in line 5,"]);
    assert!(node.connect().value("a").as_deref() == Some(large.as_bytes()), "the last line of a key counts");
    assert_eq!(node.connect().value("b").as_deref(), Some(&b"new"[..]));
}

/// Those of records that are too large for a batch were dropped.
#[test]
fn conditions_and_ttls_count_however_large_a_record_is() {
    let node = Node::start();
    node.connect().put("cfg", b"mine");
    for value in ["small".to_owned(), "x".repeat(700_000)] {
        let line = |members: &str| format!("{{{members},\"value\":\"{value}\"}}\n");
        let input = [
            line("\"key\":\"cfg\",\"if_none_match\":\"*\""),
            line("\"key\":\"wrong\",\"ttl\":\"soon\""),
            line("\"key\":\"fog\",\"ttl\":\"5m\""),
            line("\"key\":\"cfg2\",\"if_match\":\"*\""),
        ]
        .concat();
        let expected = ["1 record stored", "3 of 4 operations failed", "in line 1, with status 412: "];
        run(&node, &["import", "-"], input.as_bytes()).expect_failure(1, &expected);
        assert_eq!(node.connect().value("cfg").as_deref(), Some(&b"mine"[..]), "it was not to be replaced");
        let fog = node.connect().get("fog");
        assert!(fog.body == value.as_bytes() && fog.header("ladoga-expires").is_some(), "it expires");
        for key in ["wrong", "cfg2"] {
            assert!(node.connect().value(key).is_none(), "{key} is there");
        }
    }
}

#[test]
fn an_import_that_rests_has_stored_what_came_before() {
    let node = Node::start();
    let mut command = ladoga_in(&[]);
    command.args(["import", "-", "--url", &node.url()]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut import = command.spawn().expect("the binary starts");
    let mut input = import.stdin.take().expect("a pipe was asked for");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    let expires_ms = now.as_millis() as u64 + 3_600_000;
    let line = format!("{{\"key\":\"a\",\"value\":\"1\",\"expires_ms\":{expires_ms}}}\n{{\"key\"");
    input.write_all(line.as_bytes()).expect("it reads");
    wait_for("the record", || (node.connect().get("a").status == 200).then_some(()));
    let read = node.connect().get("a");
    let found: u64 = read.header("ladoga-expires").expect("it expires").parse().expect("milliseconds");
    assert!(found.abs_diff(expires_ms) < 5_000, "{found}, expected {expires_ms}");
    // The rest of a line, after a rest within it.
    input.write_all(b":\"b\",\"value\":\"2\"}").expect("it reads");
    drop(input);
    assert!(import.wait().expect("a child to wait for").success());
    assert_eq!(node.connect().value("b").as_deref(), Some(&b"2"[..]));
}

/// Answers one request with success, and by this line.
fn answer_once(line: &'static str) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n0\r\n\r\n") {
            let mut piece = [0; 4096];
            let read = stream.read(&mut piece).expect("a request");
            request.extend_from_slice(&piece[..read]);
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{line}", line.len()).expect("an answer");
    });
    (url, server)
}

#[test]
fn a_line_without_an_answer_is_a_failure() {
    let (url, server) = answer_once("{\"status\":201}\n");
    Ladoga::new(["import", "-", "--url", &url])
        .input(b"{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"2\"}\n")
        .run()
        .expect_failure(1, &["1 record stored", "fewer lines than it was sent: line 2"]);
    server.join().expect("it served");

    let (url, server) = answer_once("{\"status\":201}\n");
    Ladoga::new(["batch", "-", "--url", &url])
        .input(b"{\"op\":\"delete\",\"key\":\"a\"}\n\n{\"op\":\"delete\",\"key\":\"b\"}")
        .run()
        .expect_failure(1, &["answered 1 of 2 operations", "unknown whether the others were carried out"]);
    server.join().expect("it served");
}

/// It ended with the first page for which the token had not enough left.
#[test]
fn an_export_waits_for_the_rate_of_its_token() {
    let record = |number: u32| format!("{{\"key\":\"{number:05}\",\"value\":\"\"}}\n");
    let page = |numbers: std::ops::Range<u32>| Said {
        status: 200,
        content_type: "application/x-ndjson",
        body: numbers.map(record).collect(),
    };
    let busy = Said { status: 429, content_type: "text/plain", body: "a request too many\n".to_owned() };
    let (first, last) = (page(0..10_000), page(10_000..10_001));
    let expected = [&*first.body, &last.body].concat();
    let server = InOrder::start(vec![busy.clone(), first, busy.clone(), busy, last]);
    let exported = Ladoga::new(["export", "--url", &server.url()]).run().expect_success();
    assert_eq!((exported.text() == expected, &*exported.stderr), (true, "10001 records\n"));
    server.expect_all_asked_for();
}
