//! What is done by one node of a cluster is seen by the others, and what is not done in one step there is as it is documented.

use crate::client::{RespNode, damage, request};
use crate::support::{value, wait_until};

#[test]
fn a_cluster_serves_every_kind_of_command() {
    let nodes = RespNode::cluster(3);
    let (mut one, mut other) = (nodes[0].connect(), nodes[1].connect());
    for (command, reply) in [
        ("LADOGA.REPLICAS", "$3\r\n2/3"),
        ("SET k v", "+OK"),
        ("SETNX k w", ":0"),
        ("SET k w XX GET", "$1\r\nv"),
        ("MSET a 1 b 2 a 3", "+OK"),
        ("MSETNX a 1 z 2", ":0"),
        ("INCR a", ":4"),
        ("EXPIRE a 100", ":1"),
        ("RENAME b c", "+OK"),
        ("COPY c d", ":1"),
        ("DEL k", ":1"),
        ("DEL k a none", ":1"),
    ] {
        assert_eq!(one.ask(command), format!("{reply}\r\n"), "{command}");
    }
    assert_eq!(other.ask("MGET a b c d k"), "*5\r\n$-1\r\n$-1\r\n$1\r\n2\r\n$1\r\n2\r\n$-1\r\n");
    assert!(one.ask("INFO server").contains("ladoga_transactions:MULTI: in order, not isolated"));
    // A transaction, with and without replies, and what it watches.
    let transaction = ["MULTI", "SET c 5", "INCR c", "MGET c d", "EXEC"];
    let replies = transaction.map(|command| one.ask(command));
    assert_eq!(replies[4], "*3\r\n+OK\r\n:6\r\n*2\r\n$1\r\n6\r\n$1\r\n2\r\n");
    one.send(b"CLIENT REPLY OFF\r\n");
    transaction.iter().for_each(|command| one.send(format!("{command}\r\n").as_bytes()));
    one.send(b"CLIENT REPLY ON\r\nPING\r\n");
    assert_eq!((one.reply(), one.reply()), (b"+OK\r\n".to_vec(), b"+PONG\r\n".to_vec()));
    for changed in [true, false] {
        assert_eq!(one.ask("WATCH c"), "+OK\r\n");
        if changed {
            assert_eq!(other.ask("INCR c"), ":7\r\n");
        }
        assert_eq!(one.ask("MULTI"), "+OK\r\n");
        assert_eq!(one.ask("SET c mine"), "+QUEUED\r\n");
        assert_eq!(one.ask("EXEC"), if changed { "*-1\r\n" } else { "*1\r\n+OK\r\n" });
    }
}

#[test]
fn pipelines_of_a_cluster_are_answered_in_order() {
    let nodes = RespNode::cluster(3);
    let mut client = nodes[0].connect();
    let (mut bytes, mut expected) = (Vec::new(), String::new());
    for n in 0..60 {
        for (words, reply) in [
            (vec!["SET".to_owned(), "n".to_owned(), n.to_string()], "+OK".to_owned()),
            (vec!["INCR".to_owned(), "n".to_owned()], format!(":{}", n + 1)),
            (vec!["DEL".to_owned(), "n".to_owned()], ":1".to_owned()),
            (vec!["SETNX".to_owned(), "n".to_owned(), "x".to_owned()], ":1".to_owned()),
            (vec!["GET".to_owned(), "n".to_owned()], "$1\r\nx".to_owned()),
        ] {
            bytes.extend(request(&words.iter().map(String::as_bytes).collect::<Vec<_>>()));
            expected.extend([&*reply, "\r\n"]);
        }
    }
    client.send(&bytes);
    client.finish_sending();
    assert_eq!(String::from_utf8_lossy(&client.rest()), expected);
}

/// What is before the part is damaged at each node, and nobody notices, whichever node is asked and whichever has it.
#[test]
fn a_part_of_a_large_value_comes_from_another_node_without_the_rest() {
    let mut nodes = RespNode::cluster(3);
    let whole = value(7, 600_000);
    let mut client = nodes[0].connect();
    assert_eq!(client.ask("LADOGA.REPLICAS 3/3"), "+OK\r\n");
    assert_eq!(client.ask_bytes(&[b"SET", b"k", &whole]), b"+OK\r\n");
    for node in &mut nodes {
        node.node.stop();
        damage(node.node.data(), &whole[500..600]);
    }
    nodes.iter_mut().for_each(|node| node.node.spawn());
    nodes.iter_mut().for_each(|node| node.node.wait_until_it_serves());
    for node in &nodes {
        let mut client = node.connect();
        wait_until("a node that reaches the others", || client.ask("STRLEN k") == ":600000\r\n");
        let part = client.ask_bytes(&[b"GETRANGE", b"k", b"300000", b"300004"]);
        assert_eq!(part, [b"$5\r\n", &whole[300_000..300_005], b"\r\n"].concat());
        let reply = client.ask("GETRANGE k 0 0");
        assert!(reply.starts_with('-') && reply.contains("checksum"), "{reply}");
    }
}

#[test]
fn a_flush_deletes_what_all_nodes_have() {
    let nodes = RespNode::cluster(3);
    let mut clients: Vec<_> = nodes.iter().map(RespNode::connect).collect();
    for n in 0..700 {
        let client = &mut clients[n % 3];
        client.send(&request(&[b"SET", format!("key:{n}").as_bytes(), b"v"]));
    }
    for n in 0..700 {
        assert_eq!(clients[n % 3].reply(), b"+OK\r\n");
    }
    assert_eq!(clients[2].ask("DBSIZE"), ":700\r\n");
    assert_eq!(clients[0].ask("FLUSHALL"), "+OK\r\n");
    for client in &mut clients {
        assert_eq!(client.ask("DBSIZE"), ":0\r\n");
        assert_eq!(client.ask("GET key:5"), "$-1\r\n");
    }
}

/// A long `MSET` begins its keys a part at a time: nothing of the same connection comes in between.
#[test]
fn what_follows_a_long_write_of_many_keys_comes_after_all_of_it() {
    const KEYS: usize = 600;
    let nodes = RespNode::cluster(3);
    let mut client = nodes[0].connect();
    let keys: Vec<String> = (0..KEYS).map(|number| format!("k{number}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_bytes(), b"old"]);
    let mset: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
    let sets = keys.iter().rev().flat_map(|key| request(&[b"SET", key.as_bytes(), b"new"]));
    for _ in 0..5 {
        client.send(&request(&mset).into_iter().chain(sets.clone()).collect::<Vec<u8>>());
        for _ in 0..=KEYS {
            assert_eq!(client.reply(), b"+OK\r\n");
        }
        for key in &keys {
            assert_eq!(client.ask(&format!("GET {key}")), "$3\r\nnew\r\n", "{key}");
        }
    }
}
