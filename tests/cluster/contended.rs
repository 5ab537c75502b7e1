//! Many clients change one key through all nodes, while these are killed, frozen and cut off from each other.
//!
//! `LADOGA_CONTENDED_SECONDS` and `LADOGA_CONTENDED_CLIENTS` say for how long, and how many of them add to one number.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, launches_at, target};
use crate::conditional::impatient;
use crate::support::{Connection, Launch, Network, Node, Random, in_a_network_of_its_own};

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

pub(crate) fn addresses(cluster: &Cluster) -> Vec<SocketAddr> {
    cluster.nodes.iter().map(Node::address).collect()
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

/// Has clients end, also if the test fails before it would tell them.
pub(crate) struct OverWhenDropped<'o>(pub(crate) &'o AtomicBool);

impl Drop for OverWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
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

/// What became of increments, as their clients were told.
#[derive(Default)]
pub(crate) struct Added {
    pub(crate) added: AtomicU64,
    unknown: AtomicU64,
    refused: AtomicU64,
}

impl Added {
    /// Adds to a key until it is over; a client that hears nothing goes on over another connection.
    pub(crate) fn add(&self, address: SocketAddr, target: &str, is_over: &AtomicBool) {
        let mut connection = None;
        while !is_over.load(Ordering::Relaxed) {
            let Some(open) = connection.as_mut() else {
                connection = Connection::try_open(address).ok();
                if connection.is_none() {
                    thread::sleep(Duration::from_millis(5));
                }
                continue;
            };
            match open.try_request("POST", &format!("{target}&increment=1"), None) {
                Ok(answer) => {
                    let count = match answer.status {
                        200 => &self.added,
                        504 if answer.text().contains("may have happened") => &self.unknown,
                        503 | 504 => &self.refused,
                        _ => panic!("{answer:?}"),
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                    if answer.closes() {
                        connection = None;
                    }
                }
                Err(_) => {
                    self.unknown.fetch_add(1, Ordering::Relaxed);
                    connection = None;
                }
            }
        }
    }

    #[track_caller]
    fn check(&self, cluster: &Cluster, key: &str, added_min: u64) {
        // A promise that its coordinator did not release keeps a repair out for as long as a request may take.
        let mut read = cluster.request(0, "GET", key, "3/3", None);
        for _ in 0..3 {
            if read.status == 504 {
                read = cluster.request(0, "GET", key, "3/3", None);
            }
        }
        assert_eq!(read.status, 200, "{read:?}");
        let sum: u64 = read.text().parse().expect("a number");
        let [added, unknown, refused] =
            [&self.added, &self.unknown, &self.refused].map(|count| count.load(Ordering::Relaxed));
        eprintln!("{added} added, {unknown} unknown, {refused} refused, the sum is {sum}");
        assert!(added >= added_min, "{added} were added, {unknown} unknown, {refused} refused");
        assert!(added <= sum && sum <= added + unknown, "{added} added, {unknown} unknown, the sum is {sum}");
    }
}

#[test]
fn many_add_to_one_number_while_nodes_are_killed_frozen_and_cut_off_and_none_is_lost_or_counted_twice() {
    let name = "contended::many_add_to_one_number_while_nodes_are_killed_frozen_and_cut_off_and_none_is_lost_or_counted_twice";
    in_a_network_of_its_own(name, || {
        let clients = setting("LADOGA_CONTENDED_CLIENTS", CLIENTS);
        let (network, mut cluster) = in_networks(3);
        let (addresses, target) = (addresses(&cluster), target("n", "2/3"));
        let (is_over, added) = (AtomicBool::new(false), Added::default());
        thread::scope(|scope| {
            for client in 0..clients as usize {
                let (address, target, added, is_over) = (addresses[client % 3], &target, &added, &is_over);
                scope.spawn(move || added.add(address, target, is_over));
            }
            let _over = OverWhenDropped(&is_over);
            disturb(&mut cluster, &network, Instant::now() + duration(), 1);
        });
        cluster.wait_until_all_answer();
        added.check(&cluster, "n", clients);
    });
}

#[test]
fn many_add_to_one_number_through_all_nodes_while_they_are_killed_and_frozen_and_none_is_lost_or_counted_twice()
 {
    const CLIENTS: usize = 24;
    let mut cluster = Cluster::launch(impatient());
    let (addresses, target) = (addresses(&cluster), target("n", "2/3"));
    let (is_over, added) = (AtomicBool::new(false), Added::default());
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (address, target, added, is_over) = (addresses[client % 3], &target, &added, &is_over);
            scope.spawn(move || added.add(address, target, is_over));
        }
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
        is_over.store(true, Ordering::Relaxed);
    });
    added.check(&cluster, "n", CLIENTS as u64);
}

/// The nodes do not outbid each other for ever.
#[test]
fn increments_through_all_nodes_go_on_while_nothing_happens_to_them() {
    const CLIENTS: usize = 12;
    let cluster = Cluster::start(3);
    let (addresses, target) = (addresses(&cluster), target("n", ""));
    let (is_over, added) = (AtomicBool::new(false), Added::default());
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (address, target, added, is_over) = (addresses[client % 3], &target, &added, &is_over);
            scope.spawn(move || added.add(address, target, is_over));
        }
        thread::sleep(Duration::from_secs(3));
        is_over.store(true, Ordering::Relaxed);
    });
    added.check(&cluster, "n", 30);
    let [added, unknown] = [&added.added, &added.unknown].map(|count| count.load(Ordering::Relaxed));
    assert!(unknown <= added, "{unknown} unknown, {added} added");
}
