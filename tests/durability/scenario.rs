use std::thread;

use crate::support::{Connection, Launch, Node, entity, range, value};

/// How many records, unless `LADOGA_SCENARIO_RECORDS` says otherwise.
const RECORDS: u64 = 50_000;
const CONNECTIONS: u64 = 8;
/// Requests that are sent at once.
const PIPELINE: u64 = 50;

fn records() -> u64 {
    let wanted = std::env::var("LADOGA_SCENARIO_RECORDS");
    let records = wanted.map_or(RECORDS, |count| count.parse().expect("LADOGA_SCENARIO_RECORDS is a number"));
    records.next_multiple_of(CONNECTIONS * PIPELINE)
}

fn key(index: u64) -> String {
    format!("user:{:08}", index.wrapping_mul(48_271) % 99_999_989)
}

fn record(index: u64, generation: u64) -> Vec<u8> {
    value(index * 10 + generation, 50 + (index % 400) as usize)
}

/// Runs `work` for the share of the records that each of the connections has, in batches that are pipelined.
fn share_out(node: &Node, work: impl Fn(&mut Connection, std::ops::Range<u64>) + Sync) {
    let share = records() / CONNECTIONS;
    thread::scope(|scope| {
        for number in 0..CONNECTIONS {
            let (mut connection, work) = (node.connect(), &work);
            scope.spawn(move || {
                for batch in 0..share / PIPELINE {
                    let first = number * share + batch * PIPELINE;
                    work(&mut connection, first..first + PIPELINE);
                }
            });
        }
    });
}

fn put_all(node: &Node, generation: u64, chosen: impl Fn(u64) -> bool + Sync) {
    share_out(node, |connection, batch| {
        let mut requests = Vec::new();
        let batch: Vec<u64> = batch.filter(|index| chosen(*index)).collect();
        for &index in &batch {
            let value = record(index, generation);
            let head = format!(
                "PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
                entity(key(index)),
                value.len()
            );
            requests.extend_from_slice(head.as_bytes());
            requests.extend_from_slice(&value);
        }
        connection.send(requests);
        for _ in batch {
            assert_eq!(connection.response().status, 201);
        }
    });
}

fn delete_all(node: &Node, chosen: impl Fn(u64) -> bool + Sync) {
    share_out(node, |connection, batch| {
        let batch: Vec<u64> = batch.filter(|index| chosen(*index)).collect();
        for &index in &batch {
            connection.send(format!("DELETE {} HTTP/1.1\r\nHost: h\r\n\r\n", entity(key(index))));
        }
        for _ in batch {
            assert_eq!(connection.response().status, 202);
        }
    });
}

/// Every record is what `expected` says, read one by one.
fn check_all(node: &Node, expected: impl Fn(u64) -> Option<Vec<u8>> + Sync) {
    share_out(node, |connection, batch| {
        let requests =
            batch.clone().map(|index| format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", entity(key(index))));
        connection.send(requests.collect::<String>());
        for index in batch {
            let response = connection.response();
            let found = (response.status == 200).then_some(response.body);
            assert!(
                found == expected(index),
                "record {index} is not what it should be ({})",
                response.status
            );
        }
    });
    let mut records: Vec<_> =
        (0..records()).filter_map(|index| Some((key(index).into_bytes(), expected(index)?))).collect();
    records.sort();
    let mut connection = node.connect();
    connection.send_request("GET", &range("user:", None), None);
    assert_eq!(connection.response_head().status, 200);
    for expected in records {
        assert!(connection.next_record().expect("a stream").as_ref() == Some(&expected), "the range differs");
    }
    assert_eq!(connection.next_record().expect("the end of a stream"), None);
}

#[test]
fn scenario_fill_read_restart_kill_overwrite_delete() {
    let mut node = Launch::patient().flag("--memory", "16MiB").start();
    put_all(&node, 0, |_| true);
    let first = |index| Some(record(index, 0));
    check_all(&node, first);
    node.restart();
    check_all(&node, first);
    node.crash();
    check_all(&node, first);

    put_all(&node, 1, |index| index % 3 == 0);
    delete_all(&node, |index| index % 5 == 0);
    let second = |index| (index % 5 != 0).then(|| record(index, u64::from(index % 3 == 0)));
    node.crash();
    check_all(&node, second);
    node.restart();
    check_all(&node, second);
}
