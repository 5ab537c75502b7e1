use std::fs;

use crate::steps::{backup, created, restore, stored, text};
use crate::support::{Directory, Ladoga, Launch, Node, files_below, value, wait_until};

/// Enough tables and large values that a backup takes more than a moment.
fn fill(node: &Node, round: u64) {
    let mut connection = node.connect();
    for index in 0..12 {
        connection.put(format!("large{index}"), &value(round * 100 + index, 600_000));
    }
    connection.put("round", round.to_string().as_bytes());
}

fn expect_whole(directory: &Directory, id: &str, round: u64) {
    let repository = directory.path().join("backups");
    backup("verify", &repository, &[]).expect_success();
    let data = directory.path().join(format!("data-{round}"));
    restore(&repository, &data, &["--backup", id]).expect_success();
    let node = Launch::new().data(&data).start();
    assert_eq!(node.connect().value("round"), Some(round.to_string().into_bytes()));
    for index in 0..12 {
        assert!(node.connect().value(format!("large{index}")) == Some(value(round * 100 + index, 600_000)));
    }
}

#[test]
fn a_command_that_is_killed_leaves_the_backups_that_there_are() {
    let (mut node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    fill(&node, 0);
    let good = created(&repository, &node.url());
    let listed = backup("list", &repository, &[]).expect_success().stdout;
    for round in 1..5 {
        fill(&node, round);
        let before = stored(&repository).len();
        let wanted = before + round as usize;
        let command = ["backup", "create", "--to", &text(&repository), "--url", &node.url()];
        let running = Ladoga::new(command).start();
        wait_until("files that arrive", || stored(&repository).len() >= wanted);
        running.signal("KILL");
        let is_killed = running.wait().code.is_none();
        if is_killed {
            assert_eq!(
                backup("list", &repository, &[]).expect_success().stdout,
                listed,
                "no half one is there"
            );
        }
        // What a command that was killed holds is gone with the process of the node.
        node.crash();
        if !is_killed {
            break;
        }
    }
    backup("prune", &repository, &["--keep", "9"]).expect_success();
    expect_whole(&directory, &good, 0);
    fill(&node, 9);
    let next = created(&repository, &node.url());
    expect_whole(&directory, &next, 9);
}

#[test]
fn a_node_that_is_killed_in_between_ends_the_command_and_forgets_the_checkpoint() {
    let (mut node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    fill(&node, 0);
    let good = created(&repository, &node.url());
    fill(&node, 1);
    let before = stored(&repository).len();
    let command = ["backup", "create", "--to", &text(&repository), "--url", &node.url()];
    let running = Ladoga::new(command).start();
    wait_until("files that arrive", || stored(&repository).len() > before);
    node.kill();
    let ended = running.wait();
    node.start_again();
    let left = files_below(&node.data().join("checkpoints"));
    assert!(left.iter().all(|(path, _)| path.ends_with("store")), "{left:?}");
    if ended.code != Some(0) {
        assert_eq!(ended.code, Some(1), "{ended:?}");
        expect_whole(&directory, &good, 0);
    }
    let next = created(&repository, &node.url());
    expect_whole(&directory, &next, 1);
}

#[test]
fn a_restore_that_is_killed_leaves_nothing_that_a_node_starts_with() {
    let (node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    fill(&node, 0);
    created(&repository, &node.url());
    let data = directory.path().join("data");
    let command = ["restore", "--from", &text(&repository), "--data", &text(&data)];
    let running = Ladoga::new(command).start();
    wait_until("files that arrive", || !files_below(&data.join("tables")).is_empty());
    running.signal("KILL");
    if running.wait().code.is_none() && data.join("RESTORING").exists() {
        restore(&repository, &data, &[]).expect_failure(1, &["not completed", "remove the directory"]);
        let started = Ladoga::new(["serve", "--data", &text(&data), "--listen", "127.0.0.1:0"]).run();
        started.expect_failure(1, &[&text(&data), "not completed: remove the directory and restore again"]);
        fs::remove_dir_all(&data).expect("a directory to remove");
        restore(&repository, &data, &[]).expect_success();
    }
    assert_eq!(Launch::new().data(&data).start().connect().value("round"), Some(b"0".to_vec()));
}

#[test]
fn two_commands_do_not_write_into_one_repository() {
    let (node, directory) = (Node::start(), Directory::new());
    let repository = directory.path().join("backups");
    fill(&node, 0);
    created(&repository, &node.url());
    let lock = fs::File::options().read(true).write(true).open(repository.join("LOCK")).expect("a lock");
    lock.lock().expect("the lock");
    let late = ["--url", &node.url(), "--wait", "10ms"];
    backup("create", &repository, &late).expect_failure(1, &["in use", "within 10ms"]);
    backup("prune", &repository, &["--keep", "1", "--wait", "0"]).expect_failure(1, &["in use"]);
    backup("verify", &repository, &[]).expect_success();
    // The one that comes second is carried out after the first.
    let (url, to) = (node.url(), text(&repository));
    let waiting = Ladoga::new(["backup", "create", "--url", &url, "--to", &to]).start();
    wait_until("that it says that it waits", || waiting.told().contains("in use"));
    drop(lock);
    waiting.wait().expect_success();
    assert_eq!(backup("list", &repository, &[]).expect_success().text().lines().count(), 2);
}

/// They met half-made repositories of each other.
#[test]
fn commands_that_begin_a_repository_together_all_succeed() {
    let (node, directory) = (Node::start(), Directory::new());
    node.connect().put("key", b"value");
    let (url, to) = (node.url(), text(&directory.path().join("backups")));
    let command = ["backup", "create", "--url", &url, "--to", &to];
    let all: Vec<_> = (0..4).map(|_| Ladoga::new(command).start()).collect();
    for one in all {
        one.wait().expect_success();
    }
    let repository = directory.path().join("backups");
    backup("verify", &repository, &[]).expect_success();
    assert_eq!(backup("list", &repository, &[]).expect_success().text().lines().count(), 4);
}

/// The root of a new file system is not quite empty.
#[test]
fn a_file_system_of_its_own_is_an_empty_directory() {
    let (node, directory) = (Node::start(), Directory::new());
    node.connect().put("key", b"value");
    let [repository, data] = ["backups", "data"].map(|name| directory.path().join(name));
    for root in [&repository, &data] {
        fs::create_dir_all(root.join("lost+found")).expect("a directory");
    }
    created(&repository, &node.url());
    restore(&repository, &data, &[]).expect_success();
    assert_eq!(Launch::new().data(&data).start().connect().value("key").as_deref(), Some(&b"value"[..]));
}

#[test]
fn what_looks_like_a_url_is_no_directory() {
    let (directory, keep) = (Directory::new(), ["--keep", "1"]);
    for place in ["S3://lake/nodes", "gs://lake/nodes", "https://lake/nodes", "file:///backups"] {
        let named = [place, "expected a directory, or a bucket as s3://BUCKET/PREFIX"];
        for (command, more) in
            [("create", &[][..]), ("log", &[]), ("list", &[]), ("verify", &[]), ("prune", &keep)]
        {
            let arguments = ["backup", command, "--to", place].into_iter().chain(more.iter().copied());
            let run = Ladoga::new(arguments).current_dir(directory.path()).run();
            run.expect_failure(2, &named);
        }
        let restore = ["restore", "--from", "nowhere", "--data", place];
        Ladoga::new(restore).current_dir(directory.path()).run().expect_failure(2, &[place]);
    }
    assert_eq!(files_below(directory.path()), []);
}
