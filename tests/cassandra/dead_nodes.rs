use std::thread;
use std::time::Duration;

use ladoga_cassandra_nodes::{CommitLogSync, Nodes, Setup};

use crate::cql::{Cql, replication};
use crate::quorum::{door_with, serves};
use crate::support::{
    Connection, Launch, Node, cassandra, entity, on_cassandra, value, wait_for, wait_until,
};

/// In one test: nodes take long to start.
#[test]
fn what_nodes_that_die_have_a_part_in_is_neither_lost_nor_denied() {
    let Some(mut nodes) = cassandra(3, Setup::open(CommitLogSync::Batch)) else { return };
    doors_that_start_at_the_same_moment(&nodes);
    pieces_are_swept_that_this_door_knows_nothing_of(&nodes);
    what_was_agreed_on_may_have_happened(&mut nodes);
    nodes.node(2).spawn().expect("a node that starts");
    nodes.node(2).wait_until_it_answers();
    pieces_stay_while_a_copy_of_their_row_is_away(&mut nodes);
}

/// Each makes the keyspace.
fn doors_that_start_at_the_same_moment(nodes: &Nodes) {
    const DOORS: usize = 3;
    // The nodes know each other then.
    drop(door_with(nodes, |launch| launch));
    let launch =
        || on_cassandra(Launch::embedded(), &nodes.addresses(), 3).flag("--cassandra-keyspace", "at_once");
    let mut doors: Vec<Node> = (0..DOORS).map(|_| launch().spawn()).collect();
    for door in &mut doors {
        wait_until("a door that serves", || {
            assert!(!door.has_ended(), "it ended instead of serving: {}", door.log());
            serves(door)
        });
    }
    for (number, door) in doors.iter().enumerate() {
        let target = format!("{}&replicas=2/3", entity(format!("key{number}")));
        wait_until("a write", || door.connect().request("PUT", &target, Some(b"value")).status == 201);
        for other in &doors {
            assert_eq!(other.connect().request("GET", &target, None).text(), "value");
        }
    }
}

/// Only requests with this number of copies made a door look there. Then it made tables in keyspaces that somebody else was about to make.
fn pieces_are_swept_that_this_door_knows_nothing_of(nodes: &Nodes) {
    let small = |launch: Launch| launch.flag("--cassandra-keyspace", "small");
    let target = format!("{}&replicas=1/1", entity("key"));
    let mut door = door_with(nodes, small);
    // Its keyspace is made by the first of them, which may take longer than a request waits.
    let bytes = value(1, 1 << 20);
    wait_until("a keyspace", || door.connect().request("PUT", &target, Some(&bytes)).status == 201);
    assert_eq!(door.connect().request("DELETE", &target, None).status, 202);
    door.stop();
    let cql = Cql::to(&nodes.addresses());
    cql.run(&[&format!("CREATE KEYSPACE small_rf2 {}", replication(2))]);
    let door = door_with(nodes, |launch| small(launch).env("LADOGA_CASSANDRA_PIECES_KEEP_MS", "200"));
    wait_until("the pieces that are removed", || metric(&door, "pieces_swept") == 1);
    cql.run(&["CREATE TABLE small_rf2.meta (id text PRIMARY KEY)"]);
}

fn metric(door: &Node, name: &str) -> u64 {
    door.metrics().sum(&format!("ladoga_cassandra_{name}_total"), &[]).expect(name) as u64
}

/// Two are enough to agree on an increment, and all three were to be told of it: it was answered as one that had not happened, and who
/// repeated it added twice.
fn what_was_agreed_on_may_have_happened(nodes: &mut Nodes) {
    let door = door_with(nodes, |launch| launch.flag("--cassandra-writes", "lwt"));
    let add = |replicas: &str| {
        let target = format!("{}&increment=1&replicas={replicas}", entity("number"));
        door.connect().request("POST", &target, None)
    };
    assert_eq!(add("3/3").text(), "1");
    nodes.node(2).kill();
    // Until that is known, it is waited for.
    let refused = wait_for("that a node is known to be dead", || {
        let answer = add("3/3");
        answer.text().contains("2 of the 3 replicas that it needs are alive").then_some(answer)
    });
    assert_eq!(refused.status, 504, "{refused:?}");
    assert!(refused.text().contains("; the write may have happened"), "{refused:?}");
    // On a machine that is busy they take longer than they may.
    let read = || door.connect().request("GET", &entity("number"), None);
    let before: u64 = wait_for("a read that is in time", || read().text().parse().ok());
    let after: u64 = wait_for("an increment that is in time", || add("2/3").text().parse().ok());
    assert!(after >= before + 2, "{after} after {before}: what was refused has happened all the same");
}

/// A value whose first part is sent.
fn begin(door: &Node, key: &str, replicas: &str, first: &[u8], length: usize) -> Connection {
    let mut connection = door.connect();
    let target = format!("{}&replicas={replicas}", entity(key));
    connection.send(format!("PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n"));
    connection.send(first);
    connection
}

/// The row of a value was on one node only, and that one was away when doors looked for what names the pieces: they were removed. Doors
/// with lightweight transactions did so for longer: they asked a majority, though there may be rows from before.
fn pieces_stay_while_a_copy_of_their_row_is_away(nodes: &mut Nodes) {
    const PIECES_MIN: u64 = 6;
    let plain = |launch: Launch| launch.flag("--cassandra-keyspace", "swept");
    let mut door = door_with(nodes, plain);
    let bytes = value(1, 2 << 20);
    let (first, rest) = bytes.split_at(1 << 20);
    let before = metric(&door, "statements");
    let mut stored = begin(&door, "stored", "1/3", first, bytes.len());
    let mut refused = begin(&door, "refused", "2/3", first, bytes.len());
    wait_until("the first pieces", || metric(&door, "statements") >= before + PIECES_MIN);
    // For the nodes that were not waited for.
    thread::sleep(Duration::from_secs(1));
    nodes.node(1).kill();
    nodes.node(2).kill();
    stored.send(rest);
    let stored = stored.response();
    assert_eq!(stored.status, 201, "{stored:?}");
    refused.send(rest);
    let refused = refused.response();
    assert_eq!(refused.status, 504, "too few for a piece: it was 503: {refused:?}");
    door.stop();
    drop(door);
    nodes.node(0).kill();
    for node in [1, 2] {
        nodes.node(node).spawn().expect("a node that starts");
        nodes.node(node).wait_until_it_answers();
    }
    // A majority has to do here.
    Cql::to(&nodes.addresses()).run(&["UPDATE swept_rf3.meta SET writes = 'lwt' WHERE id = 'ladoga'"]);
    let lwt = |launch| plain(launch).flag("--cassandra-writes", "lwt");
    let door = door_with(nodes, |launch| lwt(launch).env("LADOGA_CASSANDRA_PIECES_KEEP_MS", "200"));
    wait_until("pieces that cannot be removed", || metric(&door, "failures") >= 4);
    assert_eq!(metric(&door, "pieces_swept"), 0);
    nodes.node(0).spawn().expect("a node that starts");
    nodes.node(0).wait_until_it_answers();
    wait_until("the pieces that are removed", || metric(&door, "pieces_swept") >= 1);
    let target = format!("{}&replicas=3/3", entity("stored"));
    wait_until("the value that is there", || door.connect().request("GET", &target, None).body == bytes);
    assert_eq!(metric(&door, "pieces_swept"), 1, "of what was refused");
}
