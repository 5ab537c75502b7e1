use std::fs;

use crate::filled::{
    Flipped, LARGE, RECORDS, files, filled, key, large_key, large_record, place_of, record,
    record_in_a_table, unreadable,
};
use crate::support::{Node, assert_refusal, entity, range};

fn corrupt_blocks(node: &Node) -> f64 {
    let metrics = node.metrics();
    let is_counter = |series: &str| series.contains("corrupt");
    let found: Vec<f64> =
        metrics.series().filter(|(series, _)| is_counter(series)).map(|(_, value)| value).collect();
    assert!(!found.is_empty(), "no metric counts corrupt blocks");
    found.iter().sum()
}

#[test]
fn a_corrupt_block_fails_its_own_reads_and_nothing_else() {
    let mut node = filled();
    let (index, file, offset) = record_in_a_table(&node);
    let _flipped = Flipped::new(&file, offset, 3);
    node.start_again();
    let mut connection = node.connect();
    // (A compaction may have met it already.)
    let before = corrupt_blocks(&node);

    let response = connection.get(key(index));
    assert_refusal(&response, 500, "GET of a value in a corrupt block");
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(response.text().contains(name) && response.text().contains("offset"), "{}", response.text());
    assert!(corrupt_blocks(&node) > before);
    assert!(node.log().contains(name), "it is not logged:\n{}", node.log());
    assert_eq!(connection.request("HEAD", &entity(key(index)), None).status, 500);

    // A block holds a few neighbouring records.
    let lost = unreadable(&mut connection);
    assert!(lost.iter().all(|(_, status)| *status == 500), "{lost:?}");
    assert!(lost.iter().any(|(lost, _)| *lost == index) && lost.len() < 40, "{lost:?}");
    let (first, last) = (lost[0].0, lost[lost.len() - 1].0);
    assert_eq!(last - first + 1, lost.len() as u64, "{lost:?}");

    assert_eq!(connection.request("GET", "/v0/status", None).status, 200);
    // A range has to see the key at which it ends, so it ends one key before the block.
    let before = connection.request("GET", &range("key", Some(key(first - 1).as_bytes())), None);
    assert_eq!(before.records().len() as u64, first - 1);
    let after = connection.request("GET", &range(key(last + 1), Some(b"kez")), None);
    assert_eq!(after.records().len() as u64, RECORDS - 1 - last);
}

#[test]
fn a_range_over_a_corrupt_block_is_visibly_cut_off() {
    let mut node = filled();
    let (index, file, offset) = record_in_a_table(&node);
    let _flipped = Flipped::new(&file, offset, 0);
    node.start_again();
    let mut connection = node.connect();
    connection.send_request("GET", &range("key", None), None);
    let head = connection.response_head();
    if head.status == 200 {
        let mut count = 0;
        let end = loop {
            match connection.next_record() {
                Ok(Some((found, bytes))) => {
                    assert!(found == key(count).into_bytes() && bytes == record(count), "another record");
                    count += 1;
                }
                end => break end,
            }
        };
        assert!(end.is_err(), "the range ended after {count} records as if it were whole");
        assert!(count <= index);
    } else {
        assert_eq!(head.status, 500);
    }
    assert_eq!(node.connect().request("GET", "/v0/status", None).status, 200);
}

#[test]
fn a_write_over_what_is_corrupt_is_read_again() {
    let mut node = filled();
    let (index, file, offset) = record_in_a_table(&node);
    let _flipped = Flipped::new(&file, offset, 6);
    node.start_again();
    let mut connection = node.connect();
    assert_eq!(connection.get(key(index)).status, 500);
    connection.put(key(index), b"new");
    assert_eq!(connection.value(key(index)).as_deref(), Some(&b"new"[..]));
    connection.delete(key(index));
    assert_eq!(connection.value(key(index)), None);
    for index in 0..200 {
        connection.put(format!("other{index}"), b"value");
    }
}

#[test]
fn a_corrupt_large_value_is_never_taken_for_a_whole_one() {
    let mut node = filled();
    let blobs = files(&node, "blobs");
    let (file, offset) = place_of(&blobs, &large_record(1)).expect("a large value in a file");
    let _flipped = Flipped::new(&file, offset, 5);
    node.start_again();
    let mut connection = node.connect();
    connection.send_request("GET", &entity(large_key(1)), None);
    let head = connection.response_head();
    if head.status == 200 {
        let body = connection.try_read_exactly(large_record(1).len());
        assert!(body.is_err(), "a value was sent as if it were whole");
    } else {
        assert_eq!(head.status, 500);
    }
    assert!(corrupt_blocks(&node) >= 1.0);
    for index in (0..LARGE).filter(|index| *index != 1) {
        assert!(node.connect().value(large_key(index)) == Some(large_record(index)));
    }
    assert_eq!(unreadable(&mut node.connect()), []);
    node.connect().put(large_key(1), &large_record(9));
    assert!(node.connect().value(large_key(1)) == Some(large_record(9)));
}

#[test]
fn a_table_that_is_missing_is_no_deletion() {
    let mut node = filled();
    let (index, file, _) = record_in_a_table(&node);
    fs::remove_file(&file).expect("a table to remove");
    node.spawn();
    let serves = crate::support::wait_for("a node that serves, or says why it does not", || {
        if node.has_ended() {
            return Some(false);
        }
        let mut connection = crate::support::Connection::try_open(node.address()).ok()?;
        let response = connection.try_request("GET", "/v0/status", None).ok()?;
        (response.status == 200).then_some(true)
    });
    if serves {
        let response = node.connect().get(key(index));
        assert_refusal(&response, 500, "GET of a value in a table that is missing");
    } else {
        assert_ne!(node.wait().code(), Some(0));
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(node.log().contains(name), "{}", node.log());
    }
}
