use crate::support::{Node, assert_refusal};

#[test]
fn a_node_that_serves_lives_and_is_ready() {
    let node = Node::start();
    let mut connection = node.connect();
    for (target, said) in [("/livez", "live\n"), ("/readyz", "ready\n"), ("/readyz?verbose", "ready\n")] {
        let answer = connection.request("GET", target, None);
        assert_eq!((answer.status, answer.text()), (200, said), "{target}");
        let head = connection.request("HEAD", target, None);
        assert_eq!((head.status, head.text()), (200, ""), "HEAD {target}");
        for name in ["content-length", "content-type"] {
            assert_eq!(head.header(name), answer.header(name), "HEAD {target}");
        }
    }
    assert_eq!(connection.request("GET", "/livez?verbose", None).status, 200);
}

#[test]
fn other_methods_and_paths_are_refused() {
    let node = Node::start();
    let mut connection = node.connect();
    for path in ["/livez", "/readyz"] {
        for method in ["POST", "DELETE", "OPTIONS"] {
            let refused = connection.request(method, path, None);
            assert_refusal(&refused, 405, path);
            assert_eq!(refused.header("allow"), Some("GET, HEAD"));
        }
        assert_refusal(&connection.request("GET", &format!("{path}/"), None), 400, path);
    }
    for query in ["verbose&verbose", "verbose=%zz"] {
        assert_refusal(&connection.request("GET", &format!("/readyz?{query}"), None), 400, query);
    }
}
