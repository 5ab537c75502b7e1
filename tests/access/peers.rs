use std::fs;

use crate::support::{Connection, Ladoga, Launch, Node, assert_refusal, entity, wait_until};
use crate::tokens::{Tokens, ask};

/// Two nodes of a cluster, with these files of the secret.
fn cluster(tokens: &Tokens, secrets: [&str; 2]) -> Vec<Node> {
    let launches = [tokens.launch(), tokens.launch()];
    let urls = launches.each_ref().map(Launch::url).join(",");
    let patience = [("PEER", "20000"), ("PEER_CONNECT", "20000"), ("QUORUM", "2000")];
    let spawn = |(launch, secret): (Launch, &str)| {
        let launch = launch.flag("--cluster", &urls).flag("--memory", "32MiB").flag("--threads", "2");
        let launch = patience.into_iter().fold(launch, |launch, (name, timeout_ms)| {
            launch.env(&format!("LADOGA_{name}_TIMEOUT_MS"), timeout_ms)
        });
        launch.flag("--peer-secret", tokens.beside(secret).to_str().expect("a path of text")).spawn()
    };
    let mut nodes: Vec<Node> = launches.into_iter().zip(secrets).map(spawn).collect();
    nodes.iter_mut().for_each(Node::wait_until_it_serves);
    nodes
}

fn knock(node: &Node, authorization: &str) -> crate::support::Response {
    let mut connection = Connection::open(node.address());
    connection.send(format!(
        "GET /v0/peer HTTP/1.1\r\nHost: {}\r\nConnection: upgrade\r\nUpgrade: ladoga-peer/3\r\n{authorization}\r\n",
        node.address()
    ));
    connection.response()
}

#[test]
fn nodes_show_each_other_a_secret_that_no_token_stands_in_for() {
    let tokens = Tokens::new();
    let admin = tokens.create("admin", "all", &[]);
    fs::write(tokens.beside("secret"), "0123456789abcdef0123456789abcdef\n").expect("a secret");
    let nodes = cluster(&tokens, ["secret", "secret"]);
    wait_until("nodes that reach each other", || {
        let target = format!("{}&replicas=2/2", entity("k"));
        ask(&mut nodes[0].connect(), ("PUT", &target), Some(&admin), Some(b"v")).status == 201
    });
    let target = format!("{}&replicas=2/2", entity("k"));
    assert_eq!(ask(&mut nodes[1].connect(), ("GET", &target), Some(&admin), None).body, b"v");
    for shown in [
        String::new(),
        format!("Authorization: Bearer {admin}\r\n"),
        format!("Authorization: Ladoga-Peer {}\r\n", "0".repeat(64)),
        "Authorization: Ladoga-Peer 0123456789abcdef0123456789abcdef\r\n".to_owned(),
    ] {
        let refused = knock(&nodes[0], &shown);
        assert_refusal(&refused, 401, &shown);
        assert_eq!(refused.header("www-authenticate"), Some("Ladoga-Peer"));
    }
}

#[test]
fn a_node_with_another_secret_is_a_stranger() {
    let tokens = Tokens::new();
    let admin = tokens.create("admin", "all", &[]);
    fs::write(tokens.beside("one"), "1".repeat(32)).expect("a secret");
    fs::write(tokens.beside("other"), "2".repeat(32)).expect("a secret");
    let nodes = cluster(&tokens, ["one", "other"]);
    // Each has tried, and was not let in.
    for node in &nodes {
        wait_until("a node that is not let in", || {
            let report = ask(&mut node.connect(), ("GET", "/v0/cluster"), Some(&admin), None);
            report.text().contains("401")
        });
    }
    let target = format!("{}&replicas=2/2", entity("k"));
    let put = ask(&mut nodes[0].connect(), ("PUT", &target), Some(&admin), Some(b"v"));
    assert!(put.status >= 500, "{put:?}");
}

/// It was said not to be part of a cluster once it had begun to repair itself.
#[test]
fn who_may_repair_a_node_sees_how_that_ends_and_who_may_not_is_told() {
    let tokens = Tokens::new();
    let (admin, reader) = (tokens.create("admin", "admin", &[]), tokens.create("reader", "read", &[]));
    fs::write(tokens.beside("secret"), "0123456789abcdef0123456789abcdef\n").expect("a secret");
    let nodes = cluster(&tokens, ["secret", "secret"]);
    let url = nodes[0].url();
    let repair = |token: &str| Ladoga::new(["repair", "--url", &url]).env("LADOGA_TOKEN", token).run();
    wait_until("nodes that reach each other", || repair(&admin).code == Some(0));
    repair(&reader).expect_failure(1, &["answered 403", "the token lacks the scope"]);
    let status = Ladoga::new(["status", "--url", &url]).run().expect_success();
    let told = format!("{url}: serving\n  {url} answered 401: this request needs a token");
    assert!(status.text().starts_with(&told), "{}", status.text());
    let status = Ladoga::new(["status", "--url", &url]).env("LADOGA_TOKEN", &admin).run().expect_success();
    assert!(status.text().contains("  self\n"), "{}", status.text());
}
