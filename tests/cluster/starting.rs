//! Nodes are started one after another, each waited for until it reports that it serves: from then on, requests succeed.
//!
//! None of these tests waits for anything else. With `LADOGA_TEST_FRESH_CLUSTERS=100` they start as many clusters of each size,
//! and print how long the nodes took.

use std::env;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, launches, target};
use crate::support::{
    Launch, Node, Response, WallClocks, assert_refusal, entity, range, wait_for, wait_until,
};

/// Starts nodes one after another, each waited for until it reports that it serves.
fn start(launches: Vec<Launch>) -> Cluster {
    Cluster { nodes: launches.into_iter().map(Launch::start).collect() }
}

/// What a first request may be.
const FIRST_REQUESTS: usize = 5;

/// Has every node be asked for everything at once, each with something else to begin with.
#[track_caller]
fn assert_all_serve(cluster: &Cluster, round: usize) {
    let all = format!("{0}/{0}", cluster.nodes.len());
    let ask = |node: usize| {
        let mut connection = cluster.connect(node);
        let mut ask = |what: &str, method: &str, target: &str, body: Option<&[u8]>, expected: u16| {
            let response = connection.request(method, target, body);
            let told = String::from_utf8_lossy(&response.body).into_owned();
            assert_eq!(response.status, expected, "{what} through node {node} in round {round}: {told}");
            response.body
        };
        for n in 0..FIRST_REQUESTS {
            match (n + round + node) % FIRST_REQUESTS {
                0 => {
                    let key = format!("key-{round}-{node}");
                    ask("PUT", "PUT", &entity(&key), Some(key.as_bytes()), 201);
                    let value = ask("GET of what was written", "GET", &entity(&key), None, 200);
                    assert_eq!(value, key.into_bytes());
                }
                1 => drop(ask("GET", "GET", &entity("none"), None, 404)),
                2 => drop(ask("GET N/N", "GET", &target("none", &all), None, 404)),
                3 => drop(ask("own range", "GET", &range("a", None), None, 200)),
                _ => {
                    let target = format!("{}&scope=cluster", range("a", None));
                    drop(ask("range over the cluster", "GET", &target, None, 200));
                }
            }
        }
    };
    thread::scope(|scope| {
        let asking: Vec<_> = (0..cluster.nodes.len()).map(|node| scope.spawn(move || ask(node))).collect();
        asking.into_iter().for_each(|asking| asking.join().expect("what was asked for"));
    });
}

/// Waits until a node reports that it is whole; answers how long that took.
fn settles_within(cluster: &Cluster) -> Duration {
    let began = Instant::now();
    for node in 0..cluster.nodes.len() {
        wait_until("a node that is whole", || cluster.report(node)["replica_state"]["complete"] == true);
    }
    began.elapsed()
}

fn assert_fresh_clusters_serve(nodes: usize) {
    const VARIABLE: &str = "LADOGA_TEST_FRESH_CLUSTERS";
    let asked = env::var(VARIABLE).ok().map(|text| text.parse::<usize>().expect("a number of clusters"));
    let mut times = Vec::new();
    for round in 0..asked.unwrap_or(3) {
        let cluster = start(launches(nodes));
        if asked.is_none() {
            assert_all_serve(&cluster, round);
            continue;
        }
        let time = thread::scope(|scope| {
            let settling = scope.spawn(|| settles_within(&cluster));
            assert_all_serve(&cluster, round);
            settling.join().expect("a time")
        });
        times.push(time);
    }
    times.sort_unstable();
    if let (Some(median), Some(longest)) = (times.get(times.len() / 2), times.last()) {
        println!("{} clusters of {nodes}: settled within {median:.1?}, at most {longest:.1?}", times.len());
    }
}

#[test]
fn first_requests_to_a_fresh_cluster_of_two_succeed() {
    assert_fresh_clusters_serve(2);
}

#[test]
fn first_requests_to_a_fresh_cluster_of_three_succeed() {
    assert_fresh_clusters_serve(3);
}

#[test]
fn first_requests_to_a_fresh_cluster_of_five_succeed() {
    assert_fresh_clusters_serve(5);
}

#[test]
fn first_requests_after_a_restart_of_all_nodes_succeed() {
    let mut cluster = start(launches(3));
    for round in 0..4 {
        assert_all_serve(&cluster, round);
        for node in &mut cluster.nodes {
            if round % 2 == 0 { node.stop() } else { node.kill() }
        }
        cluster.nodes.iter_mut().for_each(Node::start_again);
        assert!(cluster.get(round % 3, &format!("key-{round}-0"), "2/3").is_some());
    }
    assert_all_serve(&cluster, 4);
}

/// The files whose appearance tells how far a start is.
const MOMENTS: [&str; 4] = ["", "nodes", "replica-state", "hints"];

#[test]
fn a_node_that_is_killed_again_and_again_while_it_starts_serves_in_the_end() {
    let mut launches = launches(3);
    let last = launches.pop().expect("three launches");
    let mut cluster = start(launches);
    cluster.nodes.push(last.spawn());
    for round in 0..3 {
        for moment in MOMENTS {
            let node = &mut cluster.nodes[2];
            let file = node.data().join(moment);
            wait_until("a start that is so far", || file.exists());
            node.kill();
            node.spawn();
        }
        cluster.nodes[2].wait_until_it_serves();
        if round > 0 {
            // As soon as it reports that it serves.
            cluster.nodes[2].crash();
        }
        assert_all_serve(&cluster, round);
    }
}

#[test]
fn a_node_whose_disk_was_replaced_takes_requests_at_once() {
    let mut cluster = start(launches(3));
    assert_all_serve(&cluster, 0);
    for round in 1..4 {
        let victim = round % 3;
        cluster.nodes[victim].kill();
        fs::remove_dir_all(cluster.nodes[victim].data()).expect("a data directory");
        cluster.nodes[victim].start_again();
        for node in [victim, (victim + 1) % 3, (victim + 2) % 3] {
            let key = format!("key-{round}-{node}");
            cluster.put(node, &key, "2/3", b"value");
            assert_eq!(cluster.get(node, &key, "2/3"), Some(b"value".to_vec()));
            assert_eq!(cluster.get(node, "key-0-0", "2/3"), Some(b"key-0-0".to_vec()));
        }
        wait_until("a node that is whole again", || {
            cluster.report(victim)["replica_state"]["complete"] == true
        });
    }
}

/// A key whose first node is this one: the others say so by not having it.
fn own_key(cluster: &Cluster, node: usize) -> String {
    let mut keys = (0..).map(|n| format!("own{n}"));
    let is_own = |key: &String| {
        cluster.put(node, key, "1/1", b"value");
        cluster.holders(key) == [node]
    };
    keys.find(is_own).expect("one of a few")
}

#[test]
fn a_node_that_comes_back_alone_answers_what_it_can_answer_alone() {
    let mut cluster = start(launches(3));
    let key = own_key(&cluster, 0);
    cluster.nodes.iter_mut().for_each(Node::kill);
    cluster.nodes[0].start_again();
    assert_eq!(cluster.get(0, &key, "1/1"), Some(b"value".to_vec()));
    cluster.put(0, &key, "1/1", b"other");
    assert_eq!(cluster.get(0, &key, "1/3"), Some(b"other".to_vec()));
    cluster.put(0, "shared", "1/3", b"value");
    cluster.delete(0, &key, "1/1");
    let records = cluster.connect(0).request("GET", &range("shared", None), None).records();
    assert_eq!(records, [(b"shared".to_vec(), b"value".to_vec())]);
    assert_refusal(&cluster.request(0, "GET", "shared", "2/3", None), 504, "GET 2/3 on one of three");
}

/// Both are killed as soon as the first one knows; at that time it is on its disk.
#[test]
fn a_node_that_was_stopped_as_soon_as_it_knew_enough_comes_back_alone() {
    let mut cluster = start(launches(2));
    let key = own_key(&cluster, 1);
    wait_for("a first node that knows", || {
        (cluster.report(0)["replica_state"]["may_coordinate"] == true).then_some(())
    });
    cluster.nodes.iter_mut().for_each(Node::kill);
    for node in 0..2 {
        cluster.nodes[node].start_again();
        cluster.put(node, "mine", "1/2", b"value");
        assert_eq!(cluster.get(node, "mine", "1/2"), Some(b"value".to_vec()));
        if node == 1 {
            assert_eq!(cluster.get(node, &key, "1/1"), Some(b"value".to_vec()));
        }
        cluster.nodes[node].kill();
    }
}

/// How far the clock of one of two nodes is ahead.
const SECONDS_AHEAD: i64 = 25;

#[test]
fn first_requests_succeed_where_clocks_differ() {
    let Some(clocks) = WallClocks::new() else { return };
    for first_is_ahead in [false, true] {
        let launches = launches(2).into_iter().enumerate();
        let launches = launches.map(|(node, launch)| clocks.place(launch, node)).collect();
        clocks.set_ahead(usize::from(!first_is_ahead), SECONDS_AHEAD);
        let cluster = start(launches);
        assert_all_serve(&cluster, 0);
        let nodes = cluster.report(0)["nodes"].as_array().expect("nodes").clone();
        let offset_ms = nodes.iter().find_map(|node| node["clock_offset_ms"].as_i64());
        assert!(offset_ms.is_some_and(|ms| ms.abs() > 10_000), "the clocks are the same: {offset_ms:?}");
    }
}

#[test]
fn a_peer_whose_name_nobody_knows_holds_up_only_who_needs_it() {
    let nobody = "http://nobody.invalid:9";
    let launches = launches(2);
    let urls = launches.iter().map(Launch::url).collect::<Vec<_>>();
    let with_list = |launch: Launch| launch.flag("--cluster", &format!("{},{nobody}", urls.join(",")));
    let cluster = start(launches.into_iter().map(with_list).collect());
    for node in 0..2 {
        let key = format!("key{node}");
        cluster.put(node, &key, "", b"value");
        assert_eq!(cluster.get(node, &key, ""), Some(b"value".to_vec()));
        let range = format!("{}&scope=cluster", range("a", None));
        assert_eq!(cluster.connect(node).request("GET", &range, None).status, 200);
        for method in ["GET", "DELETE"] {
            let response: Response = cluster.request(node, method, &key, "3/3", None);
            assert_refusal(&response, 504, "3/3 with a node that nobody finds");
            assert!(response.text().contains(nobody), "{}", response.text());
        }
    }
}
