//! Directories that are older than what their node acknowledged, copies of others, or new once more.

use super::*;

/// A process that opens the directory of a node.
pub(super) fn open(
    of: &StabilityTracker,
    session: u64,
    written: u64,
    is_unverified: bool,
) -> StabilityTracker {
    let opening = Opening { session, random: 1000 + session, written, is_unverified, ..Opening::default() };
    StabilityTracker::new(of.me, of.heard.len(), Ok(of.persisted.clone())).opened(opening)
}

/// A cluster of which each node is in its first session, and knows the others.
pub(super) fn in_session(count: usize) -> Cluster {
    let mut cluster = Cluster::new(count);
    for n in 0..count {
        let opening = Opening { session: n as u64 + 1, random: 500, ..Opening::default() };
        cluster.nodes[n] =
            StabilityTracker::new(NodeId(n as u16), count, Err(first(n as u64 + 1))).opened(opening);
    }
    cluster.tick(1);
    cluster.talk();
    assert!(cluster.nodes.iter().all(StabilityTracker::is_whole));
    cluster
}

/// Each of three nodes learns from the others that it lacks something, and pulls it.
#[track_caller]
pub(super) fn assert_become_whole_by_each_other(cluster: &mut Cluster) {
    cluster.talk();
    cluster.talk();
    assert!(cluster.nodes.iter().all(|node| !node.is_whole() && node.may_coordinate()));
    for node in 0..3 {
        assert_eq!(cluster.pull(node), Some(u64::MAX));
    }
    cluster.talk();
    assert!(cluster.nodes.iter().all(StabilityTracker::is_whole));
}

#[test]
fn an_older_state_is_known_by_what_peers_remember() {
    let mut cluster = in_session(3);
    let older = open(&cluster.nodes[1], 11, 0, false);
    cluster.nodes[1] = open(&cluster.nodes[1], 12, 0, false);
    cluster.tick(1);
    cluster.talk();
    assert!(cluster.nodes.iter().all(StabilityTracker::is_whole), "a restart is no loss");
    let given = cluster.nodes[1].persisted.reserved_before;
    cluster.nodes[1] = older;
    assert!(cluster.nodes[1].is_whole(), "it cannot know yet");
    let statement = cluster.nodes[0].statement(cluster.clock, 0);
    cluster.nodes[1].heard(NodeId(0), statement);
    let node = &cluster.nodes[1];
    assert!(!node.is_whole() && node.has_lost_data() && node.hides_cells(), "at once");
    assert_eq!(node.regression().map(|regression| regression.peer), Some(NodeId(0)));
    assert!(
        !node.statement(1, 0).is_whole && node.statement(1, 0).incarnation == first(2),
        "not before it is on disk"
    );
    cluster.talk();
    cluster.talk();
    let node = &cluster.nodes[1];
    assert!(!node.is_whole() && node.may_coordinate() && node.persisted.incarnation == first(2).next(1011));
    assert!(node.persisted.reserved_before >= given, "what was given out is not given out again");
    assert_eq!(cluster.pull(1), Some(u64::MAX));
    assert!(cluster.nodes[1].is_whole() && !cluster.nodes[1].hides_cells());
    // And again: an earlier regression does not count against what comes later.
    cluster.nodes[1] = open(&cluster.nodes[1], 13, 0, false);
    cluster.talk();
    assert!(cluster.nodes[1].is_whole());
}

#[test]
fn an_incarnation_is_not_judged_by_the_memory_of_the_one_before() {
    let mut cluster = in_session(3);
    let older = open(&cluster.nodes[1], 11, 0, false);
    cluster.nodes[1] = open(&cluster.nodes[1], 12, 0, false);
    cluster.tick(1);
    cluster.talk();
    cluster.nodes[0].acknowledged(NodeId(1), 100);
    cluster.nodes[1] = older;
    cluster.talk();
    cluster.talk();
    assert!(
        cluster.nodes[1].regression().is_some()
            && cluster.nodes[1].persisted.incarnation == first(2).next(1011)
    );
    // The others crash, and remember only what is on their disks.
    for n in [0, 2] {
        cluster.nodes[n] = open(&cluster.nodes[n], 20 + n as u64, 0, false);
    }
    cluster.nodes[1] = open(&cluster.nodes[1], 30, 0, false);
    cluster.talk();
    cluster.talk();
    assert_eq!(cluster.nodes[1].regression(), None);
    assert_eq!(cluster.pull(1), Some(u64::MAX));
    assert!(cluster.nodes[1].is_whole());
}

#[test]
fn a_write_that_was_acknowledged_and_is_not_there_is_missed() {
    for (written, is_there) in [(99, false), (100, true), (101, true)] {
        let mut cluster = in_session(3);
        cluster.nodes[0].acknowledged(NodeId(1), 100);
        cluster.nodes[1] = open(&cluster.nodes[1], 12, written, false);
        cluster.talk();
        assert_eq!(cluster.nodes[1].is_whole(), is_there, "{written}");
        // Writes that it coordinated itself are in its report.
        let mut cluster = in_session(3);
        cluster.nodes[1].acknowledged(NodeId(1), 100);
        cluster.talk();
        cluster.nodes[1] = open(&cluster.nodes[1], 12, written, false);
        cluster.talk();
        assert_eq!(cluster.nodes[1].is_whole(), is_there, "{written}");
    }
}

#[test]
fn what_is_acknowledged_in_a_session_is_not_held_against_it() {
    let mut cluster = in_session(3);
    cluster.nodes[1] = open(&cluster.nodes[1], 12, 50, false);
    cluster.talk();
    cluster.nodes[0].acknowledged(NodeId(1), 100);
    cluster.talk();
    cluster.nodes[2] = open(&cluster.nodes[2], 13, 0, false);
    cluster.talk();
    assert!(cluster.nodes.iter().all(StabilityTracker::is_whole));
    // A statement of an ended session comes too late.
    let mut late = cluster.nodes[1].statement(cluster.clock, 0);
    late.session = 2;
    cluster.nodes[0].heard(NodeId(1), late);
    cluster.talk();
    assert!(cluster.nodes.iter().all(StabilityTracker::is_whole));
}

#[test]
fn a_copied_directory_does_not_vouch_before_all_were_heard() {
    let mut cluster = in_session(3);
    cluster.nodes[1] = open(&cluster.nodes[1], 12, 0, true);
    cluster.up[2] = false;
    cluster.talk();
    let node = &cluster.nodes[1];
    assert!(!node.is_whole() && !node.may_coordinate() && node.hides_cells() && !node.has_lost_data());
    let version = Version { timestamp: cluster.clock, node: 0 };
    assert_eq!(node.doubt(version), Err(Refusal::Starting));
    cluster.up[2] = true;
    cluster.talk();
    assert!(cluster.nodes[1].is_whole() && !cluster.nodes[1].is_unverified());
    let alone = StabilityTracker::new(NodeId(0), 1, Err(first(1)));
    assert!(!open(&alone, 2, 0, true).is_unverified(), "there is nobody to ask");
}

/// The power failed everywhere, and syncs were left to the system: each remembers what each other lacks.
#[test]
fn nodes_that_all_lost_something_become_whole_by_each_other() {
    let mut cluster = in_session(3);
    for node in 0..3 {
        for other in (0..3).filter(|&other| other != node) {
            cluster.nodes[node].acknowledged(NodeId(other as u16), 100);
        }
    }
    cluster.tick(20); // What is remembered is written.
    for node in 0..3 {
        cluster.nodes[node] = open(&cluster.nodes[node], 20 + node as u64, 90, false);
    }
    assert_become_whole_by_each_other(&mut cluster);
}

#[test]
fn those_that_know_what_was_deleted_are_pulled_from_last() {
    let mut cluster = in_session(3);
    cluster.tick(120);
    cluster.tick(1);
    for node in 0..3 {
        cluster.pull(node);
    }
    cluster.talk();
    let synced_before = cluster.nodes[2].persisted.synced_before;
    assert!(synced_before > 0);
    assert_eq!(cluster.nodes[1].prune_before(NodeId(2)), 0, "it has all");
    let copy = |n: u64| Ok(Durable::of_a_copy(first(70 + n), None));
    for n in [0, 1] {
        let opening = Opening { session: 30 + n, random: 90, ..Opening::default() };
        cluster.nodes[n as usize] = StabilityTracker::new(NodeId(n as u16), 3, copy(n)).opened(opening);
    }
    // Until all say that they know that it lost everything.
    (0..3).for_each(|_| cluster.talk());
    let node = &mut cluster.nodes[1];
    let peers = &node.pass().expect("everything is to be pulled").peers;
    assert_eq!(*peers, [NodeId(0), NodeId(2)]);
    assert_eq!((node.prune_before(NodeId(0)), node.prune_before(NodeId(2))), (0, synced_before));
}

/// Which was decided for each peer as its turn came. A node with an empty disk took what was deleted from one that copied an older
/// directory, and by the time it asked the one that knows better, the other was whole: so it kept that for good.
#[test]
fn what_was_deleted_is_looked_for_although_the_peer_that_had_it_is_whole_by_now() {
    let mut cluster = in_session(3);
    cluster.tick(120);
    cluster.tick(1);
    (0..3).for_each(|node| _ = cluster.pull(node));
    cluster.talk();
    let synced_before = cluster.nodes[2].persisted.synced_before;
    let opening = |session| Opening { session, random: 90, ..Opening::default() };
    let copy = Ok(Durable::of_a_copy(first(70), None));
    cluster.nodes[0] = StabilityTracker::new(NodeId(0), 3, copy).opened(opening(30));
    cluster.nodes[1] = StabilityTracker::new(NodeId(1), 3, Err(first(71))).opened(opening(31));
    (0..3).for_each(|_| cluster.talk());
    let round = cluster.nodes[1].pass().expect("everything is to be pulled").clone();
    assert!(round.peers == [NodeId(0), NodeId(2)] && round.prunes);
    cluster.nodes[1].pulled(round.number, NodeId(0));
    cluster.pull(0);
    cluster.talk();
    assert!(cluster.nodes[0].is_whole() && synced_before > 0);
    assert_eq!(cluster.nodes[1].pass().map(|round| round.number), Some(round.number));
    assert_eq!(cluster.nodes[1].prune_before(NodeId(2)), synced_before);
}

#[test]
fn nothing_becomes_stable_while_a_peer_is_not_whole() {
    let mut cluster = in_session(3);
    cluster.nodes[1] = StabilityTracker::new(NodeId(1), 3, Err(first(77)));
    (0..3).for_each(|_| cluster.talk());
    cluster.tick(120);
    cluster.tick(1);
    assert_eq!(cluster.nodes[0].pass(), None);
    cluster.pull(1);
    cluster.talk();
    assert!(cluster.nodes[0].pass().is_some_and(|round| round.before > HOUR && !round.prunes));
}

/// It has the same incarnation still, and turns out to be an older directory or not.
#[test]
fn a_round_is_void_when_a_peer_is_no_longer_whole() {
    let mut cluster = in_session(3);
    cluster.tick(120);
    cluster.tick(1);
    let round = cluster.nodes[0].pass().expect("there is something new").clone();
    cluster.nodes[0].pulled(round.number, NodeId(2));
    cluster.nodes[1] = open(&cluster.nodes[1], 12, 0, true);
    cluster.talk();
    cluster.nodes[0].pulled(round.number, NodeId(1));
    assert_eq!(cluster.nodes[0].durable().synced_before, 0);
}

/// A cluster in which the directory of node 1 was older once and has been rebuilt; and that node with a state of its
/// directory from before.
fn rebuilt() -> (Cluster, StabilityTracker) {
    let mut cluster = in_session(3);
    let (older, oldest) = (open(&cluster.nodes[1], 11, 0, false), open(&cluster.nodes[1], 21, 0, false));
    cluster.nodes[1] = open(&cluster.nodes[1], 12, 0, false);
    cluster.tick(1);
    cluster.nodes[1] = older;
    cluster.talk();
    cluster.pull(1);
    cluster.talk();
    assert!(cluster.nodes.iter().all(StabilityTracker::is_whole));
    (cluster, oldest)
}

/// The peer took the older directory for yet another new one, and forgot what it remembered. (Found by the simulation, seed 18
/// with the bug `DropTombstonesByTime`.)
#[test]
fn a_state_from_before_the_directory_was_replaced_is_known_by_its_incarnation() {
    let (mut cluster, older) = rebuilt();
    let Durable { incarnation: last, reserved_before: given, .. } = cluster.nodes[1].persisted;
    cluster.nodes[1] = older;
    let statement = cluster.nodes[1].statement(cluster.clock, 0);
    cluster.nodes[0].heard(NodeId(1), statement);
    assert_eq!(cluster.nodes[0].next.met[1].incarnation, last, "a peer does not go back");
    assert!(!cluster.nodes[0].is_whole_peer(NodeId(1)), "it is not taken at its word");
    let statement = cluster.nodes[0].statement(cluster.clock, 0);
    cluster.nodes[1].heard(NodeId(0), statement);
    let node = &cluster.nodes[1];
    assert!(!node.is_whole() && node.has_lost_data() && node.hides_cells(), "at once");
    cluster.talk();
    cluster.talk();
    let Durable { incarnation, reserved_before, .. } = cluster.nodes[1].persisted;
    assert!(incarnation.comes_after(last) && reserved_before >= given);
    assert_eq!(cluster.nodes[0].next.met[1].incarnation, incarnation);
    assert_eq!(cluster.pull(1), Some(u64::MAX));
    cluster.talk();
    assert!(cluster.nodes.iter().all(StabilityTracker::is_whole));
}

#[test]
fn a_peer_that_was_rolled_back_itself_does_not_make_a_node_doubt() {
    let (mut cluster, _) = rebuilt();
    let incarnation = cluster.nodes[1].persisted.incarnation;
    // As it was before it met that.
    cluster.nodes[0].persisted.met[1] = Acquaintance { incarnation: first(2), is_replacement: false };
    cluster.nodes[0].persisted.remembered[1].before = Reach { written: 0, reserved: u64::MAX };
    cluster.nodes[0] = open(&cluster.nodes[0], 31, 0, false);
    cluster.talk();
    assert!(cluster.nodes[1].is_whole() && cluster.nodes[1].persisted.incarnation == incarnation);
    assert_eq!(cluster.nodes[0].next.met[1].incarnation, incarnation);
}

/// Each knows a later directory of the other: still each has to learn what the other knows of it.
#[test]
fn nodes_that_are_all_older_than_what_the_others_met_become_whole_by_each_other() {
    let mut cluster = in_session(3);
    for node in 0..3 {
        for other in (0..3).filter(|&other| other != node) {
            let incarnation = cluster.nodes[other].persisted.incarnation.next(50 + other as u64);
            cluster.nodes[node].persisted.met[other] = Acquaintance { incarnation, is_replacement: true };
        }
        cluster.nodes[node] = open(&cluster.nodes[node], 20 + node as u64, 90, false);
    }
    assert_become_whole_by_each_other(&mut cluster);
}

/// Whichever of the two random numbers is the greater one.
#[test]
fn a_new_directory_takes_an_incarnation_after_the_one_that_was_lost() {
    for random in [0, 77] {
        let mut cluster = in_session(3);
        cluster.nodes[1] = StabilityTracker::new(NodeId(1), 3, Err(first(random)));
        cluster.talk();
        cluster.talk();
        let incarnation = cluster.nodes[1].persisted.incarnation;
        assert!(incarnation.comes_after(first(2)) && cluster.nodes[1].regression().is_none());
        assert!(!cluster.nodes[1].hides_cells(), "it had none");
        let met = Acquaintance { incarnation, is_replacement: true };
        assert_eq!(cluster.nodes[0].persisted.met[1], met);
        assert_eq!(cluster.pull(1), Some(u64::MAX));
        assert!(cluster.nodes[1].is_whole());
    }
}

/// Two that were given apart from each other: each peer has met another one, of the same generation.
#[test]
fn a_node_that_is_known_by_two_incarnations_takes_a_third() {
    let mut cluster = in_session(3);
    let of = |random| Acquaintance { incarnation: first(2).next(random), is_replacement: true };
    (cluster.nodes[0].next.met[1], cluster.nodes[2].next.met[1]) = (of(1), of(2));
    cluster.nodes[1].persisted.incarnation = of(2).incarnation;
    cluster.nodes[1] = open(&cluster.nodes[1], 31, 0, false);
    cluster.talk();
    cluster.talk();
    let incarnation = cluster.nodes[1].persisted.incarnation;
    assert!(incarnation.comes_after(of(1).incarnation) && !cluster.nodes[1].is_whole());
    assert!([0, 2].map(|peer| cluster.nodes[peer].persisted.met[1].incarnation) == [incarnation; 2]);
    cluster.pull(1);
    assert!(cluster.nodes[1].is_whole());
}

#[test]
fn hints_from_before_a_directory_turned_out_to_be_older_are_not_delivered() {
    let mut cluster = in_session(3);
    let older = open(&cluster.nodes[1], 11, 0, false);
    cluster.nodes[1] = open(&cluster.nodes[1], 12, 0, false);
    cluster.tick(1);
    cluster.talk();
    let hint = Version { timestamp: cluster.clock, node: 1 };
    let later = Version { timestamp: cluster.clock + 1, node: 1 };
    assert!(cluster.nodes[1].may_deliver(hint));
    cluster.nodes[1] = older;
    let statement = cluster.nodes[0].statement(cluster.clock, 0);
    cluster.nodes[1].heard(NodeId(0), statement);
    let node = &cluster.nodes[1];
    assert!(!node.may_deliver(hint) && !node.may_deliver(later), "it is unknown what is older");
    cluster.talk();
    cluster.talk();
    let node = &cluster.nodes[1];
    assert!(!node.is_whole() && !node.may_deliver(hint) && node.may_deliver(later));
    assert_eq!(cluster.pull(1), Some(u64::MAX));
    assert!(cluster.nodes[1].may_deliver(later));
}

#[test]
fn hints_from_before_what_is_closed_are_not_delivered() {
    let mut cluster = in_session(3);
    cluster.tick(3600);
    let node = &cluster.nodes[1];
    let at = |timestamp| Version { timestamp, node: 1 };
    let write_floor = node.statement(cluster.clock, 0).write_floor;
    assert!(write_floor > 0 && node.may_deliver(at(write_floor)) && !node.may_deliver(at(write_floor - 1)));
}
