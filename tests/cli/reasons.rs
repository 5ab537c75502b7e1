use std::fs::{self, File};

use crate::support::{Directory, Ladoga, Node, full_disk, ladoga_in};

#[test]
fn what_cannot_be_read_or_printed_is_named() {
    let (node, directory) = (Node::start(), Directory::new());
    node.connect().put("a", b"v");
    let (url, path) = (node.url(), directory.path().to_str().expect("a path"));
    for command in [&["import"][..], &["batch"], &["batch", "--atomic"]] {
        let outcome = Ladoga::new(command.iter().chain(&[path, "--url", &url])).run();
        outcome.expect_failure(1, &[&format!("ladoga: cannot read {path}: Is a directory")]);
    }
    let input = File::open(path).expect("a directory");
    let put = ladoga_in(&[]).args(["put", "k", "--url", &url]).stdin(input).output().expect("a run");
    let said = String::from_utf8_lossy(&put.stderr);
    assert!(said.starts_with("ladoga: cannot read the standard input: Is a directory"), "{said}");
    for command in
        [&["get", "a"][..], &["get", "a", "--etag"], &["count"], &["range", "a"], &["export"], &["status"]]
    {
        let outcome = Ladoga::new(command.iter().chain(&["--url", &url])).stdout(full_disk()).run();
        outcome.expect_failure(1, &["ladoga: cannot print the result: No space left on device"]);
    }
}

#[test]
fn one_is_not_many() {
    let mut node = Node::start();
    node.connect().put("a", b"v");
    let export = Ladoga::new(["export", "--url", &node.url()]).run().expect_success();
    assert_eq!(export.stderr, "1 record\n");
    node.stop();
    let check = Ladoga::new(["check", node.data().to_str().expect("a path")]).run().expect_success();
    assert!(check.text().contains(": 1 table, 1 block, 1 record, 0 large values, "), "{check:?}");
}

#[test]
fn a_data_directory_that_cannot_be_opened_is_named() {
    let directory = Directory::new();
    let file = directory.path().join("file");
    fs::write(&file, "text").expect("a file");
    for path in [file.clone(), file.join("data")] {
        let path = path.to_str().expect("a path");
        let told = format!("ladoga: cannot open the data directory {path}: Not a directory");
        for more in [&[][..], &["--check-config"], &["--cluster", "http://127.0.0.1:1,http://127.0.0.1:2"]] {
            let serve = ["serve", "--listen", "127.0.0.1:1", "--data", path];
            Ladoga::new(serve.iter().chain(more)).run().expect_failure(1, &[&told]);
        }
    }
    let none = directory.path().join("none");
    let told = "is not a data directory of a node";
    let why = format!("open {}/CURRENT failed: No such file or directory", none.display());
    Ladoga::new(["check".as_ref(), none.as_os_str()]).run().expect_failure(1, &[told, &why]);
}
