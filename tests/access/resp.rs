use std::fs;

use crate::resp_client::{RespNode, request};
use crate::support::wait_until;
use crate::tokens::{Tokens, ask};

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";

fn no_command(name: &str) -> String {
    format!("-NOPERM this user has no permissions to run the '{name}' command\r\n")
}

/// The secret of a token, without its name.
fn secret(token: &str) -> &str {
    &token[token.len() - 43..]
}

/// Those who are not let in could have those who are wait for memory, and refused.
#[test]
fn a_stranger_has_no_room_for_a_large_request() {
    let tokens = Tokens::new();
    let token = tokens.create("app", "all", &[]);
    let node = RespNode::launch(tokens.launch());
    for (sent, told) in [
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*2\r\n$4\r\nPING\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ] {
        let mut client = node.connect();
        client.send(sent.as_bytes());
        assert_eq!(String::from_utf8_lossy(&client.rest()), told);
    }
    // What comes in the same piece as what lets a client in is not a stranger's.
    let value = vec![b'v'; 20_000];
    let many: Vec<&[u8]> = std::iter::once(&b"DEL"[..]).chain([&b"k"[..]; 20]).collect();
    let auth = request(&[b"AUTH", b"app", secret(&token).as_bytes()]);
    let mut client = node.connect();
    client.send(&[auth, request(&[b"SET", b"k", &value]), request(&many), request(&[b"RESET"])].concat());
    for told in ["+OK\r\n", "+OK\r\n", ":1\r\n", "+RESET\r\n"] {
        assert_eq!(String::from_utf8_lossy(&client.reply()), told);
    }
    client.send(b"*11\r\n");
    assert!(client.rest().starts_with(b"-ERR Protocol error: unauthenticated"));
}

#[test]
fn nothing_is_served_before_a_client_says_who_it_is() {
    let tokens = Tokens::new();
    let token = tokens.create("app", "all", &[]);
    let node = RespNode::launch(tokens.launch());
    let mut client = node.connect();
    for command in ["GET k", "SET k v", "PING", "INFO", "MULTI", "FLUSHALL", "SCAN 0", "COMMAND", "CLIENT ID"]
    {
        assert_eq!(client.ask(command), NOAUTH, "{command}");
    }
    assert!(client.ask("HELLO 3").starts_with("-NOAUTH HELLO must be called with the client already"));
    for command in [
        format!("AUTH app {}x", &secret(&token)[1..]),
        "AUTH app wrong".to_owned(),
        "AUTH default wrong".to_owned(),
        format!("AUTH other {}", secret(&token)),
        "AUTH wrong".to_owned(),
        format!("HELLO 3 AUTH app {}x", &secret(&token)[1..]),
    ] {
        assert_eq!(client.ask(&command), WRONGPASS, "{command}");
    }
    assert_eq!(client.ask("GET k"), NOAUTH);
    assert_eq!(client.ask(&format!("AUTH app {}", secret(&token))), "+OK\r\n");
    assert_eq!(client.ask("SET k v"), "+OK\r\n");
    assert_eq!(client.ask("AUTH app wrong"), WRONGPASS);
    assert_eq!(client.ask("GET k"), "$1\r\nv\r\n", "who was let in stays so");
    assert_eq!(client.ask("RESET"), "+RESET\r\n");
    assert_eq!(client.ask("GET k"), NOAUTH);
    for command in [
        format!("AUTH {token}"),
        format!("AUTH default {token}"),
        format!("AUTH app {token}"),
        format!("HELLO 3 AUTH app {} SETNAME x", secret(&token)),
    ] {
        let mut client = node.connect();
        assert!(client.ask(&command).starts_with(['+', '%']), "{command}");
        assert_eq!(client.ask("GET k"), "$1\r\nv\r\n", "{command}");
        assert_eq!(client.ask("ACL WHOAMI"), "$3\r\napp\r\n", "{command}");
        assert!(client.ask("CLIENT LIST").contains(" user=app "), "{command}");
    }
}

#[test]
fn a_command_needs_its_scopes_and_its_keys() {
    let tokens = Tokens::new();
    let prefix = ["--prefix", "user:"];
    let shown = ["read", "write", "delete", "range", "read,write"].map(|scopes| {
        let id = scopes.replace(',', "-");
        (scopes, tokens.create(&id, scopes, &prefix))
    });
    let node = RespNode::launch(tokens.launch().env("LADOGA_RESP_FLUSH", "true"));
    let table: [(&str, &[&str]); 22] = [
        ("GET user:1", &["read", "read,write"]),
        ("MGET user:1 user:2", &["read", "read,write"]),
        ("EXISTS user:1", &["read", "read,write"]),
        ("MEMORY USAGE user:1", &["read", "read,write"]),
        ("OBJECT ENCODING user:1", &["read", "read,write"]),
        ("TTL user:1", &["read", "read,write"]),
        ("SET user:1 1", &["write", "read,write"]),
        ("MSET user:1 1 user:2 2", &["write", "read,write"]),
        ("SET user:1 1 GET", &["read,write"]),
        ("SET user:1 1 IFEQ 1", &["read,write"]),
        ("DELEX user:1 IFNE 1", &[]),
        ("INCR user:1", &["read,write"]),
        ("EXPIRE user:1 1000", &["read,write"]),
        ("GETEX user:1 EX 1000", &["read,write"]),
        ("PERSIST user:1", &["read,write"]),
        ("COPY user:1 user:3", &["read,write"]),
        ("DEL user:1", &["delete"]),
        ("SCAN 0 MATCH user:*", &["range"]),
        ("KEYS user:*", &["range"]),
        ("GETDEL user:1", &[]),
        ("RENAME user:2 user:4", &[]),
        ("FLUSHALL", &[]),
    ];
    for (command, needed) in table {
        for (scopes, token) in &shown {
            let mut client = node.connect();
            assert_eq!(client.ask(&format!("AUTH {token}")), "+OK\r\n");
            let reply = client.ask(command);
            let name = command.split(' ').next().unwrap_or_default().to_lowercase();
            let is_refused = reply == no_command(&name);
            assert_eq!(is_refused, !needed.contains(scopes), "{command} with {scopes}: {reply}");
            assert!(!reply.starts_with("-NOPERM") || is_refused, "{command} with {scopes}: {reply}");
            if command.contains("user:") && !is_refused {
                let elsewhere = command.replace("user:", "other:");
                assert_eq!(client.ask(&elsewhere), NO_KEY, "{elsewhere} with {scopes}");
            }
        }
    }
    let (_, ranges) = &shown[3];
    let mut client = node.connect();
    assert_eq!(client.ask(&format!("AUTH {ranges}")), "+OK\r\n");
    for command in
        ["SCAN 0", "SCAN 0 MATCH *", "SCAN 0 MATCH use*", "KEYS *", "KEYS [u]ser:*", "DBSIZE", "RANDOMKEY"]
    {
        assert_eq!(client.ask(command), NO_KEY, "{command}");
    }
    // The options of a large value stand behind it.
    let (_, writes) = &shown[1];
    let mut client = node.connect();
    assert_eq!(client.ask(&format!("AUTH {writes}")), "+OK\r\n");
    let large = vec![b'x'; 300_000];
    assert_eq!(client.ask_bytes(&[b"SET", b"user:1", &large, b"GET"]), no_command("set").into_bytes());
    assert_eq!(client.ask_bytes(&[b"SET", b"user:1", &large, b"IFNE", b"1"]), no_command("set").into_bytes());
    assert_eq!(client.ask_bytes(&[b"SET", b"user:1", &large]), b"+OK\r\n");
    let (_, reads) = &shown[0];
    let mut client = node.connect();
    assert_eq!(client.ask(&format!("AUTH {reads}")), "+OK\r\n");
    assert_eq!(client.ask("MGET user:1 other:1"), NO_KEY, "one of them is enough");
    assert_eq!(client.ask("WATCH other:1"), NO_KEY);
    client.send(&request(&[b"SET", b"user:1", &large]));
    assert_eq!(client.reply(), no_command("set").into_bytes());
}

#[test]
fn a_transaction_has_nothing_in_it_that_is_not_allowed() {
    let tokens = Tokens::new();
    let token = tokens.create("app", "read,write", &["--prefix", "user:"]);
    let node = RespNode::launch(tokens.launch());
    let mut client = node.connect();
    assert_eq!(client.ask(&format!("AUTH {token}")), "+OK\r\n");
    for command in ["MULTI", "SET user:1 1"] {
        assert!(client.ask(command).starts_with('+'), "{command}");
    }
    assert_eq!(client.ask("DEL user:1"), no_command("del"));
    assert_eq!(client.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.\r\n");
    assert_eq!(client.ask("GET user:1"), "$-1\r\n");
    for command in ["MULTI", "SET user:1 1", "GET user:1"] {
        assert!(client.ask(command).starts_with('+'), "{command}");
    }
    assert_eq!(client.ask("EXEC"), "*2\r\n+OK\r\n$1\r\n1\r\n");
}

/// A value that is not kept in memory is written elsewhere as it arrives: not for those who may not.
#[test]
fn a_large_value_is_refused_before_it_is_taken() {
    let tokens = Tokens::new();
    let token = tokens.create("app", "write", &["--prefix", "user:"]);
    let node = RespNode::launch(tokens.launch());
    let head = |key: &str| format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$1000000\r\n", key.len());
    let mut nobody = node.connect();
    nobody.send(head("user:1").as_bytes());
    assert!(nobody.rest().starts_with(b"-ERR Protocol error: unauthenticated"));
    let mut client = node.connect();
    assert_eq!(client.ask(&format!("AUTH {token}")), "+OK\r\n");
    client.send(head("other:1").as_bytes());
    assert_eq!(String::from_utf8_lossy(&client.reply()), NO_KEY);
    let mut client = node.connect();
    assert_eq!(client.ask(&format!("AUTH {token}")), "+OK\r\n");
    client.send(head("user:1").as_bytes());
    client.send(&[b"v".repeat(1_000_000), b"\r\n".to_vec()].concat());
    assert_eq!(String::from_utf8_lossy(&client.reply()), "+OK\r\n");
}

/// It counted as a write of its key, which who may not write it could have shown as one that is written most.
#[test]
fn a_large_value_that_is_refused_is_no_access() {
    // A sample is one of 64.
    const ENOUGH: usize = 700;
    let tokens = Tokens::new();
    let (app, ops) =
        (tokens.create("app", "write", &["--prefix", "user:"]), tokens.create("ops", "admin", &[]));
    let node = RespNode::launch(tokens.launch());
    let auth = request(&[b"AUTH", app.as_bytes()]);
    let refused = [&auth[..], b"*3\r\n$3\r\nSET\r\n$7\r\nother:1\r\n$1000000\r\n"].concat();
    for _ in 0..ENOUGH {
        let mut client = node.connect();
        client.send(&refused);
        assert_eq!((client.line(), client.line()), ("+OK\r\n".to_owned(), NO_KEY.to_owned()));
    }
    let hot = ask(&mut node.node.connect(), ("GET", "/v0/hot"), Some(&ops), None);
    assert_eq!(hot.status, 200, "{}", hot.text());
    assert!(!hot.text().contains("other"), "{}", hot.text());
}

#[test]
fn a_revoked_token_ends_on_connections_that_are_open() {
    let tokens = Tokens::new();
    let (app, ops) = (tokens.create("app", "all", &[]), tokens.create("ops", "metrics", &[]));
    let node = RespNode::launch(tokens.launch());
    let mut client = node.connect();
    assert_eq!(client.ask(&format!("AUTH {app}")), "+OK\r\n");
    assert_eq!(client.ask("PING"), "+PONG\r\n");
    tokens.revoke("app");
    node.node.signal("HUP");
    wait_until("a token that is revoked", || client.ask("PING") == NOAUTH);
    let metrics = ask(&mut node.node.connect(), ("GET", "/metrics"), Some(&ops), None);
    assert!(metrics.text().contains("\nladoga_token_requests_total{token=\"ops\"} "), "{}", metrics.text());
    assert!(!metrics.text().contains("token=\"app\""), "it is not there any more");
}

/// Each command was checked when it was queued, and never again.
#[test]
fn a_transaction_does_nothing_that_its_token_has_lost_the_right_to() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "read,write", &["--prefix", "app:"]);
    let good = fs::read_to_string(tokens.path()).expect("the tokens");
    let node = RespNode::launch(tokens.launch());
    let mut other = node.connect();
    assert_eq!(other.ask(&format!("AUTH {app}")), "+OK\r\n");
    let mut reload = |content: &str, command: &str, is_refused: bool| {
        fs::write(tokens.path(), content).expect("the tokens");
        node.node.signal("HUP");
        wait_until("other tokens", || other.ask(command).starts_with("-NOPERM") == is_refused);
    };
    let discarded = "-EXECABORT Transaction discarded because of: ";
    for (before, after, told) in
        [("\"write\"", "\"range\"", no_command("set")), ("app:", "other:", NO_KEY.to_owned())]
    {
        reload(&good, "SET app:2 x", false);
        let mut client = node.connect();
        assert_eq!(client.ask(&format!("AUTH {app}")), "+OK\r\n");
        for (command, reply) in
            [("MULTI", "+OK\r\n"), ("GET app:1", "+QUEUED\r\n"), ("SET app:1 x", "+QUEUED\r\n")]
        {
            assert_eq!(client.ask(command), reply);
        }
        reload(&good.replace(before, after), "SET app:2 x", true);
        assert_eq!(client.ask("EXEC"), format!("{discarded}{}", &told[1..]));
        reload(&good, "SET app:2 x", false);
        assert_eq!(client.ask("GET app:1"), "$-1\r\n", "nothing of it happened");
        // The same with tokens that are others, and allow it.
        assert_eq!(client.ask("MULTI"), "+OK\r\n");
        assert_eq!(client.ask("SET app:3 x"), "+QUEUED\r\n");
        reload(&good.replace("\"write\"", "\"write\", \"range\""), "SCAN 0 MATCH app:*", false);
        assert_eq!(client.ask("EXEC"), "*1\r\n+OK\r\n");
    }
}

/// Where the end of a transaction was refused, it stayed open, and whatever came behind it was queued.
#[test]
fn a_transaction_ends_with_its_last_command_if_its_token_is_revoked() {
    let tokens = Tokens::new();
    let (app, other) = (tokens.create("app", "all", &[]), tokens.create("other", "all", &[]));
    let node = RespNode::launch(tokens.launch());
    let ends = [
        ("EXEC", "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n"),
        ("DISCARD", NOAUTH),
        ("RESET", "+RESET\r\n"),
    ];
    let mut clients = ends.map(|_| node.connect());
    for client in &mut clients {
        for (command, reply) in
            [(&*format!("AUTH {app}"), "+OK\r\n"), ("MULTI", "+OK\r\n"), ("SET k app", "+QUEUED\r\n")]
        {
            assert_eq!(client.ask(command), reply);
        }
    }
    let mut probe = node.connect();
    assert_eq!(probe.ask(&format!("AUTH {app}")), "+OK\r\n");
    tokens.revoke("app");
    node.node.signal("HUP");
    wait_until("a token that is revoked", || probe.ask("PING") == NOAUTH);
    for (client, (end, reply)) in clients.iter_mut().zip(ends) {
        assert_eq!(client.ask(end), reply);
        assert_eq!(client.ask(&format!("AUTH {other}")), "+OK\r\n", "{end}");
        assert_eq!(client.ask("GET k"), "$-1\r\n", "{end}");
        assert_eq!(client.ask("EXEC"), "-ERR EXEC without MULTI\r\n", "{end}");
    }
}
