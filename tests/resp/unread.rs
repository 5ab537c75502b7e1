//! Clients that hold what others need, and do not read, or do not go on.

use std::io::Write;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{RespClient, RespNode, request};
use crate::support::{Connection, Launch, entity, value, wait_until};

/// One event loop with 4 MiB for values, of which one client may have seven eighths.
fn small_node() -> RespNode {
    RespNode::launch(
        Launch::patient().flag("--fsync", "never").flag("--memory", "32MiB").flag("--threads", "1"),
    )
}

/// What leaves less room than [`has_room`] needs, and fits.
const MOST_BYTES: usize = 3_500_000;
/// More than the sockets between both ends take.
const UNREAD_BYTES: usize = 24 << 20;

/// A connection that sends all this, as far as it is read, and reads nothing.
fn send_and_not_read(node: &RespNode, bytes: &[u8]) -> RespClient {
    let client = node.connect();
    client.stream().set_write_timeout(Some(Duration::from_millis(500))).expect("a connection");
    let _ = client.stream().write_all(bytes);
    client
}

/// What needs room of its own, and gets it.
fn has_room(node: &RespNode) -> bool {
    node.connect().ask_bytes(&[b"SETRANGE", b"other", b"0", &value(1, 1_000_000)]) == b":1000000\r\n"
}

#[test]
fn who_does_not_read_gives_back_what_others_need() {
    let node = small_node();
    let mut client = node.connect();
    assert_eq!(client.ask_bytes(&[b"SET", b"large", &value(1, UNREAD_BYTES)]), b"+OK\r\n");
    assert_eq!(client.ask_bytes(&[b"SET", b"middle", &value(2, MOST_BYTES)]), b"+OK\r\n");
    let get = request(&[b"GET", b"large"]);
    let most = value(3, MOST_BYTES);
    let queued = request(&[b"ECHO", &value(4, MOST_BYTES / 20)]).repeat(20);
    let multi = request(&[b"MULTI"]);
    for (what, bytes) in [
        ("a long request that is over", [request(&[b"APPEND", b"k", &most]), get.clone()].concat()),
        ("a long reply that is over", [request(&[b"PING", &most]), get.clone()].concat()),
        ("what is queued", [multi.clone(), queued, multi.repeat(2_000_000)].concat()),
        (
            "the replies of a transaction",
            [multi, get.clone(), request(&[b"GETDEL", b"middle"]), request(&[b"EXEC"])].concat(),
        ),
    ] {
        let unread = send_and_not_read(&node, &bytes);
        // What was sent has arrived by then.
        thread::sleep(Duration::from_secs(1));
        wait_until(&format!("room beside {what}"), || has_room(&node));
        drop(unread);
    }
}

/// Replies were counted only a while after their client had stopped to read. Until then, each connection had 16 values.
#[test]
fn what_nobody_reads_takes_about_a_value_of_each_connection_from_the_beginning() {
    const CLIENTS: usize = 60;
    const VALUES: u64 = 40;
    const LENGTH: usize = 200_000;
    /// A value each is 12 MB. The replies are 480 MB, of which sockets take less than half.
    const GROWN_BYTES_MAX: u64 = 48 << 20;
    let keys: Vec<String> = (0..VALUES).map(|number| format!("key{number}")).collect();
    let get = keys.iter().flat_map(|key| request(&[b"GET", key.as_bytes()])).collect();
    let mget: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(keys.iter().map(String::as_bytes)).collect();
    for (what, asked) in [("GET", get), ("MGET", request(&mget))] {
        let node = RespNode::launch(
            Launch::patient().flag("--fsync", "never").flag("--memory", "16MiB").flag("--threads", "1"),
        );
        let mut writer = node.connect();
        for (key, number) in keys.iter().zip(0..) {
            assert_eq!(writer.ask_bytes(&[b"SET", key.as_bytes(), &value(number, LENGTH)]), b"+OK\r\n");
        }
        let before = node.node.peak_resident_bytes();
        let _unread: Vec<RespClient> = (0..CLIENTS).map(|_| send_and_not_read(&node, &asked)).collect();
        let evicted = || node.node.metrics().sum("ladoga_slow_clients_evicted_total", &["value"]);
        wait_until("most clients to give way", || evicted() >= Some(CLIENTS as f64 / 2.0));
        let grown = node.node.peak_resident_bytes() - before;
        assert!(grown < GROWN_BYTES_MAX, "{what}: {grown} bytes");
    }
}

/// Those that are longer than was expected are read twice, and replied once.
#[test]
fn values_of_all_lengths_are_replied_in_the_order_of_their_keys() {
    let node = small_node();
    let mut client = node.connect();
    let length = |number: u64| if number < 30 { 10 } else { [10, 200_000, 10, 40_000][number as usize % 4] };
    let keys: Vec<String> = (0..60).map(|number| format!("key{number}")).collect();
    let mut expected = b"*60\r\n".to_vec();
    for (key, number) in keys.iter().zip(0..) {
        let value = value(number, length(number));
        assert_eq!(client.ask_bytes(&[b"SET", key.as_bytes(), &value]), b"+OK\r\n");
        expected.extend([format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat());
    }
    let mget: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(keys.iter().map(String::as_bytes)).collect();
    for _ in 0..2 {
        assert!(client.ask_bytes(&mget) == expected);
    }
}

/// It is listened to for some seconds more, as it may be sending: that does not hold anybody up.
#[test]
fn who_gives_way_does_so_at_once() {
    let node = small_node();
    // If another one has the room before the node has read so far, it is refused at once. A machine that stands still holds everybody up.
    let told = (0..10)
        .map(|_| told_to_who_gives_way(&node))
        .find(|(told, held_up)| !told.starts_with("-ERR over capacity") && *held_up < Duration::from_secs(4));
    let (told, _) = told.expect("one that has room before the others, and holds nobody up");
    assert!(told.starts_with("-ERR the request arrived too slowly, or takes more memory"), "{told}");
}

/// What a client is told that sends most of a request, and no more, while others want its room; and for how long one of them was held up.
fn told_to_who_gives_way(node: &RespNode) -> (String, Duration) {
    let long = request(&[b"APPEND", b"k", &value(1, MOST_BYTES)]);
    let mut slow = node.connect();
    slow.send(&long[..long.len() - 10]);
    slow.stream().set_nonblocking(true).expect("a connection");
    let mut longest = Duration::ZERO;
    wait_until("a request that gives way", || {
        let began = Instant::now();
        has_room(node);
        longest = longest.max(began.elapsed());
        slow.stream().peek(&mut [0]).is_ok()
    });
    slow.stream().set_nonblocking(false).expect("a connection");
    (slow.line(), longest)
}

/// What a command takes for its arguments, and for the value that it changes, is one.
#[test]
fn a_command_is_not_in_its_own_way() {
    let node = small_node();
    let mut client = node.connect();
    let (two, other) = (value(1, 2_000_000), value(2, 2_000_000));
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &two]), b"+OK\r\n");
    assert_eq!(client.ask("SETRANGE k 2000000 x"), ":2000001\r\n");
    assert_eq!(client.ask_bytes(&[b"APPEND", b"k", &two]), b":4000001\r\n");
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &two]), b"+OK\r\n");
    let reply = client.ask_bytes(&[b"GETSET", b"k", &other]);
    assert!(reply == [b"$2000000\r\n", &two[..], b"\r\n"].concat());
    let reply = client.ask_bytes(&[b"SET", b"k", &two, b"GET"]);
    assert!(reply == [b"$2000000\r\n", &other[..], b"\r\n"].concat());
    // A transaction is told what it would take.
    assert_eq!(client.ask("COPY k l"), ":1\r\n");
    for command in ["MULTI", "GETDEL k", "GETDEL l"] {
        assert!(client.ask(command).starts_with('+'));
    }
    let reply = client.ask("EXEC");
    assert!(
        reply.starts_with("-ERR the transaction would take 4000") && reply.contains("at most 3670016"),
        "{reply}"
    );
    assert_eq!(client.ask("STRLEN k"), ":2000000\r\n");
}

/// They were counted as they were found, and again as a reply.
#[test]
fn a_transaction_takes_the_values_of_many_keys_once() {
    let node = small_node();
    let mut client = node.connect();
    let (keys, long) = (["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"], value(1, 250_000));
    for key in keys {
        assert_eq!(client.ask_bytes(&[b"SET", key.as_bytes(), &long]), b"+OK\r\n");
    }
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(client.ask(&format!("MGET {}", keys.join(" "))), "+QUEUED\r\n");
    let reply = client.ask_bytes(&[b"EXEC"]);
    assert!(
        reply.starts_with(b"*1\r\n*10\r\n$250000\r\n"),
        "{}",
        reply[..reply.len().min(200)].escape_ascii()
    );
    assert!(reply.len() > 10 * long.len());
}

/// As a value that comes over HTTP is.
#[test]
fn values_and_refusals_are_counted() {
    let node = RespNode::start();
    let mut client = node.connect();
    assert_eq!(client.ask("SET k value EX 100"), "+OK\r\n");
    assert_eq!(client.ask("MSET a 1 b 22"), "+OK\r\n");
    let sum = |name| node.node.metrics().sum(name, &[]).expect("it is there");
    assert!((sum("ladoga_request_body_bytes_total") - 8.0).abs() < 0.5);
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &value(1, 250_000)]), b"+OK\r\n");
    let before = sum("ladoga_response_body_bytes_total");
    assert_eq!(
        client.ask_bytes(&[b"MGET", b"k", b"a", b"none"]).len(),
        "*3\r\n$250000\r\n\r\n$1\r\n1\r\n$-1\r\n".len() + 250_000
    );
    // With the page that says so.
    let sent = sum("ladoga_response_body_bytes_total") - before;
    assert!((250_001.0..400_000.0).contains(&sent), "{sent}");
    // Nothing of the value is read.
    let head = [&b"*3\r\n$3\r\nSET\r\n$5000\r\n"[..], &[b'k'; 5_000], b"\r\n$300000\r\n"].concat();
    client.send(&head);
    assert!(client.line().starts_with('-'));
    let refused = || node.node.metrics().sum("ladoga_resp_commands_total", &["write", "error"]);
    wait_until("a refusal that is counted", || refused() == Some(1.0));
}

/// A value that came over a slow link was a slow write.
#[test]
fn a_large_value_takes_the_time_from_its_last_byte_on() {
    let node = small_node();
    let mut client = node.connect();
    let large = request(&[b"SET", b"k", &value(1, 300_000)]);
    let (first, rest) = large.split_at(100_000);
    client.send(first);
    let mut other = node.node.connect();
    for _ in 0..100 {
        assert_eq!(other.request("GET", "/metrics", None).status, 200);
    }
    let began = Instant::now();
    client.send(rest);
    assert_eq!(client.reply(), b"+OK\r\n");
    let took_s = began.elapsed().as_secs_f64();
    let told_s = node.node.metrics().sum("ladoga_resp_command_duration_seconds_sum", &["write"]);
    assert!(told_s.is_some_and(|told_s| told_s > 0.0 && told_s <= took_s), "{told_s:?} of {took_s}");
}

/// Nobody else had anything while it grew. From then on, nobody else got anything for as long as it went on, as slowly as it likes.
#[test]
fn a_request_that_takes_more_than_one_may_makes_room_however_fast_it_is() {
    const DISPLACED: &str = "ladoga_slow_clients_evicted_total";
    let node = small_node();
    let large = vec![b'v'; 60 << 20];
    let request = request(&[b"MSET", b"a", &large, b"b", &large]);
    // More than is between the two ends: the node has most of it once it is sent.
    let (first, rest) = request.split_at(40 << 20);
    let mut client = node.connect();
    client.send(first);
    // More than 128 KiB/s, also if few of them are sent in a second.
    let mut pieces = rest.chunks(32 << 10);
    wait_until("room for a value", || {
        // Once it has given way, nobody reads that.
        let _ = client.stream().write_all(pieces.next().expect("some of it is left"));
        // Of another client: what one client has at most would be in the way of its own.
        let mut other = Connection::open_from(Ipv4Addr::new(127, 0, 0, 2), node.node.address());
        let put = other.try_request("PUT", &entity("k"), Some(&large[..100_000]));
        put.is_ok_and(|response| response.status == 201)
    });
    assert_eq!(node.node.metrics().sum(DISPLACED, &["value"]), Some(1.0));
}
