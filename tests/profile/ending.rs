use crate::asking::{begin, is_taken, kinds};
use crate::support::{Launch, Node, assert_refusal, wait_until};

#[test]
fn a_client_that_leaves_ends_its_profile() {
    let node = Node::start();
    for kind in kinds(&node) {
        let connection = begin(&node, kind);
        drop(connection);
        wait_until("the end of a profile that nobody waits for", || !is_taken(&node, kind));
        let response =
            node.connect().request("GET", &format!("/debug/profile/{kind}?seconds=1&format=folded"), None);
        assert_eq!(response.status, 200, "{kind}: {}", response.text());
    }
}

#[test]
fn a_client_that_closes_its_side_ends_its_profile_and_is_told() {
    let node = Node::start();
    let mut connection = begin(&node, "cpu");
    connection.finish_sending();
    let response = connection.response();
    assert_refusal(&response, 400, "a profile whose client has left");
    assert!(response.closes(), "{response:?}");
    connection.expect_closed();
    wait_until("the end of the profile", || !is_taken(&node, "cpu"));
}

#[test]
fn a_node_that_stops_ends_its_profiles() {
    let mut node = Launch::patient().start();
    let held: Vec<_> = kinds(&node).into_iter().map(|kind| (kind, begin(&node, kind))).collect();
    node.signal("TERM");
    for (kind, mut connection) in held {
        let response = connection.response();
        assert_refusal(&response, 503, kind);
        assert!(response.text().contains("draining") && response.closes(), "{response:?}");
        connection.expect_closed();
    }
    assert_eq!(node.wait().code(), Some(0), "{}", node.log());
}

#[test]
fn a_node_that_is_killed_meanwhile_starts_again() {
    let mut node = Node::start();
    node.connect().put("k", b"value");
    let connection = begin(&node, "cpu");
    node.crash();
    drop(connection);
    assert_eq!(node.connect().value("k").as_deref(), Some(&b"value"[..]));
}
