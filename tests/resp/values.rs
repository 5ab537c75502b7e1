use crate::client::{RespNode, damage, request};
use crate::support::{Launch, value, wait_for};

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// From values that fit into a packet to those that are never in memory.
#[test]
fn values_of_every_length_are_kept() {
    let node = RespNode::start();
    let mut client = node.connect();
    for (n, length) in
        [0, 1, 16_000, 17_000, 65_535, 262_143, 262_144, 300_000, 5 << 20].into_iter().enumerate()
    {
        let (key, value) = (format!("k{n}"), value(n as u64, length));
        assert_eq!(client.ask_bytes(&[b"SET", key.as_bytes(), &value]), b"+OK\r\n", "{length}");
        assert!(client.ask_bytes(&[b"GET", key.as_bytes()]) == bulk(&value), "{length}");
        assert_eq!(client.ask(&format!("STRLEN {key}")), format!(":{length}\r\n"));
        assert!(node.node.connect().get(&key).body == value, "{length}");
    }
}

/// All of them were told as `set`.
#[test]
fn a_large_value_that_is_slow_is_told_with_its_command() {
    let launch = Launch::new().flag("--fsync", "never").env("LADOGA_SLOW_REQUEST", "1ms");
    let node = RespNode::launch(launch.env("LADOGA_LOG_FORMAT", "json"));
    let large = value(1, 300_000);
    for (command, between) in
        [("set", None), ("setnx", None), ("setex", Some("100")), ("psetex", Some("100000"))]
    {
        let line = wait_for("a command that is slow", || {
            let words = [command, command].into_iter().chain(between).map(str::as_bytes);
            let bytes = request(&words.chain([&large[..]]).collect::<Vec<_>>());
            let mut client = node.connect();
            client.send(&bytes[..200_000]);
            for _ in 0..20 {
                assert_eq!(node.node.connect().request("GET", "/metrics", None).status, 200);
            }
            client.send(&bytes[200_000..]);
            client.reply();
            let log = node.node.log();
            let mut lines =
                log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            lines.find(|line| line["message"] == "slow request" && line["key"] == command)
        });
        assert_eq!((&line["method"], &line["route"]), (&command.into(), &"redis".into()), "{line}");
    }
}

/// What is too long for one step is written side by side, and the last value of a key counts.
#[test]
fn the_last_value_of_a_key_that_is_set_twice_counts() {
    let node = RespNode::start();
    let mut client = node.connect();
    let large = value(1, 300_000);
    for n in 0..20 {
        let (key, other) = (format!("k{n}"), format!("n{n}"));
        let words = [&b"MSET"[..], key.as_bytes(), &large, key.as_bytes(), b"last"];
        assert_eq!(client.ask_bytes(&words), b"+OK\r\n");
        assert_eq!(client.ask(&format!("GET {key}")), "$4\r\nlast\r\n");
        let words = [&b"MSETNX"[..], other.as_bytes(), &large, other.as_bytes(), b"last"];
        assert_eq!(client.ask_bytes(&words), b":1\r\n");
        assert_eq!(client.ask(&format!("GET {other}")), "$4\r\nlast\r\n");
    }
}

#[test]
fn large_values_take_every_option() {
    let node = RespNode::start();
    let mut client = node.connect();
    let (one, other) = (value(1, 400_000), value(2, 500_000));
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &one, b"NX"]), b"+OK\r\n");
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &other, b"NX"]), b"$-1\r\n");
    assert_eq!(client.ask_bytes(&[b"SETNX", b"k", &other]), b":0\r\n");
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &other, b"bogus"]), b"-ERR syntax error\r\n");
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &other, b"PXAT", b"4102444800123", b"XX"]), b"+OK\r\n");
    assert!(client.ask_bytes(&[b"SET", b"k", &one, b"KEEPTTL", b"GET"]) == bulk(&other));
    assert_eq!(client.ask("PEXPIRETIME k"), ":4102444800123\r\n");
    assert_eq!(client.ask("PERSIST k"), ":1\r\n");
    assert!(client.ask_bytes(&[b"GETRANGE", b"k", b"399990", b"-1"]) == bulk(&one[399_990..]));
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &other, b"IFEQ", &other]), b"$-1\r\n");
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &other, b"IFNE", &one]), b"$-1\r\n");
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &other, b"IFEQ", &one]), b"+OK\r\n");
    assert!(client.ask_bytes(&[b"SET", b"k", &one, b"IFEQ", &other, b"GET"]) == bulk(&other));
    assert_eq!(client.ask("APPEND k xyz"), ":400003\r\n");
    assert_eq!(client.ask("RENAME k r"), "+OK\r\n");
    assert!(client.ask("GETDEL r").ends_with("xyz\r\n"));
    assert_eq!(client.ask("DBSIZE"), ":0\r\n");
}

/// Of the value before, only the time to live is of interest: it is damaged, and nobody notices.
#[test]
fn a_large_value_that_keeps_a_time_to_live_is_stored_without_the_one_before_being_read() {
    let mut node = RespNode::launch(Launch::embedded());
    let (before, after) = (value(9, 600_000), value(10, 700_000));
    assert_eq!(node.connect().ask_bytes(&[b"SET", b"k", &before, b"EX", b"1000"]), b"+OK\r\n");
    node.node.stop();
    damage(node.node.data(), &before[500..600]);
    node.node.start_again();
    let mut client = node.connect();
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &after, b"KEEPTTL"]), b"+OK\r\n");
    assert!(client.ask_bytes(&[b"GET", b"k"]) == bulk(&after));
    let ttl: i64 = client.ask("TTL k")[1..].trim_end().parse().expect("seconds");
    assert!((1..=1_000).contains(&ttl), "{ttl}");
}

/// What is before and behind the part is damaged, and nobody notices.
#[test]
fn a_part_of_a_large_value_is_read_without_the_rest() {
    const PIECE_BYTES: usize = 256 << 10;
    let mut node = RespNode::launch(Launch::embedded());
    let whole = value(9, 4 * PIECE_BYTES);
    assert_eq!(node.connect().ask_bytes(&[b"SET", b"k", &whole]), b"+OK\r\n");
    node.node.stop();
    for piece in [0, 3] {
        damage(node.node.data(), &whole[piece * PIECE_BYTES + 500..][..100]);
    }
    node.node.start_again();
    let mut client = node.connect();
    for (from, to) in [
        (PIECE_BYTES, PIECE_BYTES),
        (PIECE_BYTES + 7, 2 * PIECE_BYTES + 9),
        (3 * PIECE_BYTES - 1, 3 * PIECE_BYTES - 1),
    ] {
        let reply =
            client.ask_bytes(&[b"GETRANGE", b"k", from.to_string().as_bytes(), to.to_string().as_bytes()]);
        assert!(reply == bulk(&whole[from..=to]), "{from} to {to}");
    }
    assert_eq!(client.ask("GETRANGE k 5 4"), "$0\r\n\r\n");
    for damaged in ["GETRANGE k 0 0", "GETRANGE k -1 -1"] {
        let reply = client.ask(damaged);
        assert!(reply.starts_with('-') && reply.contains("checksum"), "{reply}");
    }
}

#[test]
fn large_values_stand_in_pipelines() {
    let node = RespNode::start();
    let mut client = node.connect();
    let large = value(3, 700_000);
    let mut bytes = request(&[b"SET", b"k", b"small"]);
    bytes.extend(request(&[b"SET", b"k", &large]));
    bytes.extend(request(&[b"GET", b"k"]));
    bytes.extend(request(&[b"SET", b"k", b"small again"]));
    bytes.extend(request(&[b"GET", b"k"]));
    client.send(&bytes);
    let replies: Vec<_> = (0..5).map(|_| client.reply()).collect();
    let ok = b"+OK\r\n".to_vec();
    assert!(replies == [ok.clone(), ok.clone(), bulk(&large), ok, bulk(b"small again")]);
}
