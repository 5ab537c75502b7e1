use crate::support::{Launch, Node, wait_until};

#[test]
fn a_node_that_serves_says_so() {
    let node = Node::start();
    let mut connection = node.connect();
    for _ in 0..3 {
        assert_eq!(connection.request("GET", "/v0/status", None).status, 200);
    }
    assert_eq!(connection.request("GET", "/v0/status?x=y", None).status, 200);
}

#[test]
fn metrics_are_in_the_format_of_prometheus() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("k", b"value");
    connection.get("k");
    connection.get("absent");
    connection.request("GET", "/nothing", None);
    let response = connection.request("GET", "/metrics", None);
    assert_eq!(response.status, 200);
    let content_type = response.header("content-type").unwrap_or_default();
    assert!(content_type.starts_with("text/plain"), "{content_type}");
    let metrics = node.metrics();
    assert!(metrics.series().count() > 20);
    for bound in ["wait", "entries", "bytes"] {
        let label = format!("bound=\"{bound}\"");
        assert_eq!(metrics.sum("ladoga_commit_refused_total", &[&label]), Some(0.0), "{label}");
    }
}

#[test]
fn a_write_that_waits_for_no_sync_is_committed_by_its_event_loop() {
    let inline = |node: &Node| node.metrics().sum("ladoga_commit_inline_groups_total", &[]);
    for fsync in ["everysec", "never"] {
        let node = Launch::new().flag("--fsync", fsync).start();
        let mut connection = node.connect();
        wait_until("a commit on the event loop", || {
            connection.put("k", b"value");
            inline(&node).expect("a counter") > 0.0
        });
    }
    let node = Launch::new().flag("--fsync", "always").start();
    node.connect().put("k", b"value");
    assert_eq!(inline(&node), Some(0.0), "it waits for its sync");
}
