//! Transactions of a node on its own: all or nothing, and by themselves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::client::{RespClient, RespNode, request};
use crate::support::{Launch, value, wait_until};

/// Queues commands and has them done.
#[track_caller]
fn exec(client: &mut RespClient, commands: &[&str]) -> String {
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    for command in commands {
        assert_eq!(client.ask(command), "+QUEUED\r\n", "{command}");
    }
    client.ask("EXEC")
}

/// The texts in a reply.
fn texts(reply: &str) -> Vec<String> {
    let lines = reply.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
    lines.map(str::to_owned).collect()
}

#[test]
fn each_command_sees_what_those_before_it_wrote() {
    let node = RespNode::start();
    let mut client = node.connect();
    for (commands, expected) in [
        (
            &["SET a 1", "INCR a", "GET a", "APPEND a 5", "STRLEN a"][..],
            "*5\r\n+OK\r\n:2\r\n$1\r\n2\r\n:2\r\n:2\r\n",
        ),
        (
            &["GETSET a 7", "SETNX a 8", "SET a 9 XX GET", "GETRANGE a 0 0"],
            "*4\r\n$2\r\n25\r\n:0\r\n$1\r\n7\r\n$1\r\n9\r\n",
        ),
        (
            &["EXPIRE a 100", "TTL a", "INCR a", "TTL a", "PERSIST a", "TTL a"],
            "*6\r\n:1\r\n:100\r\n:10\r\n:100\r\n:1\r\n:-1\r\n",
        ),
        (
            &["MSET b 1 c 2", "MGET a b c d", "DEL b x c", "EXISTS a b c"],
            "*4\r\n+OK\r\n*4\r\n$2\r\n10\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n:2\r\n:1\r\n",
        ),
        (
            &["MSETNX a 1 z 2", "MSETNX y 1 z 2", "RENAME y x", "COPY x w", "TYPE y"],
            "*5\r\n:0\r\n:1\r\n+OK\r\n:1\r\n+none\r\n",
        ),
        (
            &["DBSIZE", "SET b 1", "KEYS *", "DEL a", "DBSIZE", "KEYS [abw]"],
            "*6\r\n:4\r\n+OK\r\n*5\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nw\r\n$1\r\nx\r\n$1\r\nz\r\n:1\r\n:4\r\n*2\r\n$1\r\nb\r\n$1\r\nw\r\n",
        ),
        (
            &["SCAN 0 MATCH b*", "SET n text", "INCR n", "SET n 1", "INCR n"],
            "*5\r\n*2\r\n$1\r\n0\r\n*1\r\n$1\r\nb\r\n+OK\r\n-ERR value is not an integer or out of range\r\n+OK\r\n:2\r\n",
        ),
        (
            &["SET p v PX 1", "PEXPIRE b -1", "EXISTS p b", "DELEX z", "GETDEL x"],
            "*5\r\n+OK\r\n:1\r\n:1\r\n:1\r\n$1\r\n1\r\n",
        ),
        (&[], "*0\r\n"),
        (&["PING", "ECHO x", "CLIENT GETNAME", "SELECT 0"], "*4\r\n+PONG\r\n$1\r\nx\r\n$-1\r\n+OK\r\n"),
    ] {
        assert_eq!(exec(&mut client, commands), expected, "{commands:?}");
    }
    // And so it stays.
    assert_eq!(client.ask("MGET a b n w x z"), "*6\r\n$-1\r\n$-1\r\n$1\r\n2\r\n$1\r\n1\r\n$-1\r\n$-1\r\n");
}

#[test]
fn what_is_no_part_of_a_transaction_is_refused_and_nothing_is_done() {
    let node = RespNode::launch(Launch::new().flag("--fsync", "never").env("LADOGA_RESP_FLUSH", "true"));
    let mut client = node.connect();
    for command in ["FLUSHALL", "FLUSHDB ASYNC", "CLIENT REPLY OFF", "CLIENT REPLY SKIP"] {
        assert_eq!(client.ask("MULTI"), "+OK\r\n");
        assert_eq!(client.ask("SET k v"), "+QUEUED\r\n");
        assert_eq!(client.ask(command), "-ERR Command not allowed inside a transaction\r\n");
        assert_eq!(client.ask("SET k w"), "+QUEUED\r\n");
        assert_eq!(client.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.\r\n");
        assert_eq!(client.ask("GET k"), "$-1\r\n");
    }
}

#[test]
fn nobody_sees_a_part_of_a_transaction() {
    let node = RespNode::start();
    node.connect().ask("MSET one 1000 other 1000");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (1..=3)
            .map(|number| {
                let node = &node;
                scope.spawn(move || {
                    let mut client = node.connect();
                    for round in 0..150 {
                        let by = number * (round % 7);
                        let commands = [format!("DECRBY one {by}"), format!("INCRBY other {by}")];
                        let reply = exec(&mut client, &[&commands[0], &commands[1]]);
                        assert!(reply.starts_with("*2\r\n:"), "{reply}");
                        // The same by a command that writes two keys.
                        assert_eq!(client.ask(&format!("MSET left {round} right {round}")), "+OK\r\n");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut client = node.connect();
            while !is_over.load(Ordering::Relaxed) {
                let both = texts(&exec(&mut client, &["GET one", "GET other"]));
                let sum: i64 = both.iter().map(|text| text.parse::<i64>().expect("a number")).sum();
                assert_eq!(sum, 2_000, "{both:?}");
                let both = texts(&exec(&mut client, &["MGET left right"]));
                assert!(both.is_empty() || both[0] == both[1], "{both:?}");
            }
        });
        let ended: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.expect("a writer"));
    });
}

/// Others get in the way of most of them, and none is lost or done twice.
#[test]
fn transactions_that_write_the_same_keys_are_done_once_each() {
    let node = RespNode::start();
    let (threads, each) = (6, 40);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut client = node.connect();
                for _ in 0..each {
                    let reply = exec(&mut client, &["INCR n", "GET n", "APPEND log x"]);
                    let numbers = texts(&reply);
                    assert_eq!(numbers[0], format!(":{}", numbers[1]), "{reply}");
                }
            });
        }
    });
    let count = threads * each;
    assert_eq!(node.connect().ask("GET n"), format!("${}\r\n{count}\r\n", count.to_string().len()));
    assert_eq!(node.connect().ask("STRLEN log"), format!(":{count}\r\n"));
}

#[test]
fn any_of_several_watched_keys_keeps_a_transaction_from_happening() {
    let node = RespNode::start();
    let (mut client, mut other) = (node.connect(), node.connect());
    for changed in ["a", "b", "c"] {
        assert_eq!(client.ask("WATCH a b c"), "+OK\r\n");
        assert_eq!(client.ask("MULTI"), "+OK\r\n");
        assert_eq!(client.ask("SET d 1"), "+QUEUED\r\n");
        assert_eq!(other.ask(&format!("INCR {changed}")), ":1\r\n");
        assert_eq!(client.ask("EXEC"), "*-1\r\n", "{changed}");
        assert_eq!(client.ask("GET d"), "$-1\r\n");
    }
    assert_eq!(client.ask("WATCH a b c"), "+OK\r\n");
    assert_eq!(exec(&mut client, &["SET d 1"]), "*1\r\n+OK\r\n");
}

#[test]
fn large_values_stand_in_transactions() {
    let node = RespNode::start();
    let mut client = node.connect();
    let (large, other) = (value(1, 700_000), value(2, 300_000));
    let bulk = |value: &[u8]| [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat();
    assert_eq!(client.ask_bytes(&[b"SET", b"stored", &large]), b"+OK\r\n");
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(client.ask_bytes(&[b"SET", b"new", &other]), b"+QUEUED\r\n");
    for command in [
        "GET stored",
        "GET new",
        "APPEND new x",
        "EXPIRE stored 100",
        "RENAME stored moved",
        "GETRANGE moved 699999 -1",
        "GETSET new y",
    ] {
        assert_eq!(client.ask(command), "+QUEUED\r\n");
    }
    let appended = [&other[..], b"x"].concat();
    let expected = [
        &b"*8\r\n+OK\r\n"[..],
        &bulk(&large),
        &bulk(&other),
        b":300001\r\n:1\r\n+OK\r\n",
        &bulk(&large[699_999..]),
        &bulk(&appended),
    ]
    .concat();
    assert!(client.ask_bytes(&[b"EXEC"]) == expected);
    assert_eq!(client.ask("GET new"), "$1\r\ny\r\n");
    assert_eq!(client.ask("TTL moved"), ":100\r\n");
    assert!(client.ask_bytes(&[b"GET", b"moved"]) == bulk(&large));
}

#[test]
fn more_than_the_log_takes_at_once_is_refused_whole() {
    let node = RespNode::launch(
        Launch::new().flag("--fsync", "never").flag("--memory", "16MiB").flag("--threads", "1"),
    );
    let mut client = node.connect();
    let text = value(1, 60_000);
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    for n in 0..10 {
        assert_eq!(client.ask_bytes(&[b"SET", format!("k{n}").as_bytes(), &text]), b"+QUEUED\r\n");
    }
    let reply = client.ask("EXEC");
    assert!(reply.starts_with("-ERR the operations take up to"), "{reply}");
    assert_eq!(client.ask("DBSIZE"), ":0\r\n");
    // By itself, such a command writes each key.
    let words: Vec<Vec<u8>> = (0..10).flat_map(|n| [format!("k{n}").into_bytes(), text.clone()]).collect();
    let words: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(words.iter().map(Vec::as_slice)).collect();
    assert_eq!(client.ask_bytes(&words), b"+OK\r\n");
    assert_eq!(client.ask("DBSIZE"), ":10\r\n");
}

/// With one key more, it was done key by key, and succeeded.
#[test]
fn as_many_long_keys_as_are_deleted_in_one_step_are_not_too_many_for_the_log() {
    const KEYS: usize = 1_024;
    let node = RespNode::launch(Launch::patient().flag("--fsync", "never").flag("--memory", "32MiB"));
    let mut client = node.connect();
    let keys: Vec<String> = (0..KEYS).map(|n| format!("{n:01100}")).collect();
    for command in ["DEL", "UNLINK"] {
        let pairs = keys.iter().flat_map(|key| [key.as_bytes(), b"v"]);
        let mset: Vec<&[u8]> = std::iter::once(&b"MSET"[..]).chain(pairs).collect();
        assert_eq!(client.ask_bytes(&mset), b"+OK\r\n");
        let words = std::iter::once(command.as_bytes()).chain(keys.iter().map(String::as_bytes));
        let told = client.ask_bytes(&words.collect::<Vec<_>>());
        assert_eq!(String::from_utf8_lossy(&told), format!(":{KEYS}\r\n"), "{command}");
        assert_eq!(client.ask("DBSIZE"), ":0\r\n");
    }
}

/// What a transaction holds is counted once, and what can never fit says so.
#[test]
fn a_transaction_takes_as_much_memory_as_one_client_may_have() {
    let launch =
        |memory| Launch::patient().flag("--fsync", "never").flag("--threads", "2").flag("--memory", memory);
    for (memory, (count, bytes), expected) in [
        ("64MiB", (1, 1_000_000), "*1\r\n+OK\r\n"),
        ("64MiB", (3, 1_000_000), "*3\r\n+OK\r\n+OK\r\n+OK\r\n"),
        ("64MiB", (40, 50_000), "-ERR the operations take up to "),
        ("64MiB", (2_000, 1_000), "-ERR the operations take up to "),
        ("64MiB", (8, 1_000_000), "-EXECABORT"),
        ("1GiB", (1, 10_000_000), "*1\r\n+OK\r\n"),
    ] {
        let node = RespNode::launch(launch(memory));
        let mut client = node.connect();
        client.send(b"MULTI\r\n");
        let text = value(1, bytes);
        let mut last = client.reply();
        for n in 0..count {
            client.send(&request(&[b"SET", format!("b{n}").as_bytes(), &text]));
            last = client.reply();
        }
        let what = format!("{memory}, {count} values of {bytes} bytes");
        if expected == "-EXECABORT" {
            let told = String::from_utf8_lossy(&last);
            assert!(
                told.starts_with("-ERR the transaction would take 80") && told.contains("at most 7340032 "),
                "{what}: {told}"
            );
            continue;
        }
        assert_eq!(last, b"+QUEUED\r\n", "{what}");
        let reply = client.ask("EXEC");
        assert!(reply.starts_with(expected), "{what}: {reply}");
    }
}

/// A crash in the middle of transactions, and of commands that write two keys, leaves all of each or nothing.
#[test]
fn a_crash_leaves_all_of_a_transaction_or_nothing() {
    let mut node = RespNode::launch(Launch::new().flag("--fsync", "always"));
    for round in 1..=3 {
        let acknowledged = [AtomicU64::new(0), AtomicU64::new(0)];
        let (of_exec, of_mset) = (&acknowledged[0], &acknowledged[1]);
        let connections = [node.connect(), node.connect()];
        thread::scope(|scope| {
            let [mut first, mut second] = connections;
            let number = |n: u64| round * 1_000_000 + n;
            scope.spawn(move || {
                for n in 1.. {
                    let sets = ["x", "y", "z"].map(|key| format!("SET {key} {}", number(n)));
                    let commands = ["MULTI", &sets[0], &sets[1], &sets[2], "EXEC"];
                    if commands.iter().any(|command| first.try_ask(command).is_none()) {
                        return;
                    }
                    of_exec.store(number(n), Ordering::Relaxed);
                }
            });
            scope.spawn(move || {
                for n in 1.. {
                    let n = number(n);
                    if second.try_ask(&format!("MSET p {n} q {n}")).is_none() {
                        return;
                    }
                    of_mset.store(n, Ordering::Relaxed);
                }
            });
            let is_under_way = || acknowledged.iter().all(|last| last.load(Ordering::Relaxed) > number(20));
            wait_until("transactions under way", is_under_way);
            node.node.kill();
        });
        node.node.start_again();
        for (keys, last) in [("MGET x y z", of_exec), ("MGET p q", of_mset)] {
            let found = texts(&node.connect().ask(keys));
            assert!(found.iter().all(|text| *text == found[0]), "{keys}: {found:?}");
            let number: u64 = found[0].parse().expect("a number");
            assert!(number >= last.load(Ordering::Relaxed), "{keys}: {number} after {last:?}");
        }
    }
}
