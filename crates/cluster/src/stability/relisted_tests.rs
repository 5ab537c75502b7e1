//! Nodes that are started with another list than before, each from its own disk.

use super::directory_tests::assert_become_whole_by_each_other;
use super::*;
use crate::durable::KeptState;
use crate::relisted::random_of_list;

/// What tells the node with this number of the first list apart.
fn name(node: usize) -> u64 {
    70 + node as u64
}

/// A list with the nodes of these numbers.
fn names(of: &[usize]) -> Vec<u64> {
    of.iter().copied().map(name).collect()
}

/// What these nodes have on their disks after a stop.
fn stopped(cluster: &Cluster, of: &[usize]) -> Vec<KeptState> {
    let kept = |node: &StabilityTracker| node.persisted.clone();
    cluster.nodes.iter().map(|node| KeptState { durable: kept(node), names: Some(names(of)) }).collect()
}

/// A cluster of the nodes with these numbers, of which some have a disk: where each had its place, and what it had.
fn started(of: &[usize], disks: &[Option<KeptState>], (session, clock): (u64, u64)) -> Cluster {
    let mut cluster = Cluster::new(of.len());
    cluster.clock = clock;
    for (place, disk) in disks.iter().enumerate() {
        let session = session + place as u64;
        let listed = disk.as_ref().and_then(|kept| kept.names.as_ref());
        let is_alone = disk.as_ref().is_some_and(KeptState::is_alone);
        let is_back = is_alone || listed.is_some_and(|listed| listed.contains(&name(of[place])));
        let random_of_list = is_back.then(|| random_of_list(&names(of)));
        let opening =
            Opening { session, random: 1000 + session, random_of_list, written: 9, ..Opening::default() };
        let opening = if disk.is_some() { opening } else { Opening { written: 0, ..opening } };
        let found = match disk {
            Some(kept) => Ok(kept.clone().in_list(&names(of))),
            None => Err(first(session)),
        };
        cluster.nodes[place] = StabilityTracker::new(NodeId(place as u16), of.len(), found).opened(opening);
    }
    cluster
}

/// Three nodes that have met, and of which the third one had three directories; as they were stopped.
fn three_stopped() -> (Vec<KeptState>, u64) {
    let mut cluster = started(&[0, 1, 2], &[None, None, None], (1, HOUR));
    cluster.tick(1);
    cluster.talk();
    for loss in 0..2 {
        cluster.nodes[2] = StabilityTracker::new(NodeId(2), 3, Err(first(50 + loss)));
        cluster.talk();
        cluster.pull(2);
        cluster.talk();
    }
    cluster.nodes[0].acknowledged(NodeId(2), 5);
    cluster.tick(20);
    assert!(cluster.nodes.iter().all(StabilityTracker::is_whole));
    (stopped(&cluster, &[0, 1, 2]), cluster.clock + SECOND)
}

fn disks(kept: &[KeptState], of: &[usize]) -> Vec<Option<KeptState>> {
    of.iter().map(|&node| kept.get(node).cloned()).collect()
}

/// What each remembered of the one that had a place was held against the one that has it now.
#[test]
fn no_node_is_taken_for_one_that_lost_its_data_because_another_left_the_list() {
    let (kept, clock) = three_stopped();
    for left in [[1, 2], [0, 2], [0, 1]] {
        let mut cluster = started(&left, &disks(&kept, &left), (100, clock));
        assert!(cluster.nodes.iter().all(StabilityTracker::is_whole), "{left:?} at once");
        cluster.talk();
        cluster.talk();
        assert!(cluster.nodes.iter().all(|node| node.is_whole() && node.regression().is_none()), "{left:?}");
        assert!(cluster.nodes.iter().all(|node| !node.lists_all()), "{left:?}");
    }
}

#[test]
fn a_node_that_is_new_in_the_list_counts_once_all_others_have_everything_and_it_has_copied_that() {
    let (kept, clock) = three_stopped();
    let all = [0, 1, 2, 3, 4];
    let mut cluster = started(&all, &disks(&kept, &all), (100, clock));
    // Two new ones and one old one are a majority.
    cluster.up = vec![true, false, false, true, true];
    (0..3).for_each(|_| cluster.talk());
    assert!(cluster.nodes[0].is_whole());
    for new in [3, 4] {
        assert_eq!(cluster.nodes[new].vouches(), Ok(false), "it is not taken for one of a new cluster");
        assert!(!cluster.nodes[0].is_whole_peer(NodeId(new as u16)));
    }
    assert_eq!(cluster.nodes[0].pass(), None, "what was acknowledged may be where nobody was heard yet");
    cluster.up = vec![true; 5];
    (0..3).for_each(|_| cluster.talk());
    let round = cluster.nodes[3].pass().expect("everything is to be pulled").clone();
    assert!(round.before == u64::MAX && round.lists_all);
    assert!(cluster.nodes[..3].iter().all(StabilityTracker::holds_up_rebuilds));
    // Also if a hint waits for a node whose answers do not count, so that write floors stand still.
    for old in 0..3 {
        assert_eq!(cluster.nodes[old].tells_of_all(), Some(3));
        let round = cluster.nodes[old].pass().expect("a round");
        assert!(round.before == u64::MAX && round.lists_all);
        cluster.pull(old);
        assert!(!cluster.nodes[old].holds_up_rebuilds() && !cluster.nodes[old].lists_all());
    }
    for new in [3, 4] {
        assert_eq!(cluster.pull(new), Some(u64::MAX));
        assert!(cluster.nodes[new].is_whole());
    }
    cluster.talk();
    cluster.talk();
    assert!(cluster.nodes.iter().all(|node| node.is_whole() && node.tells_of_all().is_none()));
}

#[test]
fn a_node_that_comes_back_into_the_list_does_not_vouch_for_what_it_had_when_it_left() {
    let (kept, clock) = three_stopped();
    let mut cluster = started(&[0, 1], &disks(&kept, &[0, 1]), (100, clock));
    cluster.tick(120);
    let mut later = stopped(&cluster, &[0, 1]);
    later.push(kept[2].clone());
    let mut cluster = started(&[0, 1, 2], &disks(&later, &[0, 1, 2]), (200, cluster.clock + SECOND));
    cluster.talk();
    cluster.talk();
    let node = &cluster.nodes[2];
    assert!(!node.is_whole() && node.has_lost_data() && node.hides_cells());
    assert!(cluster.nodes[..2].iter().all(|node| node.is_whole() && node.regression().is_none()));
    // What was deleted while it was away may still be there: nobody takes it, not even this node.
    cluster.tick(120);
    cluster.tick(1);
    assert!(cluster.nodes[2].is_outdated() && cluster.nodes[2].pass().is_none());
    assert!(cluster.nodes[2].holds_up_rebuilds());
    assert!(cluster.nodes[2].holds_up_pulls_of(NodeId(0)) && cluster.nodes[2].is_whole_peer(NodeId(0)));
    // What the others have by now is not kept from them by its refusal.
    assert!(!cluster.nodes[0].holds_up_pulls_of(NodeId(1)));
    let round = cluster.nodes[0].pass().expect("all that the others had by the shorter list");
    assert_eq!(round.peers, [NodeId(1), NodeId(2)]);
    let kept = stopped(&cluster, &[0, 1, 2]);
    let again = Durable::decode(&kept[2].durable.encode(&names(&[0, 1, 2]))).expect("what was kept");
    let disks = [Some(kept[0].clone()), Some(kept[1].clone()), Some(again)];
    let mut cluster = started(&[0, 1, 2], &disks, (300, cluster.clock + SECOND));
    (0..3).for_each(|_| cluster.talk());
    assert!(
        cluster.nodes[2].is_outdated() && cluster.nodes[2].hides_cells(),
        "once it is started again, too"
    );
    assert!(cluster.nodes[2].pass().is_none());
    // With an empty directory it is a new node.
    let empty = [Some(kept[0].clone()), Some(kept[1].clone()), None];
    let mut cluster = started(&[0, 1, 2], &empty, (400, cluster.clock + SECOND));
    (0..3).for_each(|_| cluster.talk());
    assert!(!cluster.nodes[2].is_outdated() && cluster.nodes[2].lists_all());
    assert_eq!(cluster.pull(2), Some(u64::MAX));
    assert!(cluster.nodes.iter().all(StabilityTracker::is_whole));
}

/// Started again with the two nodes that were stopped with it; of one of these, maybe without its disk.
fn back_from_alone(has_disk: bool) -> Cluster {
    let (mut kept, clock) = three_stopped();
    kept[0] = kept[0].clone().in_no_list();
    let mut disks = disks(&kept, &[0, 1, 2]);
    disks[1].take_if(|_| !has_disk);
    let mut cluster = started(&[0, 1, 2], &disks, (100, clock));
    cluster.persist();
    cluster
}

/// It dropped its deletions in a minute, as a node on its own does, whatever it had been complete before in the list.
#[test]
fn who_ran_on_its_own_takes_nothing_from_the_old_directories_of_the_others() {
    let mut cluster = back_from_alone(true);
    for peer in [1, 2] {
        let statement = cluster.nodes[peer].statement(cluster.clock, 0);
        cluster.nodes[0].heard(NodeId(peer as u16), statement);
    }
    cluster.persist();
    assert_eq!(cluster.nodes[0].pass(), None, "they do not know yet that they are outdated");
    (0..3).for_each(|_| cluster.talk());
    assert!(cluster.nodes[0].is_whole() && cluster.nodes[0].pass().is_some());
    for old in [1, 2] {
        assert!(cluster.nodes[old].is_outdated() && cluster.nodes[old].is_whole_peer(NodeId(0)));
        assert!(cluster.nodes[old].holds_up_pulls_of(NodeId(0)));
    }
}

#[test]
fn a_new_node_does_not_pull_from_one_that_has_yet_to_hear_that_it_is_outdated() {
    let mut cluster = back_from_alone(false);
    for up in [[true, true, false], [false, true, true]] {
        cluster.up = up.to_vec();
        (0..3).for_each(|_| cluster.talk());
    }
    assert!(cluster.nodes[2].is_whole() && !cluster.nodes[2].holds_up_pulls_of(NodeId(1)));
    assert_eq!(cluster.nodes[1].pass(), None);
    cluster.up = vec![true; 3];
    (0..3).for_each(|_| cluster.talk());
    assert!(cluster.nodes[2].is_outdated() && cluster.nodes[1].pass().is_some());
}

/// A directory that was copied from an old node has values of it alone, and trees say nothing of those that it should have besides.
#[test]
fn a_new_node_with_a_copied_directory_is_told_of_everything() {
    let (kept, clock) = three_stopped();
    let all = [0, 1, 2, 3];
    let copied = Durable::of_a_copy(first(7), Some(kept[0].durable.clone()));
    let mut disks = disks(&kept, &all);
    disks[3] = Some(KeptState { durable: copied, names: Some(Vec::new()) });
    let mut cluster = started(&all, &disks, (100, clock));
    (0..3).for_each(|_| cluster.talk());
    let node = &cluster.nodes[3];
    assert!(!node.is_whole() && !node.is_outdated() && node.hides_cells() && node.lists_all());
}

/// Between the last pull and the write of that to the disk, there is nothing to be pulled.
#[test]
fn who_has_pulled_everything_does_not_begin_anew_before_that_is_on_the_disk() {
    let (kept, clock) = three_stopped();
    let mut cluster = started(&[0, 1, 2], &[disks(&kept, &[0, 1]), vec![None]].concat(), (100, clock));
    (0..3).for_each(|_| cluster.talk());
    let round = cluster.nodes[2].pass().expect("everything").clone();
    assert!(!round.lists_all, "the list is the same as before");
    round.peers.iter().for_each(|&peer| cluster.nodes[2].pulled(round.number, peer));
    assert!(cluster.nodes[2].is_dirty() && !cluster.nodes[2].is_whole());
    assert_eq!(cluster.nodes[2].pass(), None);
}

/// Nobody is there who could have it all, so nobody waits.
#[test]
fn nodes_that_all_have_other_names_become_whole_by_each_other() {
    let (kept, clock) = three_stopped();
    let disks: Vec<_> = kept.into_iter().map(Some).collect();
    let mut cluster = started(&[7, 8, 9], &disks, (100, clock));
    assert_become_whole_by_each_other(&mut cluster);
}
