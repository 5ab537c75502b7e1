use crate::support::{Connection, Launch, Node, Port, entity, range, value, wait_until};

const MIB: u64 = 1 << 20;
const MEMORY: u64 = 16 * MIB;
/// What a process may have resident beside its budget, for code, stacks and the allocator's own bookkeeping: as much as
/// 192 MiB are over the 128 MiB of target P8.
const OVERHEAD: u64 = 64 * MIB;

fn small_node() -> Node {
    Launch::patient().flag("--memory", "16MiB").start()
}

#[track_caller]
fn check_memory(node: &Node, when: &str) {
    let resident = node.resident_bytes();
    assert!(resident < MEMORY + OVERHEAD, "{} MiB resident {when}", resident / MIB);
}

/// Others are served as if nothing were.
fn check_service(node: &Node) {
    let mut connection = node.connect();
    for index in 0..200_u64 {
        let key = format!("other{index}");
        connection.put(&key, &value(index, 2_000));
        assert!(connection.value(&key) == Some(value(index, 2_000)));
    }
    let records = connection.request("GET", &range("other", None), None).records();
    assert_eq!(records.len(), 200);
}

#[test]
fn readers_that_stop_reading_cost_little_and_hold_up_nobody() {
    let node = small_node();
    let mut writer = node.connect();
    for index in 0..6_000_u64 {
        writer.put(format!("key{index:04}"), &value(index, 16_000));
    }
    let mut stalled: Vec<Connection> = (0..16).map(|_| node.connect()).collect();
    for connection in &mut stalled {
        connection.send_request("GET", &range("key", None), None);
        assert_eq!(connection.response_head().status, 200);
        assert!(connection.next_record().expect("a stream").is_some());
    }
    check_service(&node);
    check_memory(&node, "with 16 readers of 96 MB that stopped");
    // One of them reads on, and has missed nothing.
    let reader = &mut stalled[5];
    for index in 1..6_000_u64 {
        let (key, found) = reader.next_record().expect("a stream").expect("a record");
        assert_eq!(key, format!("key{index:04}").into_bytes());
        assert!(found == value(index, 16_000), "key{index:04}");
    }
    assert_eq!(reader.next_record().expect("the end of a stream"), None);
    check_memory(&node, "after a whole range");
    drop(stalled);
    check_service(&node);
}

/// Each value is a block of its own, and each table has one at hand: a range had a dozen of them in memory, and two pieces beside.
#[test]
fn ranges_of_long_values_that_nobody_reads_take_a_piece_each() {
    const VALUES: u64 = 400;
    const LONGEST_INLINE: usize = (256 << 10) - 1;
    /// A piece for each of 21 answers are 6 MiB. Beside that is what four threads take to read them, and the allocator keeps for them.
    const RANGES: u64 = 24 * MIB;
    let node = small_node();
    let mut writer = node.connect();
    let key = |index: u64| format!("key{index:04}").into_bytes();
    for index in 0..VALUES {
        // In no order, so that tables overlap.
        let index = index * 171 % VALUES;
        writer.put(key(index), &value(index, LONGEST_INLINE));
    }
    let before = node.peak_resident_bytes();
    let mut stalled: Vec<Connection> = (0..32).map(|_| node.connect()).collect();
    for connection in &mut stalled {
        connection.send_request("GET", &range("key", None), None);
    }
    // All have their turn: some begin, and the others are refused.
    let mut begun: Vec<&mut Connection> = stalled
        .iter_mut()
        .filter_map(|stalled| (stalled.response_head().status == 200).then_some(stalled))
        .collect();
    assert!(begun.len() > 16, "{} of them have begun", begun.len());
    let peak = node.peak_resident_bytes();
    assert!(peak < before + RANGES, "{} MiB resident, of which {} MiB before", peak / MIB, before / MIB);
    // Who reads on has missed nothing. (The first may have given way to the last.)
    let reader = begun.pop().expect("some have begun");
    for index in 0..VALUES {
        let (found_key, found) = reader.next_record().expect("a stream").expect("a record");
        assert_eq!(found_key, key(index));
        assert!(found == value(index, LONGEST_INLINE), "key{index:04}");
    }
    assert_eq!(reader.next_record().expect("the end of a stream"), None);
    let peak = node.peak_resident_bytes();
    assert!(
        peak < before + RANGES,
        "{} MiB resident after a whole range, {} MiB before",
        peak / MIB,
        before / MIB
    );
}

/// What has been read waits in memory until its connection has its turn: so no more is read before it had.
#[test]
fn long_values_that_many_ask_for_at_once_are_read_a_few_at_a_time() {
    const CLIENTS: u64 = 500;
    const LENGTH: usize = 250_000;
    /// As the manual says. All the values together are twice as long.
    const GROWN: u64 = 60 * MIB;
    let mut node = Launch::patient().flag("--memory", "16MiB").flag("--threads", "1").start();
    let mut writer = node.connect();
    for index in 0..CLIENTS {
        writer.put(format!("key{index}"), &value(index, LENGTH));
    }
    drop(writer);
    node.restart();
    let before = node.peak_resident_bytes();
    let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| node.connect()).collect();
    for (client, index) in clients.iter_mut().zip(0..) {
        client.send_request("GET", &entity(format!("key{index}")), None);
    }
    for (client, index) in clients.iter_mut().zip(0..) {
        assert!(client.response().body == value(index, LENGTH), "key{index}");
    }
    let peak = node.peak_resident_bytes();
    assert!(peak < before + GROWN, "{} MiB resident, {} MiB before", peak / MIB, before / MIB);
}

#[test]
fn a_reader_that_pauses_gets_its_snapshot_however_much_is_written_meanwhile() {
    let node = small_node();
    let mut writer = node.connect();
    for index in 0..4_000_u64 {
        writer.put(format!("key{index:04}"), &value(index, 8_000));
    }
    let mut reader = node.connect();
    reader.send_request("GET", &range("key", None), None);
    assert_eq!(reader.response_head().status, 200);
    assert!(reader.next_record().expect("a stream").is_some());
    // All of it again: many memtables.
    for index in 0..4_000_u64 {
        writer.put(format!("key{index:04}"), &value(index + 10_000, 8_000));
    }
    check_memory(&node, "with a snapshot of 32 MB, all of which was replaced");
    for index in 1..4_000_u64 {
        let (key, found) = reader.next_record().expect("a stream").expect("a record");
        assert_eq!(key, format!("key{index:04}").into_bytes());
        assert!(found == value(index, 8_000), "key{index:04}");
    }
    assert_eq!(reader.next_record().expect("the end of a stream"), None);
    assert!(writer.value("key0007") == Some(value(10_007, 8_000)));
}

#[test]
fn a_large_range_needs_no_more_memory_than_a_small_one() {
    let node = small_node();
    let mut connection = node.connect();
    for index in 0..12_u64 {
        connection.put(format!("large{index:02}"), &value(index, 16 << 20));
    }
    connection.send_request("GET", &range("large", None), None);
    assert_eq!(connection.response_head().status, 200);
    for index in 0..12_u64 {
        let (_, found) = connection.next_record().expect("a stream").expect("a record");
        assert!(found == value(index, 16 << 20), "large{index:02}");
        check_memory(&node, "during a range of 192 MiB");
    }
    assert_eq!(connection.next_record().expect("the end of a stream"), None);
}

#[test]
fn readers_of_large_values_that_stop_cost_little() {
    let node = small_node();
    let largest = value(1, 64 << 20);
    node.connect().put("largest", &largest);
    check_memory(&node, "after a PUT of 64 MiB");
    let mut stalled: Vec<Connection> = (0..16).map(|_| node.connect()).collect();
    for connection in &mut stalled {
        connection.send_request("GET", &entity("largest"), None);
        assert_eq!(connection.response_head().status, 200);
    }
    check_service(&node);
    check_memory(&node, "with 16 readers of 64 MiB that stopped");
    assert!(stalled[3].try_read_exactly(64 << 20).expect("a value") == largest);
}

#[test]
fn writers_of_large_values_that_stop_cost_little() {
    let node = small_node();
    let half = value(2, 32 << 20);
    let mut stalled: Vec<Connection> = (0..8).map(|_| node.connect()).collect();
    for (number, connection) in stalled.iter_mut().enumerate() {
        let target = entity(format!("half{number}"));
        connection.send(format!("PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", 64 << 20));
        connection.send(&half);
    }
    check_service(&node);
    check_memory(&node, "with 8 values of 64 MiB half arrived");
    stalled[6].send(&half);
    assert_eq!(stalled[6].response().status, 201);
    let expected = [&half[..], &half[..]].concat();
    assert!(node.connect().value("half6") == Some(expected));
    drop(stalled);
    assert_eq!(node.connect().value("half5"), None);
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    let node = Launch::new().env("LADOGA_ANSWER_TIMEOUT_MS", "300").start();
    let mut writer = node.connect();
    for index in 0..256_u64 {
        writer.put(format!("key{index:03}"), &value(index, 100_000));
    }
    let mut stalled = node.connect();
    stalled.send_request("GET", &range("key", None), None);
    assert_eq!(stalled.response_head().status, 200);
    wait_until("an answer that is given up", || {
        node.metrics().sum("ladoga_responses_aborted_total", &[]).is_some_and(|count| count > 0.0)
    });
    // What it gets in the end is visibly not all.
    let mut records = 0;
    while let Ok(Some(_)) = stalled.next_record() {
        records += 1;
    }
    assert!(records < 256, "it was all sent");
    assert_eq!(node.connect().request("GET", "/v0/status", None).status, 200);
}

#[test]
fn clients_that_pipeline_and_never_read_cost_little() {
    let node = small_node();
    node.connect().put("key", &value(5, 100_000));
    let request = format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", entity("key")).repeat(100);
    let mut greedy: Vec<Connection> = (0..16).map(|_| node.connect()).collect();
    for connection in &mut greedy {
        connection.send(&request);
    }
    check_service(&node);
    check_memory(&node, "with 16 clients that asked for 10 MB each and read nothing");
    for _ in 0..100 {
        assert!(greedy[2].response().body == value(5, 100_000));
    }
}

/// Up to 4 MiB of values waited for each of these, and counted nowhere.
#[test]
fn answers_in_memory_that_nobody_reads_go_away() {
    const CLIENTS: usize = 200;
    /// So many may have room, or all of their answers in the buffers of sockets.
    const LEFT: usize = 20;
    const LONGEST_INLINE: usize = (256 << 10) - 1;
    let port = Port::claim();
    let launch = Launch::patient().flag("--memory", "16MiB").flag("--threads", "1");
    let mut node = launch.flag("--resp", &port.address().to_string()).start();
    let mut writer = node.connect();
    for index in 0..16 {
        writer.put(format!("key{index:02}"), &value(index, LONGEST_INLINE));
    }
    drop(writer);
    node.restart();
    let keys = (0..16).map(|index| format!("key{index:02}")).collect::<Vec<_>>().join(" ");
    let get = format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", entity("key07"));
    for (what, address, request) in [
        ("MGET", port.address(), format!("MGET {keys}\r\n").repeat(4)),
        ("GET", node.address(), get.repeat(64)),
    ] {
        let evicted =
            || node.metrics().sum("ladoga_slow_clients_evicted_total", &["value"]).expect("a count");
        let before = evicted();
        let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| Connection::open(address)).collect();
        for client in &mut clients {
            client.limit_receiving_to(4 << 10);
            client.send(&request);
        }
        wait_until("clients that give way", || evicted() - before >= (CLIENTS - LEFT) as f64);
        // The allocator gives back what the values had while others are served.
        wait_until(&format!("memory that is free again beside clients that do not read {what}"), || {
            check_service(&node);
            node.resident_bytes() < MEMORY + OVERHEAD
        });
    }
    // Who reads is sent everything.
    let mut reader = node.connect();
    for _ in 0..64 {
        reader.send(&get);
    }
    for _ in 0..64 {
        assert!(reader.response().body == value(7, LONGEST_INLINE));
    }
}

/// They are copied behind each other until there are enough to be written, and so many requests wait behind them.
#[test]
fn short_answers_that_nobody_reads_go_away() {
    const CLIENTS: usize = 200;
    /// So many may have room: each has at least 64 KiB of 4 MiB.
    const LEFT: usize = 64;
    let node = Launch::patient().flag("--memory", "16MiB").flag("--threads", "1").start();
    node.connect().put("key", &value(3, 10_000));
    let get = format!("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", entity("key"));
    let requests = get.repeat(1_000);
    let clients: Vec<Connection> = (0..CLIENTS)
        .map(|_| {
            let mut client = node.connect();
            client.limit_receiving_to(4 << 10);
            client.send(&requests);
            client
        })
        .collect();
    wait_until("clients that give way", || {
        let evicted = node.metrics().sum("ladoga_slow_clients_evicted_total", &["value"]);
        evicted.expect("a count") >= (CLIENTS - LEFT) as f64
    });
    // Who reads is sent everything.
    let mut reader = node.connect();
    reader.send(&requests);
    for _ in 0..1_000 {
        assert!(reader.response().body == value(3, 10_000));
    }
    drop(clients);
}
