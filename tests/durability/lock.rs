use crate::support::{Directory, Ladoga, Launch, Node, Port};

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
    let directory = Directory::new();
    let data = directory.path().join("data");
    let second = ["serve", "--listen", &address, "--data", data.to_str().expect("a path of text")];
    Ladoga::new(second).run().expect_reason(&[&address]);
    for _ in 0..20 {
        assert_eq!(node.connect().value("key").as_deref(), Some(&b"value"[..]), "somebody else answered");
    }
}

/// The error used to be that `--cluster` was wrong, with the exit code of a wrong setting.
#[test]
fn a_file_in_the_place_of_the_directory_is_told() {
    let directory = Directory::new();
    let file = directory.path().join("file");
    std::fs::write(&file, "text").expect("a file");
    let data = file.to_str().expect("a path of text");
    let refused =
        Ladoga::new(["serve", "--listen", "127.0.0.1:0", "--data", data]).run().expect_reason(&[data]);
    assert_eq!(refused.code, Some(1), "the settings are fine: {refused:?}");
    assert!(!refused.stderr.contains("--cluster"), "{refused:?}");
}
