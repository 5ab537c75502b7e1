//! What a transaction holds until `EXEC` is answered is counted, and nothing else is kept with it.

use crate::client::{RespNode, request};
use crate::support::{Launch, value};

fn node(memory: &str) -> RespNode {
    let flags = [("--fsync", "never"), ("--memory", memory), ("--threads", "1")];
    RespNode::launch(
        flags.into_iter().fold(Launch::patient(), |launch, (flag, value)| launch.flag(flag, value)),
    )
}

/// Has a node do a command so often in one transaction; answers its reply, and by how much the node has grown at most.
fn exec(node: &RespNode, command: &[&[u8]], times: usize) -> (Vec<u8>, u64) {
    let mut client = node.connect();
    let before = node.node.peak_resident_bytes();
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    client.send(&request(command).repeat(times));
    (0..times).for_each(|_| assert_eq!(client.reply(), b"+QUEUED\r\n"));
    let reply = client.ask_bytes(&[b"EXEC"]);
    (reply, node.node.peak_resident_bytes().saturating_sub(before))
}

/// Each of them kept all of what was read for it: a value, or the keys around the one that is replied.
#[test]
fn a_reply_that_is_a_part_of_what_was_read_keeps_only_itself() {
    const TIMES: usize = 1_000;
    const GROWN_BYTES_MAX: u64 = 40 << 20;
    let keys: Vec<String> = (0..999).map(|n| format!("k{n:080}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_bytes(), b"v"]);
    let mset: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
    for words in ["GETRANGE k 0 0", "SUBSTR k -1 -1", "RANDOMKEY", "SCAN 0 COUNT 1000 MATCH *77"] {
        let node = node("64MiB");
        let mut client = node.connect();
        assert_eq!(client.ask_bytes(&mset), b"+OK\r\n");
        assert_eq!(client.ask_bytes(&[b"SET", b"k", &value(1, 255 << 10)]), b"+OK\r\n");
        let command: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let (reply, grown) = exec(&node, &command, TIMES);
        assert!(reply.starts_with(b"*1000\r\n"), "{words}: {:.200}", String::from_utf8_lossy(&reply));
        assert!(grown < GROWN_BYTES_MAX, "{words}: {grown} bytes");
    }
}

/// A key that was read took several times its length, and nobody counted it.
#[test]
fn keys_that_a_transaction_reads_count_with_what_it_holds() {
    for (memory, keys, expected) in [
        ("64MiB", 20_000, "*1\r\n:0\r\n"),
        ("64MiB", 60_000, "-ERR the transaction would take "),
        ("1GiB", 65_536, "*1\r\n:0\r\n"),
        ("1GiB", 65_537, "-ERR a transaction reads at most 65536 keys\r\n"),
    ] {
        let keys: Vec<String> = (0..keys).map(|n| format!("{n:05}")).collect();
        let words = std::iter::once(&b"EXISTS"[..]).chain(keys.iter().map(String::as_bytes));
        let (reply, _) = exec(&node(memory), &words.collect::<Vec<_>>(), 1);
        let reply = String::from_utf8_lossy(&reply);
        assert!(reply.starts_with(expected), "{memory}, {} keys: {reply}", keys.len());
    }
}
