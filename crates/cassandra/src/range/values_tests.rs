use ladoga_model::{Stamp, Version};

use super::*;

fn row(number: usize, is_in_pieces: bool) -> Record {
    let version = Version { timestamp: 1, node: 0 };
    let upload = is_in_pieces.then_some(version);
    Record::unread(
        Bytes::from(format!("{number:03}")),
        Mark { stamp: Stamp::new(version), length: 1, upload },
    )
}

/// All rows between the first and the last one of a bucket were read, with their values, in one answer.
#[test]
fn the_rows_that_are_wanted_are_asked_for_some_at_a_time_and_no_others() {
    let rows: Vec<(i32, Record)> = (0..200).map(|number| (3, row(number, number % 2 == 1))).collect();
    let other = (1, row(7, false));
    let wanted = wanted(rows.iter().chain([&other]).map(|(bucket, row)| (*bucket, row)));
    let counts: Vec<(i32, usize)> = wanted.iter().map(|(bucket, keys)| (*bucket, keys.len())).collect();
    assert_eq!(counts, [(1, 1), (3, KEYS_MAX), (3, 100 - KEYS_MAX)]);
    let even = (0..200).step_by(2).map(|number| Bytes::from(format!("{number:03}")));
    assert!(wanted.iter().skip(1).flat_map(|(_, keys)| keys).eq(&even.collect::<Vec<_>>()));
}

/// One of them was left out.
#[test]
fn a_key_that_is_in_two_buckets_has_the_value_of_each() {
    let mut found = Found::new();
    for (bucket, value) in [(1, b"001"), (3, b"003")] {
        let Record { key, mark, .. } = row(7, false);
        found.insert((bucket, key), (mark, Some(Bytes::from_static(value))));
    }
    for (bucket, expected) in [(1, "1"), (3, "3")] {
        let read = with_value((bucket, row(7, false)), &mut found).expect("a value").expect("it is there");
        let RecordValue::Inline(value) = read.value else { panic!("it is short") };
        assert_eq!(value, expected);
    }
}
