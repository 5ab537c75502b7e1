use std::fs;
use std::process::Command;

use crate::filled::{Flipped, check, expect_found, files, filled};
use crate::small_disk::SmallDisk;
use crate::support::{Directory, Ladoga, Launch, Node, Random, files_below, ladoga_in, skip};

/// Bits that are flipped in each file.
const FLIPS: u64 = 24;

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let mut node = filled();
    check(node.data()).expect_success();
    node.start_again();
    node.connect().put("another", b"value");
    node.kill();
    check(node.data()).expect_success();
}

/// Its lock could only be taken by who may write.
#[test]
fn what_can_only_be_read_can_be_checked() {
    let disk = match SmallDisk::new(32) {
        Ok(disk) => disk,
        Err(reason) => return skip(&format!("no small disk can be mounted: {reason}")),
    };
    let data = disk.path().join("data");
    let mut node = Launch::new().flag("--memory", "16MiB").wrapper(disk.wrapper()).data(&data).start();
    node.connect().put("key", b"value");
    node.stop();
    let (program, enter) = disk.wrapper().split_first().expect("a program");
    let remount =
        Command::new(program).args(enter).args(["mount", "-o", "remount,ro"]).arg(disk.path()).status();
    assert!(remount.expect("a program that runs").success());
    let checked = ladoga_in(disk.wrapper()).arg("check").arg(&data).output().expect("a run");
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn what_is_no_data_directory_is_told() {
    let directory = Directory::new();
    let path = directory.path().to_str().expect("a path of text");
    check(directory.path()).expect_reason(&[path, "is not a data directory"]);
    assert!(files_below(directory.path()).is_empty(), "it made something there");
}

#[test]
fn an_empty_store_is_fine() {
    let mut node = Node::start();
    node.stop();
    check(node.data()).expect_success();
}

#[test]
fn a_check_changes_nothing() {
    let mut node = filled();
    node.start_again();
    node.connect().put("another", b"value");
    node.kill();
    let content = || {
        let files = files_below(node.data()).into_iter();
        files.map(|(path, _)| (fs::read(&path).expect("a file"), path)).collect::<Vec<_>>()
    };
    let before = content();
    check(node.data()).expect_success();
    assert!(content() == before, "a file is not what it was");
    let table = &files(&node, "tables")[0];
    let flipped = Flipped::new(table, 100, 0);
    let before = content();
    expect_found(&check(node.data()), table);
    assert!(content() == before, "a file is not what it was");
    drop(flipped);
}

/// It made a lock file in a copy that had none.
#[test]
fn a_copy_without_a_lock_stays_without() {
    let node = filled();
    let lock = node.data().join("LOCK");
    fs::remove_file(&lock).expect("a lock file");
    check(node.data()).expect_success();
    assert!(!lock.exists(), "a check only reads");
}

/// Flips bits all over the files of a directory, one at a time; each has to be found.
fn expect_every_flip_found(directory: &str, files_max: usize) {
    let node = filled();
    let mut random = Random::new(5);
    let files = files(&node, directory);
    assert!(!files.is_empty(), "there is nothing in {directory}");
    for file in files.iter().take(files_max) {
        let length = fs::metadata(file).expect("a file").len();
        // The structure of a file is at its beginning and at its end.
        let edges = [0, 1, 9, length - 1, length - 9, length - 40];
        for offset in edges.into_iter().chain((0..FLIPS).map(|_| random.below(length))) {
            let bit = (offset % 8) as u8;
            let flipped = Flipped::new(file, offset as usize, bit);
            println!("bit {bit} at {offset} of {length} bytes of {}", file.display());
            expect_found(&check(node.data()), file);
            drop(flipped);
        }
    }
    check(node.data()).expect_success();
}

#[test]
fn a_flipped_bit_of_a_table_is_found_wherever_it_is() {
    expect_every_flip_found("tables", 3);
}

#[test]
fn a_flipped_bit_of_a_large_value_is_found_wherever_it_is() {
    expect_every_flip_found("blobs", 2);
}

#[test]
fn a_flipped_bit_of_the_manifest_is_found() {
    let node = filled();
    let mut random = Random::new(6);
    let manifests = || files_below(node.data()).into_iter().map(|(path, _)| path);
    let is_manifest = |name: &str| name.starts_with("manifest-") || name == "CURRENT";
    let names =
        |path: &std::path::PathBuf| path.file_name().is_some_and(|name| is_manifest(&name.to_string_lossy()));
    let files: Vec<_> = manifests().filter(names).collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let content = fs::read(&file).expect("a file");
        // After the written part there may be reserved space.
        let used = content.iter().rposition(|&byte| byte != 0).expect("content") as u64 + 1;
        for offset in (0..FLIPS).map(|_| random.below(used)) {
            let flipped = Flipped::new(&file, offset as usize, (offset % 8) as u8);
            let outcome = check(node.data());
            assert!(
                outcome.code.is_some_and(|code| code != 0),
                "{offset} of {used} in {}: {outcome:?}",
                file.display()
            );
            outcome.expect_reason(&[]);
            drop(flipped);
        }
    }
    check(node.data()).expect_success();
}

#[test]
fn a_file_that_is_missing_or_too_short_is_found() {
    let node = filled();
    for directory in ["tables", "blobs"] {
        let file = &files(&node, directory)[0];
        let content = fs::read(file).expect("a file");
        for length in [content.len() - 1, content.len() / 2, 0] {
            fs::write(file, &content[..length]).expect("a shorter file");
            expect_found_missing(&check(node.data()), file);
        }
        fs::remove_file(file).expect("a file to remove");
        expect_found_missing(&check(node.data()), file);
        fs::write(file, content).expect("the file again");
    }
    check(node.data()).expect_success();
}

fn expect_found_missing(outcome: &crate::support::Outcome, file: &std::path::Path) {
    assert!(outcome.code.is_some_and(|code| code != 0), "{outcome:?}");
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    let said = format!("{}{}", outcome.text(), outcome.stderr);
    assert!(said.contains(name) && !said.contains("panicked"), "{said}");
}

#[test]
fn a_large_value_that_is_too_long_is_found() {
    let node = filled();
    let file = &files(&node, "blobs")[0];
    let length = fs::metadata(file).expect("a file").len();
    let longer = fs::OpenOptions::new().write(true).open(file).expect("a file");
    longer.set_len(length + (1 << 40)).expect("a longer file");
    let outcome = check(node.data()).expect_reason(&["1 problem"]);
    expect_found_missing(&outcome, file);
    longer.set_len(length).expect("the file as it was");
    check(node.data()).expect_success();
}

/// Opening a pipe would wait for a writer.
#[test]
fn what_is_no_file_is_told_and_not_waited_for() {
    let node = filled();
    let blob = files(&node, "blobs")[0].clone();
    for file in [node.data().join("CURRENT"), blob] {
        let aside = file.with_extension("aside");
        fs::rename(&file, &aside).expect("a file to move");
        let made = Command::new("mkfifo").arg(&file).status().expect("mkfifo");
        assert!(made.success());
        expect_found_missing(&check(node.data()), &file);
        fs::remove_file(&file).expect("a pipe to remove");
        fs::create_dir(&file).expect("a directory in its place");
        expect_found_missing(&check(node.data()), &file);
        fs::remove_dir(&file).expect("a directory to remove");
        fs::rename(&aside, &file).expect("a file to move back");
    }
    check(node.data()).expect_success();
}

#[test]
fn what_a_node_of_a_cluster_keeps_is_checked_too() {
    let node = filled();
    for name in ["nodes", "replica-state"] {
        let path = node.data().join(name);
        fs::write(&path, "rubbish").expect("room");
        let outcome = check(node.data()).expect_reason(&["1 problem"]);
        expect_found_missing(&outcome, &path);
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data", node.data().to_str().expect("text")];
        if name == "nodes" {
            Ladoga::new(serve).run().expect_failure(1, &["nodes", "damaged"]);
        }
        fs::remove_file(&path).expect("a file to remove");
    }
    check(node.data()).expect_success();
}

#[test]
fn two_damages_are_both_named() {
    let node = filled();
    let tables = files(&node, "tables");
    assert!(tables.len() >= 2, "{tables:?}");
    let flips = [Flipped::new(&tables[0], 500, 1), Flipped::new(&tables[1], 500, 1)];
    let outcome = check(node.data());
    for table in &tables[..2] {
        expect_found(&outcome, table);
    }
    drop(flips);
}

#[test]
fn a_directory_in_use_is_left_alone() {
    let node = Node::start();
    node.connect().put("key", b"value");
    let name = node.data().to_str().expect("a path of text");
    check(node.data()).expect_reason(&[name]);
    assert_eq!(node.connect().value("key").as_deref(), Some(&b"value"[..]));
    node.connect().put("key", b"new");
}

#[test]
fn what_is_no_data_directory_is_named_and_left_alone() {
    let directory = Directory::new();
    let missing = directory.path().join("missing");
    check(&missing).expect_reason(&["missing"]);
    assert!(!missing.exists(), "a check created a directory");
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).expect("a directory");
    check(&empty).expect_reason(&["empty"]);
    assert_eq!(files_below(&empty), [], "a check created a file");
    let file = directory.path().join("file");
    fs::write(&file, "text").expect("a file");
    check(&file).expect_reason(&["file"]);
}
