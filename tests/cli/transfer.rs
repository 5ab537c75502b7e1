use std::thread;

use serde_json::Value;

use crate::support::{Connection, Ladoga, Node, Outcome, value};

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
    run(&node, &["import", "-"], input).expect_failure(1, &["1 records stored", "line 3"]);
    assert_eq!(node.connect().value("a").as_deref(), Some(&b"1"[..]));
    assert_eq!(node.connect().value("b"), None);
    let expired = b"{\"key\":\"a\",\"value\":\"1\",\"expires_ms\":1}\n{\"key\":\"c\",\"value\":\"3\"}\n";
    let imported = run(&node, &["import", "-"], expired).expect_success();
    assert_eq!(imported.stderr, "1 records stored; 1 had expired\n");
    let refused = b"{\"key\":\"\",\"value\":\"1\"}\n";
    run(&node, &["import", "-"], refused).expect_failure(1, &["0 records stored", "1 of 1", "400"]);
    run(&node, &["import", "nowhere"], b"").expect_failure(1, &["cannot read nowhere"]);
}
