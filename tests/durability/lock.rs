use crate::support::{Ladoga, Launch, Node, Port};

#[test]
fn a_second_process_on_a_directory_is_refused_by_name() {
    let mut node = Node::start();
    node.connect().put("key", b"value");
    let port = Port::claim();
    let directory = node.data().to_str().expect("a path of text").to_owned();
    let second = ["serve", "--listen", &port.address().to_string(), "--data", &directory];
    for _ in 0..2 {
        let refused = Ladoga::new(second).run().expect_reason(&[&directory]);
        assert_ne!(refused.code, Some(2), "the settings are fine: {refused:?}");
        assert_eq!(node.connect().value("key").as_deref(), Some(&b"value"[..]));
    }
    node.connect().put("other", b"value");
    node.stop();
    // The directory is free again, and intact.
    let again = Launch::new().data(node.data()).start();
    assert_eq!(again.connect().value("key").as_deref(), Some(&b"value"[..]));
    assert_eq!(again.connect().value("other").as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_lock_ends_with_its_process() {
    let mut node = Node::start();
    node.connect().put("key", b"value");
    node.kill();
    let again = Launch::new().data(node.data()).start();
    assert_eq!(again.connect().value("key").as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_second_node_on_a_port_is_refused_by_name() {
    let node = Node::start();
    node.connect().put("key", b"value");
    let address = node.address().to_string();
    let directory = crate::support::Directory::new();
    let data = directory.path().join("data");
    let second = ["serve", "--listen", &address, "--data", data.to_str().expect("a path of text")];
    Ladoga::new(second).run().expect_reason(&[&address]);
    for _ in 0..20 {
        assert_eq!(node.connect().value("key").as_deref(), Some(&b"value"[..]), "somebody else answered");
    }
}
