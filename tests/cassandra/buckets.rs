use crate::cql::Cql;
use crate::support::{Launch, Node, differs_on_cassandra, value, wait_until};

/// Two doors to one keyspace, of which the first counts 256 buckets, and the other four times as many.
struct Doors {
    before: Node,
    after: Node,
}

/// What the first one has before somebody changes the number, and the keys of that which the other one does not find.
fn doors(large: &[Vec<u8>], keep_ms_after: &str) -> Option<(Doors, Vec<usize>)> {
    if !differs_on_cassandra("this is only about doors") {
        return None;
    }
    let launch = Launch::new();
    let [nodes, keyspace] =
        ["nodes", "keyspace"].map(|flag| launch.flag_value(&format!("--cassandra-{flag}")));
    let before = launch.start();
    let mut connection = before.connect();
    large.iter().enumerate().for_each(|(number, value)| connection.put(key(number), value));
    let changed = format!("UPDATE {keyspace}_rf1.meta SET buckets = 1024 WHERE id = 'ladoga'");
    Cql::to(&nodes).run(&[&changed]);
    let launch = Launch::new().flag("--cassandra-keyspace", &keyspace);
    let after = launch.env("LADOGA_CASSANDRA_PIECES_KEEP_MS", keep_ms_after).start();
    let mut connection = after.connect();
    let moved: Vec<_> = (0..large.len()).filter(|&number| connection.value(key(number)).is_none()).collect();
    assert!(!moved.is_empty() && moved.len() < large.len(), "some keys are in other buckets: {moved:?}");
    Some((Doors { before, after }, moved))
}

fn key(number: usize) -> String {
    format!("key{number}")
}

fn large_values() -> Vec<Vec<u8>> {
    (0..8).map(|number| value(number, 1 << 20)).collect()
}

/// Rows are where the door looked for them that wrote them: all such values were destroyed.
#[test]
fn a_door_with_other_buckets_removes_no_pieces_that_a_row_names() {
    let large = large_values();
    let Some((doors, _)) = doors(&large, "1000") else { return };
    let (mut connection, swept) = (doors.before.connect(), || doors.after.metrics().sum(SWEPT, &[]));
    // The second one is noted by a later look than any of the others, which is over by then.
    for round in [1.0, 2.0] {
        connection.put("deleted", &value(9, 1 << 20));
        connection.delete("deleted");
        wait_until("a value whose pieces are removed", || swept() >= Some(round));
    }
    for (number, expected) in large.iter().enumerate() {
        let found = connection.get(key(number));
        assert!(found.status == 200 && found.body == *expected, "{number}: {}", found.status);
    }
    assert_eq!(swept(), Some(2.0), "what is removed is not listed any more");
}

const SWEPT: &str = "ladoga_cassandra_pieces_swept_total";

/// It left out large values in the buckets of before, or had what is in the other one in their place, and so twice.
#[test]
fn a_range_has_large_values_of_the_buckets_that_it_found_them_in() {
    let large = large_values();
    let Some((doors, moved)) = doors(&large, "3600000") else { return };
    let (twice, newer) = (moved[0], value(9, 1 << 20));
    let mut connection = doors.after.connect();
    connection.put(key(twice), &newer);
    let answer = connection.request("GET", "/v0/entities?prefix=key", None);
    assert_eq!(answer.status, 200);
    let mut expected: Vec<_> =
        large.iter().enumerate().map(|(number, value)| (key(number).into_bytes(), value)).collect();
    // Its new bucket has the higher number.
    expected.insert(twice + 1, (key(twice).into_bytes(), &newer));
    let found = answer.records();
    let keys = |records: &[(Vec<u8>, Vec<u8>)]| -> Vec<String> {
        records.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect()
    };
    assert_eq!(found.len(), expected.len(), "{:?}", keys(&found));
    for ((key, value), (expected_key, expected)) in found.iter().zip(&expected) {
        assert!(key == expected_key && value == *expected, "{:?}", String::from_utf8_lossy(key));
    }
}
