use crate::support::{Launch, Node, assert_refusal, entity};
use crate::tokens::Tokens;

/// A request as a browser sends it.
fn status(node: &Node, (method, target): (&str, &str), fields: &str) -> u16 {
    let mut connection = node.connect();
    let body = if method == "POST" || method == "PUT" { "Content-Length: 0\r\n" } else { "" };
    connection.send(format!("{method} {target} HTTP/1.1\r\n{fields}{body}\r\n"));
    let response = connection.response();
    if response.status == 403 {
        assert_refusal(&response, 403, fields);
    }
    response.status
}

const ADD: (&str, &str) = ("POST", "/v0/entity?id=k&increment=1");
const GET: (&str, &str) = ("GET", "/v0/entity?id=k");

#[test]
fn a_page_of_another_origin_changes_nothing_and_reads_nothing() {
    let node = Node::start();
    let here = format!("Host: {}\r\n", node.address());
    // What a form or a script can send without asking first.
    for fields in [
        "Origin: http://evil.example\r\nContent-Type: text/plain\r\n",
        "Origin: null\r\n",
        "Origin: http://127.0.0.1:1\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
        // Whoever says both is asked for both.
        &format!("Origin: http://{}\r\nSec-Fetch-Site: cross-site\r\n", node.address()),
    ] {
        for asked in [
            ADD,
            GET,
            ("PUT", "/v0/entity?id=k"),
            ("POST", "/v0/batch"),
            ("GET", "/debug/profile/cpu?seconds=0"),
        ] {
            assert_eq!(status(&node, asked, &format!("{here}{fields}")), 403, "{asked:?} {fields}");
        }
    }
    // Whoever asks first is not told that it may.
    let preflight = "Origin: http://evil.example\r\nAccess-Control-Request-Method: PUT\r\n";
    assert_eq!(status(&node, ("OPTIONS", "/v0/entity?id=k"), &format!("{here}{preflight}")), 405);
    assert_eq!(node.connect().get("k").status, 404, "nothing was changed");
    // A page that this node served would be one of its own.
    let own = format!("{here}Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", node.address());
    assert_eq!(status(&node, ADD, &own), 200);
    assert_eq!(node.connect().request("GET", &entity("k"), None).text(), "1");
}

#[test]
fn a_name_that_was_made_to_point_here_is_not_served() {
    let node = Node::start();
    for host in ["evil.example", "127.0.0.1.evil.example:8080", "evil.localhost.example"] {
        let fields = format!("Host: {host}\r\n");
        assert_eq!(status(&node, GET, &fields), 403, "{host}");
        assert_eq!(status(&node, ADD, &fields), 403, "{host}");
        assert_eq!(status(&node, ("GET", "/v0/status"), &fields), 200, "probes have many names");
    }
    for host in ["localhost", "127.0.0.1:80", "[::1]:80", "node-1:8080", "a.localhost"] {
        assert_eq!(status(&node, GET, &format!("Host: {host}\r\n")), 404, "{host}");
    }
    let named = Launch::new().flag("--allow-host", "db.example.com").start();
    let behind_a_proxy = "Host: db.example.com\r\nOrigin: https://db.example.com\r\n";
    assert_eq!(status(&named, ADD, behind_a_proxy), 200);
    assert_eq!(status(&named, ADD, "Host: h\r\nOrigin: https://db.example.com\r\n"), 200);
    assert_eq!(status(&named, ADD, "Host: evil.example\r\n"), 403);
    let any = Launch::new().env("LADOGA_ALLOW_HOST", "*").start();
    assert_eq!(status(&any, GET, "Host: evil.example\r\n"), 404);
}

/// A page does not have the token, and where it cannot send one, its name says nothing.
#[test]
fn with_tokens_any_name_will_do() {
    let tokens = Tokens::new();
    let token = tokens.create("app", "read", &[]);
    let node = tokens.launch().start();
    let fields = format!("Host: db.example.com\r\nAuthorization: Bearer {token}\r\n");
    assert_eq!(status(&node, GET, &fields), 404);
    assert_eq!(status(&node, GET, "Host: db.example.com\r\n"), 401);
}
