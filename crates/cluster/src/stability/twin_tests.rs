//! A second process that runs as a node, with another directory or with a copy of the node's.

use super::directory_tests::{in_session, open};
use super::*;

/// A round in which the others hear the twin of node 1, and it hears them.
fn talk_as_1(cluster: &mut Cluster, twin: &mut StabilityTracker) {
    twin.persisted(twin.durable().clone());
    for other in [0, 2] {
        cluster.nodes[other].heard(NodeId(1), twin.statement(cluster.clock, 0));
    }
    cluster.persist();
    for other in [0, 2] {
        twin.heard(NodeId(other), cluster.nodes[usize::from(other)].statement(cluster.clock, 0));
    }
    twin.persisted(twin.durable().clone());
}

fn with_a_new_directory(session: u64) -> StabilityTracker {
    let opening = Opening { session, random: 600 + session, ..Opening::default() };
    StabilityTracker::new(NodeId(1), 3, Err(first(70))).opened(opening)
}

#[track_caller]
fn assert_is_rebuilt(cluster: &mut Cluster) {
    assert!(!cluster.nodes[1].is_whole(), "another process may have acknowledged writes");
    assert!(cluster.nodes[1].regression().is_some_and(|regression| regression.is_by_another_process));
    assert_eq!(cluster.pull(1), Some(u64::MAX));
    cluster.talk();
    assert!(cluster.nodes.iter().all(StabilityTracker::is_whole));
    assert_eq!(cluster.nodes[1].displaced_at(), None);
    let heard = cluster.nodes[0].heard[1].as_ref().expect("it goes on");
    assert_eq!(heard.incarnation, cluster.nodes[1].persisted.incarnation);
}

/// Its peers ignored all that it said, as what came too late from a process that had ended; it waited for them for ever.
#[test]
fn a_process_is_rebuilt_after_another_one_ran_as_its_node() {
    let mut cluster = in_session(3);
    // Whoever comes is told from the process, also a second time.
    for session in [21, 22] {
        let mut twin = with_a_new_directory(session);
        (0..3).for_each(|_| talk_as_1(&mut cluster, &mut twin));
        cluster.talk();
        assert_is_rebuilt(&mut cluster);
    }
}

/// It doubted what was older than its own start: it vouched that it had nothing newer than a write, although the other process had
/// acknowledged some.
#[test]
fn a_process_doubts_all_that_another_one_may_have_acknowledged_as_its_node() {
    let mut cluster = in_session(3);
    cluster.tick(HOUR / SECOND);
    let mut twin = with_a_new_directory(21);
    (0..3).for_each(|_| talk_as_1(&mut cluster, &mut twin));
    // It goes on until the others hear the first one again.
    let said = [0, 2].map(|other| (other, cluster.nodes[usize::from(other)].statement(cluster.clock, 0)));
    cluster.clock += SECOND;
    let acknowledged = Version { timestamp: cluster.clock, node: 0 };
    for (other, statement) in said {
        cluster.nodes[1].heard(NodeId(other), statement);
    }
    assert!(!cluster.nodes[1].is_whole() && cluster.nodes[1].lost_before().is_none());
    assert_eq!(cluster.nodes[1].doubt(acknowledged), Err(Refusal::Rebuilding));
    cluster.talk();
    cluster.talk();
    assert!(!cluster.nodes[1].is_whole());
    let doubted =
        |timestamp| cluster.nodes[1].doubt(Version { timestamp, node: 0 }).map(|newer| newer.is_some());
    assert_eq!(doubted(acknowledged.timestamp), Ok(true));
    assert_eq!(doubted(acknowledged.timestamp + 1), Ok(false), "nobody has given that out");
    assert_is_rebuilt(&mut cluster);
    assert!(
        cluster.nodes[1].lost_before() >= Some(acknowledged.timestamp),
        "what it had is known of what is newer"
    );
}

/// An older state of the same directory is not judged by its incarnation.
#[test]
fn a_process_is_rebuilt_after_a_copy_of_its_directory_was_used() {
    let mut cluster = in_session(3);
    let mut twin = open(&cluster.nodes[1], 21, 0, true);
    cluster.tick(20);
    (0..3).for_each(|_| talk_as_1(&mut cluster, &mut twin));
    cluster.talk();
    assert_is_rebuilt(&mut cluster);
}

#[test]
fn of_two_processes_of_a_node_that_go_on_one_stays() {
    let mut cluster = in_session(3);
    let mut twin = with_a_new_directory(21);
    for _ in 0..3 {
        talk_as_1(&mut cluster, &mut twin);
        cluster.talk();
    }
    let named = [twin.persisted.incarnation, cluster.nodes[1].persisted.incarnation];
    for _ in 0..20 {
        talk_as_1(&mut cluster, &mut twin);
        cluster.talk();
        assert_eq!([twin.persisted.incarnation, cluster.nodes[1].persisted.incarnation], named);
    }
    assert!(twin.displaced_at().is_some() && !twin.may_coordinate() && !twin.is_whole());
    assert_eq!(twin.pass(), None);
    assert_is_rebuilt(&mut cluster);
}

/// What a process says arrives on several connections: so a peer may hear its second session before the last of the first one.
#[test]
fn what_a_process_said_before_its_new_session_comes_too_late() {
    let mut cluster = in_session(3);
    let of_before = cluster.nodes[1].statement(cluster.clock, 0);
    let mut twin = with_a_new_directory(21);
    (0..3).for_each(|_| talk_as_1(&mut cluster, &mut twin));
    cluster.talk();
    cluster.nodes[0].heard(NodeId(1), of_before.clone());
    assert_is_rebuilt(&mut cluster);
    let durable = cluster.nodes[0].persisted.clone();
    cluster.nodes[0] =
        StabilityTracker::new(NodeId(0), 3, Ok(durable)).opened(Opening { session: 9, ..Opening::default() });
    cluster.nodes[0].heard(NodeId(1), of_before);
    cluster.talk();
    assert!(cluster.nodes.iter().all(|node| node.is_whole() && node.displaced_at().is_none()));
}
