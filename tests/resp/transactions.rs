use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::{RespNode, request};
use crate::support::{Launch, wait_until};

#[test]
fn a_transaction_is_done_at_its_end() {
    let node = RespNode::start();
    let (mut client, mut other) = (node.connect(), node.connect());
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(client.ask("SET k 1"), "+QUEUED\r\n");
    assert_eq!(client.ask("INCR k"), "+QUEUED\r\n");
    assert_eq!(client.ask("CLIENT SETNAME me"), "+QUEUED\r\n");
    assert_eq!(client.ask("GET k"), "+QUEUED\r\n");
    assert_eq!(other.ask("GET k"), "$-1\r\n");
    assert_eq!(client.ask("EXEC"), "*4\r\n+OK\r\n:2\r\n+OK\r\n$1\r\n2\r\n");
    assert_eq!(client.ask("EXEC"), "-ERR EXEC without MULTI\r\n");
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(client.ask("MULTI"), "-ERR MULTI calls can not be nested\r\n");
    assert_eq!(client.ask("SET k 5"), "+QUEUED\r\n");
    assert_eq!(client.ask("DISCARD"), "+OK\r\n");
    assert_eq!(client.ask("GET k"), "$1\r\n2\r\n");
}

#[test]
fn what_a_transaction_has_written_expires_in_it() {
    let node = RespNode::start();
    let mut client = node.connect();
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    for command in ["SET k v PXAT 1", "GET k", "EXISTS k", "KEYS *", "SETNX k w", "GET k"] {
        assert_eq!(client.ask(command), "+QUEUED\r\n");
    }
    assert_eq!(client.ask("EXEC"), "*6\r\n+OK\r\n$-1\r\n:0\r\n*0\r\n:1\r\n$1\r\nw\r\n");
    assert_eq!(client.ask("GET k"), "$1\r\nw\r\n");
}

#[test]
fn what_stands_before_a_hello_in_a_transaction_is_replied_as_before() {
    let node = RespNode::start();
    let mut client = node.connect();
    for (hello, null, null_behind) in [("HELLO 3", "$-1\r\n", "_\r\n"), ("HELLO 2", "_\r\n", "$-1\r\n")] {
        assert_eq!(client.ask("MULTI"), "+OK\r\n");
        for command in ["GET none", hello, "GET none"] {
            assert_eq!(client.ask(command), "+QUEUED\r\n");
        }
        let reply = client.ask("EXEC");
        let fields = if hello == "HELLO 3" { "%7\r\n" } else { "*14\r\n" };
        assert!(reply.starts_with(&format!("*3\r\n{null}{fields}")), "{reply}");
        assert!(reply.ends_with(null_behind), "{reply}");
    }
}

#[test]
fn a_transaction_with_a_mistake_does_nothing() {
    let node = RespNode::start();
    let mut client = node.connect();
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(client.ask("SET k 1"), "+QUEUED\r\n");
    assert!(client.ask("NOSUCH").starts_with("-ERR unknown command"));
    assert_eq!(client.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_eq!(client.ask("GET k"), "$-1\r\n");
    for (mistake, reply) in [
        ("MEMORY USAGE", "-ERR wrong number of arguments for 'memory|usage' command\r\n"),
        ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command\r\n"),
        ("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command\r\n"),
        ("CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command\r\n"),
        ("COMMAND GETKEYS GET", "-ERR wrong number of arguments for 'command|getkeys' command\r\n"),
        ("SLOWLOG LEN x", "-ERR wrong number of arguments for 'slowlog|len' command\r\n"),
        ("ACL WHOAMI x", "-ERR wrong number of arguments for 'acl|whoami' command\r\n"),
        ("CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try CLIENT HELP.\r\n"),
    ] {
        assert_eq!(client.ask("MULTI"), "+OK\r\n");
        assert_eq!(client.ask("SET k 1"), "+QUEUED\r\n");
        assert_eq!(client.ask(mistake), reply);
        let discarded = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        assert_eq!(client.ask("EXEC"), discarded, "{mistake}");
        assert_eq!(client.ask("GET k"), "$-1\r\n", "{mistake}");
    }
}

#[test]
fn an_end_that_cannot_be_understood_ends_a_transaction() {
    let node = RespNode::start();
    let mut client = node.connect();
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(client.ask("SET k 1"), "+QUEUED\r\n");
    let words = "Transaction discarded because of: wrong number of arguments for 'exec' command";
    assert_eq!(client.ask("EXEC x"), format!("-EXECABORT {words}\r\n"));
    assert_eq!(client.ask("EXEC"), "-ERR EXEC without MULTI\r\n");
    assert_eq!(client.ask("GET k"), "$-1\r\n");
}

#[test]
fn a_watched_key_that_changed_keeps_a_transaction_from_happening() {
    let node = RespNode::start();
    let (mut client, mut other) = (node.connect(), node.connect());
    for (change, reply) in
        [("SET k 1", "+OK\r\n"), ("DEL k", ":1\r\n"), ("SET k 1", "+OK\r\n"), ("EXPIRE k 100", ":1\r\n")]
    {
        assert_eq!(client.ask("WATCH k"), "+OK\r\n");
        assert_eq!(other.ask(change), reply);
        assert_eq!(client.ask("MULTI"), "+OK\r\n");
        assert_eq!(client.ask("SET k mine"), "+QUEUED\r\n");
        assert_eq!(client.ask("EXEC"), "*-1\r\n", "{change}");
    }
    // What is no end of a transaction ends no watching.
    assert_eq!(client.ask("WATCH k"), "+OK\r\n");
    assert_eq!(client.ask("EXEC"), "-ERR EXEC without MULTI\r\n");
    assert_eq!(other.ask("SET k 2"), "+OK\r\n");
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(client.ask("EXEC"), "*-1\r\n");
    assert_eq!(client.ask("WATCH k"), "+OK\r\n");
    assert_eq!(client.ask("MULTI"), "+OK\r\n");
    assert_eq!(client.ask("SET k mine"), "+QUEUED\r\n");
    assert_eq!(client.ask("APPEND k !"), "+QUEUED\r\n");
    assert_eq!(client.ask("EXEC"), "*2\r\n+OK\r\n:5\r\n");
}

/// The classic check-and-set: each adds one, and none is lost.
#[test]
fn check_and_set_loses_nothing() {
    let node = RespNode::start();
    let (threads, each) = (4, 50);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut client = node.connect();
                for _ in 0..each {
                    loop {
                        client.ask("WATCH n");
                        let reply = client.ask("GET n");
                        let number: u64 =
                            reply.split("\r\n").nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
                        client.ask("MULTI");
                        client.ask(&format!("SET n {}", number + 1));
                        if client.ask("EXEC") != "*-1\r\n" {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(node.connect().ask("GET n"), format!("$3\r\n{}\r\n", threads * each));
}

/// Tells others that they need not go on, also if a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Each read of the same key could find another value, as only the number of keys was looked at.
#[test]
fn a_transaction_that_reads_one_key_twice_finds_one_value() {
    const READS: usize = 200;
    let node = RespNode::launch(Launch::new().flag("--fsync", "never").flag("--threads", "2"));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = node.connect();
            for n in 0_u64.. {
                assert_eq!(client.ask(&format!("SET k {n:09}")), "+OK\r\n");
                if is_over.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        let _over = Over(&is_over);
        let mut client = node.connect();
        wait_until("a value", || client.ask("GET k") != "$-1\r\n");
        let words =
            [request(&[b"MULTI"]), request(&[b"GET", b"k"]).repeat(READS), request(&[b"EXEC"])].concat();
        for _ in 0..300 {
            client.send(&words);
            assert_eq!(client.reply(), b"+OK\r\n");
            (0..READS).for_each(|_| assert_eq!(client.reply(), b"+QUEUED\r\n"));
            let found = String::from_utf8(client.reply()).expect("text");
            let values: Vec<&str> = found.split("$9\r\n").skip(1).collect();
            assert_eq!(values.len(), READS, "{found}");
            assert!(values.iter().all(|value| *value == values[0]), "{found}");
        }
    });
}
