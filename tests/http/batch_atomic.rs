use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::batch::{answers, chunk, head, lines, statuses};
use crate::support::{Connection, Launch, Node, Response, assert_refusal};

const ATOMIC: &str = "/v0/batch?atomic=true";

fn send(connection: &mut Connection, operations: &[Value]) -> Response {
    let body = operations.iter().map(|operation| format!("{operation}\n")).collect::<Vec<_>>().concat();
    connection.request("POST", ATOMIC, Some(body.as_bytes()))
}

#[test]
fn all_operations_happen() {
    let mut node = Node::start();
    let mut connection = node.connect();
    connection.put("old", b"1");
    let done = send(
        &mut connection,
        &[
            json!({"op": "put", "key": "a", "value": "1", "ttl": "1h", "if_none_match": "*"}),
            json!({"op": "increment", "key": "a", "by": 41}),
            json!({"op": "delete", "key": "old", "if_match": "*"}),
            json!({"op": "put", "key_base64": "/w==", "value_base64": "AP8="}),
        ],
    );
    let found = answers(&done);
    assert_eq!(statuses(&found), [201, 200, 202, 201]);
    assert_eq!(found[1]["value"], "42");
    assert!(!done.closes());
    node.crash();
    let mut connection = node.connect();
    let read = connection.get("a");
    assert_eq!((read.text(), read.header("etag")), ("42", found[1]["etag"].as_str()));
    assert!(read.header("ladoga-expires").is_some(), "a number keeps its expiry");
    assert_eq!(connection.value("old"), None);
    assert_eq!(connection.value([0xff]).as_deref(), Some(&b"\0\xff"[..]));
    assert_eq!(answers(&connection.request("POST", ATOMIC, Some(b"\n\n"))), [] as [Value; 0]);
}

#[test]
fn or_none_of_them_does() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("text", b"x");
    let good = json!({"op": "put", "key": "a", "value": "1"});
    for (bad, status) in [
        (json!({"op": "put", "key": "a", "value": "2", "if_none_match": "*"}), 412),
        (json!({"op": "delete", "key": "none", "if_match": "*"}), 412),
        (json!({"op": "increment", "key": "text"}), 409),
        (json!({"op": "get", "key": "a"}), 400),
        (json!({"op": "put", "key": "a"}), 400),
        (json!("nonsense"), 400),
    ] {
        let refused = send(&mut connection, &[good.clone(), bad.clone(), good.clone()]);
        assert_eq!(refused.status, status, "{bad}");
        let found = lines(&refused);
        assert_eq!(statuses(&found), [424, u64::from(status), 424], "{bad}");
        assert!(found.iter().all(|answer| answer["error"].is_string()), "{found:?}");
        assert_eq!(connection.value("a"), None, "{bad}");
    }
}

#[test]
fn what_does_not_fit_is_refused_as_a_whole() {
    let node = Launch::patient().start();
    let line = "{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n";
    let many = line.repeat(1_001);
    let large = format!("{{\"op\":\"put\",\"key\":\"a\",\"value\":\"{}\"}}\n", "v".repeat(300_000)).repeat(2);
    for (body, named) in [(&many, "1000 operations"), (&large, "524288")] {
        let mut connection = node.connect();
        let refused = connection.request("POST", ATOMIC, Some(body.as_bytes()));
        assert_refusal(&refused, 413, named);
        assert!(refused.text().contains(named), "{}", refused.text());
        let mut connection = node.connect();
        connection.send(head("?atomic=true"));
        for part in body.as_bytes().chunks(60_000) {
            // It need not read to the end.
            if connection.try_send(chunk(str::from_utf8(part).expect("text"))).is_err() {
                break;
            }
        }
        let _ = connection.try_send("0\r\n\r\n");
        assert_refusal(&connection.response(), 413, named);
    }
    assert_eq!(node.connect().value("a"), None);
    let most = line.repeat(1_000);
    let done = answers(&node.connect().request("POST", ATOMIC, Some(most.as_bytes())));
    assert_eq!(done.len(), 1_000);
}

/// A value that goes to a file of its own made the thread that writes the log panic: then the node took no write until a restart.
#[test]
fn a_value_that_goes_to_a_file_of_its_own_is_refused() {
    let node = Launch::patient().start();
    let mut connection = node.connect();
    for (bytes, status) in [(262_143, 200), (262_144, 413), (262_145, 413), (500_000, 413)] {
        let first = "{\"op\":\"put\",\"key\":\"first\",\"value\":\"1\"}\n";
        let line = format!("{{\"op\":\"put\",\"key\":\"{bytes}\",\"value\":\"{}\"}}\n", "v".repeat(bytes));
        let body = format!("{first}{line}");
        let answer = connection.request("POST", ATOMIC, Some(body.as_bytes()));
        assert_eq!(answer.status, status, "{bytes} bytes: {}", answer.text());
        let is_told = answer.text().contains("values of less than 262144");
        assert_eq!(is_told, status == 413, "{bytes} bytes: {}", answer.text());
        let is_written = connection.value(bytes.to_string()).is_some();
        assert_eq!(is_written, status == 200, "{bytes} bytes");
    }
    let alone = connection.request("PUT", "/v0/entity?id=after", Some(b"1"));
    assert_eq!(alone.status, 201, "{}", alone.text());
}

#[test]
fn half_a_body_is_nothing() {
    let node = Node::start();
    let line = "{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n";
    let mut connection = node.connect();
    connection.send(head("?atomic=true") + &chunk(line));
    connection.finish_sending();
    assert_refusal(&connection.response(), 400, "a body without its end");
    let node_of_little_patience = Launch::new().env("LADOGA_REQUEST_TIMEOUT_MS", "300").start();
    let mut connection = node_of_little_patience.connect();
    connection.send(head("?atomic=true") + &chunk(line));
    assert_refusal(&connection.response(), 408, "the rest did not come");
    assert_eq!(node.connect().value("a"), None);
    assert_eq!(node_of_little_patience.connect().value("a"), None);
}

#[test]
fn money_is_neither_made_nor_lost() {
    const ACCOUNTS: u64 = 4;
    let mut node = Launch::new().start();
    let mut connection = node.connect();
    for account in 0..ACCOUNTS {
        connection.put(format!("account{account}"), b"100");
    }
    let address = node.address();
    thread::scope(|scope| {
        for from in 0..ACCOUNTS {
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                for turn in 1..200 {
                    let to = (from + 1 + turn % (ACCOUNTS - 1)) % ACCOUNTS;
                    let body = format!(
                        "{{\"op\":\"increment\",\"key\":\"account{from}\",\"by\":-1}}\n\
                         {{\"op\":\"increment\",\"key\":\"account{to}\",\"by\":1}}\n"
                    );
                    // The node is killed in the middle of that.
                    if connection.try_request("POST", ATOMIC, Some(body.as_bytes())).is_err() {
                        return;
                    }
                }
            });
        }
        thread::sleep(Duration::from_millis(100));
        node.kill();
    });
    node.start_again();
    let mut connection = node.connect();
    let sums = (0..ACCOUNTS)
        .map(|account| connection.get(format!("account{account}")).text().parse::<i64>().expect("a number"));
    assert_eq!(sums.sum::<i64>(), 400);
}
