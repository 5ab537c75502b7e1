use std::fs;
use std::net::TcpListener;
use std::path::Path;

use crate::asking::{begin, kinds, other_address};
use crate::load::Load;
use crate::support::{Directory, Ladoga, Launch, Node, Outcome, Port, files_below, skip, wait_until};

fn run(url: &str, directory: &Directory, arguments: &[&str]) -> Outcome {
    Ladoga::new(["profile", "--url", url].iter().chain(arguments)).current_dir(directory.path()).run()
}

fn nothing_is_left_in(directory: &Directory) {
    assert_eq!(files_below(directory.path()), [], "something was left behind");
}

#[test]
fn the_ending_of_the_file_says_how_it_is_written() {
    let node = Node::start();
    let _load = Load::on(&node);
    let directory = Directory::new();
    for (name, begins, names_functions) in [
        ("out.svg", &b"<?xml"[..], true),
        ("out.html", b"<!doctype html>", true),
        ("out.heatmap.html", b"<!doctype html>", true),
        ("out.folded", b"", true),
        ("out.pb.gz", b"\x1f\x8b", false),
    ] {
        // On a machine that is busy with something else, the node may do nothing within a second.
        wait_until("a profile that names what the node does", || {
            let done = run(&node.url(), &directory, &["--seconds", "1", "-o", name]).expect_success();
            assert!(done.text().contains(name), "{done:?}");
            let warned = format!("warning: {name}: only ");
            let is_silent = done.stderr.is_empty()
                || done.stderr.starts_with(&warned) && done.stderr.lines().count() == 1;
            assert!(is_silent, "progress is for terminals: {done:?}");
            let bytes = fs::read(directory.path().join(name)).expect("the profile");
            assert!(bytes.starts_with(begins), "{name}");
            let text = String::from_utf8_lossy(&bytes);
            assert_eq!(text.contains("id=\"heat\""), name.contains("heatmap"), "{name}");
            text.contains("ladoga_server::") == names_functions
        });
    }
    assert_eq!(files_below(directory.path()).len(), 5, "something was left behind");
}

#[test]
fn kinds_and_rates_reach_the_node() {
    let node = Node::start();
    let _load = Load::on(&node);
    let directory = Directory::new();
    for kind in kinds(&node) {
        let says = match kind {
            "cpu" => "CPU time",
            "alloc" => "Allocated bytes",
            _ => "Time waiting",
        };
        run(&node.url(), &directory, &["--kind", kind, "--seconds", "1", "-o", "a.html"]).expect_success();
        let page = fs::read_to_string(directory.path().join("a.html")).expect("the profile");
        assert!(page.contains(says), "{kind}");
    }
    // What was there is replaced as a whole.
    run(&node.url(), &directory, &["--hz", "99", "--seconds", "1", "-o", "a.html"]).expect_success();
    assert_eq!(files_below(directory.path()).len(), 1);
    run(&node.url(), &directory, &["--kind", "lock", "--hz", "99", "-o", "b.html"])
        .expect_failure(2, &["--hz", "cpu only"]);
}

#[test]
fn kinds_are_taken_at_the_same_time_each_in_its_file() {
    let node = Node::start();
    let _load = Load::on(&node);
    let directory = Directory::new();
    let flags = ["--kind", "cpu,alloc", "--alloc-interval", "4KiB", "--seconds", "2", "-o", "a.heatmap.html"];
    let done = run(&node.url(), &directory, &flags).expect_success();
    for (article, kind, says) in
        [("a", "cpu", "one every 2.00 ms on the processor"), ("an", "alloc", "one every 4 KiB on average")]
    {
        let name = format!("a.{kind}.heatmap.html");
        assert!(done.text().contains(&format!("{name}: {article} {kind} profile of 2 s, ")), "{done:?}");
        let page = fs::read_to_string(directory.path().join(name)).expect("the profile");
        assert!(page.contains(says), "{says}");
    }
    assert_eq!(files_below(directory.path()).len(), 2, "something was left behind");
    // So little is allocated in a second, and sampled so rarely.
    let thin = ["--kind", "alloc", "--alloc-interval", "1GiB", "--seconds", "1", "-o", "thin.html"];
    let done = run(&node.url(), &directory, &thin).expect_success();
    assert!(
        done.stderr.starts_with("warning: thin.html: only ") && done.stderr.contains("--alloc-interval"),
        "{done:?}"
    );
    let page = fs::read_to_string(directory.path().join("thin.html")).expect("the profile");
    assert!(page.contains("Beware: only "), "the page warns too");
}

#[test]
fn a_server_that_is_no_ladoga_is_told_as_such() {
    let directory = Directory::new();
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\n\r\n<html>",
        "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
    ] {
        let url = answers_once(answer);
        run(&url, &directory, &["-o", "a.html"]).expect_failure(1, &[&url, "no Ladoga node answers"]);
    }
    nothing_is_left_in(&directory);
}

#[test]
fn who_may_not_ask_is_told_what_the_node_says() {
    let directory = Directory::new();
    for (answer, said) in [
        ("HTTP/1.1 401 Unauthorized\r\ncontent-length: 11\r\n\r\nno token x\n", "no token x"),
        ("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 9\r\n\r\ntoo much\n", "too much"),
    ] {
        let refused = run(&answers_once(answer), &directory, &["-o", "a.html"]).expect_failure(1, &[said]);
        assert!(!refused.stderr.contains("no Ladoga node answers"), "{refused:?}");
    }
    nothing_is_left_in(&directory);
}

/// A server that has one answer for one client.
fn answers_once(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut client, _) = listener.accept().expect("a client");
        let _ = client.read(&mut [0; 4096]).expect("a request");
        client.write_all(answer.as_bytes()).expect("a client that reads");
    });
    url
}

#[test]
fn what_is_typed_wrong_is_told_at_once() {
    let directory = Directory::new();
    let nobody = Port::claim();
    for (arguments, named) in [
        (&["-o", "out.png"][..], "out.png"),
        (&["-o", "out"], ".heatmap.html"),
        (&["-o", ".."], "`..` is not a known format"),
        (&["--kind", "heap", "-o", "a.svg"], "heap"),
        (&["--seconds", "0", "-o", "a.svg"], "--seconds"),
        (&["--seconds", "14401", "-o", "a.svg"], "--seconds"),
        (&["--seconds", "1.5", "-o", "a.svg"], "--seconds"),
        (&["--hz", "98", "-o", "a.svg"], "--hz"),
        (&["--kind", "cpu,cpu", "-o", "a.svg"], "twice"),
        (&["--alloc-interval", "4KiB", "-o", "a.svg"], "alloc only"),
        (&["--kind", "alloc", "--alloc-interval", "5", "-o", "a.svg"], "1KiB to 1GiB"),
        (&[], "--output"),
        (&["-o", "a.svg", "b.svg"], "b.svg"),
    ] {
        run(&nobody.url(), &directory, arguments).expect_failure(2, &[named]);
    }
    run("ftp://here", &directory, &["-o", "a.svg"]).expect_failure(2, &["ftp://here"]);
    nothing_is_left_in(&directory);
}

#[test]
fn what_does_not_work_says_why_and_leaves_nothing() {
    let directory = Directory::new();
    let nobody = Port::claim();
    run(&nobody.url(), &directory, &["-o", "a.svg"]).expect_failure(1, &["cannot reach", &nobody.url()]);

    let node = Node::start();
    let taken = begin(&node, "cpu");
    run(&node.url(), &directory, &["-o", "a.svg"]).expect_failure(1, &["already being taken"]);
    drop(taken);

    let open = Launch::new().on_all_addresses().start();
    match other_address(open.address().port()) {
        Some(address) => {
            let url = format!("http://{address}");
            run(&url, &directory, &["-o", "a.svg"]).expect_failure(1, &["loopback"]);
        }
        None => skip("this machine has no address but the loopback: what others are refused"),
    }

    fs::create_dir(directory.path().join("folder.svg")).expect("a folder");
    run(&node.url(), &directory, &["-o", "folder.svg"]).expect_failure(1, &["folder.svg", "directory"]);
    run(&node.url(), &directory, &["-o", "absent/a.svg"]).expect_failure(1, &["absent/a.svg"]);
    nothing_is_left_in(&directory);
}

#[test]
fn a_node_that_breaks_off_leaves_no_half_of_a_file() {
    let directory = Directory::new();
    fs::write(directory.path().join("a.svg"), "what was there").expect("a file");
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n<?xml",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "",
        "SSH-2.0-OpenSSH\r\n\r\n",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut client, _) = listener.accept().expect("a client");
            let mut head = [0; 4096];
            let _ = client.read(&mut head).expect("a request");
            client.write_all(answer.as_bytes()).expect("a client that reads");
        });
        run(&url, &directory, &["-o", "a.svg"]).expect_failure(1, &[&url]);
        server.join().expect("no panic");
    }
    let kept = fs::read_to_string(directory.path().join("a.svg")).expect("the file");
    assert_eq!(kept, "what was there");
    assert_eq!(files_below(Path::new(directory.path())).len(), 1, "something was left behind");
}
