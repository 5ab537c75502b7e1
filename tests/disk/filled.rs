use std::path::{Path, PathBuf};

use crate::support::{Connection, Ladoga, Launch, Node, Outcome, files_below, find_bytes, flip_bit, value};

pub(crate) const RECORDS: u64 = 3_000;
pub(crate) const LARGE: u64 = 4;

pub(crate) fn key(index: u64) -> String {
    format!("key{index:05}")
}

/// Random, so that each piece of it is at one place of the disk only, and uncompressed.
pub(crate) fn record(index: u64) -> Vec<u8> {
    value(index + 1, 4_000)
}

pub(crate) fn large_key(index: u64) -> String {
    format!("large{index}")
}

pub(crate) fn large_record(index: u64) -> Vec<u8> {
    value(1_000_000 + index, 700_000)
}

/// A node that was filled with several memtables of records, and stopped.
pub(crate) fn filled() -> Node {
    let mut node = Launch::new().flag("--memory", "16MiB").start();
    let mut connection = node.connect();
    for index in 0..RECORDS {
        connection.put(key(index), &record(index));
    }
    for index in 0..LARGE {
        connection.put(large_key(index), &large_record(index));
    }
    drop(connection);
    node.stop();
    node
}

/// The place of a record: a file, and the offset of a byte in the middle of its value.
pub(crate) fn place_of(files: &[PathBuf], value: &[u8]) -> Option<(PathBuf, usize)> {
    let middle = value.len() / 2;
    let piece = &value[middle..middle + 16];
    files.iter().find_map(|file| Some((file.clone(), find_bytes(file, piece)?)))
}

/// The files below a directory of the data directory.
pub(crate) fn files(node: &Node, directory: &str) -> Vec<PathBuf> {
    files_below(&node.data().join(directory)).into_iter().map(|(path, _)| path).collect()
}

/// A record in a table, and its place.
pub(crate) fn record_in_a_table(node: &Node) -> (u64, PathBuf, usize) {
    let tables = files(node, "tables");
    let middle = RECORDS / 2;
    let found = (middle..RECORDS).find_map(|index| Some((index, place_of(&tables, &record(index))?)));
    let (index, (file, offset)) = found.expect("a record in a table");
    (index, file, offset)
}

/// Reads every record; answers those that are not what was written, with the statuses.
pub(crate) fn unreadable(connection: &mut Connection) -> Vec<(u64, u16)> {
    let check = |index| {
        let response = connection.get(key(index));
        let is_right = response.status == 200 && response.body == record(index);
        (!is_right).then_some((index, response.status))
    };
    (0..RECORDS).filter_map(check).collect()
}

pub(crate) fn check(data: &Path) -> Outcome {
    Ladoga::new(["check".as_ref(), data.as_os_str()]).run()
}

/// `ladoga check` finds a fault in `file`, and reports its place; or that something is missing that the file names.
#[track_caller]
pub(crate) fn expect_found(outcome: &Outcome, file: &Path) {
    assert!(
        outcome.code.is_some_and(|code| code != 0),
        "nothing was found in {}: {outcome:?}",
        file.display()
    );
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    let said = format!("{}{}", outcome.text(), outcome.stderr);
    assert!(!said.contains("panicked"), "{said}");
    let is_placed = said.contains("offset") || said.contains(" is missing, although ");
    assert!(said.contains(name) && is_placed, "{name} and an offset are not named: {said}");
}

/// A bit that is turned over as long as this lives.
pub(crate) struct Flipped {
    file: PathBuf,
    offset: usize,
    bit: u8,
}

impl Flipped {
    pub(crate) fn new(file: &Path, offset: usize, bit: u8) -> Flipped {
        flip_bit(file, offset, bit);
        Flipped { file: file.to_path_buf(), offset, bit }
    }
}

impl Drop for Flipped {
    fn drop(&mut self) {
        flip_bit(&self.file, self.offset, self.bit);
    }
}
