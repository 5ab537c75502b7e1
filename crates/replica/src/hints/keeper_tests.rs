use std::collections::BTreeSet;

use ladoga_cluster::{Durable, HINTS_IN_FLIGHT_MAX, Incarnation, NodeList, Opening, Placement};
use ladoga_model::{Cell, Stamp, Value, Version};

use ladoga_env::real::RealNet;

use super::*;
use crate::cluster::Cluster;
use crate::membership::{Membership, PeerLimits};
use crate::wire::put_record;

const PEER: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

const NAMES: [&str; 3] = ["a", "b", "c"];

fn nodes() -> NodeList {
    NodeList::first(NAMES.map(|name| format!("http://{name}:1"))).expect("a list")
}

fn views() -> Vec<Arc<PeerView>> {
    let (names, nodes) = (NAMES, nodes());
    let addresses = names.map(|name| (name.to_owned(), 1)).into();
    let membership = Membership { nodes, own: NodeId(0), addresses };
    let clock = Arc::new(ladoga_env::sim::SimClock::new());
    Cluster::new(&membership, PeerLimits::default(), clock, Arc::new(RealNet::new())).peers
}

/// A node that has closed the time before `write_floor`, in a directory that may have been rolled back.
fn stability(write_floor: u64, is_unverified: bool) -> Arc<Stability> {
    let placement = Arc::new(Placement::of(&nodes()));
    let incarnation = Incarnation::first(7);
    let found = Ok(Durable { incarnation, write_floor, is_whole: true, ..Durable::default() });
    let opening = Opening { is_unverified, ..Opening::default() };
    Arc::new(Stability::new(NodeId(0), NAMES.len(), &placement, 1 << 20, found, opening))
}

fn open(env: &Env, stability: &Arc<Stability>) -> (HintKeeper, HintWorker) {
    HintKeeper::open(env, Path::new("/hints"), &views(), stability).expect("hints")
}

fn keep(keeper: &HintKeeper, n: u64) {
    keep_for(keeper, PEER, n);
}

fn keep_for(keeper: &HintKeeper, peer: NodeId, n: u64) {
    let mut record = Vec::new();
    let stamp = Stamp::new(Version { timestamp: n + 1, node: 0 });
    put_record(&mut record, &n.to_be_bytes(), Cell { stamp, value: Some(Value::Inline(b"value")) });
    keeper.keep(peer, n + 1, record);
}

/// Executes all queued commands, as the thread would; answers the hints in flight then.
fn work(worker: &mut HintWorker) {
    let mut kept = Vec::new();
    while let Ok(command) = worker.received.try_recv() {
        worker.obey(command, &mut kept);
    }
    worker.commit(kept);
    worker.look_at_outcomes();
}

fn on_their_way(deliveries: &mut mpsc::UnboundedReceiver<Delivery>) -> BTreeSet<u64> {
    std::iter::from_fn(|| deliveries.try_recv().ok()).map(|delivery| delivery.number).collect()
}

#[test]
fn no_hint_is_held_up_by_a_thread_that_is_behind() {
    let (env, _disk, _clock) = ladoga_env::sim::env(1);
    let (keeper, mut worker) = open(&env, &stability(0, false));
    let mut deliveries = keeper.take_deliveries().expect("the taker");
    let count = 2 * HINTS_IN_FLIGHT_MAX as u64;
    (0..count).for_each(|n| keep(&keeper, n));
    keeper.try_peer(PEER);
    work(&mut worker);
    let first = on_their_way(&mut deliveries);
    assert_eq!(first.len(), HINTS_IN_FLIGHT_MAX);
    // As many commands as there may be, and then what became of the hints.
    (0..COMMANDS_MAX as u64).for_each(|n| keep(&keeper, count + n));
    first.iter().for_each(|&number| keeper.delivered(PEER, number));
    work(&mut worker);
    let second = on_their_way(&mut deliveries);
    assert_eq!((second.len(), second.first()), (HINTS_IN_FLIGHT_MAX, Some(&(first.len() as u64 + 1))));
    // The same for a peer that does not take them.
    (0..COMMANDS_MAX as u64).for_each(|n| keep(&keeper, 2 * count + COMMANDS_MAX as u64 + n));
    keeper.mark_down(PEER);
    work(&mut worker);
    assert!(on_their_way(&mut deliveries).is_empty());
    keeper.try_peer(PEER);
    work(&mut worker);
    assert_eq!(on_their_way(&mut deliveries), second, "again, from the front");
}

/// They waited in memory beside themselves, one time more with each attempt.
#[test]
fn hints_that_wait_to_be_sent_are_not_read_again() {
    let (env, _disk, _clock) = ladoga_env::sim::env(1);
    let (keeper, mut worker) = open(&env, &stability(0, false));
    let mut deliveries = keeper.take_deliveries().expect("the taker");
    (0..2 * HINTS_IN_FLIGHT_MAX as u64).for_each(|n| keep(&keeper, n));
    keep_for(&keeper, OTHER, 0);
    keeper.try_peer(PEER);
    work(&mut worker);
    // The first is sent, and does not arrive; the others wait for their turn.
    drop(deliveries.try_recv().expect("a hint"));
    let waiting = HINTS_IN_FLIGHT_MAX - 1;
    for _ in 0..3 {
        keeper.mark_down(PEER);
        work(&mut worker);
        keeper.try_peer(PEER);
        work(&mut worker);
        assert_eq!(deliveries.len(), waiting);
    }
    // They do not hold up the hints for other peers.
    keeper.try_peer(OTHER);
    work(&mut worker);
    assert_eq!(deliveries.len(), waiting + 1);
    assert_eq!(on_their_way(&mut deliveries).len(), waiting + 1);
    keeper.try_peer(PEER);
    work(&mut worker);
    assert_eq!(on_their_way(&mut deliveries).len(), HINTS_IN_FLIGHT_MAX, "from the front");
}

/// They were delivered again after a restart, while the segment that they are in was still there: also to a node with a new disk,
/// after the key had been deleted and everybody had forgotten that.
#[test]
fn hints_from_before_what_is_closed_are_not_delivered_again_after_a_restart() {
    let (env, _disk, _clock) = ladoga_env::sim::env(1);
    let (keeper, mut worker) = open(&env, &stability(0, false));
    let mut deliveries = keeper.take_deliveries().expect("the taker");
    (1..=3).for_each(|n| keep(&keeper, n));
    keeper.try_peer(PEER);
    work(&mut worker);
    assert_eq!(on_their_way(&mut deliveries), BTreeSet::from([1, 2, 3]));
    [1, 2].into_iter().for_each(|number| keeper.delivered(PEER, number));
    work(&mut worker);
    drop((keeper, worker));

    // The third has the timestamp 4.
    let (keeper, mut worker) = open(&env, &stability(4, false));
    let oldest = keeper.views[PEER.index()].hints_oldest.load(Ordering::Relaxed);
    assert!(oldest <= 4, "the write floor does not pass what waits: {oldest}");
    let mut deliveries = keeper.take_deliveries().expect("the taker");
    keeper.try_peer(PEER);
    work(&mut worker);
    assert_eq!(on_their_way(&mut deliveries), BTreeSet::from([3]));
    keeper.delivered(PEER, 3);
    work(&mut worker);
    assert!(worker.peers[PEER.index()].queue.is_empty());
}

#[test]
fn hints_of_a_directory_that_may_be_an_older_one_are_given_up() {
    let (env, _disk, _clock) = ladoga_env::sim::env(1);
    let (keeper, mut worker) = open(&env, &stability(0, false));
    (0..HINTS_IN_FLIGHT_MAX as u64 + 2).for_each(|n| keep(&keeper, n));
    work(&mut worker);
    drop((keeper, worker));
    let (keeper, mut worker) = open(&env, &stability(0, true));
    let mut deliveries = keeper.take_deliveries().expect("the taker");
    keeper.try_peer(PEER);
    work(&mut worker);
    assert!(on_their_way(&mut deliveries).is_empty());
    assert!(worker.peers[PEER.index()].queue.is_empty());
}

/// The log went on where it had been, the queue began at 1 again: hints were read under numbers that the log did not know, taken for
/// lost, and stayed in the log.
#[test]
fn hints_after_a_segment_without_any_are_delivered() {
    let (env, sim, _clock) = ladoga_env::sim::env(1);
    let (keeper, mut worker) = open(&env, &stability(0, false));
    let mut deliveries = keeper.take_deliveries().expect("the taker");
    (1..=3).for_each(|n| keep(&keeper, n));
    keeper.try_peer(PEER);
    work(&mut worker);
    on_their_way(&mut deliveries).into_iter().for_each(|number| keeper.delivered(PEER, number));
    work(&mut worker);
    keep(&keeper, 4);
    work(&mut worker);
    drop((keeper, worker));
    // The header of the segment was synced before the hint.
    let paths = sim.paths();
    let path = paths.iter().find(|path| path.ends_with("000000000004.hints")).expect("a segment");
    let file = env.disk.open(path, ladoga_env::OpenMode::ReadWrite).expect("the segment");
    file.truncate(20).expect("a power cut");

    let (keeper, mut worker) = open(&env, &stability(0, false));
    let mut deliveries = keeper.take_deliveries().expect("the taker");
    keep(&keeper, 5);
    keeper.try_peer(PEER);
    work(&mut worker);
    assert_eq!(on_their_way(&mut deliveries), BTreeSet::from([4]));
    keeper.delivered(PEER, 4);
    work(&mut worker);
    assert!(!sim.paths().iter().any(|path| path.ends_with("000000000004.hints")), "it is forgotten");
}
