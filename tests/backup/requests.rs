use crate::steps::{created, restore, text};
use crate::support::{
    Connection, Directory, Ladoga, Launch, Node, Response, assert_refusal, files_below, value,
};

fn ask(node: &Node, method: &str, query: &str) -> Response {
    node.connect().request(method, &format!("/v0/backup{query}"), None)
}

/// The name of a checkpoint.
fn begin(node: &Node) -> String {
    let begun = ask(node, "POST", "");
    assert_eq!(begun.status, 201, "{begun:?}");
    let json: serde_json::Value = serde_json::from_slice(&begun.body).expect("JSON");
    assert!(json["cluster"].is_null() && json["listing_bytes"].as_u64() > Some(0), "{json}");
    json["id"].as_str().expect("a name").to_owned()
}

#[test]
fn a_checkpoint_is_read_in_pieces_and_released() {
    let node = Node::start();
    node.connect().put("key", b"value");
    node.connect().put("large", &value(3, 900_000));
    let id = begin(&node);
    // What is deleted and written meanwhile does not change it.
    node.connect().delete("large");
    let listing = ask(&node, "GET", &format!("?id={id}&file=listing"));
    let listing: serde_json::Value = serde_json::from_slice(&listing.body).expect("JSON");
    for file in listing["files"].as_array().expect("files") {
        let (name, bytes) =
            (file["name"].as_str().expect("a name"), file["bytes"].as_u64().expect("a length"));
        let mut read = Vec::new();
        loop {
            let at = read.len();
            let piece = ask(&node, "GET", &format!("?id={id}&file={name}&offset={at}"));
            assert_eq!(piece.status, 200, "{piece:?}");
            assert!(piece.body.len() <= 256 << 10);
            if piece.body.is_empty() {
                break;
            }
            read.extend(piece.body);
        }
        assert_eq!(read.len() as u64, bytes, "{name}");
    }
    assert_eq!(ask(&node, "GET", &format!("?id={id}&file=listing&offset=99999999")).body, b"");
    assert_eq!(ask(&node, "DELETE", &format!("?id={id}")).status, 202);
    assert_refusal(&ask(&node, "DELETE", &format!("?id={id}")), 404, "twice");
    assert_refusal(&ask(&node, "GET", &format!("?id={id}&file=listing")), 404, "released");
    let left = files_below(&node.data().join("checkpoints"));
    assert!(left.iter().all(|(path, _)| path.ends_with("store")), "{left:?}");
}

/// Who had killed four commands was told to send fewer requests.
#[test]
fn who_finds_all_checkpoints_taken_is_told_how_long_to_wait() {
    let node = Node::start();
    let ids: Vec<String> = (0..4).map(|_| begin(&node)).collect();
    let refused = ask(&node, "POST", "");
    assert_refusal(&refused, 503, "a fifth checkpoint");
    let wait_s: u64 = refused.header("retry-after").and_then(|text| text.parse().ok()).expect("seconds");
    assert!((1..=61).contains(&wait_s), "{refused:?}");
    let told = refused.text();
    assert!(told.contains(&format!("wait {wait_s} s at most")) && !told.contains("fewer"), "{told}");
    let directory = Directory::new();
    let command = ["backup", "create", "--to", &text(directory.path()), "--url", &node.url()];
    Ladoga::new(command).run().expect_failure(1, &["4 checkpoints", "s at most"]);
    assert_eq!(ask(&node, "DELETE", &format!("?id={}", ids[0])).status, 202);
    begin(&node);
}

#[test]
fn nothing_but_the_files_of_a_checkpoint_can_be_read() {
    let node = Node::start();
    node.connect().put("key", b"value");
    let id = begin(&node);
    for file in [
        "CURRENT",
        "LOCK",
        "../store",
        "../../CURRENT",
        "tables/../CURRENT",
        "tables/%2e%2e/CURRENT",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "wal/000001.wal",
        "tables/",
        "tables/0000000001.sst",
        "tables/999999.sst",
        "blobs/281474976710656.blob",
        "listing/",
        "listing%00",
        ".",
    ] {
        let response = ask(&node, "GET", &format!("?id={id}&file={file}"));
        assert_refusal(&response, 404, file);
    }
    let long = "x".repeat(4_000);
    for query in [
        String::new(),
        "?id=".to_owned(),
        format!("?id={id}"),
        format!("?id={id}&file="),
        format!("?id={id}&file={long}"),
        format!("?id={id}&file=%"),
        format!("?id={id}&file=listing&offset=-1"),
        format!("?id={id}&file=listing&offset=1e3"),
        format!("?id={id}&file=listing&offset=18446744073709551616"),
        format!("?id={id}&file=listing&bytes=x"),
        format!("?id={id}0&file=listing"),
        format!("?id={id}&id={id}&file=listing"),
        "?id=zzzzzzzzzzzzzzzz&file=listing".to_owned(),
    ] {
        assert_refusal(&ask(&node, "GET", &query), 400, &query);
    }
    assert_refusal(&ask(&node, "GET", "?id=0000000000000000&file=listing"), 404, "no such checkpoint");
    let end = ask(
        &node,
        "GET",
        &format!("?id={id}&file=listing&offset=18446744073709551615&bytes=18446744073709551615"),
    );
    assert_eq!((end.status, end.body), (200, Vec::new()));
    assert_eq!(node.connect().value("key"), Some(b"value".to_vec()));
}

#[test]
fn a_body_is_not_needed_and_changes_nothing() {
    let node = Node::start();
    let send = |bytes: Vec<u8>| {
        let mut connection: Connection = node.connect();
        connection.send(bytes);
        connection.response()
    };
    let head = "POST /v0/backup HTTP/1.1\r\nHost: h\r\n";
    let whole = send(format!("{head}Content-Length: 5\r\n\r\nhello").into_bytes());
    assert_eq!(whole.status, 201, "{whole:?}");
    let chunks = send(format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n").into_bytes());
    assert_eq!(chunks.status, 201, "{chunks:?}");
    let both =
        send(format!("{head}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").into_bytes());
    assert_eq!(both.status, 400, "{both:?}");
    // Two are held; all that come together are served or refused, and pieces of a request too.
    let mut connection = node.connect();
    connection.send(format!("{head}\r\n").repeat(6).into_bytes());
    let statuses: Vec<u16> = (0..6).map(|_| connection.response().status).collect();
    assert_eq!(statuses, [201, 201, 503, 503, 503, 503]);
    node.connect().put("key", b"value");
}

#[test]
fn there_are_few_checkpoints_and_none_after_a_start() {
    let mut node = Node::start();
    node.connect().put("key", b"value");
    let held: Vec<String> = (0..4).map(|_| begin(&node)).collect();
    let refused = ask(&node, "POST", "");
    assert_refusal(&refused, 503, "a fifth one");
    assert!(
        refused.header("retry-after").is_some() && refused.text().contains("4 checkpoints"),
        "{refused:?}"
    );
    assert_eq!(ask(&node, "DELETE", &format!("?id={}", held[1])).status, 202);
    begin(&node);
    node.crash();
    assert_refusal(
        &ask(&node, "GET", &format!("?id={}&file=listing", held[0])),
        404,
        "of the process before",
    );
    let left = files_below(&node.data().join("checkpoints"));
    assert!(left.iter().all(|(path, _)| path.ends_with("store")), "{left:?}");
    begin(&node);
}

#[test]
fn a_backup_needs_the_scope_admin_and_a_token_for_all_keys() {
    let directory = Directory::new();
    let path = |name: &str| directory.path().join(name);
    let tokens = text(&path("tokens.toml"));
    let token = |id: &str, more: &[&str]| {
        let flags = ["token", "create", "--tokens", &tokens, "--id", id];
        let made = Ladoga::new(flags.into_iter().chain(more.iter().copied())).run().expect_success();
        made.text().trim().to_owned()
    };
    let admin = token("admin", &["--scopes", "admin,read,write"]);
    let prefixed = token("prefixed", &["--scopes", "all", "--prefix", "a:"]);
    let reader = token("reader", &["--scopes", "read,write,range"]);
    let node = Launch::new().flag("--tokens", &tokens).start();
    let create = |token: &str| {
        let to = text(&path("backups"));
        let run = Ladoga::new(["backup", "create", "--to", &to, "--url", &node.url()]);
        run.env("LADOGA_TOKEN", token).run()
    };
    create(&prefixed).expect_failure(1, &["prefix"]);
    create(&reader).expect_failure(1, &["lacks the scope admin"]);
    create("ldg_admin_wrong").expect_failure(1, &["not valid"]);
    create(&admin).expect_success();
    restore(&path("backups"), &path("data"), &[]).expect_success();
}

#[test]
fn the_repository_is_not_on_the_node() {
    // A path that is asked for is nobody's: the node writes nowhere but into its own directory.
    let (node, directory) = (Node::start(), Directory::new());
    let asked = node.connect().request("POST", &format!("/v0/backup?to={}", text(directory.path())), None);
    assert_eq!(asked.status, 201);
    assert!(files_below(directory.path()).is_empty());
    created(&directory.path().join("backups"), &node.url());
}
