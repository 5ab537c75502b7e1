use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{Connection, Node, assert_refusal, entity, wait_for, wait_until};
use crate::tokens::{Tokens, ask};

fn count(node: &Node, token: &str, name: &str) -> u64 {
    let response = ask(&mut node.connect(), ("GET", "/metrics"), Some(token), None);
    let line =
        response.text().lines().find_map(|line| line.strip_prefix(name)).expect(name).trim().to_owned();
    line.parse().expect("a number")
}

/// As a whole: a file that is found while it is written counts twice.
fn replace(tokens: &Tokens, text: &str) {
    let new = tokens.path().with_extension("new");
    fs::write(&new, text).expect("a file");
    fs::rename(&new, tokens.path()).expect("a file that is replaced");
}

#[test]
fn no_request_is_lost_while_tokens_come_and_go() {
    let tokens = Tokens::new();
    let (app, ops) = (tokens.create("app", "all", &[]), tokens.create("ops", "metrics", &[]));
    let node = tokens.launch().start();
    let (is_over, served) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for client in 0..3 {
            let (node, app, is_over, served) = (&node, &app, &is_over, &served);
            scope.spawn(move || {
                let mut connection = node.connect();
                while !is_over.load(Ordering::Relaxed) {
                    let target = entity(format!("key{client}"));
                    let put = ask(&mut connection, ("PUT", &target), Some(app), Some(b"v"));
                    assert_eq!(put.status, 201, "{put:?}");
                    let got = ask(&mut connection, ("GET", &target), Some(app), None);
                    assert_eq!(got.status, 200, "{got:?}");
                    served.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        let mut reloads = 0;
        for round in 0..10 {
            let (id, other) = (format!("t{round}"), format!("o{round}"));
            let before = served.load(Ordering::Relaxed);
            let token = tokens.create(&id, "read", &[]);
            tokens.create(&other, "read", &[]);
            tokens.revoke(&other);
            node.signal("HUP");
            wait_until("a new token counts", || {
                ask(&mut node.connect(), ("GET", &entity("x")), Some(&token), None).status == 404
            });
            wait_until("requests meanwhile", || served.load(Ordering::Relaxed) > before);
            // Tokens count before it is counted that they were read.
            reloads = wait_for("a reload that is counted", || {
                Some(count(&node, &ops, "ladoga_token_reloads_total")).filter(|known| *known > reloads)
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(served.into_inner() > 0);
    // Without a signal, a change is found all the same.
    tokens.revoke("app");
    let mut connection = node.connect();
    wait_until("a token that is revoked", || {
        ask(&mut connection, ("GET", &entity("key0")), Some(&app), None).status == 401
    });
}

#[test]
fn a_bad_file_changes_nothing_and_is_told() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "all", &[]);
    let good = fs::read_to_string(tokens.path()).expect("the tokens");
    let node = tokens.launch().start();
    let failures = || count(&node, &app, "ladoga_token_reloads_failed_total");
    let verbose = || {
        let response = ask(&mut node.connect(), ("GET", "/readyz?verbose"), Some(&app), None);
        assert_eq!(response.status, 200, "it serves: {response:?}");
        response.text().to_owned()
    };
    let mut told = verbose();
    assert_eq!((failures(), &*told), (0, "ready\n"));
    // What is wrong with a file is told a moment after it is counted, and differs from that of the one before.
    let told_after = |count: u64, before: &str| {
        wait_until("the bad file is found", || failures() > count && verbose() != before);
        verbose()
    };
    let secret = &app[app.len() - 43..];
    for bad in ["[[token]]\nid = 7\n".to_owned(), good.replace("scopes", secret)] {
        let count = failures();
        replace(&tokens, &bad);
        told = told_after(count, &told);
        assert!(
            told.starts_with("ready\nthe file of tokens cannot be used, and the tokens before it count: "),
            "{told}"
        );
        assert!(told.contains("tokens.toml: line ") && !told.contains(secret), "{told}");
        assert_eq!(ask(&mut node.connect(), ("GET", &entity("k")), Some(&app), None).status, 404);
    }
    // What is cut off may be a token without its limits.
    for cut in ["", good.trim_end()] {
        let count = failures();
        replace(&tokens, cut);
        told = told_after(count, &told);
        assert!(told.contains(if cut.is_empty() { "is empty" } else { "may be cut off" }), "{told}");
    }
    let count = failures();
    fs::remove_file(tokens.path()).expect("a file to remove");
    told = told_after(count, &told);
    assert!(told.contains("cannot read"), "{told}");
    replace(&tokens, &good);
    wait_until("the good file is found", || verbose() == "ready\n");
    assert!(!node.log().contains(secret), "the log has a secret");
}

/// A feed of changes with this token, whose head has come.
fn feed(node: &Node, token: &str) -> Connection {
    let mut feed = node.connect();
    feed.send(crate::tokens::request("GET", "/v0/changes", Some(token), None));
    assert_eq!(feed.response_head().status, 200);
    feed
}

/// Revokes the token `app`, and waits until the node knows.
fn revoke_app(tokens: &Tokens, node: &Node, app: &str) {
    tokens.revoke("app");
    node.signal("HUP");
    wait_until("the token is revoked", || {
        ask(&mut node.connect(), ("GET", "/v0/changes?values=maybe"), Some(app), None).status == 401
    });
}

#[test]
fn a_feed_of_changes_ends_with_its_token() {
    let tokens = Tokens::new();
    let (app, writer) = (tokens.create("app", "changes", &[]), tokens.create("writer", "write", &[]));
    let node = tokens.launch().start();
    let mut feed = feed(&node, &app);
    revoke_app(&tokens, &node, &app);
    // It is told of nothing that happens from now on.
    let put = ask(&mut node.connect(), ("PUT", &entity("secret")), Some(&writer), Some(b"v"));
    assert_eq!(put.status, 201);
    while let Some(chunk) = feed.next_chunk().expect("an end as it should be") {
        assert!(!String::from_utf8_lossy(&chunk).contains("secret"), "{chunk:?}");
    }
}

/// A feed that has nothing to tell gives a sign each 15 seconds. Nothing is written here that would wake it, and whoever reads gives up
/// before the first sign: the end comes because the token is gone.
#[test]
fn a_feed_that_has_nothing_to_tell_closes_when_its_token_is_revoked() {
    let tokens = Tokens::new();
    let (app, other) = (tokens.create("app", "changes", &[]), tokens.create("other", "changes", &[]));
    let node = tokens.launch().start();
    let (mut revoked, mut kept) = (feed(&node, &app), feed(&node, &other));
    revoke_app(&tokens, &node, &app);
    revoked.limit_receiving_for(Duration::from_secs(12));
    while let Some(chunk) = revoked.next_chunk().expect("the last chunk, in a few seconds") {
        assert!(!chunk.is_empty());
    }
    // The connection goes on, and knows nobody.
    assert_refusal(&ask(&mut revoked, ("GET", "/v0/changes"), Some(&app), None), 401, "it is revoked");
    // Who has another token is told of what happens.
    let writer = tokens.create("writer", "write", &[]);
    node.signal("HUP");
    wait_until("the writer counts", || {
        ask(&mut node.connect(), ("PUT", &entity("news")), Some(&writer), Some(b"v")).status == 201
    });
    loop {
        let chunk = kept.next_chunk().expect("a feed").expect("no end");
        if String::from_utf8_lossy(&chunk).contains("news") {
            break;
        }
    }
}

#[test]
fn who_waits_for_changes_is_refused_when_the_token_is_revoked() {
    let tokens = Tokens::new();
    let app = tokens.create("app", "changes", &[]);
    let node = tokens.launch().start();
    let mut waiting = node.connect();
    waiting.send(format!(
        "GET /v0/changes HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {app}\r\nPrefer: wait=50\r\n\r\n"
    ));
    revoke_app(&tokens, &node, &app);
    // With a token that counts, it would be told that there is nothing, with 304.
    assert_refusal(&waiting.response(), 401, "its token is gone");
}

/// The token is there and has not expired, but allows less: that ended nothing.
#[test]
fn a_feed_of_changes_ends_when_its_token_allows_it_no_more() {
    const FEED: &str = "/v0/changes?prefix=app:";
    let tokens = Tokens::new();
    let app = tokens.create("app", "changes", &["--prefix", "app:"]);
    let good = fs::read_to_string(tokens.path()).expect("the tokens");
    let node = tokens.launch().start();
    let prefer = |wait_s: u32| {
        let head = format!("GET {FEED} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {app}\r\n");
        let mut connection = node.connect();
        connection.send(format!("{head}Prefer: wait={wait_s}\r\n\r\n"));
        connection
    };
    for (before, after) in [("\"changes\"", "\"read\""), ("app:", "other:")] {
        replace(&tokens, &good);
        node.signal("HUP");
        wait_until("a token that allows it", || prefer(0).response().status != 403);
        let (mut feed, mut waiting) = (node.connect(), prefer(50));
        feed.send(crate::tokens::request("GET", FEED, Some(&app), None));
        assert_eq!(feed.response_head().status, 200);
        replace(&tokens, &good.replace(before, after));
        node.signal("HUP");
        feed.limit_receiving_for(Duration::from_secs(12));
        while let Some(chunk) = feed.next_chunk().expect("the last chunk, in a few seconds") {
            assert!(!chunk.is_empty());
        }
        assert_refusal(&waiting.response(), 403, "its token allows less");
    }
}
