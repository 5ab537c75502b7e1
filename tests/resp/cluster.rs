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

/// The commands behind it asked for as many copies as before the transaction.
#[test]
fn a_transaction_says_how_many_copies_the_commands_behind_ask_for() {
    let nodes = RespNode::cluster(3);
    let mut client = nodes[0].connect();
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    // `WAIT` tells how many others have what was acknowledged.
    for command in
        ["WAIT 0 0", "LADOGA.REPLICAS 3/3", "WAIT 0 0", "SET k v", "LADOGA.REPLICAS 1/3", "WAIT 0 0"]
    {
        assert_eq!(client.ask(command), "+QUEUED\r\n");
    }
    assert_eq!(client.ask("EXEC"), "*6\r\n:1\r\n+OK\r\n:2\r\n+OK\r\n+OK\r\n:0\r\n");
    assert_eq!(client.ask("LADOGA.REPLICAS"), "$3\r\n1/3\r\n");
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

/// Where the value comes before the options, nothing was known of them when it was sent to the replicas.
#[test]
fn large_values_of_a_cluster_expire() {
    const AT_S: u64 = 4_102_444_800;
    let nodes = RespNode::cluster(3);
    let (mut one, mut other) = (nodes[0].connect(), nodes[1].connect());
    let (large, at) = (value(3, 300_000), AT_S.to_string());
    let words = |command: &str| -> Vec<Vec<u8>> {
        let word = |word: &str| if word == "LARGE" { large.clone() } else { word.as_bytes().to_vec() };
        command.split(' ').map(word).collect()
    };
    let mut ask = |command: &str| {
        let words = words(command);
        let reply = one.ask_bytes(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        String::from_utf8_lossy(&reply).trim_end().to_owned()
    };
    let mut lives = |key: &str| {
        let reply = other.ask(&format!("TTL {key}"));
        reply[1..].trim_end().parse::<i64>().expect("a number")
    };
    for command in ["SET k LARGE EX 1000", "SETEX k 1000 LARGE", "PSETEX k 1000000 LARGE"] {
        assert_eq!(ask(command), "+OK");
        assert!((1..=1000).contains(&lives("k")), "{command}: {}", lives("k"));
        // It is gone with that.
        assert_eq!(ask("SET k LARGE"), "+OK");
        assert_eq!(lives("k"), -1);
    }
    assert_eq!(ask("SET n LARGE PX 1000000 NX"), "+OK");
    assert!(lives("n") > 0);
    assert_eq!(ask(&format!("SET k LARGE EXAT {at}")), "+OK");
    assert_eq!(ask("SET k LARGE KEEPTTL"), "+OK");
    assert_eq!(ask("RENAME k r"), "+OK");
    assert_eq!(ask("EXPIRETIME r"), format!(":{at}"));
    assert_eq!(ask("APPEND r x"), ":300001");
    assert_eq!(ask("EXPIRETIME r"), format!(":{at}"));
    assert_eq!(ask("MULTI"), "+OK");
    assert_eq!(ask(&format!("SET m LARGE EXAT {at}")), "+QUEUED");
    assert_eq!(ask("EXEC"), "*1\r\n+OK");
    assert_eq!(ask("EXPIRETIME m"), format!(":{at}"));
    assert_eq!(ask("SET m LARGE PXAT 1000"), "+OK");
    assert_eq!(ask("EXISTS m"), ":0", "it had expired before");
}

/// They are in memory as a whole, and longer than what nodes send each other in one piece.
#[test]
fn a_cluster_stores_values_that_commands_make() {
    let nodes = RespNode::cluster(3);
    let (mut one, mut other) = (nodes[0].connect(), nodes[1].connect());
    let mut whole = value(5, 700_000);
    assert_eq!(one.ask_bytes(&[b"MSETNX", b"k", &whole, b"n", b"1"]), b":1\r\n");
    assert_eq!(one.ask("APPEND k xyz"), ":700003\r\n");
    assert_eq!(one.ask("SETRANGE k 300000 hello"), ":700003\r\n");
    assert_eq!(one.ask("RENAME k r"), "+OK\r\n");
    let replies = ["MULTI", "APPEND r !", "EXEC"].map(|command| one.ask(command));
    assert_eq!(replies[2], "*1\r\n:700004\r\n");
    whole.extend_from_slice(b"xyz!");
    whole[300_000..300_005].copy_from_slice(b"hello");
    assert!(other.ask_bytes(&[b"GET", b"r"]) == [b"$700004\r\n", &whole[..], b"\r\n"].concat());
    assert!(nodes.iter().all(|node| !node.node.log().contains("panicked")));
}

/// A write that depends on what is there has several steps, however few nodes the key has.
#[test]
fn a_node_that_has_a_key_alone_decides_about_large_values() {
    let nodes = RespNode::cluster(3);
    let mut client = nodes[0].connect();
    assert_eq!(client.ask("LADOGA.REPLICAS 1/1"), "+OK\r\n");
    let large = value(6, 300_000);
    // The node that is asked has some of the keys.
    for n in 0..12 {
        let key = format!("k{n}");
        for (before, options, reply) in [
            ("SETNX", "", ":1"),
            ("SETNX", "", ":0"),
            ("SET", "NX", "$-1"),
            ("SET", "XX", "+OK"),
            ("SET", "KEEPTTL", "+OK"),
        ] {
            let words = [before.as_bytes(), key.as_bytes(), &large, options.as_bytes()];
            let words = &words[..if options.is_empty() { 3 } else { 4 }];
            let found = client.ask_bytes(words);
            assert_eq!(String::from_utf8_lossy(&found), format!("{reply}\r\n"), "{before} {key} {options}");
        }
        assert_eq!(client.ask(&format!("APPEND {key} x")), ":300001\r\n");
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

/// Replies that are long go out before the commands behind them are done.
#[test]
fn a_watched_key_that_changes_while_replies_are_sent_is_an_error_in_the_place_of_its_command() {
    let nodes = RespNode::cluster(3);
    let (mut one, mut other) = (nodes[0].connect(), nodes[1].connect());
    // More than sockets hold: the reply stops until it is read.
    let large = value(7, 40 << 20);
    assert_eq!(one.ask_bytes(&[b"SET", b"large", &large]), b"+OK\r\n");
    assert_eq!(one.ask("SET small 1"), "+OK\r\n");
    for write in ["SET b mine", "DEL b", "RENAME b c", "COPY b c", "MSETNX b mine c mine"] {
        assert_eq!(other.ask("DEL b c").len(), ":0\r\n".len());
        if !write.starts_with("MSETNX") {
            assert_eq!(other.ask("SET b 1"), "+OK\r\n");
        }
        assert_eq!(one.ask("WATCH b"), "+OK\r\n");
        for command in ["MULTI", "GET large", "GET small", write] {
            assert!(one.ask(command).starts_with('+'), "{command}");
        }
        one.send(&request(&[b"EXEC"]));
        // So far, nothing had changed.
        assert_eq!(one.line(), "*3\r\n");
        assert_eq!(other.ask("SET b theirs"), "+OK\r\n");
        assert!(one.reply() == [b"$41943040\r\n", &large[..], b"\r\n"].concat(), "{write}");
        assert_eq!(one.reply(), b"$1\r\n1\r\n", "{write}");
        let reply = String::from_utf8_lossy(&one.reply()).into_owned();
        assert!(reply.starts_with("-ERR a watched key was changed while EXEC ran"), "{write}: {reply}");
        assert_eq!(one.ask("MGET b c"), "*2\r\n$6\r\ntheirs\r\n$-1\r\n", "{write}");
    }
}

/// A command can write some of its keys before it finds that another has changed.
#[test]
fn exec_does_not_say_that_nothing_happened_once_something_was_written() {
    const KEYS: usize = 1_000;
    let nodes = RespNode::cluster(3);
    let (mut one, mut other) = (nodes[0].connect(), nodes[1].connect());
    let mut round = 0;
    wait_until("a write that comes while others are being made", || {
        round += 1;
        let number = round.to_string();
        let keys: Vec<String> = (0..KEYS).map(|key| format!("a{key}")).chain(["b".to_owned()]).collect();
        let pairs = keys.iter().flat_map(|key| [key.as_bytes(), number.as_bytes()]);
        assert_eq!(one.ask("WATCH b"), "+OK\r\n");
        assert_eq!(one.ask("MULTI"), "+OK\r\n");
        let mset: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
        assert_eq!(one.ask_bytes(&mset), b"+QUEUED\r\n");
        one.send(&request(&[b"EXEC"]));
        wait_until("the first of the keys", || other.ask("GET a0").ends_with(&format!("\n{number}\r\n")));
        assert_eq!(other.ask("SET b theirs"), "+OK\r\n");
        let reply = String::from_utf8_lossy(&one.reply()).into_owned();
        let is_late = reply == "*1\r\n+OK\r\n";
        let is_told = reply.starts_with("*1\r\n-ERR a watched key was changed while EXEC ran");
        assert!(is_late || is_told, "something was written: {reply}");
        is_told
    });
}
