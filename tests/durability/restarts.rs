use crate::support::{Connection, Launch, Node, Random, range, value};

fn is_deleted(index: u64) -> bool {
    index.is_multiple_of(10)
}

fn record(index: u64) -> Vec<u8> {
    value(index, (index % 700) as usize)
}

fn fill(connection: &mut Connection, keys: u64) {
    for index in 0..keys {
        connection.put(format!("key{index:05}"), &record(index));
    }
    for index in (0..keys).filter(|index| is_deleted(*index)) {
        connection.delete(format!("key{index:05}"));
    }
}

fn check(connection: &mut Connection, keys: u64) {
    let records = connection.request("GET", &range("key", None), None).records();
    let expected = (0..keys).filter(|index| !is_deleted(*index));
    let expected = expected.map(|index| (format!("key{index:05}").into_bytes(), record(index)));
    assert!(records == expected.collect::<Vec<_>>(), "the range is not what was written");
    let mut random = Random::new(keys);
    for _ in 0..100 {
        let index = random.below(keys);
        let expected = (!is_deleted(index)).then(|| record(index));
        assert!(connection.value(format!("key{index:05}")) == expected, "key{index:05}");
    }
}

#[test]
fn everything_is_there_after_a_stop() {
    for fsync in ["always", "everysec", "never"] {
        let mut node = Launch::new().flag("--fsync", fsync).start();
        fill(&mut node.connect(), 2_000);
        node.restart();
        check(&mut node.connect(), 2_000);
        node.restart();
        check(&mut node.connect(), 2_000);
    }
}

#[test]
fn everything_is_there_after_a_crash() {
    for fsync in ["always", "everysec", "never"] {
        let mut node = Launch::new().flag("--fsync", fsync).start();
        fill(&mut node.connect(), 2_000);
        node.crash();
        check(&mut node.connect(), 2_000);
        node.crash();
        check(&mut node.connect(), 2_000);
    }
}

#[test]
fn an_interrupt_is_a_stop() {
    let mut node = Node::start();
    fill(&mut node.connect(), 100);
    node.signal("INT");
    assert_eq!(node.wait().code(), Some(0), "{}", node.log());
    node.start_again();
    check(&mut node.connect(), 100);
}

#[test]
fn an_empty_node_stops_and_starts() {
    let mut node = Node::start();
    for _ in 0..3 {
        node.restart();
        node.crash();
        assert_eq!(node.connect().request("GET", &range("a", None), None).records(), []);
    }
}

#[test]
fn what_was_deleted_stays_deleted() {
    let mut node = Launch::new().flag("--memory", "16MiB").start();
    let mut connection = node.connect();
    // Several memtables of values, then their deletions, then enough for the deletions to be flushed as well.
    for index in 0..400 {
        connection.put(format!("old{index:04}"), &value(index, 10_000));
    }
    for index in 0..400 {
        connection.delete(format!("old{index:04}"));
    }
    for index in 0..400 {
        connection.put(format!("new{index:04}"), &value(index, 10_000));
    }
    for _ in 0..2 {
        node.crash();
        let mut connection = node.connect();
        assert_eq!(connection.request("GET", &range("old", None), None).records(), []);
        assert_eq!(connection.value("old0123"), None);
        node.restart();
        let mut connection = node.connect();
        assert_eq!(connection.request("GET", &range("new", Some(b"o")), None).records().len(), 400);
        assert_eq!(connection.value("old0321"), None);
    }
}

#[test]
fn settings_may_change_between_starts() {
    let mut node = Launch::new().flag("--fsync", "never").flag("--memory", "64MiB").start();
    fill(&mut node.connect(), 2_000);
    node.stop();
    for (fsync, memory, threads) in [("always", "16MiB", "1"), ("everysec", "256MiB", "4")] {
        let again = Launch::new().flag("--fsync", fsync).flag("--memory", memory).flag("--threads", threads);
        let again = again.data(node.data()).start();
        check(&mut again.connect(), 2_000);
    }
}

#[test]
fn new_writes_win_over_those_before_the_restart() {
    let mut node = Node::start();
    for round in 0..6_u32 {
        let mut connection = node.connect();
        connection.put("key", round.to_string().as_bytes());
        connection.delete(format!("key{}", round.wrapping_sub(1)));
        connection.put(format!("key{round}"), b"here");
        if round % 2 == 0 {
            node.restart();
        } else {
            node.crash();
        }
        let mut connection = node.connect();
        assert_eq!(connection.value("key"), Some(round.to_string().into_bytes()));
        let records = connection.request("GET", &range("key0", None), None).records();
        assert_eq!(records, [(format!("key{round}").into_bytes(), b"here".to_vec())]);
    }
}
