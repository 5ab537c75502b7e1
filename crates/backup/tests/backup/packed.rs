//! How much space a restore of cells takes, and how it tells how far it is.

use std::path::Path;

use ladoga_backup::{Progress, restore_cells};
use ladoga_env::Disk;
use ladoga_storage::Options;

use crate::support::{Machine, Node, options, repository, take, take_one};

const CELLS: u64 = 6_000;
const VALUE_BYTES: usize = 8 << 10;

/// A node with 48 MiB of values, of which compression leaves little.
fn node(seed: u64) -> Node {
    let mebibyte = Some(1 << 20);
    let options = Options {
        memtable_bytes: Some(1 << 20),
        table_bytes: mebibyte,
        level_1_bytes: mebibyte,
        first_segment_bytes: mebibyte,
        ..options()
    };
    let mut node = Node::with(seed, options);
    let text = b"What is written often takes little. ".repeat(VALUE_BYTES / 36);
    for number in 0..CELLS {
        // In an order in which tables overlap, so that they are merged.
        node.put(number * 7 % CELLS, number + 1, &text);
        node.work();
    }
    node
}

/// Its tables had 4 MiB each and were not compressed, and nothing did so later.
#[test]
fn restored_cells_take_about_as_much_space_as_the_files_that_they_are_from() {
    let (node, machine) = (node(21), Machine::new(22));
    let env = machine.env();
    let (backup, _) = take_one(&env, &node).expect("a backup");
    restore_cells(&env, &repository(&env), &backup, Path::new("/cells"), &mut |_| {}).expect("a restore");
    let dir = Path::new("/cells/tables");
    let names = machine.disk.list(dir).expect("a directory");
    let bytes = |name: &String| machine.disk.read_file(dir.join(name)).expect("a table").len() as u64;
    let (restored, before) = (names.iter().map(bytes).sum::<u64>(), backup.bytes());
    assert!(restored < before * 5 / 4, "{restored} bytes of {before}");
    assert!(names.len() as u64 <= CELLS * VALUE_BYTES as u64 / (8 << 20), "{names:?}");
}

/// It stood at all of it as soon as as many bytes were written as the files of a node have, compressed.
#[test]
fn a_restore_of_cells_tells_how_much_of_them_is_done() {
    let (one, other, machine) = (node(23), node(24), Machine::new(25));
    let env = machine.env();
    let [mut first, mut second] = [&one, &other].map(|node| (node.name().to_owned(), node.checkpoint()));
    let backup =
        take(&env, &mut [(first.0, first.1.0, &mut first.1.1), (second.0, second.1.0, &mut second.1.1)]);
    let (backup, _) = backup.expect("a backup");
    let mut told = Vec::new();
    restore_cells(&env, &repository(&env), &backup, Path::new("/cells"), &mut |progress| told.push(progress))
        .expect("a restore");
    let total_bytes = backup.bytes();
    assert_eq!(told.last(), Some(&Progress { done_bytes: total_bytes, total_bytes }));
    assert!(told.is_sorted_by_key(|progress| progress.done_bytes), "{told:?}");
    let half = told[told.len() / 2].done_bytes;
    assert!((total_bytes / 3..total_bytes / 3 * 2).contains(&half), "{half} of {total_bytes}");
}
