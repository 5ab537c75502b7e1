use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::resp_client::RespNode;
use crate::support::{Directory, entity, wait_until};
use crate::tokens::{Tokens, ask, request};

/// The lines that there are: who, what, and the status.
fn lines(path: &Path) -> Vec<(Option<String>, String, String)> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
        assert_eq!(line["from"], "127.0.0.1", "{line}");
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        (text("who"), text("what").expect("what"), text("status").expect("a status"))
    };
    whole.map(read).collect()
}

fn wait_for_line(path: &Path, who: Option<&str>, what: &str, status: &str) {
    let line = (who.map(str::to_owned), what.to_owned(), status.to_owned());
    wait_until(&format!("{line:?}"), || lines(path).contains(&line));
}

#[test]
fn what_is_refused_and_what_operators_do_is_written_down() {
    let (tokens, directory) = (Tokens::new(), Directory::new());
    let log = directory.path().join("audit.log");
    let app = tokens.create("app", "read,write", &["--prefix", "user:"]);
    let ops = tokens.create("ops", "admin,profile", &[]);
    let launch = tokens.launch().flag("--audit", log.to_str().expect("a path of text"));
    let mut node = RespNode::launch(launch);
    let mut connection = node.node.connect();
    let mut send = |asked: (&str, &str), token: Option<&str>, body: Option<&[u8]>| {
        ask(&mut connection, asked, token, body).status
    };
    assert_eq!(send(("PUT", &entity("user:1")), Some(&app), Some(b"1")), 201);
    assert_eq!(send(("PUT", &entity("a")), Some(&app), Some(b"1")), 403);
    assert_eq!(send(("GET", &entity("a")), None, None), 401);
    assert_eq!(send(("POST", "/v0/repair"), Some(&ops), None), 400);
    let lines_of_batch = b"{\"op\":\"put\",\"key\":\"b\",\"value\":\"1\"}\n{\"op\":\"put\",\"key\":\"user:2\",\"value\":\"1\"}\n";
    assert_eq!(send(("POST", "/v0/batch"), Some(&app), Some(lines_of_batch)), 200);
    let mut client = node.connect();
    client.ask("AUTH app wrong");
    client.ask(&format!("AUTH {app}"));
    client.ask("GET other");
    client.ask("SET user:3 1");
    assert_eq!(
        send(
            ("POST", "/v0/batch?atomic=true"),
            Some(&app),
            Some(b"none\n{\"op\":\"delete\",\"key\":\"user:1\"}")
        ),
        400
    );
    // A value that is too long for memory is refused before it is read.
    client.send(b"*3\r\n$3\r\nSET\r\n$4\r\nhigh\r\n$300000\r\n");
    assert!(client.reply().starts_with(b"-NOPERM"));
    let mut stranger = node.connect();
    stranger.send(b"*3\r\n$3\r\nSET\r\n$6\r\nuser:4\r\n$1\r\n4\r\n");
    assert!(stranger.reply().starts_with(b"-NOAUTH"));
    for (who, what, status) in [
        (Some("app"), "PUT /v0/entity?id=a", "403"),
        (None, "GET /v0/entity?id=a", "401"),
        (Some("ops"), "POST /v0/repair", "400"),
        (Some("app"), "batch put b", "403"),
        (None, "AUTH", "refused"),
        (Some("app"), "GET other", "refused"),
        (Some("app"), "batch delete user:1", "403"),
        (Some("app"), "SET high", "refused"),
        (None, "SET user:4", "refused"),
    ] {
        wait_for_line(&log, who, what, status);
    }
    assert_eq!(lines(&log).len(), 9, "and nothing else: {:?}", lines(&log));
    // What happens last is written before the node ends.
    for _ in 0..50 {
        assert_eq!(send(("GET", &entity("a")), None, None), 401);
    }
    node.node.stop();
    assert_eq!(lines(&log).len(), 59);
}

#[test]
fn all_writes_are_written_down_where_that_is_wanted() {
    let (tokens, directory) = (Tokens::new(), Directory::new());
    let log = directory.path().join("audit.log");
    let app = tokens.create("app", "all", &[]);
    let launch = tokens.launch().env("LADOGA_AUDIT", log.to_str().expect("a path of text"));
    let node = RespNode::launch(launch.env("LADOGA_AUDIT_WRITES", "true").env("LADOGA_RESP_FLUSH", "true"));
    let mut connection = node.node.connect();
    let mut send =
        |asked: (&str, &str), body: Option<&[u8]>| ask(&mut connection, asked, Some(&app), body).status;
    assert_eq!(send(("PUT", &entity("a")), Some(b"1")), 201);
    assert_eq!(send(("POST", "/v0/entity?id=a&increment=1"), None), 200);
    assert_eq!(send(("GET", &entity("a")), None), 200);
    assert_eq!(send(("DELETE", &entity("a")), None), 202);
    let batch = b"{\"op\":\"put\",\"key\":\"b\",\"value\":\"1\"}\n{\"op\":\"get\",\"key\":\"b\"}\n";
    assert_eq!(send(("POST", "/v0/batch"), Some(batch)), 200);
    let batch = b"{\"op\":\"delete\",\"key\":\"b\"}\n{\"op\":\"put\",\"key\":\"c\",\"value\":\"1\"}\n";
    assert_eq!(send(("POST", "/v0/batch?atomic=true"), Some(batch)), 200);
    let mut client = node.connect();
    for command in
        [&*format!("AUTH {app}"), "SET d 1", "INCR c", "GET c", "MULTI", "SET e 1", "EXEC", "FLUSHALL"]
    {
        client.ask(command);
    }
    let expected = [
        ("PUT /v0/entity?id=a", "201"),
        ("POST /v0/entity?id=a&increment=1", "200"),
        ("DELETE /v0/entity?id=a", "202"),
        ("batch put b", "201"),
        ("batch delete b", "200"),
        ("batch put c", "200"),
        ("SET d", "ok"),
        ("INCR c", "ok"),
        ("SET e", "exec"),
        ("FLUSHALL", "ok"),
    ];
    for (what, status) in expected {
        wait_for_line(&log, Some("app"), what, status);
    }
    assert_eq!(lines(&log).len(), expected.len(), "{:?}", lines(&log));
    // No secret is anywhere but with the client.
    let secret = &app[app.len() - 43..];
    let cmdline = fs::read(format!("/proc/{}/cmdline", node.node.pid())).expect("its command line");
    for (name, text) in [
        ("the audit log", fs::read_to_string(&log).expect("the audit log")),
        ("the log", node.node.log()),
        ("the command line", String::from_utf8_lossy(&cmdline).into_owned()),
        (
            "the metrics",
            ask(&mut node.node.connect(), ("GET", "/metrics"), Some(&app), None).text().to_owned(),
        ),
        ("the tokens", fs::read_to_string(tokens.path()).expect("the tokens")),
    ] {
        assert!(!text.contains(secret), "{name} has the secret");
    }
}

/// The system says of a connection that is gone no longer from where it was: such a line had no address.
#[test]
fn who_leaves_at_once_is_written_down_with_its_address() {
    const TIMES: usize = 50;
    let (tokens, directory) = (Tokens::new(), Directory::new());
    let log = directory.path().join("audit.log");
    let node = tokens.launch().flag("--audit", log.to_str().expect("a path of text")).start();
    for _ in 0..TIMES {
        let mut client = TcpStream::connect(node.address()).expect("a connection");
        client.write_all(&request("DELETE", &entity("a"), None, None)).expect("a connection");
        // The end is a reset, which overtakes nothing that was sent.
        socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("a connection");
    }
    wait_until("a line for each", || lines(&log).len() == TIMES);
}
