use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fs, thread};

use ladoga_model::VALUE_BYTES_MAX;
use serde_json::Value;

use crate::support::{Connection, Directory, Ladoga, Node, Outcome, Port, entity, value, wait_until};

/// A lot has so many small records.
const LOT: usize = 512;

fn copy(from: &str, to: &str, flags: &[&str]) -> Ladoga {
    Ladoga::new(["copy", "--from", from, "--to", to].iter().chain(flags))
}

fn run(from: &Node, to: &Node, flags: &[&str]) -> Outcome {
    copy(&from.url(), &to.url(), flags).run()
}

fn key(number: usize) -> String {
    format!("key{number:05}")
}

/// Stores so many records: key and value are a number each.
fn fill(node: &Node, count: usize) {
    fill_under(node, count, key);
}

fn fill_under(node: &Node, count: usize, key: impl Fn(usize) -> String) {
    let mut connection = node.connect();
    for first in (0..count).step_by(1_000) {
        let line =
            |number| format!("{{\"op\":\"put\",\"key\":\"{}\",\"value\":\"{number}\"}}\n", key(number));
        let body: String = (first..count.min(first + 1_000)).map(line).collect();
        assert_eq!(connection.request("POST", "/v0/batch", Some(body.as_bytes())).status, 200);
    }
}

fn count(node: &Node) -> String {
    let counted = node.connect().request("GET", "/v0/entities?start=%00&count=true", None);
    counted.text().trim().to_owned()
}

/// What stands before a node. It passes all requests on but a `POST` that `refuse` does not want, by its number.
struct Gate {
    address: SocketAddr,
}

impl Gate {
    fn before(node: &Node, refuse: impl Fn(usize) -> Option<&'static str> + Send + Sync + 'static) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, behind) = (listener.local_addr().expect("an address"), node.address());
        let (refuse, posts) = (Arc::new(refuse), Arc::new(AtomicUsize::new(0)));
        // It waits for clients until the process of the test ends.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (refuse, posts) = (Arc::clone(&refuse), Arc::clone(&posts));
                thread::spawn(move || {
                    let Ok(request) = whole_request(&stream) else { return };
                    let is_post = request.starts_with(b"POST");
                    let refusal = is_post.then(|| refuse(posts.fetch_add(1, Ordering::SeqCst))).flatten();
                    // A client that was killed is gone.
                    let _ = match refusal {
                        Some(answer) => (&stream).write_all(answer.as_bytes()).map(|()| 0),
                        None => pass_on(behind, &request, &stream),
                    };
                });
            }
        });
        Gate { address }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn whole_request(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let (mut reader, mut request) = (BufReader::new(stream), Vec::new());
    let mut length = 0;
    loop {
        let begin = request.len();
        if reader.read_until(b'\n', &mut request)? <= 2 {
            break;
        }
        let line = String::from_utf8_lossy(&request[begin..]).to_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().expect("a length");
        }
    }
    reader.take(length).read_to_end(&mut request)?;
    Ok(request)
}

fn pass_on(behind: SocketAddr, request: &[u8], mut client: &TcpStream) -> io::Result<u64> {
    let mut node = TcpStream::connect(behind)?;
    node.write_all(request)?;
    io::copy(&mut node, &mut client)
}

const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 5\r\nConnection: close\r\n\r\nbusy\n";
const DISPLACED: &str =
    "HTTP/1.1 408 Request Timeout\r\nContent-Length: 17\r\nConnection: close\r\n\r\nsend it again...\n";
const FULL: &str =
    "HTTP/1.1 507 Insufficient Storage\r\nContent-Length: 5\r\nConnection: close\r\n\r\nfull\n";

#[test]
fn a_store_is_copied_as_it_is() {
    let (from, to) = (Node::start(), Node::start());
    let (large, middle, controls) = (value(1, VALUE_BYTES_MAX as usize), value(2, 700_000), vec![1; 200_000]);
    let mut connection = from.connect();
    for (key, value) in [
        (&b"lake"[..], &b"deep\n\"\\"[..]),
        (&[0], b"the first key of all"),
        (&[0xff, 0, b'\n', b'"'], b"\0\xff"),
        (b",\"value", b""),
        (b"large", &large),
        (b"middle", &middle),
        (b"controls", &controls),
        (&[0xff; 4_096], b"under the longest key"),
    ] {
        connection.put(key, value);
    }
    for (key, value) in [("fog", &b"mist"[..]), ("cloud", &middle)] {
        let put = connection.request("PUT", &format!("{}&ttl=1h", entity(key)), Some(value));
        assert_eq!(put.status, 201);
    }
    connection.put("gone", b"");
    connection.delete("gone");
    let copied = run(&from, &to, &["--verify"]).expect_success();
    assert_eq!(copied.text(), "");
    assert_eq!(copied.stderr, "10 records copied\n10 records are the same\n");
    let (mut one, mut other) = (from.connect(), to.connect());
    for key in [&b"large"[..], b"controls", b",\"value", &[0xff; 4_096], b"gone"] {
        assert!(one.value(key) == other.value(key), "{}", key.escape_ascii());
    }
    for key in ["fog", "cloud"] {
        let expires = |connection: &mut Connection| -> u64 {
            let read = connection.get(key);
            read.header("ladoga-expires").expect("it expires").parse().expect("milliseconds")
        };
        let (before, after) = (expires(&mut one), expires(&mut other));
        assert!(before.abs_diff(after) < 60_000, "{key}: {before} and {after}");
    }
    let prefixed = Node::start();
    let copied = run(&from, &prefixed, &["--prefix", "la", "--verify"]).expect_success();
    assert_eq!(copied.stderr, "2 records copied\n2 records are the same\n");
    assert_eq!(count(&prefixed), "2");
}

#[test]
fn a_copier_that_is_killed_goes_on_where_it_was() {
    const COUNT: usize = 20_000;
    let (from, to, directory) = (Node::start(), Node::start(), Directory::new());
    fill(&from, COUNT);
    let is_open = Arc::new(AtomicBool::new(false));
    let opened = Arc::clone(&is_open);
    let gate = Gate::before(&to, move |post| (post >= 3 && !opened.load(Ordering::SeqCst)).then_some(BUSY));
    let path = directory.path().join("copy.state");
    let file = path.to_str().expect("a path of text");
    let flags = ["--requests", "1", "--resume", file];
    let killed = copy(&from.url(), &gate.url(), &flags).start();
    let records = |path: &Path| -> Option<u64> {
        serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok()?["records"].as_u64()
    };
    wait_until("a copy that has noted three lots", || records(&path) == Some(3 * LOT as u64));
    killed.signal("KILL");
    assert_eq!(killed.wait().code, None);
    assert_eq!(count(&to), (3 * LOT).to_string());
    let other = copy(&from.url(), &to.url(), &flags).run();
    other.expect_failure(2, &["--resume is", "the file of this copy: its to is"]);
    is_open.store(true, Ordering::SeqCst);
    let copied = copy(&from.url(), &gate.url(), &["--resume", file, "--verify"]).run().expect_success();
    let said = format!(
        "{COUNT} records copied, {} of them before the break\n{COUNT} records are the same\n",
        3 * LOT
    );
    assert_eq!(copied.stderr, said);
    assert!(!path.exists(), "the copy is over");
}

#[test]
fn what_has_no_capacity_is_asked_again() {
    const COUNT: usize = 5_000;
    let (from, to) = (Node::start(), Node::start());
    fill(&from, COUNT);
    let gate =
        Gate::before(&to, |post| (post % 2 == 0).then_some(if post % 4 == 0 { BUSY } else { DISPLACED }));
    let copied = copy(&from.url(), &gate.url(), &["--verify"]).run().expect_success();
    assert!(copied.stderr.contains(&format!("{COUNT} records copied\n")), "{}", copied.stderr);
    assert_eq!(count(&to), COUNT.to_string());
}

#[test]
fn a_copy_that_breaks_off_says_how_to_go_on() {
    const COUNT: usize = 3_000;
    let (from, to) = (Node::start(), Node::start());
    // What it tells to type is one argument, although the key looks like a flag.
    let key = |number| format!("-{}", key(number));
    fill_under(&from, COUNT, key);
    let gate = Gate::before(&to, |post| (post == 2).then_some(FULL));
    let last = key(2 * LOT - 1);
    let broken = copy(&from.url(), &gate.url(), &["--requests", "1"]).run();
    let go_on = format!("add --after='{last}' to go on from there");
    broken.expect_failure(1, &["507: full", "1024 records are copied, all keys up to", &go_on]);
    let rest = copy(&from.url(), &to.url(), &[&format!("--after={last}")]).run().expect_success();
    assert_eq!(rest.stderr, format!("{} records copied\n", COUNT - 2 * LOT));
    run(&from, &to, &["--verify-only"]).expect_success();
    let impatient = Gate::before(&to, |_| Some(BUSY));
    copy(&from.url(), &impatient.url(), &["--patience", "0"])
        .run()
        .expect_failure(1, &["503: busy", "asked again for 0 s", "0 records are copied", "--resume FILE"]);
}

#[test]
fn what_changes_behind_the_copy_is_found_by_the_comparison() {
    // More than a page, so that what is behind it is read later.
    const COUNT: usize = 12_000;
    let (from, to) = (Node::start(), Node::start());
    fill(&from, COUNT);
    let (is_open, waits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (opened, waited) = (Arc::clone(&is_open), Arc::clone(&waits));
    let gate = Gate::before(&to, move |post| {
        let is_refused = post >= 2 && !opened.load(Ordering::SeqCst);
        waited.fetch_or(is_refused, Ordering::SeqCst);
        is_refused.then_some(BUSY)
    });
    let copying = copy(&from.url(), &gate.url(), &["--requests", "1", "--verify"]).start();
    wait_until("a copy that is in the middle", || waits.load(Ordering::SeqCst));
    let mut connection = from.connect();
    connection.put("aaa behind the copy", b"late");
    connection.put(key(0), b"late");
    connection.put("zzz before it", b"in time");
    is_open.store(true, Ordering::SeqCst);
    copying.wait().expect_failure(
        1,
        &[
            "12001 records copied",
            "'aaa behind the copy' is only in the source",
            "'key00000' has another value in the target",
            "1 records are only in the source, 0 only in the target, 1 have another value",
        ],
    );
    assert_eq!(to.connect().value("zzz before it").as_deref(), Some(&b"in time"[..]));
    run(&from, &to, &["--verify"]).expect_success();
}

#[test]
fn every_difference_is_counted() {
    let (from, to) = (Node::start(), Node::start());
    let (mut one, mut other) = (from.connect(), to.connect());
    let large = value(3, 1_000_000);
    one.put("a", b"only here");
    one.put("b", b"same");
    other.put("b", b"same");
    one.put("c", b"one");
    other.put("c", b"other");
    one.put("d", &large);
    other.put("d", &large[..999_999]);
    one.put("e", &large);
    other.put("e", &large);
    other.put("f", b"only there");
    let kept = one.request("PUT", &format!("{}&ttl=1h", entity("g")), Some(b"v"));
    assert_eq!(kept.status, 201);
    other.put("g", b"v");
    run(&from, &to, &["--verify-only"]).expect_failure(
        1,
        &[
            "'a' is only in the source\n'c' has another value in the target\n'd' has another value in the target\n\
             'f' is only in the target\n'g' expires at another time in the target\n2 records are the same\n",
            "1 records are only in the source, 1 only in the target, 2 have another value, 1 expire at another time; 2 are the same",
        ],
    );
    assert_eq!(other.value("a"), None, "nothing was to be copied");
}

#[test]
fn what_cannot_be_copied_is_told() {
    let (node, nobody, directory) = (Node::start(), Port::claim(), Directory::new());
    let (url, gone) = (node.url(), format!("http://{}", nobody.address()));
    copy(&url, &url, &[]).run().expect_failure(2, &["--from and --to are the same node"]);
    let localhost = url.replace("127.0.0.1", "localhost");
    copy(&url, &localhost, &[]).run().expect_failure(2, &["the same node"]);
    let any = url.replace("127.0.0.1", "0.0.0.0");
    copy(&url, &any, &[]).run().expect_failure(2, &["the same node"]);
    copy("nonsense", &url, &[]).run().expect_failure(2, &["--from is 'nonsense'", "http://127.0.0.1:8080"]);
    copy(&url, "ftp://h", &[]).run().expect_failure(2, &["--to is 'ftp://h'"]);
    copy(&gone, &url, &[]).run().expect_failure(1, &["cannot reach", &gone]);
    copy(&url, &gone, &[]).run().expect_failure(1, &["cannot reach", &gone]);
    let file = directory.path().join("state");
    fs::write(&file, b"nonsense").expect("a file");
    let file = file.to_str().expect("a path of text");
    copy(&url, &gone, &["--resume", file]).run().expect_failure(2, &["--resume is", "has written, or none"]);
    copy(&url, &gone, &["--resume", "/nowhere/state"]).run().expect_failure(1, &["cannot write --resume"]);
    let none = ["--to-token-file", "/nowhere/token"];
    copy(&url, &gone, &none).run().expect_failure(2, &["--to-token-file is '/nowhere/token'"]);
    Ladoga::new(["copy", "--from", &url]).run().expect_failure(2, &["--to <URL>"]);
}

#[test]
fn each_side_is_shown_its_own_token() {
    let (from, to, directory) = (Node::start(), Node::start(), Directory::new());
    from.connect().put("lake", b"deep");
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let listen = |node: &Node| {
        let (listener, behind) = (TcpListener::bind("127.0.0.1:0").expect("a port"), node.address());
        let (address, seen) = (listener.local_addr().expect("an address"), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let request = whole_request(&stream).expect("a request");
                let text = String::from_utf8_lossy(&request).into_owned();
                let token = text.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
                seen.lock().expect("no panic").push((address, token.unwrap_or("none").to_owned()));
                let _ = pass_on(behind, &request, &stream);
            }
        });
        address
    };
    let (one, other) = (listen(&from), listen(&to));
    let file = directory.path().join("token");
    fs::write(&file, "of-the-file\n").expect("a file");
    let flags = ["--to-token-file", file.to_str().expect("a path of text")];
    copy(&format!("http://{one}"), &format!("http://{other}"), &flags)
        .env("LADOGA_TOKEN", "of-both")
        .env("LADOGA_FROM_TOKEN", "of-the-source")
        .run()
        .expect_success();
    let seen = seen.lock().expect("no panic");
    for (address, token) in seen.iter() {
        assert_eq!(token, if *address == one { "of-the-source" } else { "of-the-file" });
    }
    assert!(seen.iter().any(|(address, _)| *address == other) && seen.len() >= 4, "{seen:?}");
}
