use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::support::{Directory, Ladoga, Node, Outcome};

/// A server that answers every request the same, but for the paths of `known`.
struct Stranger {
    address: SocketAddr,
}

/// Status and reason, content type, body.
type Answer = (&'static str, &'static str, &'static str);

const PAGE: &str = "<html>\n<body>It works!</body>\n</html>\n";
const CUT: &str = "{\"key\":\"a\",\"etag\":\"\",\"status\":200,\"op\":\"put\",\"value\":\"v\"}\n{\"key\":\"b\",\"etag\":\"\",\"val";
/// The same, of lines that are records: who copies must not fail for another reason first.
const CUT_EXPORT: &str = "{\"key\":\"a\",\"value\":\"v\"}\n{\"key\":\"b\",\"val";
/// How a node answers whether it serves.
const SERVING: (&str, Answer) = ("/v0/status", ("200 OK", "text/plain; charset=utf-8", "serving\n"));
/// How it answers if it is no node of a cluster.
const ALONE: (&str, Answer) = ("/v0/cluster", ("400 Bad Request", "text/plain", "not part of a cluster\n"));

impl Stranger {
    fn start(answer: Answer, known: &'static [(&'static str, Answer)]) -> Stranger {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        // It waits for clients until the process of the test ends.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || {
                    let Some(path) = read_request(&stream) else { return };
                    let found = known.iter().find(|(known, _)| path.starts_with(known));
                    let (status, content_type, body) = found.map_or(answer, |(_, answer)| *answer);
                    // Pages have versions as well.
                    let head = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\netag: \"5c8c-1a\"\r\nconnection: close\r\n\r\n"
                    );
                    // A client that wants no more is gone.
                    let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
                });
            }
        });
        Stranger { address }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        let url = self.url();
        let line = b"{\"key\":\"a\",\"value\":\"v\"}\n{\"op\":\"get\",\"key\":\"a\"}\n";
        let line = if arguments[0] == "import" { &line[..24] } else { &line[24..] };
        Ladoga::new(arguments.iter().copied().chain(["--url", &url])).input(line).run()
    }
}

/// Reads a request with its body; answers its path.
fn read_request(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let (mut path, mut length, mut is_chunked) = (String::new(), 0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? <= 2 {
            break;
        }
        if path.is_empty() {
            line.split(' ').nth(1)?.clone_into(&mut path);
        }
        let line = line.to_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
        is_chunked |= line.starts_with("transfer-encoding: chunked");
    }
    let mut body = Vec::new();
    reader.by_ref().take(length).read_to_end(&mut body).ok()?;
    while is_chunked && !body.ends_with(b"0\r\n\r\n") {
        (reader.read_until(b'\n', &mut body).ok()? > 0).then_some(())?;
    }
    Some(path)
}

/// Each command that reads something.
const READING: [&[&str]; 15] = [
    &["get", "k"],
    &["get", "k", "--etag"],
    &["range", "a"],
    &["range", "a", "--json"],
    &["range", "a", "--keys-only"],
    &["count"],
    &["export"],
    &["changes"],
    &["increment", "k"],
    &["expire", "k", "1h"],
    &["batch", "-"],
    &["batch", "--atomic", "-"],
    &["status"],
    &["status", "--watch", "1"],
    &["status", "--hot"],
];
const WRITING: [&[&str]; 4] = [&["put", "k", "v"], &["delete", "k"], &["import", "-"], &["repair"]];

/// It failed with one line that names the server and has none of its page.
#[track_caller]
fn expect_one_line(stranger: &Stranger, arguments: &[&str], outcome: Outcome, named: &[&str]) {
    let outcome = outcome.expect_failure(1, &[&stranger.url()]).expect_reason(named);
    assert_eq!(outcome.stdout, b"", "{arguments:?}");
    assert!(
        !outcome.stderr.contains("<html>") || outcome.stderr.contains("'<html>"),
        "{arguments:?}: {outcome:?}"
    );
    let lines = outcome.stderr.lines().filter(|line| !line.ends_with(" stored")).count();
    assert_eq!(lines, 1, "{arguments:?}: {outcome:?}");
}

#[test]
fn a_page_is_no_answer_of_a_node() {
    let stranger = Stranger::start(("200 OK", "text/html; charset=utf-8", PAGE), &[]);
    for arguments in READING {
        expect_one_line(&stranger, arguments, stranger.run(arguments), &["no Ladoga node answers at"]);
    }
    for arguments in WRITING {
        expect_one_line(&stranger, arguments, stranger.run(arguments), &["Ladoga node"]);
    }
    for (status, arguments) in
        [("201 Created", WRITING[0]), ("202 Accepted", WRITING[1]), ("202 Accepted", WRITING[3])]
    {
        let stranger = Stranger::start((status, "text/html", PAGE), &[]);
        expect_one_line(&stranger, arguments, stranger.run(arguments), &["no Ladoga node answers at"]);
    }
}

#[test]
fn a_text_is_no_answer_of_a_node_either() {
    let stranger = Stranger::start(("200 OK", "text/plain", "all is well\n"), &[]);
    for arguments in READING {
        expect_one_line(&stranger, arguments, stranger.run(arguments), &["no Ladoga node answers at"]);
    }
    let stranger = Stranger::start(("404 Not Found", "text/plain", "404 page not found\n"), &[]);
    for arguments in [&["get", "k"][..], &["get", "k", "--etag"], &["expire", "k", "1h"]] {
        expect_one_line(&stranger, arguments, stranger.run(arguments), &["no Ladoga node answers at", "404"]);
    }
}

#[test]
fn a_refusal_with_a_page_is_one_line() {
    let stranger = Stranger::start(("404 Not Found", "text/html", PAGE), &[]);
    for arguments in READING.iter().chain(&WRITING) {
        let named: &[&str] = match arguments[0] {
            "get" | "expire" => &["no Ladoga node answers at", "404 of type text/html"],
            _ => &["answered 404 with text/html"],
        };
        expect_one_line(&stranger, arguments, stranger.run(arguments), named);
    }
    let directory = Directory::new();
    let repository = directory.path().join("backups").to_str().expect("a path of text").to_owned();
    let backup = ["backup", "create", "--to", &repository];
    stranger.run(&backup).expect_failure(1, &[&stranger.url(), "answered 404 with text/html"]);
}

#[test]
fn a_reason_moves_no_cursor() {
    let stranger = Stranger::start(("403 Forbidden", "text/plain", "not\x1b[2J you\nat all\n"), &[]);
    for arguments in READING.iter().filter(|arguments| !arguments.contains(&"--etag")).chain(&WRITING) {
        let named = ["answered 403: not\\u{1b}[2J you\\nat all"];
        expect_one_line(&stranger, arguments, stranger.run(arguments), &named);
    }
}

#[test]
fn lines_that_are_cut_are_an_error() {
    let stranger = Stranger::start(("200 OK", "application/x-ndjson", CUT), &[]);
    for arguments in [
        &["range", "a"][..],
        &["range", "a", "--json"],
        &["export"],
        &["changes", "--json"],
        &["batch", "-"],
        &["batch", "--atomic", "-"],
        &["import", "-"],
    ] {
        let cut = ["cut its answer off in the middle of a line"];
        stranger.run(arguments).expect_failure(1, &[&stranger.url()]).expect_reason(&cut);
    }
}

#[test]
fn nothing_is_copied_from_a_stranger_or_to_one() {
    let node = Node::start();
    node.connect().put("key", b"value");
    let copy =
        |from: &str, to: &str| Ladoga::new(["copy", "--from", from, "--to", to, "--patience", "0"]).run();
    let page = ("200 OK", "text/html", PAGE);
    for known in [&[][..], &[SERVING, ALONE]] {
        let stranger = Stranger::start(page, known);
        let named = ["no Ladoga node answers at", &stranger.url()];
        copy(&stranger.url(), &node.url()).expect_failure(1, &named);
        copy(&node.url(), &stranger.url()).expect_failure(1, &named);
    }
    let stranger = Stranger::start(("404 Not Found", "text/html", PAGE), &[]);
    let named = ["answered 404 with text/html", &*stranger.url()];
    copy(&stranger.url(), &node.url()).expect_failure(1, &named);
    copy(&node.url(), &stranger.url()).expect_failure(1, &named);
    let stranger = Stranger::start(("200 OK", "application/x-ndjson", CUT_EXPORT), &[SERVING, ALONE]);
    let outcome = copy(&stranger.url(), &node.url());
    outcome.expect_failure(1, &["cut its answer off", &stranger.url(), "records are copied"]);
}
