use crate::support::{Node, assert_refusal, entity};

#[test]
fn a_value_is_created_read_replaced_and_removed() {
    let node = Node::start();
    let mut connection = node.connect();
    assert_refusal(&connection.get("lake"), 404, "GET before PUT");

    let created = connection.request("PUT", &entity("lake"), Some(b"deep"));
    assert_eq!((created.status, &created.body[..]), (201, &b""[..]));
    assert_eq!(created.header("content-length"), Some("0"));
    let read = connection.get("lake");
    assert_eq!((read.status, &read.body[..]), (200, &b"deep"[..]));
    assert_eq!(read.header("content-type"), Some("application/octet-stream"));

    let replaced = connection.request("PUT", &entity("lake"), Some(b"deep and cold"));
    assert_eq!((replaced.status, &replaced.body[..]), (201, &b""[..]));
    assert_eq!(connection.value("lake").as_deref(), Some(&b"deep and cold"[..]));

    let removed = connection.request("DELETE", &entity("lake"), None);
    assert_eq!((removed.status, &removed.body[..]), (202, &b""[..]));
    assert_eq!(removed.header("content-length"), Some("0"));
    assert_refusal(&connection.get("lake"), 404, "GET after DELETE");
}

#[test]
fn removing_what_is_not_there_is_accepted() {
    let node = Node::start();
    let mut connection = node.connect();
    for _ in 0..2 {
        let removed = connection.request("DELETE", &entity("never"), None);
        assert_eq!((removed.status, &removed.body[..]), (202, &b""[..]));
    }
    assert_eq!(connection.value("never"), None);
}

#[test]
fn a_removed_key_can_be_created_again() {
    let node = Node::start();
    let mut connection = node.connect();
    for round in 0..5 {
        let value = format!("round {round}");
        connection.put("key", value.as_bytes());
        assert_eq!(connection.value("key").as_deref(), Some(value.as_bytes()));
        connection.delete("key");
        assert_eq!(connection.value("key"), None);
    }
}

#[test]
fn an_empty_value_is_a_value() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("empty", b"");
    let read = connection.get("empty");
    assert_eq!((read.status, read.header("content-length"), &read.body[..]), (200, Some("0"), &b""[..]));
    let head = connection_head(&mut connection, "empty");
    assert_eq!(head, (200, Some("0".to_owned())));
    assert_eq!(connection_head(&mut connection, "absent").0, 404);

    connection.put("full", b"something");
    connection.put("full", b"");
    assert_eq!(connection.value("full"), Some(Vec::new()));
}

fn connection_head(connection: &mut crate::support::Connection, key: &str) -> (u16, Option<String>) {
    let head = connection.request("HEAD", &entity(key), None);
    (head.status, head.header("content-length").map(str::to_owned))
}

#[test]
fn head_is_get_without_the_body() {
    let node = Node::start();
    let mut connection = node.connect();
    for length in [1, 1_000, 300_000] {
        let key = format!("key{length}");
        connection.put(&key, &vec![b'v'; length]);
        let mut get = connection.get(&key);
        connection.send_request("HEAD", &entity(&key), None);
        let mut head = connection.response_to_head();
        get.body.clear();
        for answer in [&mut get, &mut head] {
            answer.headers.retain(|(name, _)| name != "date");
            answer.headers.sort();
        }
        assert_eq!(head, get);
        assert_eq!(head.header("content-length"), Some(length.to_string().as_str()));
        // Nothing of a body may be left in the connection.
        assert_eq!(connection.request("GET", "/v0/status", None).status, 200);
    }
}

#[test]
fn head_has_the_status_of_get_where_get_refuses() {
    let node = Node::start();
    let mut connection = node.connect();
    for target in ["/v0/entity?id=absent", "/v0/entity", "/v0/entity?id=", "/v0/entity?id=%", "/v0/nothing"] {
        let get = connection.request("GET", target, None);
        let head = connection.request("HEAD", target, None);
        assert_eq!(head.status, get.status, "{target}");
        assert_eq!(connection.request("GET", "/v0/status", None).status, 200, "after HEAD {target}");
    }
}

#[test]
fn keys_do_not_disturb_each_other() {
    let node = Node::start();
    let mut connection = node.connect();
    let keys =
        ["a", "A", "aa", "a ", " a", "a\0", "a/b", "a%", "a&b=c", "a#b", "a?b", "\u{43b}\u{430}\u{434}"];
    for key in keys {
        connection.put(key, key.as_bytes());
    }
    connection.delete("aa");
    for key in keys {
        let expected = (key != "aa").then(|| key.as_bytes().to_vec());
        assert_eq!(connection.value(key), expected, "{key:?}");
    }
}
