//! `/livez` tells that the process runs, whatever the other nodes do. `/readyz` tells that a request would be served now: each
//! time a request checks it.

use crate::cluster::{Cluster, launches, launches_at};
use crate::support::{
    Ladoga, Launch, Network, Node, Response, assert_refusal, entity, in_a_network_of_its_own, wait_for,
    wait_until,
};

fn ready(node: &Node) -> Response {
    node.connect().request("GET", "/readyz", None)
}

/// What is in the way of requests, a reason a line; `None` if nothing is.
fn obstacles(node: &Node) -> Option<Vec<String>> {
    let response = node.connect().request("GET", "/readyz?verbose", None);
    assert!(matches!(response.status, 200 | 503), "{response:?}");
    (response.status == 503).then(|| response.text().lines().map(str::to_owned).collect())
}

#[track_caller]
fn assert_lives(node: &Node) {
    let response = node.connect().request("GET", "/livez", None);
    assert_eq!((response.status, response.text()), (200, "live\n"));
}

/// Waits until a node says that it would serve a request, which it does then.
#[track_caller]
fn wait_until_ready(node: &Node) {
    // On a machine that stands still for a time, a node may be silent between the two for longer than the others wait.
    let mut refusals = Vec::new();
    while refusals.len() < 4 {
        wait_until("a node that is ready", || ready(node).status == 200);
        let put = node.connect().request("PUT", &entity("key"), Some(b"value"));
        if put.status == 201 {
            return;
        }
        assert!(matches!(put.status, 503 | 504), "{put:?}");
        refusals.push(put.text().to_owned());
    }
    panic!("it says each time that it is ready, and is not: {refusals:?}");
}

/// Waits until a node says that it would not, and answers why, which holds for a request, too.
#[track_caller]
fn wait_until_not_ready(node: &Node) -> Vec<String> {
    wait_until("a node that is not ready", || ready(node).status == 503);
    // What stopped a node for a moment may be over by now; what the test has done to it stays.
    let obstacles = wait_for("what is in the way", || obstacles(node));
    let refused = node.connect().request("GET", &entity("key"), None);
    assert_refusal(&refused, 504, "GET through a node that said that it was not ready");
    obstacles
}

/// With little patience for silence, so that it is soon known.
fn impatient(launch: Launch) -> Launch {
    launch.env("LADOGA_PEER_TIMEOUT_MS", "5000").env("LADOGA_PEER_CONNECT_TIMEOUT_MS", "5000")
}

#[test]
fn a_node_that_has_heard_nobody_lives_and_is_not_ready() {
    let launches: Vec<Launch> =
        launches(3).into_iter().map(|launch| launch.env("LADOGA_QUORUM_TIMEOUT_MS", "5000")).collect();
    let urls: Vec<String> = launches.iter().map(Launch::url).collect();
    let mut launches = launches.into_iter();
    let first = launches.next().expect("a launch").start();
    assert_lives(&first);
    Ladoga::new(["status", "--live", "--url", &first.url()]).run().expect_success();
    let response = ready(&first);
    assert_refusal(&response, 503, "whether a new node is ready that has heard nobody");
    assert!(response.text().contains("is new"), "{}", response.text());
    let told = wait_until_not_ready(&first).join("\n");
    assert!(urls[1..].iter().all(|url| told.contains(url)), "{told}");
    // Two of three are enough.
    let second = launches.next().expect("a launch").start();
    wait_until_ready(&first);
    wait_until_ready(&second);
}

#[test]
fn a_node_of_a_fresh_cluster_serves_as_soon_as_it_says_that_it_is_ready() {
    for count in [2, 3, 5] {
        let mut nodes: Vec<Node> = launches(count).into_iter().map(Launch::spawn).collect();
        for node in &mut nodes {
            node.wait_until_it_serves();
            wait_until_ready(node);
        }
    }
}

#[test]
fn a_node_without_a_majority_lives_and_says_who_is_missing() {
    let mut cluster = Cluster::launch(launches(3).into_iter().map(impatient).collect());
    cluster.nodes.iter().for_each(wait_until_ready);
    cluster.nodes[1].kill();
    wait_until_ready(&cluster.nodes[0]);
    cluster.nodes[2].kill();
    let told = wait_until_not_ready(&cluster.nodes[0]);
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0], "1 of 3 nodes can answer, 2 are needed");
    let url = cluster.nodes[0].url();
    let status = Ladoga::new(["status", "--url", &url]).run();
    let status = status.expect_failure(1, &["answered 503: 1 of 3 nodes can answer, 2 are needed"]);
    let (first, nodes) = status.text().split_once('\n').expect("a line for the node");
    assert_eq!(first, format!("{url}: not ready"));
    assert!(nodes.contains("  self\n") && nodes.contains("  unreachable"), "{nodes}");
    for (line, node) in told[1..].iter().zip(&cluster.nodes[1..]) {
        assert!(line.starts_with(&node.url()), "{told:?}");
    }
    assert_lives(&cluster.nodes[0]);
    cluster.nodes[2].start_again();
    for node in [0, 2] {
        wait_until_ready(&cluster.nodes[node]);
    }
    let status = wait_for("a node that serves", || {
        let status = Ladoga::new(["status", "--url", &url]).run();
        (status.code == Some(0)).then_some(status)
    });
    assert!(status.text().starts_with(&format!("{url}: serving\n")), "{status:?}");
}

#[test]
fn a_node_whose_peers_stand_still_is_not_ready_once_that_is_known() {
    let cluster = Cluster::launch(launches(3).into_iter().map(impatient).collect());
    cluster.nodes.iter().for_each(wait_until_ready);
    for node in [1, 2] {
        cluster.nodes[node].signal("STOP");
    }
    let told = wait_until_not_ready(&cluster.nodes[0]);
    assert!(told[0].contains("1 of 3"), "{told:?}");
    assert_lives(&cluster.nodes[0]);
    for node in [1, 2] {
        cluster.nodes[node].signal("CONT");
    }
    cluster.nodes.iter().for_each(wait_until_ready);
}

#[test]
fn a_minority_is_not_ready_and_the_majority_is() {
    in_a_network_of_its_own("probes::a_minority_is_not_ready_and_the_majority_is", || {
        let network = Network::of(3);
        let cluster = Cluster::launch(launches_at(3, Network::place).into_iter().map(impatient).collect());
        cluster.nodes.iter().for_each(wait_until_ready);
        network.isolate(2);
        wait_until_not_ready(&cluster.nodes[2]);
        assert_lives(&cluster.nodes[2]);
        for node in [0, 1] {
            wait_until_ready(&cluster.nodes[node]);
        }
        network.rejoin(2);
        cluster.nodes.iter().for_each(wait_until_ready);
    });
}
