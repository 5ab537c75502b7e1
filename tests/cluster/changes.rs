//! The feed of changes of a cluster: whichever node is asked, and whatever becomes of the others.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::networks::cluster_of;
use crate::support::{Connection, Ladoga, Node, assert_refusal, in_a_network_of_its_own, value, wait_until};

const EVENTS: &str = "Accept: text/event-stream\r\n";

/// A client that follows, and keeps what it was told.
struct Follower {
    connection: Connection,
    /// The newest version of each key, and its value.
    told: BTreeMap<String, (String, Option<String>)>,
    /// The same, of this connection alone.
    now: BTreeMap<String, String>,
    token: String,
}

impl Follower {
    /// Follows at this node, and has seen that the feed has begun.
    fn start(node: &Node, since: &str) -> Follower {
        let mut follower = Follower {
            connection: connect(node, since, ""),
            told: BTreeMap::new(),
            now: BTreeMap::new(),
            token: String::new(),
        };
        follower.read_until(|follower| !follower.token.is_empty());
        follower
    }

    /// Goes on at this node.
    fn move_to(&mut self, node: &Node) {
        self.connection = connect(node, &format!("since={}", self.token), "");
        self.now.clear();
    }

    fn read(&mut self) {
        let chunk = self.connection.next_chunk().expect("a node that tells").expect("more");
        for line in chunk.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            self.take(&serde_json::from_slice(line).expect("JSON"));
        }
    }

    fn take(&mut self, object: &Value) {
        if let Some(token) = object["bookmark"].as_str() {
            token.clone_into(&mut self.token);
            return;
        }
        let key = object["key"].as_str().expect("a key of text").to_owned();
        // Entity tags are of one length, and in the order of versions.
        let etag = object["etag"].as_str().expect("a version").to_owned();
        let value = object["value"].as_str().map(str::to_owned);
        if let Some(before) = self.now.insert(key.clone(), etag.clone()) {
            assert!(before <= etag, "{key}: {etag} after {before}");
        }
        let known = self.told.entry(key).or_default();
        // Over a new connection, some is told again.
        if known.0 <= etag {
            *known = (etag, value);
        }
    }

    fn read_until(&mut self, is_enough: impl Fn(&Follower) -> bool) {
        while !is_enough(self) {
            self.read();
        }
    }

    /// Reads until it was told all of this.
    fn expect(&mut self, expected: &BTreeMap<String, Option<String>>) {
        self.read_until(|follower| {
            expected.iter().all(|(key, value)| follower.told.get(key).is_some_and(|(_, told)| told == value))
        });
    }
}

/// Asks for changes, and answers the connection behind the head of the answer.
fn connect(node: &Node, query: &str, fields: &str) -> Connection {
    let mut connection = node.connect();
    connection.send(format!("GET /v0/changes?{query} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    let head = connection.response_head();
    assert_eq!(head.status, 200, "{query}");
    connection
}

/// What was acknowledged, to be told as it is at the end.
#[derive(Default)]
struct Written {
    newest: BTreeMap<String, Option<String>>,
    count: u64,
}

impl Written {
    /// Writes and deletes some keys through these nodes, one after the other.
    fn write(&mut self, cluster: &Cluster, nodes: &[usize], count: u64) {
        for _ in 0..count {
            self.count += 1;
            let (n, node) = (self.count, nodes[self.count as usize % nodes.len()]);
            let key = format!("key{:03}", n * 7 % 97);
            if n % 5 == 0 {
                cluster.delete(node, &key, "");
                self.newest.insert(key, None);
            } else {
                let value = n.to_string();
                cluster.put(node, &key, "", value.as_bytes());
                self.newest.insert(key, Some(value));
            }
        }
    }
}

#[test]
fn what_changes_through_any_node_is_told_at_every_node() {
    let cluster = Cluster::start(3);
    let mut followers = [0, 1, 2].map(|node| Follower::start(&cluster.nodes[node], ""));
    let mut written = Written::default();
    written.write(&cluster, &[0, 1, 2], 150);
    for follower in &mut followers {
        follower.expect(&written.newest);
    }
    // From the beginning, there is all of it, deletions included.
    Follower::start(&cluster.nodes[1], "since=0").expect(&written.newest);
    let with_ttl = cluster.connect(2).request("PUT", "/v0/entity?id=short&ttl=1h", Some(b"x"));
    assert_eq!(with_ttl.status, 201);
    let added = cluster.connect(1).request("POST", "/v0/entity?id=number&increment=5", None);
    assert_eq!(added.status, 200, "{}", added.text());
    cluster.connect(0).put("large", &value(1, 300 << 10));
    for follower in &mut followers {
        follower.read_until(|follower| {
            ["short", "number", "large"].iter().all(|&key| follower.told.contains_key(key))
        });
        assert_eq!(follower.told["short"].0, with_ttl.header("etag").expect("a tag"));
        assert_eq!(follower.told["number"].1.as_deref(), Some("5"));
    }
}

#[test]
fn events_and_one_answer_are_told_alike_and_the_command_follows_a_cluster() {
    let cluster = Cluster::start(3);
    let ask = |node: usize, query: &str| {
        let mut connection = cluster.connect(node);
        connection.send(format!("GET /v0/changes?{query} HTTP/1.1\r\nHost: h\r\nPrefer: wait=60\r\n\r\n"));
        connection.response()
    };
    let none = {
        let mut connection = cluster.connect(0);
        connection.send("GET /v0/changes HTTP/1.1\r\nHost: h\r\nPrefer: wait=0\r\n\r\n");
        connection.response()
    };
    assert_eq!(none.status, 304);
    let mut token = none.header("ladoga-next").expect("a token").to_owned();
    let mut events = connect(&cluster.nodes[2], "", EVENTS);
    let url = cluster.nodes[1].url();
    let lines = Ladoga::new(["changes", "--since", "0", "--url", &url]).start();
    let mut text = String::from_utf8(events.next_chunk().expect("alive").expect("a chunk")).expect("text");
    assert!(text.starts_with("id: ") && text.contains("event: bookmark"), "{text}");
    for n in 0..5 {
        let key = format!("key{n}");
        cluster.put(n % 3, &key, "", b"v");
        // One request after the other: no change is told twice, and none is missed.
        let answer = ask(0, &format!("since={token}"));
        assert_eq!((answer.status, answer.text().matches(&key).count()), (200, 1), "{}", answer.text());
        assert_eq!(answer.text().lines().count(), 1, "{}", answer.text());
        answer.header("ladoga-next").expect("a token").clone_into(&mut token);
        while !text.contains(&format!("\"key\":\"{key}\"")) {
            text = String::from_utf8(events.next_chunk().expect("alive").expect("a chunk")).expect("text");
        }
        wait_until("a line", || lines.printed().contains(&format!("put\t{key}\tv\n")));
    }
    lines.signal("KILL");
}

/// Asks for batches at this node, with the token of the one before, until there are no more, or as many as are wanted. Answers
/// which keys were told, and the last token.
fn poll(node: &Node, since: &str, batches: usize) -> (Vec<String>, String) {
    let (mut told, mut token, mut connection) = (Vec::new(), since.to_owned(), node.connect());
    for _ in 0..batches {
        connection.send(format!(
            "GET /v0/changes?since={token}&values=false HTTP/1.1\r\nHost: h\r\nPrefer: wait=0\r\n\r\n"
        ));
        let answer = connection.response();
        answer.header("ladoga-next").expect("a token").clone_into(&mut token);
        if answer.status == 304 {
            return (told, token);
        }
        let keys = answer.text().lines().map(|line| {
            let object: Value = serde_json::from_str(line).expect("JSON");
            object["key"].as_str().expect("a key of text").to_owned()
        });
        told.extend(keys);
    }
    (told, token)
}

/// More than one batch is to be read from the tables, of a cluster in which nothing has settled yet.
#[test]
fn one_request_after_the_other_is_told_all_that_is_stored() {
    const KEYS: usize = 3_000;
    let cluster = Cluster::start(3);
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key{n:05}")).collect();
    let write = || {
        let line = |key: &String| format!("{}\n", json!({"op": "put", "key": key, "value": "v"}));
        let lines = keys.iter().map(line).collect::<Vec<_>>().concat();
        let written = cluster.connect(0).request("POST", "/v0/batch?replicas=3/3", Some(lines.as_bytes()));
        assert_eq!(written.status, 200, "{}", written.text());
    };
    write();
    let (told, _) = poll(&cluster.nodes[0], "0", 100);
    assert_eq!(told, keys, "each once");
    // At another node there is no place in a ring to go on from: what it had read is read once more, at last.
    let (mut told, token) = poll(&cluster.nodes[0], "0", 2);
    assert!(!told.is_empty() && told.len() < KEYS, "{}", told.len());
    let (rest, token) = poll(&cluster.nodes[1], &token, 100);
    told.extend(rest);
    told.sort();
    told.dedup();
    assert_eq!(told, keys);
    // And what was read is written once more before the next request.
    let (_, read) = poll(&cluster.nodes[2], "0", 2);
    write();
    for (node, token) in [(2, &read), (0, &read), (1, &token)] {
        let (mut told, token) = poll(&cluster.nodes[node], token, 100);
        told.sort();
        told.dedup();
        assert_eq!(told, keys, "node {node}");
        assert_eq!(poll(&cluster.nodes[node], &token, 1).0, [""; 0], "it is at the end");
    }
}

#[test]
fn nothing_is_missed_while_nodes_are_killed_frozen_and_come_back() {
    let mut cluster = Cluster::start(3);
    let mut follower = Follower::start(&cluster.nodes[0], "");
    let mut written = Written::default();
    written.write(&cluster, &[0, 1, 2], 60);
    cluster.nodes[2].kill();
    written.write(&cluster, &[0, 1], 60);
    follower.expect(&written.newest);
    cluster.nodes[2].start_again();
    written.write(&cluster, &[0, 1, 2], 60);
    follower.expect(&written.newest);
    // The node that is asked misses writes itself, and has them from the others once it can.
    cluster.nodes[0].signal("STOP");
    written.write(&cluster, &[1, 2], 60);
    cluster.nodes[0].signal("CONT");
    written.write(&cluster, &[1, 2], 20);
    follower.expect(&written.newest);
}

#[test]
fn a_token_is_good_at_every_node_also_if_the_one_that_gave_it_is_gone() {
    let mut cluster = Cluster::start(3);
    let mut follower = Follower::start(&cluster.nodes[0], "since=0");
    let mut written = Written::default();
    written.write(&cluster, &[0, 1, 2], 60);
    follower.expect(&written.newest);
    cluster.nodes[0].kill();
    written.write(&cluster, &[1, 2], 60);
    follower.move_to(&cluster.nodes[1]);
    follower.expect(&written.newest);
    // And at one that lacks what was told: it has to have it first.
    written.write(&cluster, &[1, 2], 30);
    cluster.nodes[0].start_again();
    follower.move_to(&cluster.nodes[0]);
    follower.expect(&written.newest);
    // The same process goes on where it was, without telling anything again.
    let mut again = Follower::start(&cluster.nodes[1], "");
    again.move_to(&cluster.nodes[1]);
    cluster.put(0, "last", "3/3", b"1");
    again.read_until(|follower| follower.told.contains_key("last"));
    assert_eq!(again.told.len(), 1, "{:?}", again.told.keys());
    let lone = Node::start();
    let of_another = |node: &Node, token: &str, what: &str| {
        let answer = node.connect().request("GET", &format!("/v0/changes?since={token}"), None);
        assert_refusal(&answer, 410, what);
        assert!(answer.header("ladoga-oldest").is_some(), "{what}");
    };
    of_another(&lone, &follower.token, "the token of a cluster at a node on its own");
    of_another(&cluster.nodes[1], &Follower::start(&lone, "").token, "the other way round");
}

#[test]
fn who_does_not_read_for_long_is_told_what_the_tables_have() {
    let cluster = Cluster::start(3);
    let mut follower = Follower::start(&cluster.nodes[0], "");
    let mut expected = BTreeMap::new();
    // Several times what the ring and the sockets hold.
    let mut connection = cluster.connect(1);
    for n in 0..1_200_u64 {
        let (key, value) = (format!("key{:02}", n % 50), format!("{n}-{}", "v".repeat(20_000)));
        connection.put(&key, value.as_bytes());
        expected.insert(key, Some(value));
    }
    connection.delete("key00");
    expected.insert("key00".to_owned(), None);
    follower.expect(&expected);
    let metrics = cluster.nodes[0].metrics();
    assert!(metrics.sum("ladoga_changes_catch_ups_total", &[]) > Some(0.0), "it read the tables");
}

/// The node that is asked has all that the others acknowledge without it once it reaches them again, and tells it.
#[test]
fn nothing_is_missed_while_the_network_is_cut() {
    in_a_network_of_its_own("changes::nothing_is_missed_while_the_network_is_cut", || {
        let (network, cluster) = cluster_of(3, "1000");
        let mut followers = [0, 1, 2].map(|node| Follower::start(&cluster.nodes[node], ""));
        let mut written = Written::default();
        written.write(&cluster, &[0, 1, 2], 30);
        for alone in 0..3 {
            let majority = [(alone + 1) % 3, (alone + 2) % 3];
            network.isolate(alone);
            written.write(&cluster, &majority, 40);
            // Nobody is told what is not there.
            followers[majority[0]].expect(&written.newest);
            network.rejoin(alone);
            written.write(&cluster, &[0, 1, 2], 10);
        }
        // One way, packets get through: the writes reach the third node, and its answers do not arrive.
        network.cut(2, 0);
        written.write(&cluster, &[0, 1], 40);
        network.heal(2, 0);
        for follower in &mut followers {
            follower.expect(&written.newest);
        }
        // And none was told anything that nobody wrote.
        for (key, value) in &written.newest {
            assert!(followers.iter().all(|follower| follower.told[key].1 == *value), "{key}");
        }
    });
}
