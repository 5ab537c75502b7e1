use crate::support::{Connection, Node, assert_refusal};

/// Asks with every method that takes the parameters; HEAD's answer is compared by its status alone.
fn ask_all(
    connection: &mut Connection,
    parameters: &str,
    mut check: impl FnMut(&str, &crate::support::Response),
) {
    let target = format!("/v0/entity?id=k&{parameters}");
    for (method, body) in [("PUT", Some(&b"new"[..])), ("GET", None), ("HEAD", None), ("DELETE", None)] {
        check(method, &connection.request(method, &target, body));
    }
}

#[test]
fn one_of_one_is_what_a_single_node_can_do() {
    let node = Node::start();
    let mut connection = node.connect();
    for parameters in
        ["replicas=1/1", "replicas=1%2F1", "replicas=%31/1", "ack=1&from=1", "ack=1", "from=1", "x=1"]
    {
        ask_all(&mut connection, parameters, |method, response| {
            let expected = [("PUT", 201), ("GET", 200), ("HEAD", 200), ("DELETE", 202)];
            assert!(expected.contains(&(method, response.status)), "{method} {parameters}: {response:?}");
        });
    }
}

#[test]
fn numbers_of_replicas_that_cannot_be_are_refused() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("k", b"old");
    let impossible = [
        "replicas=0/1",
        "replicas=0/0",
        "replicas=1/0",
        "replicas=2/1",
        "replicas=1/2",
        "replicas=2/2",
        "replicas=2/3",
        "ack=0&from=1",
        "ack=0",
        "from=0",
        "ack=2",
        "from=2",
        "ack=2&from=1",
        "ack=1&from=2",
        "ack=2&from=3",
        "ack=0&from=0",
    ];
    let no_numbers = [
        "replicas=",
        "replicas",
        "replicas=/",
        "replicas=1",
        "replicas=1/",
        "replicas=/1",
        "replicas=a/b",
        "replicas=1/b",
        "replicas=-1/1",
        "replicas=+1/1",
        "replicas=1.0/1",
        "replicas=1/1/1",
        "replicas=1:1",
        "replicas=%201/1",
        "replicas=99999999999999999999/1",
        "replicas=1/99999999999999999999",
        "ack=",
        "ack=x",
        "ack=-1",
        "ack=1.5",
        "ack=1&from=",
        "from=",
        "from=one",
        "ack=99999999999999999999",
        "ack=4294967297",
        "from=18446744073709551617",
        "replicas=1/%",
        "ack=%zz",
    ];
    for parameters in impossible.into_iter().chain(no_numbers) {
        ask_all(&mut connection, parameters, |method, response| {
            if method == "HEAD" {
                assert_eq!(response.status, 400, "HEAD {parameters}");
            } else {
                assert_refusal(response, 400, &format!("{method} {parameters}"));
            }
        });
    }
    assert_eq!(connection.value("k").as_deref(), Some(&b"old"[..]), "a refused request changed something");
}
