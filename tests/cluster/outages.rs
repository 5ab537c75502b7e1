use std::thread;

use crate::cluster::{Cluster, launches, target};
use crate::support::{Launch, assert_refusal, wait_until};

#[test]
fn too_few_replicas_are_told_with_how_many_and_why() {
    let mut cluster = Cluster::start(3);
    cluster.put(0, "k", "3/3", b"old");
    cluster.nodes[1].kill();
    cluster.nodes[2].kill();
    let response = cluster.request(0, "PUT", "k", "2/3", Some(b"new"));
    assert_refusal(&response, 504, "PUT 2/3 on one node of three");
    let text = response.text();
    let named = ["of 3 replicas answered, expected 2", "may have happened", "unreachable"];
    assert!(named.iter().all(|part| text.contains(part)), "{text}");
    assert!(text.contains(&cluster.nodes[1].url()), "{text}");
    let response = cluster.request(0, "GET", "k", "3/3", None);
    assert_refusal(&response, 504, "GET 3/3 on one node of three");
    // What one node can answer, it answers; the write was refused before this node had done its part.
    wait_until("the part of the node that lives", || cluster.get(0, "k", "1/3") == Some(b"new".to_vec()));
}

#[test]
fn a_node_that_is_back_is_used_by_the_next_request() {
    let mut cluster = Cluster::start(3);
    // So many that the clock would be out of bounds if each restart moved it ahead by all that can be reserved.
    for round in 0..8 {
        cluster.nodes[2].kill();
        let refused = cluster.request(0, "PUT", "k", "3/3", Some(b"x"));
        assert_refusal(&refused, 504, "PUT 3/3 with a node killed");
        cluster.nodes[2].start_again();
        // No back-off: the first request that can succeed does, from every node.
        let value = round.to_string();
        cluster.put(0, "k", "3/3", value.as_bytes());
        assert_eq!(cluster.get(1, "k", "3/3"), Some(value.into_bytes()));
    }
}

#[test]
fn a_frozen_node_holds_up_only_who_needs_it_and_not_for_long() {
    // As short as a test can wait for, and longer than a machine that is busy keeps a node silent.
    let with_timeout = |launch: Launch| launch.env("LADOGA_PEER_TIMEOUT_MS", "10000");
    let cluster = Cluster::launch(launches(3).into_iter().map(with_timeout).collect());
    cluster.put(0, "k", "3/3", b"value");
    cluster.nodes[2].signal("STOP");
    for n in 0..50 {
        cluster.put(n % 2, "k", "2/3", b"other");
        assert_eq!(cluster.get((n + 1) % 2, "k", "2/3"), Some(b"other".to_vec()));
    }
    let response = cluster.request(0, "PUT", "k", "3/3", Some(b"third"));
    assert_refusal(&response, 504, "PUT 3/3 with a node frozen");
    cluster.nodes[2].signal("CONT");
    wait_until("the node that was frozen", || {
        cluster.request(0, "PUT", "k", "3/3", Some(b"fourth")).status == 201
    });
    assert_eq!(cluster.get(2, "k", "1/3"), Some(b"fourth".to_vec()));
}

#[test]
fn a_node_that_missed_writes_is_repaired_by_reads() {
    let mut cluster = Cluster::start(3);
    cluster.put(0, "value", "3/3", b"old");
    cluster.put(0, "deleted", "3/3", b"old");
    cluster.nodes[2].kill();
    cluster.put(0, "value", "2/3", b"new");
    cluster.delete(1, "deleted", "2/3");
    cluster.nodes[2].start_again();
    // The first read with all replicas sees the newest version, whichever node has it, and writes it to the nodes that lack it.
    assert_eq!(cluster.get(2, "value", "3/3"), Some(b"new".to_vec()));
    assert_eq!(cluster.get(2, "deleted", "3/3"), None);
    // The answer does not wait for that, since every read of three that follows would see it as well.
    wait_until("the repair of both keys", || {
        let range = cluster.connect(2).request("GET", &crate::support::range("a", None), None);
        range.records() == [(b"value".to_vec(), b"new".to_vec())]
    });
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    assert_eq!(cluster.get(2, "value", "1/3"), Some(b"new".to_vec()));
    assert_eq!(cluster.get(2, "deleted", "1/3"), None);
}

#[test]
fn what_a_quorum_acknowledged_survives_any_one_node_under_load() {
    const WRITERS: usize = 4;
    const WRITES: usize = 60;
    let mut cluster = Cluster::start(3);
    let addresses: Vec<_> = cluster.nodes.iter().map(crate::support::Node::address).collect();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let addresses = &addresses;
                scope.spawn(move || {
                    let mut acknowledged = Vec::new();
                    for n in 0..WRITES {
                        // Each writer sticks to one of the two nodes that live, so that none of its answers is lost.
                        let key = format!("{writer}-{n}");
                        let mut connection = crate::support::Connection::open(addresses[writer % 2]);
                        let response = connection.request("PUT", &target(&key, "2/3"), Some(key.as_bytes()));
                        // A disk that is busy with other tests may have too much to write just now.
                        let is_busy = response.status == 503 && response.text().contains("over capacity");
                        assert!(is_busy || matches!(response.status, 201 | 504), "{response:?}");
                        if response.status == 201 {
                            acknowledged.push(key);
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        for _ in 0..3 {
            cluster.nodes[2].crash();
        }
        let acknowledged: Vec<_> =
            writers.into_iter().flat_map(|writer| writer.join().expect("a writer")).collect();
        assert!(acknowledged.len() > WRITERS * WRITES / 2, "{}", acknowledged.len());
        for victim in 0..3 {
            cluster.nodes[victim].kill();
            for key in &acknowledged {
                let value = cluster.get((victim + 1) % 3, key, "2/3");
                assert_eq!(value, Some(key.clone().into_bytes()), "{key} without node {victim}");
            }
            cluster.nodes[victim].start_again();
        }
    });
}
