use std::collections::BTreeSet;

use crate::document::{Document, Place, members, texts};
use crate::support::{Node, Response, assert_refusal};

/// Methods that requests are made with; not `CONNECT`, which has another kind of target.
const METHODS: [&str; 9] = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"];

/// The names in a list such as `a, b or c`.
fn names(list: &str) -> BTreeSet<String> {
    list.split(", ").flat_map(|names| names.split(" or ")).map(str::to_owned).collect()
}

/// A path as the node names it: the values that a part of it may have stand in its place.
fn as_listed(document: &Document, path: &str) -> String {
    parts(document, path).into_iter().fold(path.to_owned(), |path, (name, values)| {
        path.replace(&format!("{{{name}}}"), &format!("{{{}}}", values.join(",")))
    })
}

/// The targets that a path stands for.
fn targets(document: &Document, path: &str) -> Vec<String> {
    let parts = parts(document, path);
    parts.into_iter().fold(vec![path.to_owned()], |targets, (name, values)| {
        let with = |target: &String, value: &&str| target.replace(&format!("{{{name}}}"), value);
        targets.iter().flat_map(|target| values.iter().map(move |value| with(target, value))).collect()
    })
}

/// The parts of a path that vary, and their values.
fn parts<'d>(document: &'d Document, path: &str) -> Vec<(&'d str, Vec<&'d str>)> {
    let operations = document.operations();
    let operation =
        operations.iter().find(|operation| operation.path == path).expect("a path with an operation");
    let parameters = operation.parameters.iter().filter(|parameter| parameter.place == Place::Path);
    parameters.map(|parameter| (parameter.name, texts(&parameter.schema["enum"]))).collect()
}

#[test]
fn the_node_has_the_paths_and_methods_that_are_described_and_no_others() {
    let (document, node) = (Document::read(), Node::start());
    let mut connection = node.connect();
    let refused = connection.request("GET", "/no/such/path", None);
    assert_refusal(&refused, 400, "a path that does not exist");
    let (_, list) = refused.text().trim_end().rsplit_once("expected ").expect("a list of paths");
    let described: BTreeSet<String> = document.paths().map(|(path, _)| as_listed(&document, path)).collect();
    assert_eq!(names(list), described, "the node's paths, and those of docs/http-api.yaml");
    for (path, item) in document.paths() {
        let methods = Document::methods(item);
        for target in targets(&document, path) {
            for method in METHODS {
                let what = format!("{method} {target}");
                // Nothing can come of this query, so what is answered is whether the method is there.
                let response = node.connect().request(method, &format!("{target}?seconds=0&start="), None);
                let is_unknown = response.status == 400 && response.text().starts_with("the path ");
                assert!(!is_unknown, "{what}: {response:?}");
                if methods.contains(method) {
                    assert_ne!(response.status, 405, "{what}: {response:?}");
                } else {
                    check_refused_method(&response, &methods, &what);
                }
            }
        }
    }
}

fn check_refused_method(response: &Response, methods: &BTreeSet<String>, what: &str) {
    if what.starts_with("HEAD ") {
        assert_eq!((response.status, response.text()), (405, ""), "{what}");
    } else {
        assert_refusal(response, 405, what);
    }
    let allow = response.header("allow").unwrap_or_else(|| panic!("{what}: no Allow"));
    assert_eq!(names(allow), *methods, "{what}");
}

#[test]
fn every_path_says_how_other_methods_are_answered() {
    let document = Document::read();
    for (path, item) in document.paths() {
        let other = item.get("x-other-methods").unwrap_or_else(|| panic!("{path} has no x-other-methods"));
        let described = document.resolve(other);
        assert!(members(&described["headers"]).contains_key("Allow"), "{path}");
    }
}
