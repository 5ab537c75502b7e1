use std::fs;

use crate::point::note_time;
use crate::steps::{backup, created, restore};
use crate::support::{Directory, Launch, Node, files_below};

fn value_of(node: &Node) -> Option<Vec<u8>> {
    node.connect().value("key")
}

/// A node that was gone lost its only backup to those of another one, and its log with it.
#[test]
fn prune_keeps_the_newest_of_each_node() {
    let (mut gone, busy) = (Launch::new().env("LADOGA_KEEP_LOG", "1h").start(), Node::start());
    let directory = Directory::new();
    let repository = directory.path().join("backups");
    let data = |name: &str| directory.path().join(name);
    gone.connect().put("key", b"of the one that is gone");
    let only = created(&repository, &gone.url());
    gone.connect().put("key", b"its last");
    let at_ms = note_time().to_string();
    backup("log", &repository, &["--url", &gone.url()]).expect_success();
    gone.stop();
    let ids = [0, 1, 2].map(|round| {
        busy.connect().put("key", round.to_string().as_bytes());
        created(&repository, &busy.url())
    });
    let pruned = backup("prune", &repository, &["--keep", "2"]).expect_success();
    let removed = format!("removed {}  {}", ids[0], busy.url());
    assert_eq!(pruned.text().lines().skip(1).collect::<Vec<_>>(), [&removed], "{pruned:?}");
    assert!(pruned.text().contains("; 3 backups left"), "{pruned:?}");
    backup("verify", &repository, &[]).expect_success();
    let newest = |id: &str, node: &Node| format!("{id} of {}", node.url());
    restore(&repository, &data("any"), &[])
        .expect_failure(2, &["--backup", &newest(&only, &gone), &newest(&ids[2], &busy)]);
    assert!(!data("any").exists());
    for (id, value) in [(&only, "of the one that is gone"), (&ids[1], "1"), (&ids[2], "2")] {
        restore(&repository, &data(id), &["--backup", id]).expect_success();
        assert_eq!(value_of(&Launch::new().data(&data(id)).start()), Some(value.as_bytes().to_vec()), "{id}");
    }
    let restored = restore(&repository, &data("named"), &["--node", &gone.url()]).expect_success();
    assert!(restored.text().contains(&newest(&only, &gone)), "{restored:?}");
    // Only one of them keeps its log.
    restore(&repository, &data("late"), &["--at", &at_ms]).expect_success();
    assert_eq!(value_of(&Launch::new().data(&data("late")).start()), Some(b"its last".to_vec()));
    // What is gone for good goes by hand.
    fs::remove_file(repository.join(format!("backups/{only}.json"))).expect("a backup");
    backup("prune", &repository, &["--keep", "2"]).expect_success();
    restore(&repository, &data("any"), &[]).expect_success();
}

/// By its URL, the one that moved would be another one, and the one that came to its place would be the same.
#[test]
fn a_node_is_the_same_elsewhere_and_another_one_at_its_place_is_not() {
    let (mut first, directory) = (Node::start(), Directory::new());
    let (repository, moved) = (directory.path().join("backups"), directory.path().join("moved"));
    first.connect().put("key", b"first");
    let before = created(&repository, &first.url());
    first.stop();
    fs::rename(first.data(), &moved).expect("a data directory");
    let elsewhere = Launch::new().data(&moved).start();
    created(&repository, &elsewhere.url());
    first.start_again();
    first.connect().put("key", b"another one");
    created(&repository, &first.url());
    let pruned = backup("prune", &repository, &["--keep", "1"]).expect_success();
    assert!(pruned.text().contains(&format!("removed {before}  {}", first.url())), "{pruned:?}");
    for (node, expected) in [(&elsewhere, "first"), (&first, "another one")] {
        let data = directory.path().join(expected);
        restore(&repository, &data, &["--node", &node.url()]).expect_success();
        assert_eq!(value_of(&Launch::new().data(&data).start()), Some(expected.as_bytes().to_vec()));
    }
}

/// They were taken for one: prune kept the newest backup of both together, and a restore did not ask which was meant.
#[test]
fn a_copy_of_a_data_directory_is_another_node() {
    let (mut first, directory) = (Node::start(), Directory::new());
    let (repository, data) = (directory.path().join("backups"), directory.path().join("copy"));
    first.connect().put("key", b"of the first");
    created(&repository, &first.url());
    first.stop();
    for (path, _) in files_below(first.data()) {
        let to = data.join(path.strip_prefix(first.data()).expect("it is below"));
        fs::create_dir_all(to.parent().expect("a directory")).expect("room");
        fs::copy(path, to).expect("room");
    }
    first.start_again();
    let copy = Launch::new().data(&data).start();
    copy.connect().put("key", b"of the copy");
    let ids = [&first, &copy].map(|node| created(&repository, &node.url()));
    backup("prune", &repository, &["--keep", "1"]).expect_success();
    restore(&repository, &directory.path().join("any"), &[])
        .expect_failure(2, &["--backup", &ids[0], &ids[1]]);
    for (id, expected) in ids.iter().zip(["of the first", "of the copy"]) {
        let data = directory.path().join(id);
        restore(&repository, &data, &["--backup", id]).expect_success();
        assert_eq!(value_of(&Launch::new().data(&data).start()), Some(expected.as_bytes().to_vec()));
    }
}
