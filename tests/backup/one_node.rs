use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::steps::{backup, bytes, create, created, restore, stored, text};
use crate::support::{Directory, Ladoga, Launch, Node, Response, entity, range, value, wait_until};

/// A node on what was restored.
fn node_on(data: &Path) -> Node {
    Launch::new().data(data).start()
}

fn get(node: &Node, key: &str) -> Response {
    node.connect().request("GET", &entity(key), None)
}

/// What a reader can tell about a key: status, value, version and expiry.
type Told = (u16, Vec<u8>, Option<String>, Option<String>);

fn told(node: &Node, keys: &[String]) -> Vec<Told> {
    let mut connection = node.connect();
    let told = |key: &String| {
        let response = connection.request("GET", &entity(key), None);
        let field = |name: &str| response.header(name).map(str::to_owned);
        let (etag, expires) = (field("etag"), field("ladoga-expires"));
        (response.status, response.body, etag, expires)
    };
    keys.iter().map(told).collect()
}

#[test]
fn what_was_there_comes_back_with_versions_expiry_and_deletions() {
    let (node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    let keys: Vec<String> = (0..300).map(|index| format!("key{index:03}")).collect();
    let mut connection = node.connect();
    for (index, key) in keys.iter().enumerate() {
        connection.put(key, &value(index as u64, index * 13));
    }
    for index in [7, 99, 299] {
        connection.put(&keys[index], &value(index as u64, 300_000 + index * 4_096));
    }
    for key in keys.iter().step_by(10) {
        connection.delete(key);
    }
    let expiring = format!("{}&ttl=1h", entity(&keys[1]));
    assert_eq!(connection.request("PUT", &expiring, Some(b"for an hour")).status, 201);
    let before = told(&node, &keys);
    let id = created(&repository, &node.url());
    // What comes later is not in it.
    for key in &keys {
        connection.put(key, b"later");
    }
    connection.put("another", b"later");
    let listed = backup("list", &repository, &[]).expect_success();
    assert!(listed.text().starts_with(&id) && listed.text().contains(&node.url()), "{listed:?}");
    backup("verify", &repository, &[]).expect_success();
    let data = directory.path().join("restored");
    restore(&repository, &data, &["--backup", &id]).expect_success();
    let mut restored = node_on(&data);
    assert_eq!(told(&restored, &keys), before);
    assert_eq!(get(&restored, "another").status, 404);
    let mut connection = restored.connect();
    connection.put("key000", b"written after the restore");
    restored.crash();
    assert_eq!(restored.connect().value("key000"), Some(b"written after the restore".to_vec()));
    restored.stop();
    Ladoga::new(["check".to_owned(), text(&data)]).run().expect_success();
}

#[test]
fn an_empty_node_is_backed_up_and_restored() {
    let (node, directory) = (Node::start(), Directory::new());
    let (repository, data) = (directory.path().join("backups"), directory.path().join("restored"));
    created(&repository, &node.url());
    restore(&repository, &data, &[]).expect_success();
    let mut restored = node_on(&data);
    restored.connect().put("key", b"value");
    restored.crash();
    assert_eq!(restored.connect().value("key"), Some(b"value".to_vec()));
}

#[test]
fn what_is_there_is_not_copied_again() {
    let (mut node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    let mut connection = node.connect();
    // Too little for a compaction, which would make other files of it: two tables at the end, and four begin one.
    for index in 0..20 {
        connection.put(format!("key{index}"), &value(index, 20_000));
    }
    connection.put("large", &value(7, 500_000));
    created(&repository, &node.url());
    let (first, files) = (bytes(&repository), stored(&repository));
    for _ in 0..3 {
        let again = create(&repository, &node.url()).expect_success();
        assert!(again.text().contains("; 0 files of 0"), "{again:?}");
        node.restart();
    }
    assert_eq!(stored(&repository), files);
    let growth = bytes(&repository) - first;
    assert!(growth * 100 < first, "three more backups of {first} bytes took {growth}");
    node.connect().put("one more", b"value");
    created(&repository, &node.url());
    let growth = bytes(&repository) - first;
    assert!(growth * 100 < first, "a value more took {growth} of {first} bytes");
    backup("verify", &repository, &[]).expect_success();
}

/// One client writes key after key; whatever is in a backup of a node on its own is what was there at one moment.
#[test]
fn a_backup_has_what_was_acknowledged_before_and_is_of_one_moment() {
    let (node, directory) = (Node::start(), Directory::new());
    let (repository, data) = (directory.path().join("backups"), directory.path().join("restored"));
    let (acknowledged, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let before = thread::scope(|scope| {
        let (address, acknowledged, ends) = (node.connect(), &acknowledged, &ends);
        scope.spawn(move || {
            let mut connection = address;
            for index in 0..u64::MAX {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                connection.put(format!("key{index:08}"), &value(index, 500));
                acknowledged.store(index + 1, Ordering::Release);
            }
        });
        wait_until("some writes", || acknowledged.load(Ordering::Acquire) > 500);
        let before = acknowledged.load(Ordering::Acquire);
        created(&repository, &node.url());
        ends.store(true, Ordering::Relaxed);
        before
    });
    restore(&repository, &data, &[]).expect_success();
    let restored = node_on(&data);
    let records = restored.connect().request("GET", &range("key", None), None).records();
    assert!(records.len() as u64 >= before, "{} of {before}", records.len());
    for (index, (key, found)) in records.iter().enumerate() {
        assert_eq!(
            *key,
            format!("key{index:08}").into_bytes(),
            "a later write is there, and an earlier is not"
        );
        assert!(*found == value(index as u64, 500), "{index}");
    }
}

#[test]
fn prune_keeps_the_newest_whole_and_removes_what_nobody_needs() {
    let (node, directory) = (Node::start(), Directory::new());
    let (repository, data) = (directory.path().join("backups"), directory.path().join("restored"));
    let mut ids = Vec::new();
    for round in 0..4 {
        node.connect().put("large", &value(round, 400_000));
        node.connect().put(format!("key{round}"), b"value");
        ids.push(created(&repository, &node.url()));
    }
    assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    let leftover = repository.join("files").join(format!("{}.new", "0".repeat(32)));
    fs::write(&leftover, b"left by a crash").expect("a file");
    fs::write(repository.join("backups/2020-01-01T00-00-00Z.json.new"), b"too").expect("a file");
    let before = stored(&repository).len();
    let pruned = backup("prune", &repository, &["--keep", "2"]).expect_success();
    assert!(pruned.text().starts_with("removed 2 backups and "), "{pruned:?}");
    assert!(stored(&repository).len() < before && !leftover.exists());
    let listed = backup("list", &repository, &[]).expect_success();
    let left: Vec<&str> = listed.text().lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(left, ids[2..]);
    backup("verify", &repository, &[]).expect_success();
    for (id, round) in ids[2..].iter().zip([2, 3]) {
        let data = data.join(id);
        restore(&repository, &data, &["--backup", id]).expect_success();
        assert!(node_on(&data).connect().value("large") == Some(value(round, 400_000)), "{id}");
    }
    restore(&repository, &data.join("gone"), &["--backup", &ids[0]]).expect_failure(1, &[&ids[0], "list"]);
    backup("prune", &repository, &["--keep", "5"]).expect_success();
    assert_eq!(backup("list", &repository, &[]).expect_success().text().lines().count(), 2);
}

/// It left an empty repository, of which `verify` said that it has no problem.
#[test]
fn a_first_command_that_fails_leaves_no_repository_behind() {
    let (node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    create(&repository, "http://127.0.0.1:1").expect_failure(1, &["cannot reach"]);
    backup("log", &repository, &["--url", "http://127.0.0.1:1"]).expect_failure(1, &["cannot reach"]);
    // It keeps no log.
    backup("log", &repository, &["--url", &node.url()]).expect_failure(1, &[&node.url()]);
    assert!(!repository.exists());
}

/// A backup whose list was removed leaves its files, and no other trace.
#[test]
fn verify_tells_of_files_that_no_backup_names_and_of_no_backup_at_all() {
    let (node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    let ids = [1, 2].map(|round| {
        node.connect().put("large", &value(round, 400_000));
        created(&repository, &node.url())
    });
    let told = "that no backup names";
    let verified = backup("verify", &repository, &[]).expect_success();
    assert!(!verified.text().contains(told), "{verified:?}");
    let remove = |id: &str| fs::remove_file(repository.join(format!("backups/{id}.json"))).expect("a backup");
    remove(&ids[1]);
    let verified = backup("verify", &repository, &[]).expect_success();
    assert!(verified.text().contains(": 1 backup, ") && verified.text().contains(told), "{verified:?}");
    remove(&ids[0]);
    let verified = backup("verify", &repository, &[]);
    let verified = verified.expect_failure(1, &["there is no backup in", &text(&repository)]);
    assert!(verified.text().contains(told) && !verified.text().contains("no problem"), "{verified:?}");
}

/// It said "File exists", or that there are no backups.
#[test]
fn a_file_in_the_place_of_a_directory_is_named() {
    let directory = Directory::new();
    let file = directory.path().join("file");
    fs::write(&file, b"of somebody").expect("a file");
    let told = format!("ladoga: {} is no directory, expected a", text(&file));
    for path in [file.clone(), file.join("below")] {
        create(&path, "http://127.0.0.1:1").expect_failure(1, &[&told, "or a bucket as s3://"]);
        backup("list", &path, &[]).expect_failure(1, &[&told]);
        restore(directory.path(), &path, &[]).expect_failure(1, &[&told, "new or empty one"]);
    }
    assert_eq!(fs::read(&file).expect("a file"), b"of somebody");
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let (node, directory) = (Node::start(), Directory::new());
    let path = |name: &str| directory.path().join(name);
    let repository = path("backups");
    backup("list", &repository, &[]).expect_failure(1, &["has no backups", "ladoga backup create"]);
    backup("verify", &repository, &[]).expect_failure(1, &["has no backups"]);
    backup("prune", &repository, &["--keep", "1"]).expect_failure(1, &["has no backups"]);
    assert!(!repository.exists(), "who only looks makes nothing");
    backup("prune", &repository, &["--keep", "0"]).expect_failure(2, &["--keep"]);
    backup("prune", &repository, &[]).expect_failure(2, &["--keep"]);
    restore(&repository, &path("data"), &[]).expect_failure(1, &["has no backups"]);
    // A directory of something else is left alone.
    fs::create_dir_all(path("photos")).expect("a directory");
    fs::write(path("photos/lake.jpg"), b"blue").expect("a file");
    create(&path("photos"), &node.url()).expect_failure(1, &["lake.jpg", "no repository"]);
    assert_eq!(fs::read_dir(path("photos")).expect("a directory").count(), 1);
    node.connect().put("key", b"value");
    created(&repository, &node.url());
    restore(&repository, &path("photos"), &[]).expect_failure(1, &["not empty", "lake.jpg"]);
    restore(&repository, node.data(), &[]).expect_failure(1, &["not empty"]);
    restore(&repository, &path("data"), &["--backup", "yesterday"]).expect_failure(1, &["yesterday"]);
    restore(&repository, &path("data"), &["--backup", "../../etc"]).expect_failure(1, &["../../etc"]);
    restore(&repository, &path("data"), &["--node", "http://x:1"])
        .expect_failure(2, &["--node", &node.url()]);
    restore(&repository, &path("data"), &[]).expect_success();
    restore(&repository, &path("data"), &[]).expect_failure(1, &["not empty"]);
    create(&repository, "http://127.0.0.1:1").expect_failure(1, &["cannot reach"]);
    Ladoga::new(["backup", "create", "--to", &text(&repository), "--url", "ftp://x"])
        .run()
        .expect_failure(2, &["--url"]);
    Ladoga::new(["backup", "create", "--to", &text(&repository), "--url", &node.url(), "--ack", "2"])
        .run()
        .expect_failure(2, &["--ack", "on its own"]);
    fs::write(repository.join("repository"), b"ladoga backups 2\n").expect("a file");
    backup("list", &repository, &[]).expect_failure(1, &["format 2", "format 1"]);
}
