use crate::support::{Ladoga, Node, Port, wait_until};

#[test]
fn what_a_node_does_is_a_line_for_each_look() {
    let node = Node::start();
    let watching = Ladoga::new(["status", "--watch", "1", "--url", &node.url()]).start();
    let mut connection = node.connect();
    wait_until("two looks, one with writes", || {
        connection.put("key", b"value");
        let printed = watching.printed();
        let rate = |line: &str| -> Option<f64> {
            line.split(' ').find_map(|part| part.strip_prefix("writes_per_second="))?.parse().ok()
        };
        printed.lines().count() >= 2 && printed.lines().filter_map(rate).any(|rate| rate > 0.0)
    });
    let printed = watching.printed();
    let line = printed.lines().next().expect("a line");
    for name in ["reads_per_second", "writes_p99_ms", "stored_bytes", "memory_bytes", "connections"] {
        assert!(line.contains(&format!("{name}=")), "{name} is not in {line}");
    }
    assert!(!printed.contains('\x1b'), "no terminal, no control characters");
    watching.signal("TERM");
    assert_eq!(watching.wait().code, None, "the signal ends it");
}

#[test]
fn a_node_that_goes_away_is_told_and_one_that_was_never_there_is_an_error() {
    let mut node = Node::start();
    let watching = Ladoga::new(["status", "--watch", "1", "--url", &node.url()]).start();
    wait_until("a first look", || watching.printed().lines().count() >= 1);
    node.kill();
    wait_until("that it is told", || watching.printed().contains("failed: "));
    node.start_again();
    wait_until("that it goes on", || {
        watching.printed().lines().last().is_some_and(|line| line.starts_with("reads_per_second="))
    });
    watching.signal("TERM");
    watching.wait();
    let nobody = Port::claim();
    let outcome = Ladoga::new(["status", "--watch", "--url", &nobody.url()]).run();
    outcome.expect_failure(1, &["cannot"]);
    let both = Ladoga::new(["status", "--watch", "--hot"]).run();
    assert_eq!(both.code, Some(2), "{both:?}");
}
