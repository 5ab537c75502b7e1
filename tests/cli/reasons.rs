use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Directory, Ladoga, Launch, Node, full_disk, ladoga_in, skip};

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
    let what_to_do = "the directory that `ladoga serve --data` has";
    Ladoga::new(["check".as_ref(), none.as_os_str()]).run().expect_failure(1, &[told, &why, what_to_do]);
}

/// It said only that the settings are right, and the start failed.
#[test]
fn a_check_tells_of_a_data_directory_that_cannot_be_written() {
    if rustix::process::geteuid().is_root() {
        return skip("it runs as root, who may write everywhere");
    }
    let directory = Directory::new();
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).expect("a directory");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("its mode");
    for (path, verb) in
        [(closed.clone(), "use"), (closed.join("data"), "make"), (closed.join("one/data"), "make")]
    {
        let path = path.to_str().expect("a path");
        let told = format!("this user cannot {verb} the data directory {path}");
        let check = ["serve", "--listen", "127.0.0.1:1", "--check-config", "--data", path];
        // The user of the node may be another one.
        let checked = Ladoga::new(check).run().expect_success();
        assert!(
            checked.stderr.contains(&told) && checked.stderr.contains("Permission denied"),
            "{checked:?}"
        );
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("its mode");
}

#[test]
fn a_new_store_among_other_things_is_told() {
    let directory = Directory::new();
    let data = directory.path().join("home");
    fs::create_dir(&data).expect("a directory");
    for name in ["photos.tar", ".profile", "lost+found"] {
        fs::write(data.join(name), "mine").expect("a file");
    }
    let told = format!("the data directory {} has no store yet, and has photos.tar in it", data.display());
    let check = ["serve", "--check-config", "--data", data.to_str().expect("a path")];
    let checked = Ladoga::new(check).run().expect_success();
    assert!(checked.stderr.contains(&told), "{checked:?}");
    // What the settings themselves say that is there, as with the volume of a container.
    let tokens = data.join("tokens.toml");
    let tokens = tokens.to_str().expect("a path");
    Ladoga::new(["token", "create", "--tokens", tokens, "--id", "admin", "--scopes", "all"])
        .run()
        .expect_success();
    let checked = Ladoga::new(check.iter().chain(&["--tokens", tokens])).run().expect_success();
    assert!(checked.stderr.contains(&format!("{told}, which")), "{checked:?}");
    fs::remove_file(tokens).expect("a file");
    let mut node = Launch::embedded().data(&data).start();
    assert_eq!(node.log().matches(&told).count(), 1, "{}", node.log());
    // It is a store now.
    node.restart();
    assert_eq!(node.log().matches(&told).count(), 1, "{}", node.log());
    assert_eq!(fs::read(data.join("photos.tar")).expect("a file"), b"mine");
}

#[test]
fn an_address_that_is_taken_is_named_with_its_flag() {
    let (directory, taken) = (Directory::new(), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let taken = taken.local_addr().expect("an address").to_string();
    let data = directory.path().join("data");
    let data = data.to_str().expect("a path");
    for (flags, flag) in
        [(&["--listen", &*taken][..], "--listen"), (&["--listen", "127.0.0.1:0", "--resp", &taken], "--resp")]
    {
        let serve = [&["serve", "--data", data][..], flags].concat();
        let told = format!("cannot listen on {taken}: ");
        Ladoga::new(serve).run().expect_failure(1, &[&told, &format!("another address with {flag}")]);
    }
}

/// The file was not even looked at.
#[test]
fn files_of_tls_are_for_urls_with_tls() {
    let url = "http://127.0.0.1:1";
    for flag in ["--cacert", "--cert", "--key"] {
        let mut files = vec![flag, "f"];
        if let "--cert" | "--key" = flag {
            files = vec!["--cert", "f", "--key", "f"];
        }
        let told = format!("is 'f', expected an https:// URL with it, and not {url}");
        Ladoga::new([&["get", "k", "--url", url][..], &files].concat()).run().expect_failure(2, &[&told]);
    }
    let copy = ["copy", "--from", url, "--to", "http://127.0.0.1:2", "--cacert", "f"];
    let told = "--cacert is 'f', expected an https:// URL with it, and not http://127.0.0.1:1 and http://127.0.0.1:2";
    Ladoga::new(copy).run().expect_failure(2, &[told]);
}
