//! What one door writes, the other one reads.

use crate::client::RespNode;

#[test]
fn values_numbers_and_expiries_are_the_same_by_http() {
    let node = RespNode::start();
    let (mut redis, mut http) = (node.connect(), node.node.connect());
    assert_eq!(redis.ask("SET k v PXAT 4102444800123"), "+OK\r\n");
    let response = http.get("k");
    assert_eq!((response.status, response.text()), (200, "v"));
    assert_eq!(response.header("ladoga-expires"), Some("4102444800123"));
    http.put("k", b"by HTTP");
    assert_eq!(redis.ask("GET k"), "$7\r\nby HTTP\r\n");
    assert_eq!(redis.ask("TTL k"), ":-1\r\n");
    assert_eq!(redis.ask("INCRBY n 5"), ":5\r\n");
    let response = http.request("POST", "/v0/entity?id=n&increment=2", None);
    assert_eq!((response.status, response.text()), (200, "7"));
    assert_eq!(redis.ask("INCR n"), ":8\r\n");
    http.delete("n");
    assert_eq!(redis.ask("EXISTS n"), ":0\r\n");
}

#[test]
fn what_was_written_outlives_the_node() {
    let mut node = RespNode::launch(crate::support::Launch::new());
    assert_eq!(node.connect().ask("SET k v"), "+OK\r\n");
    node.node.crash();
    assert_eq!(node.connect().ask("GET k"), "$1\r\nv\r\n");
}
