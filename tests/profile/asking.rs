use std::net::{SocketAddr, UdpSocket};

use crate::support::{Connection, Launch, Node, assert_refusal, skip, wait_until};

/// Longer than any test runs.
const FOREVER: &str = "seconds=600";

/// Whether the node takes a profile of this kind.
pub(crate) fn is_taken(node: &Node, kind: &str) -> bool {
    node.thread_names().iter().any(|name| *name == format!("profile-{kind}"))
}

/// The kinds of profiles that this system lets a node take: waits are known to the kernel alone, which may refuse.
pub(crate) fn kinds(node: &Node) -> Vec<&'static str> {
    let response = node.connect().request("GET", "/debug/profile/lock?seconds=1&format=folded", None);
    if response.status == 501 {
        assert_refusal(&response, 501, "lock");
        skip(&format!("no lock profiles: {}", response.text()));
        return vec!["cpu", "alloc"];
    }
    assert_eq!(response.status, 200, "{}", response.text());
    vec!["cpu", "alloc", "lock"]
}

/// A connection on which the node takes a profile of this kind.
pub(crate) fn begin(node: &Node, kind: &str) -> Connection {
    let mut connection = node.connect();
    connection.send_request("GET", &format!("/debug/profile/{kind}?{FOREVER}"), None);
    wait_until("a profile that is being taken", || is_taken(node, kind));
    connection
}

#[test]
fn a_parameter_that_is_wrong_is_named() {
    let node = Node::start();
    let mut connection = node.connect();
    for (target, named) in [
        ("cpu?seconds=0", "seconds is '0', expected a whole number from 1 to 14400"),
        ("cpu?seconds=14401", "seconds"),
        ("alloc?seconds=x", "seconds"),
        ("lock?seconds=", "seconds"),
        ("cpu?seconds=1&seconds=2", "more than once"),
        ("cpu?format=png", "'png'"),
        ("cpu?hz=98", "hz"),
        ("lock?hz=99", "hz"),
        ("cpu?seconds=%zz", "percent"),
    ] {
        let response = connection.request("GET", &format!("/debug/profile/{target}"), None);
        assert_refusal(&response, 400, target);
        assert!(response.text().contains(named), "{target}: {}", response.text());
    }
    for path in ["/debug/profile/heap", "/debug/profile/", "/debug/profile", "/debug", "/debug/profile/cpu/"]
    {
        assert_refusal(&connection.request("GET", path, None), 400, path);
    }
}

#[test]
fn a_profile_is_read_and_not_written() {
    let node = Node::start();
    let mut connection = node.connect();
    for kind in ["cpu", "alloc", "lock"] {
        for method in ["PUT", "POST", "DELETE", "OPTIONS", "BREW"] {
            let body = (method == "PUT" || method == "POST").then_some(&b"body"[..]);
            let response = connection.request(method, &format!("/debug/profile/{kind}?seconds=0"), body);
            assert_refusal(&response, 405, method);
            assert_eq!(response.header("allow"), Some("GET"));
        }
        assert_eq!(connection.request("HEAD", &format!("/debug/profile/{kind}"), None).status, 405);
    }
}

#[test]
fn one_of_a_kind_is_taken_at_a_time() {
    let node = Node::start();
    let kinds = kinds(&node);
    let held: Vec<Connection> = kinds.iter().map(|kind| begin(&node, kind)).collect();
    let mut connection = node.connect();
    for kind in kinds {
        let response = connection.request("GET", &format!("/debug/profile/{kind}?seconds=1"), None);
        assert_refusal(&response, 409, kind);
        assert!(response.text().contains(kind), "{}", response.text());
    }
    // Other requests do not wait for them.
    connection.put("k", b"value");
    assert_eq!(connection.value("k").as_deref(), Some(&b"value"[..]));
    drop(held);
}

/// An address of this machine that is not on the loopback.
pub(crate) fn other_address(port: u16) -> Option<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Connecting a datagram socket sends nothing, and chooses the address that packets would leave from.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(SocketAddr::new(address, port))
}

#[test]
fn who_is_not_on_the_loopback_is_refused() {
    let node = Launch::new().on_all_addresses().start();
    let Some(address) = other_address(node.address().port()) else {
        return skip("this machine has no address but the loopback");
    };
    let mut connection = Connection::open(address);
    for target in ["/debug/profile/cpu?seconds=1", "/debug/profile/lock?seconds=x"] {
        let response = connection.request("GET", target, None);
        assert_refusal(&response, 403, target);
        assert!(response.text().contains("loopback"), "{}", response.text());
    }
    assert_eq!(connection.request("GET", "/v0/status", None).status, 200);
    assert!(!is_taken(&node, "cpu"));
}
