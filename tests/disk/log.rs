use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::filled::{Flipped, check, expect_found, files, place_of};
use crate::support::{Ladoga, Node, Random, files_below, value, wait_until};

const RECORDS: u64 = 400;

fn key(index: u64) -> String {
    format!("key{index:04}")
}

fn record(index: u64) -> Vec<u8> {
    value(index + 77, 500)
}

/// A node that was killed while everything that it has is in its log, whose next segment was made.
fn killed() -> Node {
    let mut node = Node::start();
    let mut connection = node.connect();
    for index in 0..RECORDS {
        connection.put(key(index), &record(index));
    }
    wait_until("the next segment, at its full length", || {
        let segments = files_below(&node.data().join("wal"));
        matches!(&segments[..], [(_, first), (_, next)] if *next == 2 * first)
    });
    node.kill();
    assert_eq!(files(&node, "tables"), [] as [PathBuf; 0]);
    node
}

/// The place of the middle of a record in the log.
fn place(node: &Node, index: u64) -> (PathBuf, usize) {
    place_of(&files(node, "wal"), &record(index)).expect("a record in the log")
}

fn check_all(node: &Node, records: u64) {
    let mut connection = node.connect();
    for index in 0..records {
        assert!(
            connection.value(key(index)) == Some(record(index)),
            "{} is not what was written",
            key(index)
        );
    }
}

#[test]
fn damage_in_the_middle_of_the_log_is_found_and_not_passed_over() {
    let mut node = killed();
    let (file, end) = place(&node, RECORDS - 10);
    let mut random = Random::new(8);
    let header = [0, 8, 15, 30];
    for offset in header.into_iter().chain((0..40).map(|_| random.below(end as u64) as usize)) {
        let flipped = Flipped::new(&file, offset, (offset % 8) as u8);
        println!("a bit at {offset} of {end}");
        expect_found(&check(node.data()), &file);
        drop(flipped);
    }
    for offset in [20, end / 3, end / 2] {
        let flipped = Flipped::new(&file, offset, 2);
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        let address = node.address().to_string();
        let data = node.data().to_str().expect("a path of text");
        Ladoga::new(["serve", "--listen", &address, "--data", data]).run().expect_reason(&[name, "offset"]);
        drop(flipped);
    }
    // A file that was damaged for a while only has not been discarded.
    node.start_again();
    check_all(&node, RECORDS);
}

#[test]
fn what_lies_behind_the_end_of_the_log_is_nothing() {
    let mut node = killed();
    let (file, middle) = place(&node, RECORDS - 1);
    let end = middle + record(0).len();
    let garbage = value(4, 3_000);
    let mut opened = OpenOptions::new().write(true).open(&file).expect("the log");
    opened.seek(SeekFrom::Start(end as u64)).expect("a place in it");
    opened.write_all(&garbage).expect("a longer log");
    drop(opened);
    check(node.data()).expect_success();
    node.start_again();
    check_all(&node, RECORDS);
    node.connect().put("after", b"value");
    node.crash();
    check_all(&node, RECORDS);
    assert_eq!(node.connect().value("after").as_deref(), Some(&b"value"[..]));
}

/// Neither checked nor served, with a message that names `file`.
fn expect_refused(node: &Node, file: &Path) {
    expect_found(&check(node.data()), file);
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    let data = node.data().to_str().expect("a path of text");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", data];
    expect_found(&Ladoga::new(serve).run().expect_failure(1, &[name]), file);
}

/// The cut took the frames that tell that more was on disk, so the log looked like one that ends there.
#[test]
fn a_log_that_was_cut_off_is_found_and_not_taken_for_one_that_ends_there() {
    let mut node = killed();
    let (file, middle) = place(&node, RECORDS / 2);
    let content = fs::read(&file).expect("the log");
    for length in [0, 7, 4096, middle, middle.next_multiple_of(4096), content.len() - 1] {
        fs::write(&file, &content[..length]).expect("a shorter log");
        expect_refused(&node, &file);
        fs::write(&file, &content).expect("the log again");
    }
    node.start_again();
    check_all(&node, RECORDS);
}

#[test]
fn a_log_that_is_not_there_is_found_and_not_begun_anew() {
    let mut node = killed();
    let (first, _) = place(&node, 0);
    let (wal, moved) = (node.data().join("wal"), node.data().join("moved"));
    fs::rename(&wal, &moved).expect("a directory to move");
    // As if the disk of the log was not mounted.
    fs::create_dir(&wal).expect("an empty one");
    expect_refused(&node, &first);
    fs::remove_dir(&wal).expect("still empty");
    fs::rename(&moved, &wal).expect("a directory to move back");
    node.start_again();
    check_all(&node, RECORDS);
    // The same if everything is in tables.
    node.stop();
    let segments = files(&node, "wal");
    segments.iter().for_each(|segment| fs::remove_file(segment).expect("a segment to remove"));
    expect_refused(&node, &segments[0]);
}

#[test]
fn a_segment_in_the_place_of_another_is_found() {
    let mut node = killed();
    let segments = files(&node, "wal");
    let [first, second] = segments.as_slice() else { panic!("{segments:?}") };
    let aside = node.data().join("aside");
    let swap = || {
        fs::rename(first, &aside).and_then(|()| fs::rename(second, first)).expect("files to move");
        fs::rename(&aside, second).expect("a file to move");
    };
    swap();
    expect_refused(&node, second);
    swap();
    node.start_again();
    check_all(&node, RECORDS);
}

#[test]
fn an_end_that_was_torn_takes_only_the_last_write() {
    for part in [1, 100, 240] {
        let mut node = killed();
        let (file, middle) = place(&node, RECORDS - 1);
        let mut content = fs::read(&file).expect("the log");
        content[middle + part..].fill(0);
        fs::write(&file, content).expect("a torn log");
        check(node.data()).expect_success();
        node.start_again();
        check_all(&node, RECORDS - 1);
        assert_eq!(node.connect().value(key(RECORDS - 1)), None);
        node.connect().put(key(RECORDS - 1), &record(RECORDS - 1));
        node.crash();
        check_all(&node, RECORDS);
    }
}
