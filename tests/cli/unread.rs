//! Commands that have work to do, and whose reader is gone: they do it to its end, and say by their exit codes how it went.

use crate::support::{Ladoga, Node, closed_pipe, files_below, flip_bit, value};

fn batch(node: &Node, arguments: &[&str], input: &str) -> Ladoga {
    let url = node.url();
    let arguments = ["batch"].iter().chain(arguments).copied().chain(["-", "--url", &url]);
    Ladoga::new(arguments).input(input.as_bytes()).stdout(closed_pipe())
}

/// What came behind the first answer was never sent.
#[test]
fn a_batch_is_carried_out_to_its_end() {
    let node = Node::start();
    let line = |number| format!("{{\"op\":\"put\",\"key\":\"key{number}\",\"value\":\"{number}\"}}\n");
    let input: String = (0..60_000).map(line).collect();
    batch(&node, &[], &input).run().expect_success();
    for number in [0, 30_000, 59_999] {
        assert_eq!(node.connect().value(format!("key{number}")), Some(number.to_string().into_bytes()));
    }
    let input = input + "{\"op\":\"get\",\"key\":\"nobody\"}\n";
    batch(&node, &[], &input).run().expect_failure(1, &["1 of 60001 operations failed", "404"]);
}

#[test]
fn an_atomic_batch_that_was_not_carried_out_is_no_success() {
    let node = Node::start();
    node.connect().put("lake", b"deep");
    let lines = "{\"op\":\"put\",\"key\":\"lake\",\"value\":\"shallow\",\"if_match\":\"\\\"0\\\"\"}\n";
    batch(&node, &["--atomic"], lines).run().expect_failure(1, &["nothing was carried out", "412"]);
    assert_eq!(node.connect().value("lake").as_deref(), Some(&b"deep"[..]));
}

#[test]
fn damage_is_no_success() {
    let mut node = Node::start();
    node.connect().put("large", &value(1, 700_000));
    node.stop();
    let data = node.data().to_owned();
    let check = || Ladoga::new(["check".as_ref(), data.as_os_str()]).stdout(closed_pipe()).run();
    check().expect_success();
    let files = files_below(&data.join("blobs"));
    let (blob, bytes) = files.first().expect("a large value");
    flip_bit(blob, *bytes as usize / 2, 3);
    check().expect_failure(1, &["1 problem found"]);
}
