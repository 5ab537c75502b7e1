use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::cluster::{Cluster, launches_at};
use crate::point::note_time;
use crate::s3_server::S3Server;
use crate::steps::text;
use crate::support::{Directory, Launch, Node, Outcome, files_below, value, wait_until};

const TO: &str = "s3://lake/nodes/first";
/// What the keys of its objects begin with.
const PREFIX: &str = "nodes/first";

fn create(server: &S3Server, node: &Node) -> Outcome {
    server.command(&["backup", "create", "--rate", "unlimited", "--url", &node.url(), "--to", TO]).run()
}

fn about(server: &S3Server, command: &str, more: &[&str]) -> Outcome {
    server.command(&[&["backup", command, "--to", TO], more].concat()).run()
}

fn restore(server: &S3Server, data: &Path) -> Outcome {
    server.command(&["restore", "--from", TO, "--data", &text(data)]).run()
}

/// A node with enough that there is something to send.
fn filled() -> Node {
    let node = Node::start();
    let mut connection = node.connect();
    for index in 0..200 {
        connection.put(format!("key{index}"), &value(index, 5_000));
    }
    connection.put("large", &value(7, 3_000_000));
    node
}

fn check_filled(node: &Node) {
    let mut connection = node.connect();
    for index in 0..200 {
        assert_eq!(connection.value(format!("key{index}")), Some(value(index, 5_000)), "key{index}");
    }
    assert_eq!(connection.value("large"), Some(value(7, 3_000_000)));
}

#[test]
fn a_bucket_is_as_good_as_a_directory() {
    let Some(server) = S3Server::start() else { return };
    let (node, directory) = (filled(), Directory::new());
    let first = create(&server, &node).expect_success();
    let id = first.text().split_whitespace().next().expect("the name of the backup").to_owned();
    let stored = || files_below(&server.file(&format!("{PREFIX}/files")));
    let files = stored();
    assert!(!files.is_empty());
    // What is there is not sent again, and nothing but the backup itself comes on top.
    let again = create(&server, &node).expect_success();
    assert!(again.text().contains("; 0 files of 0"), "{again:?}");
    assert_eq!(stored(), files);
    let listed = about(&server, "list", &[]).expect_success();
    assert_eq!(listed.text().lines().count(), 2);
    assert!(listed.text().starts_with(&id), "{listed:?}");
    let verified = about(&server, "verify", &[]).expect_success();
    assert!(verified.text().starts_with(&format!("{TO}: 2 backups, ")), "{verified:?}");
    // Somebody has copied it there, with what a crash had left.
    let left = ["files", "backups"].map(|folder| server.file(&format!("{PREFIX}/{folder}/left.new")));
    left.iter().for_each(|path| fs::write(path, "left").expect("an object"));
    about(&server, "prune", &["--keep", "1"]).expect_success();
    assert!(left.iter().all(|path| !path.exists()));
    assert!(!about(&server, "list", &[]).expect_success().text().contains(&id));
    // The node, the lock and whoever took the backup may be gone.
    drop(node);
    assert!(!server.file(&format!("{PREFIX}/LOCK")).exists(), "the lock is given back");
    let data = directory.path().join("restored");
    restore(&server, &data).expect_success();
    check_filled(&Launch::new().data(&data).start());
}

#[test]
fn a_flipped_bit_in_a_bucket_is_named() {
    let Some(server) = S3Server::start() else { return };
    let (node, directory) = (filled(), Directory::new());
    create(&server, &node).expect_success();
    let folder = server.file(&format!("{PREFIX}/files"));
    let (file, _) = files_below(&folder).into_iter().next().expect("a file");
    let mut bytes = fs::read(&file).expect("an object");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("a damaged object");
    let name = file.file_name().expect("a name").to_str().expect("a name of text");
    about(&server, "verify", &[]).expect_failure(1, &[TO, name]);
    let data = directory.path().join("restored");
    restore(&server, &data).expect_failure(1, &[name]);
}

#[test]
fn a_point_in_time_comes_back_from_a_bucket() {
    let Some(server) = S3Server::start() else { return };
    let directory = Directory::new();
    let keeps = |launch: Launch| launch.env("LADOGA_KEEP_LOG", "1h");
    let alone = Cluster { nodes: vec![keeps(Launch::new()).start()] };
    for (name, cluster) in
        [("alone", alone), ("three", Cluster::launch(launches_at(3, |launch, _| keeps(launch))))]
    {
        let (url, to) = (cluster.nodes[0].url(), format!("s3://lake/{name}"));
        let command = |command: &[&str]| server.command(command).run().expect_success();
        cluster.put(0, "key", "", b"before");
        command(&["backup", "create", "--url", &url, "--to", &to]);
        cluster.put(0, "key", "", b"meant");
        cluster.put(0, "large", "", &value(3, 400_000));
        let at_ms = note_time();
        cluster.delete(0, "key", "");
        cluster.delete(0, "large", "");
        command(&["backup", "log", "--url", &url, "--to", &to]);
        let listed = command(&["backup", "list", "--to", &to]);
        assert!(listed.text().contains("to any time from 2"), "{listed:?}");
        command(&["backup", "verify", "--to", &to]);
        drop(cluster);
        let data = directory.path().join(name);
        command(&["restore", "--from", &to, "--data", &text(&data), "--at", &at_ms.to_string()]);
        let restored = Launch::new().data(&data).start();
        let mut connection = restored.connect();
        assert_eq!(connection.value("key"), Some(b"meant".to_vec()), "{name}");
        assert!(connection.value("large") == Some(value(3, 400_000)), "{name}");
    }
}

/// Makes it as if the process that holds the lock had been gone for longer than its lease.
fn age_the_lock(server: &S3Server) -> Vec<u8> {
    let path = server.file(&format!("{PREFIX}/LOCK"));
    let file = fs::File::options().write(true).open(&path).expect("a lock");
    file.set_modified(SystemTime::now() - Duration::from_mins(4)).expect("a time");
    fs::read(&path).expect("a lock")
}

#[test]
fn what_is_interrupted_leaves_no_half_backup_and_keeps_others_out_for_a_while() {
    let Some(mut server) = S3Server::start() else { return };
    let (node, directory) = (filled(), Directory::new());
    create(&server, &node).expect_success();
    let folder = server.file(&format!("{PREFIX}/files"));
    let files = || files_below(&folder).len();
    let before = files();
    let mut connection = node.connect();
    for index in 0..12 {
        connection.put(format!("more{index}"), &value(index, 1_000_000));
    }
    let url = node.url();
    let begin =
        |rate| server.command(&["backup", "create", "--rate", rate, "--url", &url, "--to", TO]).start();
    // Slow, so that it is killed in its middle.
    let killed = begin("512KiB");
    wait_until("a file that was sent", || files() > before);
    let refused = |command: &str, more: &[&str]| {
        about(&server, command, &[&["--wait", "0"], more].concat()).expect_failure(1, &[TO, "is in use"]);
    };
    refused("create", &["--url", &url]);
    refused("prune", &["--keep", "1"]);
    killed.signal("KILL");
    killed.wait();
    assert_eq!(about(&server, "list", &[]).expect_success().text().lines().count(), 1);
    about(&server, "verify", &[]).expect_success();
    // Nobody can tell yet that it is gone.
    refused("create", &["--url", &url]);
    let lock = age_the_lock(&server);
    // A server that goes away and comes back does not end a backup; one that stays away does, with a reason.
    let begun = begin("3MiB");
    let held = server.file(&format!("{PREFIX}/LOCK"));
    wait_until("the lock", || fs::read(&held).is_ok_and(|found| found != lock));
    server.kill();
    server.start_again();
    begun.wait().expect_success();
    assert!(!held.exists(), "the lock is given back");
    server.kill();
    create(&server, &node).expect_failure(1, &[TO]);
    server.start_again();
    let data = directory.path().join("restored");
    restore(&server, &data).expect_success();
    let restored = Launch::new().data(&data).start();
    check_filled(&restored);
    assert_eq!(restored.connect().value("more11"), Some(value(11, 1_000_000)));
}

#[test]
fn what_is_wrong_with_a_bucket_is_said() {
    let Some(server) = S3Server::start() else { return };
    let node = Node::start();
    let url = node.url();
    let to = |place: &'static str| ["backup", "create", "--url", &url, "--to", place].map(str::to_owned);
    let run = |place, variables: &[(&str, &str)]| {
        let arguments = to(place);
        let command = server.command(&arguments.each_ref().map(String::as_str));
        variables.iter().fold(command, |command, (name, text)| command.env(name, text)).run()
    };
    run("s3://no-such-bucket/a", &[]).expect_failure(1, &["there is no bucket no-such-bucket"]);
    run(TO, &[("AWS_SECRET_ACCESS_KEY", "wrong")])
        .expect_failure(1, &["SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"]);
    run(TO, &[("AWS_ACCESS_KEY_ID", "nobody")]).expect_failure(1, &["access key"]);
    run(TO, &[("AWS_ACCESS_KEY_ID", "")]).expect_failure(2, &["AWS_ACCESS_KEY_ID is not set"]);
    run(TO, &[("AWS_ENDPOINT_URL", "minio")]).expect_failure(2, &["AWS_ENDPOINT_URL is 'minio'"]);
    run(TO, &[("AWS_CA_BUNDLE", "/no/such/file")]).expect_failure(2, &["AWS_CA_BUNDLE is '/no/such/file'"]);
    run("s3://", &[]).expect_failure(2, &["expected s3://BUCKET/PREFIX"]);
    run("s3://lake/../other", &[]).expect_failure(2, &["has a part that is no name"]);
    // A bucket of other things stays as it is.
    fs::create_dir_all(server.file("photos")).expect("a folder");
    fs::write(server.file("photos/1.jpg"), "a picture").expect("an object");
    run("s3://lake/photos", &[]).expect_failure(1, &["it has 1.jpg in it"]);
    for command in ["list", "verify"] {
        about(&server, command, &[]).expect_failure(1, &["has no backups"]);
    }
}
