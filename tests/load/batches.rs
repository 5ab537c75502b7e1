use std::thread;
use std::time::Duration;

use crate::support::{Connection, Launch, Node, assert_refusal, value, wait_for, wait_until};

const MIB: u64 = 1 << 20;
/// As for other slow clients: the budget, and what a process has beside it.
const MEMORY_MAX: u64 = 16 * MIB + 64 * MIB;

const HEAD: &str = "POST /v0/batch HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";

fn small_node() -> Launch {
    Launch::patient().flag("--memory", "16MiB").flag("--fsync", "never")
}

#[track_caller]
fn check_memory(node: &Node, when: &str) {
    let resident = node.resident_bytes();
    assert!(resident < MEMORY_MAX, "{} MiB resident {when}", resident / MIB);
}

fn send_chunk(connection: &mut Connection, text: &str) -> std::io::Result<()> {
    connection.try_send(format!("{:x}\r\n{text}\r\n", text.len()))
}

/// Reads the answers to the end; how many there were, and how many of them had this status.
fn count(connection: &mut Connection, status: u16) -> (u64, u64) {
    assert_eq!(connection.response_head().status, 200);
    let beginning = format!("{{\"status\":{status}");
    let (mut answers, mut such) = (0, 0);
    while let Some(chunk) = connection.next_chunk().expect("a stream") {
        answers += 1;
        such += u64::from(chunk.starts_with(beginning.as_bytes()));
    }
    (answers, such)
}

#[test]
fn many_lines_take_no_more_memory_than_a_few() {
    const LINES: u64 = 200_000;
    const AT_ONCE: u64 = 500;
    let node = &small_node().start();
    let (mut sender, mut reader) = node.connect().split();
    thread::scope(|scope| {
        scope.spawn(move || {
            sender.send(HEAD);
            for first in (0..LINES).step_by(AT_ONCE as usize) {
                let line = |number: u64| match number % 4 {
                    0 => {
                        format!("{{\"op\":\"put\",\"key\":\"key{number:07}\",\"value\":\"{number:0100}\"}}\n")
                    }
                    1 => format!("{{\"op\":\"get\",\"key\":\"key{:07}\"}}\n", number - 1),
                    2 => format!("{{\"op\":\"delete\",\"key\":\"key{:07}\"}}\n", number / 2),
                    _ => format!("{{\"op\":\"increment\",\"key\":\"n{}\"}}\n", number % 1_000),
                };
                let lines: String = (first..first + AT_ONCE).map(line).collect();
                send_chunk(&mut sender, &lines).expect("a node that reads");
                if first == LINES / 2 {
                    check_memory(node, "in the middle of many lines");
                }
            }
            sender.send("0\r\n\r\n");
            check_memory(node, "behind many lines");
        });
        let (answers, refused) = count(&mut reader, 503);
        assert_eq!((answers, refused), (LINES, 0));
    });
}

/// A client that sends operations and reads no answers.
fn flood(node: &Node, line: &str) -> Connection {
    let mut connection = node.connect();
    connection.limit_receiving_to(16 << 10);
    connection.limit_sending_to(Duration::from_secs(2));
    connection.send(HEAD);
    let lines = line.repeat(60_000 / line.len());
    // A node that kept all of this, or its answers, would show it.
    for _ in 0..4_000 {
        if send_chunk(&mut connection, &lines).is_err() {
            return connection;
        }
    }
    panic!("the node reads on although nobody takes its answers");
}

#[test]
fn a_client_that_sends_and_does_not_read_is_not_read_any_more() {
    let node = small_node().start();
    node.connect().put("key", &value(1, 100_000));
    let lines = [
        "{\"op\":\"get\",\"key\":\"key\"}\n".to_owned(),
        "{\"op\":\"put\",\"key\":\"other\",\"value\":\"1\"}\n".to_owned(),
        "nonsense\n".to_owned(),
    ];
    let flooders: Vec<Connection> = thread::scope(|scope| {
        let flooding: Vec<_> = lines.iter().map(|line| scope.spawn(|| flood(&node, line))).collect();
        flooding.into_iter().map(|flooding| flooding.join().expect("a flood that ebbs")).collect()
    });
    check_memory(&node, "with three clients that send and do not read");
    let mut connection = node.connect();
    for index in 0..200_u64 {
        let key = format!("key{index}");
        connection.put(&key, &value(index, 2_000));
        assert!(connection.value(&key) == Some(value(index, 2_000)));
    }
    drop(flooders);
}

#[test]
fn a_client_that_sends_and_never_reads_is_cut_off() {
    let node = small_node().env("LADOGA_ANSWER_TIMEOUT_MS", "500").start();
    node.connect().put("key", &value(1, 100_000));
    let mut flooder = flood(&node, "{\"op\":\"get\",\"key\":\"key\"}\n");
    wait_until("a batch that is given up", || {
        node.metrics().sum("ladoga_responses_aborted_total", &[]).is_some_and(|count| count > 0.0)
    });
    wait_until("a connection that is gone", || flooder.try_send("x").is_err());
    assert_eq!(node.connect().request("GET", "/v0/status", None).status, 200);
}

/// Before it has an answer, which may still say why there is none.
#[test]
fn a_batch_that_gives_way_is_told() {
    let node = small_node().start();
    // More than there are places for answers that are streamed.
    let mut idle: Vec<Connection> = (0..64).map(|_| node.connect()).collect();
    for connection in &mut idle {
        connection.send(HEAD);
    }
    // Otherwise, the other batch may come before these on a busy machine, and nobody gives way for it.
    wait_until("all places taken", || idle.iter().any(Connection::has_answer));
    wait_until("a place for another batch", || {
        let mut connection = node.connect();
        connection.request("POST", "/v0/batch", Some(b"{\"op\":\"get\",\"key\":\"a\"}\n")).status == 200
    });
    // Whichever did: the others may still wait for as long as a request has.
    let gave_way = wait_for("one that gave way", || {
        let told = idle.iter_mut().filter(|connection| connection.has_answer());
        told.filter_map(|connection| connection.try_response().ok()).find(|response| response.status != 503)
    });
    assert_refusal(&gave_way, 408, "a batch that gave way");
    assert!(gave_way.text().starts_with("the batch arrived too slowly"), "{}", gave_way.text());
}

#[test]
fn a_line_without_an_end_takes_no_memory() {
    let node = &small_node().start();
    let (mut sender, mut reader) = node.connect().split();
    thread::scope(|scope| {
        scope.spawn(move || {
            sender.send(HEAD);
            let part = "{\"op\":\"put\",\"key\":\"a\",\"value\":\"".to_owned() + &"v".repeat(60_000);
            for _ in 0..2_000 {
                send_chunk(&mut sender, &part).expect("a node that reads");
            }
            check_memory(node, "behind a line of 120 MB");
            send_chunk(&mut sender, "\n{\"op\":\"get\",\"key\":\"a\"}\n").expect("a node that reads");
            sender.send("0\r\n\r\n");
        });
        assert_eq!(reader.response_head().status, 200);
        let first = reader.next_chunk().expect("a stream").expect("an answer");
        assert!(first.starts_with(b"{\"status\":413"), "{}", first.escape_ascii());
        let second = reader.next_chunk().expect("a stream").expect("an answer");
        assert!(second.starts_with(b"{\"status\":404"), "{}", second.escape_ascii());
        assert_eq!(reader.next_chunk().expect("the end of a stream"), None);
    });
}
