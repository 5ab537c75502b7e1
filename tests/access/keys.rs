use crate::support::{Connection, Node, assert_refusal, entity};
use crate::tokens::{Tokens, ask};

/// A node, and a token for keys that begin with `user:` or with `b`.
fn node_for_some(scopes: &str) -> (Tokens, Node, String) {
    let tokens = Tokens::new();
    let token = tokens.create("some", scopes, &["--prefix", "user:", "--prefix", "b"]);
    let node = tokens.launch().start();
    (tokens, node, token)
}

#[test]
fn a_token_with_prefixes_is_for_keys_that_begin_with_them() {
    let (_tokens, node, token) = node_for_some("all");
    let mut connection = node.connect();
    let mut status = |method: &str, key: &str, query: &str, body: Option<&[u8]>| {
        let target = format!("{}{query}", entity(key));
        ask(&mut connection, (method, &target), Some(&token), body).status
    };
    for key in ["user:1", "b", "b\u{ff}"] {
        assert_eq!(status("PUT", key, "", Some(b"1")), 201, "{key}");
        assert_eq!(status("GET", key, "", None), 200, "{key}");
        assert_eq!(status("HEAD", key, "", None), 200, "{key}");
        assert_eq!(status("POST", key, "&increment=1", None), 200, "{key}");
        assert_eq!(status("POST", key, "&ttl=1h", None), 200, "{key}");
        assert_eq!(status("DELETE", key, "", None), 202, "{key}");
    }
    for key in ["user", "a", "USER:1", "auser:1", "c"] {
        for (method, query, body) in [
            ("PUT", "", Some(&b"1"[..])),
            ("GET", "", None),
            ("HEAD", "", None),
            ("POST", "&increment=1", None),
            ("POST", "&ttl=1h", None),
            ("DELETE", "", None),
        ] {
            assert_eq!(status(method, key, query, body), 403, "{method} {key}");
        }
    }
}

#[test]
fn a_large_value_is_refused_before_it_is_sent() {
    let (_tokens, node, token) = node_for_some("write");
    let mut connection = node.connect();
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\nContent-Length: 60000000\r\n\r\n",
        entity("a")
    );
    connection.send(head);
    let refused = connection.response();
    assert_refusal(&refused, 403, "a value under another key");
    assert_eq!(refused.text(), "the key begins with no prefix of the token\n");
}

#[test]
fn a_range_has_to_be_inside_a_prefix() {
    let (_tokens, node, token) = node_for_some("range,changes");
    let mut connection = node.connect();
    for query in [
        "prefix=user:",
        "prefix=user:1",
        "prefix=user:&start=a",
        "prefix=user:&reverse=true",
        "start=b&end=c",
        "start=b1&end=b2&count=true",
        "prefix=b&after=b5",
        "prefix=user:&scope=cluster",
    ] {
        let target = format!("/v0/entities?{query}");
        let response = ask(&mut connection, ("GET", &target), Some(&token), None);
        assert_eq!(response.status, 200, "{query}: {response:?}");
    }
    for query in [
        "start=b",
        "start=a&end=c",
        "start=b&end=c%00",
        "start=b&end=user;",
        "prefix=u",
        "after=user:",
        "after=c&reverse=true",
        "prefix=user:&after=user;",
        "start=user:&scope=cluster",
    ] {
        let target = format!("/v0/entities?{query}");
        let response = ask(&mut connection, ("GET", &target), Some(&token), None);
        assert_refusal(&response, 403, query);
        assert_eq!(response.text(), "the range is not inside a prefix of the token\n", "{query}");
    }
    for query in ["", "?start=b", "?prefix=u", "?since=0"] {
        let response = ask(&mut connection, ("GET", &format!("/v0/changes{query}")), Some(&token), None);
        assert_refusal(&response, 403, query);
    }
    connection.send(format!(
        "GET /v0/changes?prefix=b HTTP/1.1\r\nHost: h\r\nPrefer: wait=0\r\nAuthorization: Bearer {token}\r\n\r\n"
    ));
    assert_eq!(connection.response().status, 304);
}

fn batch(connection: &mut Connection, target: &str, token: &str, lines: &str) -> (u16, Vec<u64>) {
    let response = ask(connection, ("POST", target), Some(token), Some(lines.as_bytes()));
    let status = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["status"].as_u64().expect("a status")
    };
    (response.status, response.text().lines().map(status).collect())
}

#[test]
fn each_line_of_a_batch_is_checked_by_itself() {
    let (tokens, node, all) = node_for_some("all");
    let reads = tokens.create("reads", "read", &[]);
    node.signal("HUP");
    let mut connection = node.connect();
    crate::support::wait_until("the other token counts", || {
        ask(&mut connection, ("GET", &entity("k")), Some(&reads), None).status == 404
    });
    let lines = "{\"op\":\"put\",\"key\":\"user:1\",\"value\":\"1\"}\n{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n\
                 {\"op\":\"increment\",\"key\":\"user:1\"}\n{\"op\":\"get\",\"key\":\"user:1\"}\n{\"op\":\"get\",\"key\":\"a\"}\n\
                 {\"op\":\"delete\",\"key\":\"user:1\"}\n{\"op\":\"get\",\"key\":\"user:1\"}\n";
    let answered = batch(&mut connection, "/v0/batch", &all, lines);
    assert_eq!(answered, (200, vec![201, 403, 200, 200, 403, 202, 404]));
    let answered = batch(&mut connection, "/v0/batch", &reads, lines);
    assert_eq!(answered, (200, vec![403, 403, 403, 404, 404, 403, 404]));
    let writes = "{\"op\":\"put\",\"key\":\"user:1\",\"value\":\"1\"}\n{\"op\":\"delete\",\"key\":\"a\"}\n";
    let answered = batch(&mut connection, "/v0/batch?atomic=true", &all, writes);
    assert_eq!(answered, (403, vec![424, 403]), "nothing happens");
    let got = ask(&mut connection, ("GET", &entity("user:1")), Some(&all), None);
    assert_eq!(got.status, 404);
    let writes = writes.replace("\"a\"", "\"b\"");
    assert_eq!(batch(&mut connection, "/v0/batch?atomic=true", &all, &writes), (200, vec![201, 202]));
}
