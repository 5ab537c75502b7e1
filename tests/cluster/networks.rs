use std::thread;

use crate::cluster::{Cluster, launches_at, target};
use crate::support::{
    Connection, Network, assert_refusal, in_a_network_of_its_own, retransmissions, wait_for, wait_until,
};

/// Nodes in a network each, with this time-out for peers.
pub(crate) fn cluster_of(nodes: usize, peer_timeout_ms: &str) -> (Network, Cluster) {
    cluster_with(nodes, &[("PEER", peer_timeout_ms), ("PEER_CONNECT", peer_timeout_ms)])
}

/// The same with these time-outs.
fn cluster_with(nodes: usize, timeouts: &[(&str, &str)]) -> (Network, Cluster) {
    let network = Network::of(nodes);
    let patience = |launch: crate::support::Launch| {
        timeouts.iter().fold(launch.flag("--threads", "1"), |launch, (name, timeout_ms)| {
            launch.env(&format!("LADOGA_{name}_TIMEOUT_MS"), timeout_ms)
        })
    };
    let launches = launches_at(nodes, Network::place);
    (network, Cluster::launch(launches.into_iter().map(patience).collect()))
}

/// Waits until every node has the same, and nothing waits to be delivered.
fn wait_until_all_are_the_same(cluster: &Cluster) {
    let own = |node: usize| cluster.connect(node).request("GET", "/v0/entities?start=k", None).records();
    let hints = |node: usize| {
        let nodes = cluster.report(node)["nodes"].as_array().expect("nodes").clone();
        nodes.iter().filter_map(|node| node["hints_waiting"].as_u64()).sum::<u64>()
    };
    wait_until("replicas that are the same", || {
        let first = own(0);
        (0..cluster.nodes.len()).all(|node| own(node) == first && hints(node) == 0)
    });
}

#[test]
fn a_minority_answers_504_and_the_majority_goes_on() {
    in_a_network_of_its_own("networks::a_minority_answers_504_and_the_majority_goes_on", || {
        let (network, cluster) = cluster_of(3, "5000");
        cluster.put(0, "key", "3/3", b"old");
        for round in 0..3 {
            network.isolate(2);
            for n in 0..20 {
                let value = format!("{round}-{n}");
                cluster.put(n % 2, "key", "2/3", value.as_bytes());
                assert_eq!(cluster.get((n + 1) % 2, "key", "2/3"), Some(value.into_bytes()));
            }
            // It answers an error instead of hanging, and answers what one node can.
            let refused = cluster.request(2, "PUT", "key-of-2", "2/3", Some(b"lonely"));
            assert_refusal(&refused, 504, "PUT 2/3 in the minority");
            assert_refusal(&cluster.request(2, "GET", "key", "2/3", None), 504, "GET 2/3 in the minority");
            assert!(cluster.get(2, "key", "1/3").is_some());
            if round == 0 {
                // What the others will not use again does not stay, though nothing is to be sent over it.
                // (Two more than the test's own, which may not be closed at once.)
                wait_until("no connections but those of the test", || {
                    cluster.nodes[2].metrics().sum("ladoga_connections", &[]) < Some(3.0)
                });
            }
            network.rejoin(2);
            // The first request that can succeed does, through either side.
            let value = format!("{round}-healed");
            cluster.put(if round == 1 { 2 } else { 0 }, "key", "3/3", value.as_bytes());
            for node in 0..3 {
                assert_eq!(cluster.get(node, "key", "3/3"), Some(value.clone().into_bytes()));
            }
        }
        wait_until_all_are_the_same(&cluster);
    });
}

#[test]
fn a_network_that_is_cut_one_way_holds_up_only_who_needs_it() {
    in_a_network_of_its_own("networks::a_network_that_is_cut_one_way_holds_up_only_who_needs_it", || {
        let (network, cluster) = cluster_of(3, "5000");
        cluster.put(0, "key", "3/3", b"old");
        for (from, to) in [(0, 2), (2, 0)] {
            network.cut(from, to);
            for node in 0..3 {
                let value = format!("{from}-{to}-{node}");
                cluster.put(node, "key", "2/3", value.as_bytes());
                assert_eq!(cluster.get((node + 1) % 3, "key", "2/3"), Some(value.into_bytes()));
            }
            // Both ends of the cut miss each other; the third node misses none.
            for node in [0, 2] {
                let refused = cluster.request(node, "PUT", "key", "3/3", Some(b"all"));
                assert_refusal(&refused, 504, "PUT 3/3 over a network that is cut one way");
            }
            cluster.put(1, "key", "3/3", b"through the third");
            network.heal(from, to);
            for node in 0..3 {
                cluster.put(node, "key", "3/3", b"healed");
            }
        }
        wait_until_all_are_the_same(&cluster);
    });
}

#[test]
fn a_cable_that_is_pulled_and_put_back_loses_nothing() {
    in_a_network_of_its_own("networks::a_cable_that_is_pulled_and_put_back_loses_nothing", || {
        let (network, mut cluster) = cluster_of(3, "8000");
        let mut acknowledged = Vec::new();
        for victim in 0..3 {
            network.plug(victim, false);
            for n in 0..10 {
                let key = format!("key{victim}-{n}");
                cluster.put((victim + 1 + n % 2) % 3, &key, "2/3", key.as_bytes());
                acknowledged.push(key);
            }
            network.plug(victim, true);
            cluster.put((victim + 1) % 3, "key", "3/3", b"back");
        }
        wait_until_all_are_the_same(&cluster);
        cluster.nodes[0].kill();
        for key in acknowledged {
            assert_eq!(cluster.get(1, &key, "2/3"), Some(key.clone().into_bytes()));
        }
    });
}

/// What was sent before the network healed is sent again after ever longer pauses, of seconds in the end, and as long it is
/// silent on that connection. (Requests that came after the healing were failed with those from before.)
#[test]
fn a_request_after_the_healing_does_not_wait_for_what_was_lost_before() {
    let name = "networks::a_request_after_the_healing_does_not_wait_for_what_was_lost_before";
    in_a_network_of_its_own(name, || {
        let (network, cluster) = cluster_of(3, "5000");
        cluster.put(0, "key", "3/3", b"old");
        let (mut rounds, mut stuck) = (0, 0);
        while stuck < 3 {
            assert!(rounds < 12, "{stuck} of {rounds} rounds had a connection that was stuck");
            network.isolate(2);
            let address = cluster.nodes[0].address();
            let early = thread::spawn(move || {
                Connection::open(address).request("PUT", &target("key", "3/3"), Some(b"early")).status
            });
            // Pauses of 0.2, 0.4, 0.8 and 1.6 seconds are over, and one of 3.2 begins. A machine that stands still then
            // may miss that until the connection is given up: the round tells nothing, and is made again.
            let is_stuck = wait_for("a connection that is stuck, or given up", || {
                let is_stuck = retransmissions(&cluster.nodes[0], &cluster.nodes[2]) >= 4;
                (is_stuck || early.is_finished()).then_some(is_stuck)
            });
            network.rejoin(2);
            (rounds, stuck) = (rounds + 1, stuck + usize::from(is_stuck));
            let value = format!("late{rounds}");
            cluster.put(0, "key", "3/3", value.as_bytes());
            let early = early.join().expect("a client");
            assert!(matches!(early, 201 | 504), "{early}");
        }
        wait_until_all_are_the_same(&cluster);
    });
}

/// The first packet of a connection that was lost is sent again after ever longer pauses as well. (Requests that came after
/// the healing waited for that, or for the end of the attempt.)
#[test]
fn a_request_after_the_healing_does_not_wait_for_a_connection_that_was_begun_before() {
    let name = "networks::a_request_after_the_healing_does_not_wait_for_a_connection_that_was_begun_before";
    in_a_network_of_its_own(name, || {
        let timeouts = [("PEER", "2000"), ("PEER_CONNECT", "60000"), ("QUORUM", "4000")];
        let (network, cluster) = cluster_with(3, &timeouts);
        // A machine that stands still for seconds may be too late once: if the product is, it is so each time.
        let is_healed_at_once = |_: usize| {
            wait_until("a write on all nodes", || {
                cluster.request(0, "PUT", "key", "3/3", Some(b"old")).status == 201
            });
            network.isolate(2);
            // The first finds the connection silent. The second begins another, whose first packet the system sends
            // again after 1, 2, 3, 4, 5, 7, 11 and 19 seconds. Three requests take twelve, and a fourth less than what
            // is left.
            for value in ["first", "second", "third", "fourth"] {
                let refused = cluster.request(0, "PUT", "key", "3/3", Some(value.as_bytes()));
                assert_refusal(&refused, 504, "PUT 3/3 over a network that is cut");
            }
            network.rejoin(2);
            let healed = cluster.request(0, "PUT", "key", "3/3", Some(b"healed"));
            assert!(matches!(healed.status, 201 | 504), "{healed:?}");
            healed.status == 201
        };
        assert!((0..3).any(is_healed_at_once), "a request after the healing was refused each time");
    });
}
