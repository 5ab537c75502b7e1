use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::answers;
use crate::cluster::{Cluster, launches};
use crate::document::{Document, Operation};
use crate::requests::{Asked, Expected, Nodes, requests};
use crate::support::{Connection, Node, Random, Response, wait_until};

/// After so long nothing more is expected of an answer that has no end.
const PAUSE: Duration = Duration::from_millis(50);
/// How many failures are shown.
const SHOWN_MAX: usize = 15;

/// Answers that have to be among those that were seen, or the requests were none that say much.
const SEEN: [(&str, &[u16]); 6] = [
    ("getEntity", &[200, 304, 400, 404, 412]),
    ("headEntity", &[200, 304, 400, 404, 412]),
    ("putEntity", &[201, 400, 411, 412]),
    ("deleteEntity", &[202, 400, 412]),
    ("changeEntity", &[200, 400, 404, 409, 412]),
    ("getEntities", &[200, 400]),
];

/// Asks a node for everything that is described.
struct Asking<'n> {
    node: &'n Node,
    nodes: Nodes,
    connection: Connection,
    /// What was not as described.
    wrong: Vec<String>,
    seen: BTreeMap<String, BTreeSet<u16>>,
}

/// They are served of checkpoints that the node has named: the tests of backups have some.
const NEED_A_CHECKPOINT: [&str; 2] = ["readBackup", "endBackup"];

impl<'n> Asking<'n> {
    fn new(node: &'n Node, nodes: u32) -> Asking<'n> {
        let connection = node.connect();
        Asking { node, nodes: Nodes(nodes), connection, wrong: Vec::new(), seen: BTreeMap::new() }
    }

    /// So many valid requests for each operation, and what can be wrong with one.
    fn ask_all(&mut self, document: &Document, valid: usize, seed: u64) {
        let (mut random, operations) = (Random::new(seed), document.operations());
        let mut all = Vec::new();
        for operation in &operations {
            let has_seconds = operation.parameters.iter().any(|parameter| parameter.name == "seconds");
            // Some are all the same, and some take long.
            let is_short = operation.parameters.is_empty() || has_seconds;
            let valid = if is_short {
                2
            } else if operation.is_endless() {
                valid / 10
            } else {
                valid
            };
            let asked = requests(operation, self.nodes, valid, &mut random);
            all.extend(asked.into_iter().map(|asked| (operation, asked)));
        }
        // Mixed, so that reads find what was written.
        for place in (1..all.len()).rev() {
            all.swap(place, random.below(place as u64 + 1) as usize);
        }
        for (operation, asked) in all {
            self.ask(operation, &asked);
        }
    }

    fn ask(&mut self, operation: &Operation<'_>, asked: &Asked) {
        let response = if operation.is_endless() { self.begun_answer(asked) } else { self.answer(asked) };
        self.seen.entry(operation.id().to_owned()).or_default().insert(response.status);
        let checked = answers::check(operation, &response);
        let expected = match asked.expected {
            Expected::Served if self.is_for_others(operation) => Expected::Refused,
            expected => expected,
        };
        let is_expected = Asking::is_expected(operation, (asked, expected), response.status);
        if checked.is_err() || !is_expected {
            self.note(asked, expected, &response, checked.err());
        }
    }

    /// Whether only a node of a cluster does it, and this one is on its own.
    fn is_for_others(&self, operation: &Operation<'_>) -> bool {
        operation.is_cluster_only() && self.nodes.0 == 1
    }

    fn is_expected(operation: &Operation<'_>, (asked, expected): (&Asked, Expected), status: u16) -> bool {
        // Only the kernel knows who waits for a lock, and it may not tell. Nothing else is answered so.
        let may_be_impossible = operation.id() == "getProfile" && asked.target.contains("kind=lock");
        // There are few checkpoints, and nobody releases these.
        if operation.id() == "beginBackup" && status == 503 {
            return expected != Expected::Refused;
        }
        match expected {
            Expected::Served => status != 400 && status < 500 || status == 501 && may_be_impossible,
            Expected::Refused => status == 400,
            Expected::Answered => status != 501 || may_be_impossible,
        }
    }

    fn answer(&mut self, asked: &Asked) -> Response {
        self.connection.send(asked.bytes());
        let is_head = asked.method == "HEAD";
        let response = if is_head { self.connection.response_to_head() } else { self.connection.response() };
        // Behind an upgrade, the connection speaks another protocol.
        if response.closes() || response.status == 101 {
            self.connection = self.node.connect();
        }
        response
    }

    /// As much of an answer as comes without a pause.
    fn begun_answer(&mut self, asked: &Asked) -> Response {
        let mut connection = self.node.connect();
        connection.send(asked.bytes());
        let mut response = connection.response_head();
        if let Some(length) = response.header("content-length") {
            let length = length.parse().expect("a length");
            response.body = connection.try_read_exactly(length).expect("a whole body");
        } else {
            connection.limit_receiving_for(PAUSE);
            while let Ok(Some(chunk)) = connection.next_chunk() {
                response.body.extend(chunk);
            }
        }
        response
    }

    fn note(&mut self, asked: &Asked, expected: Expected, response: &Response, error: Option<String>) {
        let Asked { method, target, headers, body, what, .. } = asked;
        let headers = headers.iter().map(|(name, value)| format!("{name}: {}", value.escape_ascii()));
        let headers = headers.collect::<Vec<_>>().join(", ");
        let body = body.as_ref().map_or(0, Vec::len);
        let answer = &response.body[..response.body.len().min(200)];
        self.wrong.push(format!(
            "{method} {target} [{headers}] with {body} bytes ({what}), expected to be {expected:?}: {} {:?} {:?}: {}",
            response.status,
            response.headers,
            answer.escape_ascii().to_string(),
            error.unwrap_or_else(|| "it is described, but not for this request".to_owned()),
        ));
    }

    #[track_caller]
    fn check(&self) {
        let shown = &self.wrong[..self.wrong.len().min(SHOWN_MAX)];
        assert!(
            self.wrong.is_empty(),
            "{} answers are not as described:\n{}",
            self.wrong.len(),
            shown.join("\n")
        );
    }

    /// Checks that the requests were such that something could be seen.
    #[track_caller]
    fn check_seen(&self, document: &Document) {
        for (id, statuses) in SEEN {
            for status in statuses {
                assert!(
                    self.seen[id].contains(status),
                    "{id} was never answered {status}: {:?}",
                    self.seen[id]
                );
            }
        }
        for operation in document.operations() {
            let seen = &self.seen[operation.id()];
            let is_served = seen.iter().any(|&status| status < 400);
            if NEED_A_CHECKPOINT.contains(&operation.id()) {
                assert_eq!(*seen, BTreeSet::from([400, 404]), "{}", operation.id());
            } else if self.is_for_others(&operation) {
                assert!(!is_served, "{} was served: {seen:?}", operation.id());
            } else {
                assert!(is_served, "{} was never served: {seen:?}", operation.id());
            }
        }
    }
}

#[test]
fn a_node_on_its_own_answers_as_described() {
    let (document, node) = (Document::read(), Node::start());
    let mut asking = Asking::new(&node, 1);
    asking.ask_all(&document, 200, 1);
    asking.check();
    asking.check_seen(&document);
}

#[test]
fn a_node_of_a_cluster_answers_as_described() {
    let (document, cluster) = (Document::read(), Cluster::start(3));
    let mut asking = Asking::new(&cluster.nodes[0], 3);
    asking.ask_all(&document, 60, 2);
    asking.check();
    asking.check_seen(&document);
}

/// What it answers then is described, too, though it can serve little.
#[test]
fn a_node_that_lost_the_others_answers_as_described() {
    let document = Document::read();
    let launches = launches(3).into_iter().map(|launch| launch.env("LADOGA_QUORUM_TIMEOUT_MS", "200"));
    let mut cluster = Cluster::launch(launches.collect());
    cluster.nodes[1].kill();
    cluster.nodes[2].kill();
    wait_until("a node that is not ready", || {
        cluster.connect(0).request("GET", "/readyz", None).status == 503
    });
    let mut asking = Asking::new(&cluster.nodes[0], 3);
    let mut random = Random::new(3);
    for operation in document.operations().into_iter().filter(|operation| !operation.id().contains("Profile"))
    {
        for asked in requests(&operation, Nodes(3), 4, &mut random) {
            if asked.expected == Expected::Served {
                asking.ask(&operation, &Asked { expected: Expected::Answered, ..asked });
            }
        }
    }
    asking.check();
    for id in ["getEntity", "putEntity", "deleteEntity", "changeEntity"] {
        assert!(asking.seen[id].contains(&504), "{id}: {:?}", asking.seen[id]);
    }
    assert!(asking.seen["getReady"].contains(&503), "{:?}", asking.seen["getReady"]);
}
