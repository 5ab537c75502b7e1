use std::collections::BTreeSet;

use ladoga_cluster::{HINTS_IN_FLIGHT_MAX, NodeList};
use ladoga_model::{Cell, Stamp, Value, Version};

use ladoga_env::real::RealNet;

use super::*;
use crate::cluster::Cluster;
use crate::membership::{Membership, PeerLimits};
use crate::wire::put_record;

const PEER: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

fn views() -> Vec<Arc<PeerView>> {
    let names = ["a", "b", "c"];
    let nodes = NodeList::first(names.map(|name| format!("http://{name}:1"))).expect("a list");
    let addresses = names.map(|name| (name.to_owned(), 1)).into();
    let membership = Membership { nodes, own: NodeId(0), addresses };
    let clock = Arc::new(ladoga_env::sim::SimClock::new());
    Cluster::new(&membership, PeerLimits::default(), clock, Arc::new(RealNet::new())).peers
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
    let (keeper, mut worker) = HintKeeper::open(&env, Path::new("/hints"), &views()).expect("hints");
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
    let (keeper, mut worker) = HintKeeper::open(&env, Path::new("/hints"), &views()).expect("hints");
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
