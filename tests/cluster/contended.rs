//! Many clients change one key through all nodes, while these are killed, frozen and cut off from each other.
//!
//! `LADOGA_CONTENDED_SECONDS` and `LADOGA_CONTENDED_CLIENTS` say for how long, and how many of them add to one number.

use std::thread;
use std::time::{Duration, Instant};

use crate::adding::{Added, addresses};
use crate::cluster::{Cluster, launches_at};
use crate::conditional::impatient;
use crate::support::{Launch, Network, Random, in_a_network_of_its_own};

/// Unless the environment says otherwise.
const SECONDS: u64 = 6;
const CLIENTS: u64 = 16;

fn setting(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name} is '{text}', expected a number"))
}

/// How long nodes are disturbed.
pub(crate) fn duration() -> Duration {
    Duration::from_secs(setting("LADOGA_CONTENDED_SECONDS", SECONDS))
}

/// Nodes in a network each, which give up soon on what is cut off.
pub(crate) fn in_networks(nodes: usize) -> (Network, Cluster) {
    let network = Network::of(nodes);
    let with_timeouts = |launch: Launch| {
        let timeouts = [("PEER", "1000"), ("PEER_CONNECT", "1000"), ("QUORUM", "3000")];
        timeouts.into_iter().fold(launch, |launch, (name, timeout_ms)| {
            launch.env(&format!("LADOGA_{name}_TIMEOUT_MS"), timeout_ms)
        })
    };
    let launches = launches_at(nodes, Network::place);
    (network, Cluster::launch(launches.into_iter().map(with_timeouts).collect()))
}

/// Kills, freezes and cuts off one node after another until it is time. In the end, all is well again.
pub(crate) fn disturb(cluster: &mut Cluster, network: &Network, until: Instant, seed: u64) {
    let mut random = Random::new(seed);
    let mut pause = |ms_min: u64, ms_more: u64| {
        thread::sleep(Duration::from_millis(ms_min + random.below(ms_more)));
        random.next()
    };
    // One kind after the other, so that each comes, however slow the machine is.
    for round in 0.. {
        let dice = pause(150, 350);
        if Instant::now() >= until {
            return;
        }
        let nodes = cluster.nodes.len();
        let node = dice as usize % nodes;
        let other = (node + 1 + (dice >> 32) as usize % (nodes - 1)) % nodes;
        match round % 4 {
            0 => cluster.nodes[node].crash(),
            1 => {
                cluster.nodes[node].signal("STOP");
                pause(100, 700);
                cluster.nodes[node].signal("CONT");
            }
            2 => {
                network.cut(node, other);
                pause(300, 1_200);
                network.heal(node, other);
            }
            _ => {
                network.isolate(node);
                pause(300, 1_200);
                network.rejoin(node);
            }
        }
    }
}

#[test]
fn many_add_to_one_number_while_nodes_are_killed_frozen_and_cut_off_and_none_is_lost_or_counted_twice() {
    let name = "contended::many_add_to_one_number_while_nodes_are_killed_frozen_and_cut_off_and_none_is_lost_or_counted_twice";
    in_a_network_of_its_own(name, || {
        let clients = setting("LADOGA_CONTENDED_CLIENTS", CLIENTS);
        let (network, mut cluster) = in_networks(3);
        let (addresses, added) = (addresses(&cluster), Added::default());
        added.add_through(&addresses, ("n", "2/3"), clients as usize, || {
            disturb(&mut cluster, &network, Instant::now() + duration(), 1);
        });
        cluster.wait_until_all_answer();
        added.check(&cluster, ("n", "3/3"), clients);
    });
}

#[test]
fn many_add_to_one_number_through_all_nodes_while_they_are_killed_and_frozen_and_none_is_lost_or_counted_twice()
 {
    const CLIENTS: usize = 24;
    let mut cluster = Cluster::launch(impatient());
    let (addresses, added) = (addresses(&cluster), Added::default());
    added.add_through(&addresses, ("n", "2/3"), CLIENTS, || {
        for round in 0..6 {
            thread::sleep(Duration::from_millis(500));
            let node = &mut cluster.nodes[round % 3];
            if round % 2 == 0 {
                node.crash();
            } else {
                node.signal("STOP");
                thread::sleep(Duration::from_millis(400));
                node.signal("CONT");
            }
        }
        thread::sleep(Duration::from_millis(500));
    });
    added.check(&cluster, ("n", "3/3"), CLIENTS as u64);
}

/// The nodes do not outbid each other for ever.
#[test]
fn increments_through_all_nodes_go_on_while_nothing_happens_to_them() {
    const CLIENTS: usize = 12;
    let cluster = Cluster::start(3);
    let added = Added::default();
    added.add_through(&addresses(&cluster), ("n", ""), CLIENTS, || thread::sleep(Duration::from_secs(3)));
    added.check(&cluster, ("n", "3/3"), 30);
    let [added, unknown, _] = added.figures();
    assert!(unknown <= added, "{unknown} unknown, {added} added");
}
