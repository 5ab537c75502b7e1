use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{Connection, Launch, Node, Response, assert_refusal, differs_on_cassandra, entity};

fn increment(connection: &mut Connection, key: &str, by: &str) -> Response {
    connection.request("POST", &format!("{}&increment={by}", entity(key)), None)
}

#[test]
fn a_number_is_added_to() {
    let node = Node::start();
    let mut connection = node.connect();
    for (by, sum) in [("1", "1"), ("41", "42"), ("-50", "-8"), ("0", "-8"), ("%2d2", "-10")] {
        let added = increment(&mut connection, "n", by);
        assert_eq!((added.status, added.text()), (200, sum), "{by}");
        let read = connection.get("n");
        assert_eq!((read.text(), read.header("etag")), (sum, added.header("etag")), "{by}");
    }
    connection.delete("n");
    assert_eq!(increment(&mut connection, "n", "7").text(), "7", "what is deleted counts as 0");
    connection.put("n", b"9223372036854775807");
    assert_refusal(&increment(&mut connection, "n", "1"), 409, "an overflow");
    assert_eq!(connection.value("n").as_deref(), Some(&b"9223372036854775807"[..]));
    assert_eq!(increment(&mut connection, "n", "-9223372036854775808").text(), "-1");
    assert_refusal(&increment(&mut connection, "n", "-9223372036854775808"), 409, "an overflow");
}

#[test]
fn what_is_no_number_is_left_alone() {
    let node = Node::start();
    let mut connection = node.connect();
    let long = vec![b'1'; 300_000];
    for value in [&b""[..], b"x", b"1.5", b"+1", b" 1", b"1\n", b"9223372036854775808", &long] {
        connection.put("n", value);
        assert_refusal(&increment(&mut connection, "n", "1"), 409, "no number");
        assert!(connection.value("n").as_deref() == Some(value));
    }
    connection.put("n", b"5");
    for by in ["", "+1", "1.5", "x", "9223372036854775808", "1&increment=1"] {
        assert_refusal(&increment(&mut connection, "n", by), 400, by);
    }
    assert_refusal(&connection.request("POST", &entity("n"), None), 400, "nothing to do");
    assert_refusal(&connection.request("POST", "/v0/entity?increment=1", None), 400, "no key");
    assert_eq!(connection.value("n").as_deref(), Some(&b"5"[..]));
}

#[test]
fn an_increment_may_have_a_condition() {
    let node = Node::start();
    let mut connection = node.connect();
    let mut add = |condition: &str| {
        let target = format!("{}&increment=1", entity("n"));
        connection.send(format!("POST {target} HTTP/1.1\r\nHost: h\r\n{condition}\r\n"));
        connection.response()
    };
    assert_refusal(&add("If-Match: *\r\n"), 412, "there is nothing");
    let first = add("If-None-Match: *\r\n");
    assert_eq!((first.status, first.text()), (200, "1"));
    assert_refusal(&add("If-None-Match: *\r\n"), 412, "there is a number");
    let condition = format!("If-Match: {}\r\n", first.header("etag").expect("an ETag"));
    assert_eq!(add(&condition).text(), "2");
    assert_refusal(&add(&condition), 412, "it has changed");
}

#[test]
fn increments_in_a_pipeline_are_answered_in_order() {
    let node = Node::start();
    let mut connection = node.connect();
    let one = format!("POST {}&increment=1 HTTP/1.1\r\nHost: h\r\n\r\n", entity("n"));
    connection.send(one.repeat(100));
    for sum in 1..=100 {
        assert_eq!(connection.response().text(), sum.to_string());
    }
}

/// How many clients add to one number, and how often the node is killed meanwhile.
const CLIENTS: usize = 64;
const KILLS: usize = 4;

#[test]
fn many_add_to_one_number_while_the_node_is_killed_and_none_is_lost_or_counted_twice() {
    if differs_on_cassandra("a door that is killed leaves nothing to come back to") {
        return;
    }
    for fsync in ["always", "everysec"] {
        let mut node = Launch::patient().flag("--fsync", fsync).flag("--threads", "2").start();
        let address = node.address();
        let (is_over, added, unknown) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut connection = None;
                    let mut last = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let Some(open) = connection.as_mut() else {
                            connection = Connection::try_open(address).ok();
                            if connection.is_none() {
                                thread::sleep(Duration::from_millis(5));
                            }
                            continue;
                        };
                        let target = format!("{}&increment=1", entity("n"));
                        match open.try_request("POST", &target, None) {
                            Ok(answer) if answer.status == 200 => {
                                let sum: u64 = answer.text().parse().expect("a number");
                                assert!(sum > last, "{sum} after {last}");
                                last = sum;
                                added.fetch_add(1, Ordering::Relaxed);
                            }
                            Ok(answer) => {
                                assert_refusal(&answer, 503, "a node that is opening or over capacity");
                                connection = None;
                            }
                            Err(_) => {
                                unknown.fetch_add(1, Ordering::Relaxed);
                                connection = None;
                            }
                        }
                    }
                });
            }
            for _ in 0..KILLS {
                thread::sleep(Duration::from_millis(700));
                node.crash();
            }
            thread::sleep(Duration::from_millis(300));
            is_over.store(true, Ordering::Relaxed);
        });
        let sum: u64 = String::from_utf8(node.connect().value("n").expect("a number"))
            .expect("digits")
            .parse()
            .expect("a number");
        let [added, unknown] = [&added, &unknown].map(|count| count.load(Ordering::Relaxed));
        assert!(added > CLIENTS as u64, "{added} were added");
        assert!(added <= sum && sum <= added + unknown, "{added} added, {unknown} unknown, the sum is {sum}");
        node.stop();
    }
}
