//! Requests for many keys whose values are on the disk, and together far more than the node may hold.

use crate::client::{RespClient, RespNode};
use crate::support::{Connection, Launch, value};

/// More than may wait for the disk at a time, and so many that what a node takes for any number of reads is far below what their
/// values are.
const KEYS: u64 = 2_400;
/// Keys of a batch: no more may be in one.
const BATCH_KEYS: u64 = 1_000;
const VALUE_BYTES: usize = 100_000;

fn key(number: u64) -> String {
    format!("k{number:04}")
}

/// A node that has just been started on the keys.
fn filled() -> RespNode {
    let flags = [("--fsync", "never"), ("--memory", "16MiB"), ("--threads", "1")];
    let launch = flags.into_iter().fold(Launch::patient(), |launch, (flag, value)| launch.flag(flag, value));
    let mut node = RespNode::launch(launch);
    let mut client = node.connect();
    for number in 0..KEYS {
        let value = value(number, VALUE_BYTES);
        assert_eq!(client.ask_bytes(&[b"SET", key(number).as_bytes(), &value]), b"+OK\r\n");
    }
    node.node.restart();
    node
}

/// Asks for things of so many keys; the node, which has just been started, may not grow by three tenths of their values.
#[track_caller]
fn frugally(node: &RespNode, keys: u64, ask: impl FnOnce()) {
    let before = node.node.peak_resident_bytes();
    ask();
    let grown = node.node.peak_resident_bytes() - before;
    assert!(grown < keys * VALUE_BYTES as u64 * 3 / 10, "{grown} bytes");
}

/// A command with all keys, each with these arguments behind it.
fn ask(client: &mut RespClient, command: &str, behind: &[&[u8]]) -> String {
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let each = keys.iter().flat_map(|key| std::iter::once(key.as_bytes()).chain(behind.iter().copied()));
    let arguments: Vec<&[u8]> = std::iter::once(command.as_bytes()).chain(each).collect();
    String::from_utf8(client.ask_bytes(&arguments)).expect("text")
}

fn exec(client: &mut RespClient, command: &str, behind: &[&[u8]]) -> String {
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(ask(client, command, behind), "+QUEUED\r\n");
    client.ask("EXEC")
}

#[test]
fn who_asks_whether_keys_are_there_reads_them_without_holding_them() {
    let node = filled();
    let mut client = node.connect();
    frugally(&node, KEYS, || {
        assert_eq!(ask(&mut client, "EXISTS", &[]), format!(":{KEYS}\r\n"));
        assert_eq!(ask(&mut client, "MSETNX", &[b"new"]), ":0\r\n");
    });
}

#[test]
fn transactions_of_more_keys_than_may_wait_for_the_disk_succeed() {
    let node = filled();
    let mut client = node.connect();
    frugally(&node, KEYS, || {
        assert_eq!(exec(&mut client, "EXISTS", &[]), format!("*1\r\n:{KEYS}\r\n"));
        assert_eq!(exec(&mut client, "MSETNX", &[b"new"]), "*1\r\n:0\r\n");
        assert_eq!(exec(&mut client, "MSET", &[b"new"]), "*1\r\n+OK\r\n");
    });
    assert_eq!(client.ask("GET k0007"), "$3\r\nnew\r\n");
}

#[test]
fn atomic_batches_of_as_many_conditions_succeed_or_say_which_is_false() {
    let node = filled();
    let put = |number, condition: &str| {
        format!("{{\"op\":\"put\",\"key\":\"{}\",\"value\":\"new\",{condition}}}\n", key(number))
    };
    // The last one is false.
    let of = |number| if number == KEYS - 1 { "\"if_none_match\":\"*\"" } else { "\"if_match\":\"*\"" };
    let lines: String = (KEYS - BATCH_KEYS..KEYS).map(|number| put(number, of(number))).collect();
    let batch = |connection: &mut Connection, lines: &str| {
        connection.request("POST", "/v0/batch?atomic=true", Some(lines.as_bytes())).status
    };
    let all: String = (0..BATCH_KEYS).map(|number| put(number, "\"if_match\":\"*\"")).collect();
    let mut connection = node.node.connect();
    frugally(&node, BATCH_KEYS, || {
        assert_eq!(batch(&mut connection, &lines), 412);
        assert_eq!(connection.value(key(KEYS - 2)), Some(value(KEYS - 2, VALUE_BYTES)));
        assert_eq!(batch(&mut connection, &all), 200);
    });
    assert_eq!(connection.value(key(7)), Some(b"new".to_vec()));
}
