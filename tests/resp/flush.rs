use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::{RespNode, request};
use crate::support::{Launch, value};

fn fill(node: &RespNode, keys: usize) {
    let mut client = node.connect();
    let bytes: Vec<u8> =
        (0..keys).flat_map(|n| request(&[b"SET", format!("key:{n}").as_bytes(), b"value"])).collect();
    client.send(&bytes);
    for _ in 0..keys {
        assert_eq!(client.reply(), b"+OK\r\n");
    }
}

#[test]
fn a_node_that_is_not_told_to_flushes_nothing() {
    let node = RespNode::start();
    fill(&node, 3);
    let mut client = node.connect();
    for command in ["FLUSHALL", "flushdb async"] {
        let reply = client.ask(command);
        assert!(
            reply.starts_with("-ERR deleting everything is not allowed; start the node with --resp-flush"),
            "{reply}"
        );
    }
    assert_eq!(client.ask("FLUSHALL NOW"), "-ERR syntax error\r\n");
    assert_eq!(client.ask("DBSIZE"), ":3\r\n");
}

#[test]
fn everything_is_deleted_and_others_are_served_meanwhile() {
    let node = RespNode::launch(Launch::new().flag("--fsync", "never").env("LADOGA_RESP_FLUSH", "true"));
    for command in ["FLUSHALL", "FLUSHDB", "FLUSHALL SYNC", "FLUSHDB ASYNC"] {
        fill(&node, 3_000);
        let mut client = node.connect();
        assert_eq!(client.ask_bytes(&[b"SET", b"large", &value(1, 300_000)]), b"+OK\r\n");
        assert_eq!(client.ask("DBSIZE"), ":3001\r\n");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let (mut other, mut served) = (node.connect(), 0);
                while !is_over.load(Ordering::Relaxed) || served == 0 {
                    assert_eq!(other.ask("PING"), "+PONG\r\n");
                    served += 1;
                }
                served
            });
            assert_eq!(client.ask(command), "+OK\r\n", "{command}");
            is_over.store(true, Ordering::Relaxed);
            assert!(other.join().expect("another client") > 0);
        });
        assert_eq!(client.ask("DBSIZE"), ":0\r\n");
        assert_eq!(client.ask("GET key:7"), "$-1\r\n");
        assert_eq!(node.node.connect().get("large").status, 404);
    }
    // It lasts, and what is written afterwards stays.
    let mut client = node.connect();
    assert_eq!(client.ask("SET key:7 again"), "+OK\r\n");
    let mut node = node;
    node.node.restart();
    assert_eq!(node.connect().ask("KEYS *"), "*1\r\n$5\r\nkey:7\r\n");
}
