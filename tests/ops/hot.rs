use std::fs;

use serde_json::Value;

use crate::support::{Connection, Directory, Ladoga, Launch, Node, entity};

/// Enough accesses for samples to tell.
const ACCESSES: usize = 4_000;
/// Requests that are sent before their answers are read.
const AT_ONCE: usize = 200;

/// Asks for one key every other time, and for others in between.
fn ask(connection: &mut Connection, method: &str, authorization: &str) {
    for first in (0..ACCESSES).step_by(AT_ONCE) {
        let of = |number: usize| {
            let key = if number.is_multiple_of(2) { "user:hot".to_owned() } else { format!("item/{number}") };
            let target = entity(key);
            format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{authorization}Content-Length: 0\r\n\r\n")
        };
        connection.send((first..first + AT_ONCE).map(of).collect::<String>());
        for _ in 0..AT_ONCE {
            let status = connection.response().status;
            assert!([200, 201, 404].contains(&status), "{status}");
        }
    }
}

fn hot(node: &Node) -> Value {
    let response = node.connect().request("GET", "/v0/hot", None);
    assert_eq!(response.status, 200, "{}", response.text());
    serde_json::from_slice(&response.body).expect("JSON")
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|name| name["name"].as_str().expect("a name")).collect()
}

#[test]
fn what_is_asked_for_most_comes_first() {
    let node = Launch::new().flag("--fsync", "never").start();
    let nothing = serde_json::json!({ "rate": 0.0, "keys": [], "prefixes": [] });
    assert_eq!(hot(&node), serde_json::json!({ "reads": nothing, "writes": nothing }));
    ask(&mut node.connect(), "PUT", "");
    let seen = hot(&node);
    assert_eq!(seen["reads"], nothing);
    let writes = &seen["writes"];
    assert!(writes["rate"].as_f64().is_some_and(|rate| rate > 0.0), "{seen}");
    assert_eq!(names(&writes["keys"])[0], "user:hot", "{seen}");
    let share = writes["keys"][0]["share"].as_f64().expect("a share");
    assert!((0.3..0.7).contains(&share), "{seen}");
    let mut prefixes = names(&writes["prefixes"]);
    prefixes.sort_unstable();
    assert_eq!(prefixes, ["item/", "user:"], "{seen}");
    ask(&mut node.connect(), "GET", "");
    assert_eq!(names(&hot(&node)["reads"]["keys"])[0], "user:hot");
    let printed = Ladoga::new(["status", "--hot", "--url", &node.url()]).run().expect_success();
    for part in ["reads: ", "writes: ", "  prefix ", "  key ", "  user:hot "] {
        assert!(printed.text().contains(part), "{part} is not in {}", printed.text());
    }
}

#[test]
fn lines_of_an_atomic_batch_are_asked_for() {
    const LINES: usize = 1_000;
    let node = Launch::new().flag("--fsync", "never").start();
    let line = |number: usize| {
        let key = if number.is_multiple_of(2) { "user:hot".to_owned() } else { format!("item/{number}") };
        format!("{}\n", serde_json::json!({ "op": "increment", "key": key, "by": 1 }))
    };
    let body = (0..LINES).map(line).collect::<String>();
    let mut connection = node.connect();
    for _ in 0..ACCESSES / LINES {
        let response = connection.request("POST", "/v0/batch?atomic=true", Some(body.as_bytes()));
        assert_eq!(response.status, 200, "{}", response.text());
    }
    let seen = hot(&node);
    assert_eq!(names(&seen["writes"]["keys"]).first(), Some(&"user:hot"), "{seen}");
}

#[test]
fn keys_are_shown_to_those_only_whom_they_concern() {
    let directory = Directory::new();
    let tokens = directory.path().join("tokens.toml");
    fs::write(&tokens, "").expect("a file");
    let tokens = tokens.to_str().expect("a path of text");
    let create = |id: &str, scopes: &str, more: &[&str]| {
        let fixed = ["token", "create", "--tokens", tokens, "--id", id, "--scopes", scopes];
        let outcome = Ladoga::new(fixed.iter().chain(more)).run().expect_success();
        outcome.text().trim_end().to_owned()
    };
    let operator = create("operator", "all", &[]);
    let part = create("part", "admin", &["--prefix", "item/"]);
    let monitor = create("monitor", "metrics", &[]);
    let node = Launch::new().flag("--tokens", tokens).flag("--fsync", "never").start();
    ask(&mut node.connect(), "PUT", &format!("Authorization: Bearer {operator}\r\n"));
    let print =
        |token: &str| Ladoga::new(["status", "--hot", "--url", &node.url()]).env("LADOGA_TOKEN", token).run();
    assert!(print(&operator).expect_success().text().contains("user:hot"));
    let shown = print(&part).expect_success();
    assert!(shown.text().contains("item/") && !shown.text().contains("user:"), "{}", shown.text());
    print(&monitor).expect_failure(1, &["the token lacks the scope admin"]);
}
