use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use ladoga_cassandra_nodes::{CommitLogSync, Nodes, Setup};

use crate::support::{Connection, Launch, Node, cassandra, entity, on_cassandra, wait_for, wait_until};

/// Writers, each with keys of its own.
const WRITERS: usize = 3;
/// So many writes have to be acknowledged before the next thing goes wrong, and so show that doors go on.
const WRITES: usize = 60;

/// A door to three nodes, all of which know each other by now.
fn door(nodes: &Nodes, writes: &str) -> Node {
    door_with(nodes, |launch| launch.flag("--cassandra-writes", writes))
}

/// The same, changed.
pub(crate) fn door_with(nodes: &Nodes, change: impl Fn(Launch) -> Launch) -> Node {
    // What it refused is printed if all attempts are in vain.
    let mut refused = None;
    wait_for("nodes that know each other", || {
        let launch = on_cassandra(Launch::embedded(), &nodes.addresses(), 3)
            .flag("--fsync", "always")
            .env("LADOGA_QUORUM_TIMEOUT_MS", "5000");
        let mut door = change(launch).spawn();
        wait_until("a door that serves or has ended", || door.has_ended() || serves(&door));
        if door.has_ended() {
            refused = Some(door);
            return None;
        }
        Some(door)
    })
}

pub(crate) fn serves(door: &Node) -> bool {
    let connection = Connection::try_open(door.address());
    connection
        .and_then(|mut connection| connection.try_request("GET", "/readyz", None))
        .is_ok_and(|answer| answer.status == 200)
}

/// What was acknowledged: keys, whose value is the key again.
type Acknowledged = Arc<Mutex<Vec<String>>>;

fn write_on(door: SocketAddr, writer: usize, stop: &AtomicBool, acknowledged: &Acknowledged) {
    let mut connection = Connection::open(door);
    for count in 0.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let key = format!("{writer}-{count:06}");
        let target = format!("{}&replicas=2/3", entity(&key));
        let written = connection.request("PUT", &target, Some(key.as_bytes()));
        match written.status {
            201 => {}
            503 | 504 => continue,
            other => panic!("{other} for PUT: {}", written.text()),
        }
        acknowledged.lock().expect("no panic").push(key.clone());
        let read = connection.request("GET", &target, None);
        match read.status {
            200 => assert_eq!(read.text(), key),
            503 | 504 => {}
            other => panic!("{other} for GET of what was acknowledged: {}", read.text()),
        }
    }
}

#[test]
fn what_a_majority_acknowledged_stays_whatever_becomes_of_the_nodes() {
    let Some(mut nodes) = cassandra(3, Setup::open(CommitLogSync::Batch)) else { return };
    let door = door(&nodes, "plain");
    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Acknowledged::default());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (stop, acknowledged, door) = (Arc::clone(&stop), Arc::clone(&acknowledged), door.address());
            thread::spawn(move || write_on(door, writer, &stop, &acknowledged))
        })
        .collect();
    let more_are_acknowledged = |when: &str| {
        let before = acknowledged.lock().expect("no panic").len();
        wait_until(when, || acknowledged.lock().expect("no panic").len() >= before + WRITES);
    };
    more_are_acknowledged("writes to three nodes");
    nodes.node(2).freeze();
    more_are_acknowledged("writes while a node is frozen");
    nodes.node(2).thaw();
    nodes.node(1).kill();
    more_are_acknowledged("writes while a node is dead");
    nodes.node(1).spawn().expect("a node that starts");
    nodes.node(1).wait_until_it_answers();
    nodes.crash().expect("nodes that start");
    more_are_acknowledged("writes after all nodes were killed and started again");
    let twice = door.metrics().sum("ladoga_cassandra_speculative_total", &[]);
    assert!(twice > Some(0.0), "what a frozen node was asked, another one was asked as well");
    stop.store(true, Ordering::Release);
    for writer in writers {
        writer.join().expect("a writer that saw nothing wrong");
    }
    let mut connection = door.connect();
    let acknowledged = std::mem::take(&mut *acknowledged.lock().expect("no panic"));
    for key in acknowledged {
        let target = format!("{}&replicas=2/3", entity(&key));
        let read = wait_for("a majority", || {
            let read = connection.request("GET", &target, None);
            (!matches!(read.status, 503 | 504)).then_some(read)
        });
        assert_eq!((read.status, read.text()), (200, key.as_str()), "it was acknowledged");
    }
}

/// It was `503`, and that no node could be reached.
#[test]
fn too_few_copies_are_told_as_that_although_the_next_nodes_are_dead() {
    let Some(mut nodes) = cassandra(3, Setup::open(CommitLogSync::Batch)) else { return };
    let door = door(&nodes, "plain");
    let target = |number: usize| format!("{}&replicas=2/3", entity(format!("key{number}")));
    let mut connection = door.connect();
    assert_eq!(connection.request("PUT", &target(0), Some(b"value")).status, 201);
    nodes.node(1).kill();
    nodes.node(2).kill();
    // Until the one that is left knows, and says so at once.
    wait_until("that two nodes are known to be dead", || {
        let read = connection.request("GET", &target(0), None);
        assert!(matches!(read.status, 503 | 504), "{read:?}");
        read.text().contains("are alive")
    });
    // Whichever node the driver would ask first.
    for number in 0..20 {
        for (method, body) in [("GET", None), ("PUT", Some(&b"other"[..]))] {
            let refused = connection.request(method, &target(number), body);
            assert_eq!(refused.status, 504, "{refused:?}");
            assert!(refused.text().contains("1 of the 2 replicas that it needs are alive"), "{refused:?}");
        }
    }
}
