use std::fs;

use crate::steps::{backup, create, created, restore, stored, text};
use crate::support::{Directory, Ladoga, Node, Random, closed_pipe, flip_bit, value};

#[test]
fn a_flipped_bit_is_named_and_restored_nowhere() {
    let (node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    let mut connection = node.connect();
    for index in 0..300 {
        connection.put(format!("key{index}"), &value(index, 300));
    }
    connection.put("large", &value(1, 700_000));
    created(&repository, &node.url());
    let files = stored(&repository);
    assert_eq!(files.len(), 2, "a table and a large value");
    let mut random = Random::new(11);
    for (number, file) in files.iter().enumerate() {
        let length = fs::metadata(file).expect("a file").len();
        for attempt in 0..12 {
            // The first and the last byte, too.
            let offset = match attempt {
                0 => 0,
                1 => length - 1,
                _ => random.below(length),
            };
            let bit = random.below(8) as u8;
            flip_bit(file, offset as usize, bit);
            let what = format!("byte {offset} of {length} of {}", file.display());
            let verified = backup("verify", &repository, &[]);
            let verified = verified.expect_failure(1, &[&text(file), "1 problem found"]);
            assert!(verified.stderr.contains("at offset"), "{what}: {verified:?}");
            let data = directory.path().join(format!("data-{number}-{attempt}"));
            restore(&repository, &data, &[]).expect_failure(1, &[&text(file)]);
            assert!(!data.join("CURRENT").exists(), "{what}");
            flip_bit(file, offset as usize, bit);
        }
    }
    backup("verify", &repository, &[]).expect_success();
}

#[test]
fn a_damaged_list_of_a_backup_is_named_and_nothing_is_pruned_by_it() {
    let (node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    node.connect().put("key", b"value");
    let id = created(&repository, &node.url());
    let manifest = repository.join("backups").join(format!("{id}.json"));
    let files = stored(&repository);
    for offset in [0, 100, fs::metadata(&manifest).expect("a file").len() as usize - 2] {
        flip_bit(&manifest, offset, 0);
        backup("verify", &repository, &[]).expect_failure(1, &[&text(&manifest), "damaged"]);
        backup("list", &repository, &[]).expect_failure(1, &[&text(&manifest), "damaged"]);
        backup("prune", &repository, &["--keep", "1"]).expect_failure(1, &[&text(&manifest)]);
        restore(&repository, &directory.path().join("data"), &[]).expect_failure(1, &[&text(&manifest)]);
        assert_eq!(stored(&repository), files);
        flip_bit(&manifest, offset, 0);
    }
    backup("verify", &repository, &[]).expect_success();
    fs::remove_file(&files[0]).expect("a file");
    backup("verify", &repository, &[]).expect_failure(1, &[&text(&files[0])]);
    // It is fetched again.
    created(&repository, &node.url());
    backup("verify", &repository, &[]).expect_success();
    assert_eq!(stored(&repository), files);
    // One that was cut off, too.
    fs::write(&files[0], b"short").expect("a file");
    created(&repository, &node.url());
    backup("verify", &repository, &[]).expect_success();
}

/// It was, if nobody read how much had been verified: `verify | head -1` in a script.
#[test]
fn damage_is_no_success_if_nobody_reads() {
    let (node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    node.connect().put("large", &value(1, 700_000));
    let ids = [0, 1].map(|_| created(&repository, &node.url()));
    let unread = |command: &str| {
        Ladoga::new(["backup", command, "--to", &text(&repository)]).stdout(closed_pipe()).run()
    };
    unread("verify").expect_success();
    unread("list").expect_success();
    flip_bit(&stored(&repository)[0], 300, 1);
    unread("verify").expect_failure(1, &["1 problem found"]);
    flip_bit(&repository.join("backups").join(format!("{}.json", ids[1])), 100, 1);
    unread("list").expect_failure(1, &["not all backups can be read"]);
}

#[test]
fn damage_on_the_node_is_not_copied() {
    let (mut node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    for index in 0..100 {
        node.connect().put(format!("key{index}"), &value(index, 400));
    }
    node.connect().put("large", &value(1, 700_000));
    let good = created(&repository, &node.url());
    node.stop();
    for (folder, extension) in [("tables", "sst"), ("blobs", "blob")] {
        let named = format!("{folder}/");
        let found = fs::read_dir(node.data().join(folder)).expect("a directory").flatten();
        let file =
            found.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|it| it == extension));
        let file = file.expect("a file to damage");
        flip_bit(&file, 200, 3);
        node.start_again();
        let elsewhere = directory.path().join(format!("backups-{folder}"));
        create(&elsewhere, &node.url()).expect_failure(1, &["not sound", &named, "offset"]);
        assert!(stored(&elsewhere).iter().all(|path| !path.to_string_lossy().contains(".new")));
        backup("list", &elsewhere, &[]).expect_success();
        node.stop();
        flip_bit(&file, 200, 3);
    }
    let data = directory.path().join("data");
    restore(&repository, &data, &["--backup", &good]).expect_success();
}
