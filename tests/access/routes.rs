use std::collections::BTreeSet;

use crate::support::{Node, Response, assert_refusal};
use crate::tokens::{SCOPES, Tokens, ask};

/// A request, with nothing wrong but what a served one is told first, and the scopes that it needs; between bars, one is enough.
struct Route {
    method: &'static str,
    target: &'static str,
    body: Option<&'static [u8]>,
    needs: &'static [&'static str],
}

const fn route(
    method: &'static str,
    target: &'static str,
    body: Option<&'static [u8]>,
    needs: &'static [&'static str],
) -> Route {
    Route { method, target, body, needs }
}

/// Whoever has a token may send one; its lines need more.
const ANY_TOKEN: &[&str] = &[];

/// What needs a token.
static CLOSED: [Route; 17] = [
    route("GET", "/v0/entity?id=k", None, &["read"]),
    route("HEAD", "/v0/entity?id=k", None, &["read"]),
    route("PUT", "/v0/entity?id=k", Some(b"1"), &["write"]),
    route("DELETE", "/v0/entity?id=k", None, &["delete"]),
    route("POST", "/v0/entity?id=k&increment=1", None, &["read", "write"]),
    route("POST", "/v0/entity?id=k&ttl=1h", None, &["read", "write"]),
    route("GET", "/v0/entities?start=a&limit=1", None, &["range"]),
    // Nothing is followed, and no profile is taken: the query says so only to those who may ask.
    route("GET", "/v0/changes?values=maybe", None, &["changes"]),
    route("POST", "/v0/batch", Some(b""), ANY_TOKEN),
    route("GET", "/v0/cluster", None, &["metrics|admin"]),
    route("POST", "/v0/repair", None, &["admin"]),
    route("POST", "/v0/backup", None, &["admin"]),
    route("GET", "/v0/backup?id=0000000000000000&file=listing", None, &["admin"]),
    route("DELETE", "/v0/backup?id=0000000000000000", None, &["admin"]),
    route("GET", "/metrics", None, &["metrics"]),
    route("GET", "/v0/hot", None, &["admin"]),
    route("GET", "/debug/profile/cpu?seconds=0", None, &["profile"]),
];
/// What anybody may ask.
static OPEN: [Route; 5] = [
    route("GET", "/v0/status", None, &[]),
    route("GET", "/livez", None, &[]),
    route("HEAD", "/livez", None, &[]),
    route("GET", "/readyz", None, &[]),
    route("HEAD", "/readyz", None, &[]),
];

fn send(node: &Node, route: &Route, token: Option<&str>) -> Response {
    ask(&mut node.connect(), (route.method, route.target), token, route.body)
}

#[test]
fn every_route_needs_its_scopes_and_no_others() {
    let tokens = Tokens::new();
    let shown: Vec<(Vec<&str>, String)> = SCOPES
        .into_iter()
        .map(|scope| (vec![scope], tokens.create(scope, scope, &[])))
        .chain([
            (vec!["read", "write"], tokens.create("both", "read,write", &[])),
            (SCOPES.to_vec(), tokens.create("all", "all", &[])),
        ])
        .collect();
    let node = tokens.launch().start();
    for route in &CLOSED {
        for (scopes, token) in &shown {
            let what = format!("{} {} with {scopes:?}", route.method, route.target);
            let response = send(&node, route, Some(token));
            let has_one = |needed: &str| needed.split('|').any(|scope| scopes.contains(&scope));
            let missing = route.needs.iter().find(|needed| !has_one(needed));
            let missing = missing.and_then(|needed| needed.split('|').next());
            match missing {
                None => assert!(![401, 403, 429].contains(&response.status), "{what}: {response:?}"),
                Some(_) if route.method == "HEAD" => assert_eq!(response.status, 403, "{what}"),
                Some(missing) => {
                    assert_refusal(&response, 403, &what);
                    assert_eq!(response.text(), format!("the token lacks the scope {missing}\n"), "{what}");
                }
            }
        }
    }
}

#[test]
fn without_a_token_that_counts_only_the_probes_answer() {
    let tokens = Tokens::new();
    let revoked = tokens.create("revoked", "all", &[]);
    let expired = tokens.create("expired", "all", &["--expires", "2020-01-01T00:00:00Z"]);
    let good = tokens.create("good", "all", &[]);
    tokens.revoke("revoked");
    let node = tokens.launch().start();
    // The secret of one with the name of another.
    let mixed = good.replace("good", "expired");
    let cut = &good[..good.len() - 1];
    let wrong = ["", "x", "ldg_", &revoked, &expired, &mixed, cut, &format!("{good}x")].map(str::to_owned);
    let shown = wrong.iter().map(|token| Some(&**token)).chain([None]);
    for token in shown {
        for route in &CLOSED {
            let what = format!("{} {} with {token:?}", route.method, route.target);
            let response = send(&node, route, token);
            assert_eq!(response.status, 401, "{what}: {response:?}");
            let challenge = response.header("www-authenticate").unwrap_or_default();
            assert!(challenge.starts_with("Bearer"), "{what}: {challenge}");
            assert!(!response.text().contains("expired"), "{what}: it tells what there is: {response:?}");
        }
        for route in &OPEN {
            assert_eq!(send(&node, route, token).status, 200, "{} {}", route.method, route.target);
        }
        let verbose = ask(&mut node.connect(), ("GET", "/readyz?verbose"), token, None);
        assert_eq!(verbose.status, 401, "reasons are for those with a token");
    }
    assert_eq!(send(&node, &CLOSED[0], Some(&good)).status, 404);
    let mut basic = node.connect();
    basic.send("GET /metrics HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpi\r\n\r\n");
    let refused = basic.response();
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    assert!(
        refused.text().contains("no bearer token; expected the header field `Authorization: Bearer TOKEN`"),
        "{refused:?}"
    );
    let mut twice = node.connect();
    let field = format!("Authorization: Bearer {good}\r\n");
    twice.send(format!("GET /metrics HTTP/1.1\r\nHost: h\r\n{field}{field}\r\n"));
    assert_eq!(twice.response().status, 401, "nobody knows which of two is meant");
}

#[test]
fn who_asks_is_known_of_each_request_and_not_of_the_connection() {
    let tokens = Tokens::new();
    let (one, other) = (tokens.create("one", "read", &[]), tokens.create("other", "metrics", &[]));
    let node = tokens.launch().start();
    let mut connection = node.connect();
    let mut bytes = Vec::new();
    let shown = [Some(&*one), None, Some(&*other), Some("x"), Some(&*one), None];
    for token in shown {
        bytes.extend(crate::tokens::request("GET", "/v0/entity?id=k", token, None));
    }
    connection.send(bytes);
    let statuses = shown.map(|_| connection.response().status);
    assert_eq!(statuses, [404, 401, 403, 401, 404, 401]);
}

/// A route that is added has to be added to the tables above.
#[test]
fn these_are_all_routes() {
    let node = Node::start();
    let refused = node.connect().request("GET", "/no/such/path", None);
    let (_, list) = refused.text().trim_end().rsplit_once("expected ").expect("a list of paths");
    let there: BTreeSet<String> =
        list.split(", ").flat_map(|paths| paths.split(" or ")).map(str::to_owned).collect();
    let path = |route: &Route| route.target.split('?').next().unwrap_or_default().to_owned();
    let mut here: BTreeSet<String> = CLOSED.iter().chain(&OPEN).map(path).collect();
    assert!(here.remove("/debug/profile/cpu"));
    // Nodes have a secret of their own: see `peers`.
    here.extend(["/debug/profile/{cpu,alloc,lock}".to_owned(), "/v0/peer".to_owned()]);
    assert_eq!(there, here);
    for target in here.iter().filter(|path| !path.contains('{')) {
        let refused = node.connect().request("BREW", target, None);
        let allow = refused.header("allow").expect("the methods that there are");
        for method in allow.split(", ") {
            let is_here = CLOSED.iter().chain(&OPEN).any(|it| it.method == method && path(it) == *target);
            assert!(is_here || target == "/v0/peer", "{method} {target}");
        }
    }
}
