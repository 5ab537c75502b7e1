use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crate::support::{Connection, Launch, Node, assert_refusal, entity, range, value, wait_until};

const MIB: u64 = 1 << 20;
/// What a process may have resident beside its budget, for code, stacks and the allocator's own bookkeeping.
const OVERHEAD: u64 = 64 * MIB;
/// Shorter than what goes to the disk as it arrives.
const SMALLER: usize = 256_000;
/// Goes to the disk as it arrives.
const LARGE: usize = 1 << 20;
/// More than are written, or streamed, at a time with 16 MiB of memory.
const GREEDY: usize = 32;
/// How often a client that trickles sends, and how much: what it may at the least, and hardly more.
const TRICKLE_EVERY: Duration = Duration::from_millis(100);
const TRICKLE_BYTES: usize = 1_750;

const DISPLACED: &str = "ladoga_slow_clients_evicted_total";
/// The addresses of others; the last one is also one of the greedy clients'.
const OTHERS: [Ipv4Addr; 3] =
    [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 77), Ipv4Addr::new(127, 0, 1, 1)];

/// With few places, and without waiting for the disk.
fn small_node() -> Node {
    Launch::patient().flag("--memory", "16MiB").flag("--fsync", "never").start()
}

fn put_head(key: &str, bytes: usize) -> String {
    format!("PUT {} HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n", entity(key))
}

/// Connections from as many addresses, all of them other than those of the others.
fn connections(node: &Node, count: usize, addresses: usize) -> Vec<Connection> {
    let source = |number: usize| Ipv4Addr::new(127, 0, 1, 1 + (number % addresses) as u8);
    (0..count).map(|number| Connection::open_from(source(number), node.address())).collect()
}

/// Values that fit into memory go in and out, at once and for every client.
fn check_small_values(node: &Node, bytes: usize) {
    for source in OTHERS {
        let mut connection = Connection::open_from(source, node.address());
        for index in 0..20_u64 {
            let key = format!("small{index}");
            connection.put(&key, &value(index, bytes));
            assert!(connection.value(&key) == Some(value(index, bytes)));
        }
    }
}

/// Asks again while it is refused for lack of room: that must not last.
fn until_there_is_room(node: &Node, source: Ipv4Addr, method: &str, target: &str, body: Option<&[u8]>) {
    wait_until(&format!("room for {method} {target}"), || {
        let mut connection = Connection::open_from(source, node.address());
        // Refused before it has sent everything, a client may find the connection closed.
        let Ok(response) = connection.try_request(method, target, body) else { return false };
        if response.status == 503 {
            assert_refusal(&response, 503, target);
        } else {
            assert!(response.status == 200 || response.status == 201, "{}", response.text());
        }
        response.status != 503
    });
}

/// Most announce as much as memory takes, the others what is left of its room then, down to less than the shortest value here.
fn announced_bytes(number: usize) -> usize {
    match number {
        0..400 => (256 << 10) - 1,
        400..470 => 20_000,
        470..540 => 1_000,
        540..570 => 100,
        _ => 9,
    }
}

#[test]
fn what_is_announced_takes_nothing_from_others() {
    for addresses in [1, 50] {
        let node = Launch::patient().start();
        let mut announced = connections(&node, 600, addresses);
        for (number, connection) in announced.iter_mut().enumerate() {
            connection.send(put_head(&format!("announced{number}"), announced_bytes(number)));
        }
        check_small_values(&node, 10);
        check_small_values(&node, 8_000);
        check_small_values(&node, 100_000);
        // It was let in, and its time is not over.
        for number in [0, 599] {
            announced[number].send(value(number as u64, announced_bytes(number)));
            assert_eq!(announced[number].response().status, 201);
        }
    }
}

#[test]
fn values_that_stop_half_way_make_room() {
    check_values_that_stop_half_way(1);
}

#[test]
fn values_of_many_addresses_that_stop_half_way_make_room() {
    check_values_that_stop_half_way(50);
}

fn check_values_that_stop_half_way(addresses: usize) {
    let node = small_node();
    let half = value(1, SMALLER - 50_000);
    let mut stopped = connections(&node, 300, addresses);
    thread::scope(|scope| {
        let senders: Vec<_> = stopped
            .chunks_mut(30)
            .enumerate()
            .map(|(chunk, connections)| {
                let half = &half;
                scope.spawn(move || {
                    for (number, connection) in connections.iter_mut().enumerate() {
                        let head = put_head(&format!("half{chunk}-{number}"), SMALLER);
                        // It may be refused before it has sent that much.
                        let _ = connection.try_send(head).and_then(|()| connection.try_send(half));
                    }
                })
            })
            .collect();
        while !senders.iter().all(ScopedJoinHandle::is_finished) {
            check_small_values(&node, 10);
            let resident = node.resident_bytes();
            assert!(resident < 16 * MIB + OVERHEAD, "{} MiB resident", resident / MIB);
        }
    });
    check_small_values(&node, 10);
    for source in OTHERS {
        for index in 0..5 {
            let body = value(index, SMALLER);
            until_there_is_room(&node, source, "PUT", &entity(format!("whole{index}")), Some(&body));
        }
    }
    // There was room for some; the others were refused.
    let mut told = 0;
    for connection in &mut stopped {
        if connection.try_send(value(2, 50_000)).is_err() {
            continue;
        }
        match connection.try_response() {
            Ok(response) if response.status == 201 => {}
            Ok(response) if response.status == 503 => told += 1,
            Ok(response) => {
                assert_refusal(&response, 408, "a value that stopped half way");
                assert!(response.text().contains("arrived too slowly"), "{response:?}");
                told += 1;
            }
            // What is sent to a connection that is closed makes the close a reset.
            Err(_) => {}
        }
    }
    assert!(told > 0, "nobody was told");
}

/// Clients that send large values as slowly as they may, and begin again when they are refused, until `act` returns.
fn while_uploads_trickle(node: &Node, addresses: usize, act: impl FnOnce()) {
    struct End<'e>(&'e AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut uploads = connections(node, GREEDY, addresses);
        for (number, upload) in uploads.iter_mut().enumerate() {
            upload.send(put_head(&format!("trickle{number}"), 64 << 20));
        }
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for (number, upload) in uploads.iter_mut().enumerate() {
                    if upload.try_send([b't'; TRICKLE_BYTES]).is_err() {
                        let source = Ipv4Addr::new(127, 0, 1, 1 + (number % addresses) as u8);
                        *upload = Connection::open_from(source, node.address());
                        let _ = upload.try_send(put_head("trickle", 64 << 20));
                    }
                }
                thread::park_timeout(TRICKLE_EVERY);
            }
        });
        let _end = End(is_over);
        act();
    });
}

#[test]
fn uploads_that_trickle_make_room() {
    check_uploads_that_trickle(1);
}

#[test]
fn uploads_of_many_addresses_that_trickle_make_room() {
    check_uploads_that_trickle(GREEDY);
}

fn check_uploads_that_trickle(addresses: usize) {
    let node = small_node();
    while_uploads_trickle(&node, addresses, || {
        wait_until("all places taken", || {
            let mut connection = node.connect();
            connection.send(format!(
                "PUT {} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {LARGE}\r\n\r\n",
                entity("probe")
            ));
            connection.response().status == 503 || node.metrics().sum(DISPLACED, &["upload"]) > Some(0.0)
        });
        check_small_values(&node, 10);
        for source in OTHERS {
            for index in 0..5 {
                let body = value(index, LARGE);
                let target = entity(format!("large{index}"));
                until_there_is_room(&node, source, "PUT", &target, Some(&body));
                assert!(node.connect().value(format!("large{index}")) == Some(body));
            }
        }
        check_small_values(&node, 10);
    });
    assert!(node.metrics().sum(DISPLACED, &["upload"]) > Some(0.0));
}

#[test]
fn an_upload_that_gives_way_is_told() {
    let node = small_node();
    let mut stopped = connections(&node, GREEDY, 1);
    for (number, upload) in stopped.iter_mut().enumerate() {
        let target = entity(format!("stopped{number}"));
        upload.send(format!(
            "PUT {target} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {LARGE}\r\n\r\n"
        ));
        let status = upload.response().status;
        assert!(status == 100 || status == 503, "{status}");
    }
    until_there_is_room(&node, OTHERS[2], "PUT", &entity("large"), Some(&value(1, LARGE)));
    assert!(node.connect().value("large") == Some(value(1, LARGE)));
    // Of those who did nothing it is the one that came first.
    let response = stopped[0].response();
    assert_refusal(&response, 408, "an upload that stopped");
    assert!(response.text().contains("arrived too slowly"), "{response:?}");
    stopped[0].expect_closed();
    assert_eq!(node.connect().value("stopped0"), None);
}

#[test]
fn one_that_holds_nobody_up_may_be_slow() {
    let node = small_node();
    let body = value(7, 300_000);
    let mut slow = node.connect();
    slow.send(put_head("slow", body.len()));
    let long = value(8, 16 << 20);
    let mut other = node.connect();
    other.put("long", &long);
    let mut reader = node.connect();
    reader.send_request("GET", &entity("long"), None);
    assert_eq!(reader.response_head().status, 200);
    for piece in body.chunks(6_000) {
        slow.send(piece);
        other.put("other", piece);
        thread::park_timeout(TRICKLE_EVERY);
    }
    assert_eq!(slow.response().status, 201);
    assert!(node.connect().value("slow") == Some(body));
    assert!(reader.try_read_exactly(long.len()).expect("a value") == long);
    assert_eq!(node.metrics().sum(DISPLACED, &[]), Some(0.0));
}

#[test]
fn answers_that_nobody_reads_make_room() {
    check_answers_that_nobody_reads(1);
}

#[test]
fn answers_of_many_addresses_that_nobody_reads_make_room() {
    check_answers_that_nobody_reads(GREEDY);
}

fn check_answers_that_nobody_reads(addresses: usize) {
    let node = small_node();
    let mut writer = node.connect();
    // More than the sockets between the two ends hold.
    for index in 0..256_u64 {
        writer.put(format!("key{index:03}"), &value(index, 100_000));
    }
    let large = value(3, LARGE);
    writer.put("large", &large);
    let mut unread = connections(&node, GREEDY, addresses);
    for connection in &mut unread {
        connection.send_request("GET", &range("key", None), None);
    }
    check_small_values(&node, 10);
    for source in OTHERS {
        until_there_is_room(&node, source, "GET", &range("key", Some(b"key010")), None);
        until_there_is_room(&node, source, "GET", &entity("large"), None);
    }
    check_small_values(&node, 10);
    assert!(node.metrics().sum(DISPLACED, &["stream"]) > Some(0.0));
    // One that gave way notices that something is missing.
    let mut cut = unread.iter_mut().filter_map(|connection| {
        (connection.response_head().status == 200).then(|| {
            loop {
                match connection.next_record() {
                    Ok(Some(_)) => {}
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            }
        })
    });
    assert!(cut.any(|is_cut| is_cut), "nobody noticed");
}
