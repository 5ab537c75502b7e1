use std::collections::BTreeSet;

use crate::support::{Node, assert_refusal};

#[test]
fn a_path_that_does_not_exist_is_refused_whatever_the_method() {
    let node = Node::start();
    let mut connection = node.connect();
    let paths = [
        "/",
        "/v0",
        "/v0/",
        "/v0/entity/",
        "/v0/entities/",
        "/v0/status/",
        "/v1/entity?id=k",
        "/V0/entity?id=k",
        "/v0/Entity?id=k",
        "/v0//entity?id=k",
        "//v0/entity?id=k",
        "/v0/entity/k",
        "/v0/%65ntity?id=k",
        "/v0/entitys?id=k",
        "/metrics/",
        "/metric",
        "/favicon.ico",
        "/v0/../v0/entity?id=k",
        "/index.html",
        "/%",
        "/%zz",
        "/v0/entity%3Fid=k",
        "/v0/entity;id=k",
    ];
    for path in paths {
        for method in ["GET", "PUT", "DELETE", "POST", "PATCH", "OPTIONS", "BREW"] {
            let body = (method == "PUT" || method == "POST").then_some(&b"v"[..]);
            let request = format!("{method} {path}");
            assert_refusal(&connection.request(method, path, body), 400, &request);
        }
    }
    assert_eq!(connection.value("k"), None);
}

#[test]
fn a_path_says_which_methods_it_has() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("k", b"value");
    let table: [(&str, &[&str], &[&str]); 5] = [
        (
            "/v0/entity?id=k",
            &["GET", "HEAD", "PUT", "DELETE", "POST"],
            &["PATCH", "OPTIONS", "TRACE", "BREW", "get"],
        ),
        (
            "/v0/entities?start=k",
            &["GET"],
            &["HEAD", "PUT", "DELETE", "POST", "PATCH", "OPTIONS", "TRACE", "BREW"],
        ),
        ("/v0/status", &["GET"], &["HEAD", "PUT", "DELETE", "POST", "PATCH", "OPTIONS", "TRACE", "BREW"]),
        ("/metrics", &["GET"], &["HEAD", "PUT", "DELETE", "POST", "PATCH", "OPTIONS", "TRACE", "BREW"]),
        ("/debug/profile/cpu", &["GET"], &["HEAD", "PUT", "DELETE", "POST", "OPTIONS", "TRACE", "BREW"]),
    ];
    for (target, allowed, others) in table {
        for method in others {
            let body = ["PUT", "POST", "PATCH"].contains(method).then_some(&b"body"[..]);
            let request = format!("{method} {target}");
            let response = connection.request(method, target, body);
            if *method == "HEAD" {
                assert_eq!((response.status, response.body.len()), (405, 0), "{request}");
            } else {
                assert_refusal(&response, 405, &request);
            }
            let allow = response.header("allow").unwrap_or_else(|| panic!("{request}: no Allow"));
            let allow: BTreeSet<&str> = allow.split(',').map(str::trim).collect();
            assert_eq!(allow, allowed.iter().copied().collect(), "{request}");
        }
    }
    assert_eq!(connection.value("k").as_deref(), Some(&b"value"[..]));
}

#[test]
fn the_method_is_asked_about_before_the_parameters() {
    let node = Node::start();
    let mut connection = node.connect();
    for target in ["/v0/entity", "/v0/entity?id=", "/v0/entity?id=%", "/v0/entities"] {
        assert_refusal(&connection.request("PATCH", target, Some(b"v")), 405, target);
    }
}

#[test]
fn a_body_that_nobody_asked_for_does_not_become_a_request() {
    let node = Node::start();
    node.connect().put("k", b"value");
    let smuggled = "DELETE /v0/entity?id=k HTTP/1.1\r\nHost: h\r\n\r\n";
    for start in [
        "GET /v0/entity?id=k",
        "HEAD /v0/entity?id=k",
        "GET /v0/status",
        "DELETE /v0/entity?id=other",
        "GET /nothing",
        "POST /v0/entity?id=k",
        "GET /v0/entities?start=a",
        "PUT /v0/entity",
        "OPTIONS /metrics",
    ] {
        let mut connection = node.connect();
        let length = smuggled.len();
        let last = "GET /v0/status HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        connection
            .send(format!("{start} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{smuggled}{last}"));
        let first =
            if start.starts_with("HEAD") { connection.response_to_head() } else { connection.response() };
        assert!(first.status == 200 || first.status == 202 || (400..500).contains(&first.status), "{start}");
        if !first.closes() {
            assert_eq!(connection.response().status, 200, "{start}");
        }
        connection.expect_closed();
        assert_eq!(node.connect().value("k").as_deref(), Some(&b"value"[..]), "{start}");
    }
}

#[test]
fn every_refusal_leaves_the_connection_usable_or_says_that_it_closes() {
    let node = Node::start();
    let requests: [(&str, &str, Option<&[u8]>, u16); 8] = [
        ("GET", "/v0/entity?id=absent", None, 404),
        ("GET", "/v0/entity", None, 400),
        ("PUT", "/v0/entity?id=", Some(b"value"), 400),
        ("PUT", "/v0/entity?id=k&ack=2", Some(b"value"), 400),
        ("GET", "/nothing", None, 400),
        ("POST", "/v0/entity?id=k", Some(b"value"), 400),
        ("PUT", "/v0/status", Some(b"value"), 405),
        ("GET", "/v0/entities", None, 400),
    ];
    for (method, target, body, status) in requests {
        let mut connection = node.connect();
        let response = connection.request(method, target, body);
        assert_refusal(&response, status, &format!("{method} {target}"));
        if response.closes() {
            connection.expect_closed();
        } else {
            assert_eq!(connection.request("GET", "/v0/status", None).status, 200, "after {method} {target}");
        }
    }
}
