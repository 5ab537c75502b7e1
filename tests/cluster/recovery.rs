use std::fs;

use crate::cluster::{Cluster, launches};
use crate::support::{Ladoga, Launch, assert_refusal, value, wait_until};

/// What a node has itself.
fn own(cluster: &Cluster, node: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    cluster.connect(node).request("GET", "/v0/entities?start=key", None).records()
}

#[test]
fn a_node_that_lost_its_disk_comes_back_whole_while_it_serves() {
    let mut cluster = Cluster::start(3);
    let mut expected = Vec::new();
    for n in 0..500_u64 {
        let key = format!("key{n:04}");
        let value = if n % 100 == 0 { value(n, 300_000) } else { key.clone().into_bytes() };
        cluster.put(n as usize % 3, &key, "3/3", &value);
        expected.push((key.into_bytes(), value));
    }
    cluster.delete(0, "key0001", "3/3");
    expected.remove(1);
    cluster.nodes[2].kill();
    fs::remove_dir_all(cluster.nodes[2].data()).expect("a data directory");
    cluster.nodes[2].start_again();
    // It answers for the others, and not for what it lacks.
    wait_until("a node that coordinates", || cluster.request(2, "GET", "key0002", "2/3", None).status == 200);
    wait_until("a node that is whole again", || {
        assert_eq!(cluster.get(0, "key0003", "2/3"), Some(b"key0003".to_vec()));
        cluster.report(2)["replica_state"]["complete"] == true
    });
    assert!(own(&cluster, 2) == expected);
    // The rate of repair is reported, within its bounds.
    let repair = cluster.report(2)["repair"].clone();
    let cells_per_second = repair["cells_per_second_max"].as_u64().expect("a rate");
    assert!((4_000..=40_000).contains(&cells_per_second), "{repair}");
    let metrics = cluster.nodes[2].metrics();
    // Reads brought the odd one.
    assert!(metrics.sum("ladoga_repair_cells_total", &[]) > Some(400.0));
    let cells_per_second = metrics.sum("ladoga_repair_cells_per_second_limit", &[]).expect("a rate");
    assert!((4_000.0..=40_000.0).contains(&cells_per_second), "{cells_per_second}");
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    assert_eq!(cluster.get(2, "key0004", "1/3"), Some(b"key0004".to_vec()));
    assert_eq!(cluster.get(2, "key0001", "1/3"), None);
}

#[test]
fn a_node_that_lost_its_disk_does_not_vouch_for_what_it_lacks() {
    let with_timeouts = |launch: Launch| {
        launch.env("LADOGA_PEER_TIMEOUT_MS", "3000").env("LADOGA_PEER_CONNECT_TIMEOUT_MS", "3000")
    };
    let mut cluster = Cluster::launch(launches(3).into_iter().map(with_timeouts).collect());
    cluster.put(0, "key", "2/3", b"value");
    wait_until("three copies", || cluster.holders("key").len() == 3);
    cluster.nodes[2].kill();
    fs::remove_dir_all(cluster.nodes[2].data()).expect("a data directory");
    cluster.nodes[1].signal("STOP");
    cluster.nodes[2].start_again();
    // One that has the key, one that lost it, one that is frozen: no two can say that there is none.
    for node in [0, 2] {
        let response = cluster.request(node, "GET", "key", "2/3", None);
        assert_refusal(&response, 504, "GET 2/3 of which one is whole");
    }
    cluster.nodes[1].signal("CONT");
    wait_until("the key again", || {
        let response = cluster.request(2, "GET", "key", "2/3", None);
        assert_ne!(response.status, 404, "an acknowledged write was denied");
        response.status == 200
    });
}

#[test]
fn a_repair_by_hand_takes_over_what_is_missing() {
    let mut cluster = Cluster::start(3);
    cluster.put(0, "key1", "3/3", b"value");
    // Copies that nothing else would bring: the coordinator that has the hints does not come back.
    cluster.nodes[2].kill();
    for n in 0..50 {
        cluster.put(0, &format!("key{n}"), "2/3", b"value");
    }
    cluster.nodes[0].kill();
    fs::remove_dir_all(cluster.nodes[0].data().join("hints")).expect("the hints");
    cluster.nodes[0].start_again();
    cluster.nodes[2].start_again();
    cluster.wait_until_all_answer();
    let url = cluster.nodes[2].url();
    let outcome = Ladoga::new(["repair", "--url", &url]).run().expect_success();
    assert!(outcome.text().contains("has all data of the other nodes"), "{outcome:?}");
    assert_eq!(own(&cluster, 2).len(), 50);
    let status = Ladoga::new(["status", "--url", &url]).run().expect_success();
    assert!(status.text().contains("  self") && status.text().contains("  up"), "{status:?}");
    cluster.nodes[0].kill();
    let outcome = Ladoga::new(["repair", "--url", &url]).run();
    outcome.expect_failure(1, &["not complete", &cluster.nodes[0].url()]);
}

#[test]
fn a_node_that_lost_its_disk_is_whole_without_one_that_is_gone_once_the_list_says_so() {
    let mut cluster = Cluster::start(3);
    cluster.put(0, "key", "3/3", b"value");
    cluster.nodes[1].kill();
    cluster.nodes[2].kill();
    fs::remove_dir_all(cluster.nodes[2].data()).expect("a data directory");
    cluster.nodes[2].start_again();
    // Versions that only it and the missing node had are unknown.
    wait_until("a node that says what it takes over", || {
        cluster.report(2)["replica_state"]["complete"] == false
    });
    assert_refusal(&cluster.request(0, "GET", "key", "2/3", None), 504, "a quorum of one that has all");
    // Both say how it is: one that it is not whole, and why, and what to do; the other that it does not count on it.
    let status = |node: usize| {
        let url = cluster.nodes[node].url();
        // Neither has a majority of nodes with all data.
        let outcome = Ladoga::new(["status", "--url", &url]).run();
        outcome.expect_failure(1, &["answered 503"]).text().to_owned()
    };
    let lost = cluster.nodes[1].url();
    wait_until("a reason", || status(2).contains(&format!("cannot be rebuilt without {lost}: ")));
    assert!(status(2).contains("the shorter list"), "{}", status(2));
    let of_2 = format!("{}  up", cluster.nodes[2].url());
    wait_until("what the others think of it", || {
        status(0).lines().any(|line| line.contains(&of_2) && line.contains("do not count"))
    });
    let urls = format!("{},{}", cluster.nodes[0].url(), cluster.nodes[2].url());
    cluster.nodes.remove(1);
    for node in &mut cluster.nodes {
        node.stop();
        fs::remove_file(node.data().join("nodes")).expect("a list of nodes");
        node.relaunch(|launch| launch.flag("--cluster", &urls));
        node.spawn();
    }
    cluster.nodes.iter_mut().for_each(crate::support::Node::wait_until_it_serves);
    wait_until("a node that is whole again", || {
        cluster.report(0)["replica_state"]["complete"] == true
            && cluster.report(1)["replica_state"]["complete"] == true
    });
    for node in 0..2 {
        assert_eq!(cluster.get(node, "key", "2/2"), Some(b"value".to_vec()));
    }
}
