use crate::cluster::Cluster;
use crate::support::{Response, assert_refusal, value, wait_until};

/// The records that a node has itself.
fn own(cluster: &Cluster, node: usize) -> Response {
    cluster.connect(node).request("GET", "/v0/entities?start=key", None)
}

#[test]
fn what_a_node_missed_is_delivered_when_it_is_back_even_by_a_coordinator_that_was_restarted() {
    let mut cluster = Cluster::start(3);
    let mut expected = Vec::new();
    cluster.put(0, "key-deleted", "3/3", b"old");
    cluster.nodes[2].kill();
    for n in 0..200 {
        let key = format!("key{n:03}");
        cluster.put(0, &key, "2/3", key.as_bytes());
        expected.push((key.clone().into_bytes(), key.into_bytes()));
    }
    cluster.delete(0, "key-deleted", "2/3");
    // More large values than are copied at a time.
    for n in 990..1000 {
        let (key, large) = (format!("key{n}"), value(n, 400_000));
        cluster.put(0, &key, "2/3", &large);
        expected.push((key.into_bytes(), large));
    }
    let url = cluster.nodes[2].url();
    let waiting = |cluster: &Cluster| cluster.nodes[0].metrics().sum("ladoga_hints_pending", &[&url]);
    wait_until("the hints", || waiting(&cluster) >= Some(211.0));
    cluster.nodes[0].restart();
    cluster.nodes[2].start_again();
    // The keys are not read, so only the hints can bring them.
    wait_until("what was missed", || own(&cluster, 2).records() == expected);
    wait_until("no hints", || waiting(&cluster) == Some(0.0));
}

#[test]
fn a_hint_is_no_copy() {
    let mut cluster = Cluster::start(3);
    // Keys on two nodes, neither of which coordinates.
    let keys: Vec<String> = (0..40).map(|n| format!("key{n}")).collect();
    for key in &keys {
        cluster.put(0, key, "2/2", b"old");
    }
    let of_the_others: Vec<&String> = keys.iter().filter(|key| cluster.holders(key) == [1, 2]).collect();
    assert!(!of_the_others.is_empty());
    cluster.nodes[2].kill();
    for key in &of_the_others {
        cluster.put(0, key, "1/2", b"new");
    }
    cluster.nodes[1].kill();
    for key in of_the_others {
        // The coordinator has a hint, and nothing else.
        assert_refusal(
            &cluster.request(0, "GET", key, "1/2", None),
            504,
            "GET of a key that only a hint has",
        );
        assert!(!own(&cluster, 0).records().iter().any(|(found, _)| found == key.as_bytes()));
    }
}
