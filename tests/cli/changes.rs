use crate::in_order::{InOrder, Said};
use crate::support::{Ladoga, Node, Running, wait_until};

fn follow(node: &Node, arguments: &[&str]) -> Running {
    let url = node.url();
    Ladoga::new(["changes"].into_iter().chain(arguments.iter().copied()).chain(["--url", &url])).start()
}

#[test]
fn changes_are_printed_as_they_happen_and_after_a_crash_too() {
    let mut node = Node::start();
    node.connect().put("user:0", b"stored before");
    let lines = follow(&node, &["--since", "0", "--prefix", "user:"]);
    let json = follow(&node, &["--since", "0", "--json"]);
    wait_until("what was stored", || {
        lines.printed().contains("user:0") && json.printed().contains("bookmark")
    });
    node.connect().put("user:1", b"a\tb");
    node.connect().put("other", b"of no interest");
    node.connect().delete("user:1");
    wait_until("a deletion", || lines.printed().contains("delete\tuser:1\n"));
    assert_eq!(lines.printed(), "put\tuser:0\tstored before\nput\tuser:1\ta\\tb\ndelete\tuser:1\n");
    wait_until("its bookmark", || json.printed().contains("delete"));
    node.crash();
    node.connect().put("user:2", b"after the crash");
    wait_until("a change after the crash", || lines.printed().contains("put\tuser:2\tafter the crash\n"));
    wait_until("the same as JSON", || json.printed().contains("after the crash"));
    assert!(json.printed().lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    lines.signal("KILL");
    json.signal("KILL");
}

#[test]
fn what_cannot_be_followed_is_told() {
    let node = Node::start();
    let run = |arguments: &[&str]| follow(&node, arguments).wait();
    run(&["--since", "nonsense"]).expect_failure(1, &["since is 'nonsense'"]);
    run(&["", "b"]).expect_failure(2, &["START", "the key is empty"]);
    Ladoga::new(["changes", "--url", "http://127.0.0.1:1"]).run().expect_failure(1, &["cannot reach"]);
    Ladoga::new(["changes", "--url", "nowhere"]).run().expect_failure(2, &["--url"]);
}

/// It ended, although it was told when to come back.
#[test]
fn who_has_used_its_rate_follows_on_later() {
    let change = |key: &str| Said {
        status: 200,
        content_type: "application/x-ndjson",
        body: format!("{{\"op\":\"delete\",\"key\":\"{key}\",\"etag\":\"\"}}\n"),
    };
    let busy = Said { status: 429, content_type: "text/plain", body: "a request too many\n".to_owned() };
    let server = InOrder::start(vec![change("before"), busy.clone(), change("behind")]);
    let following = Ladoga::new(["changes", "--url", &server.url()]).start();
    wait_until("both changes", || following.printed() == "delete\tbefore\ndelete\tbehind\n");
    following.signal("KILL");
    server.expect_all_asked_for();
    let server = InOrder::start(vec![busy]);
    Ladoga::new(["changes", "--url", &server.url()])
        .run()
        .expect_failure(1, &["answered 429: a request too many"]);
    server.expect_all_asked_for();
}
