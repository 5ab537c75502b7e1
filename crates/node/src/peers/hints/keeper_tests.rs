use std::collections::BTreeSet;

use ladoga_cluster::{HINTS_IN_FLIGHT_MAX, NodeList};
use ladoga_model::{Stamp, Version};

use super::*;
use crate::peers::cluster::Cluster;
use crate::peers::wire::put_record;
use crate::peers::{Membership, PeerLimits};
use crate::store::CellContent;

const PEER: NodeId = NodeId(1);

fn views() -> Vec<Arc<PeerView>> {
    let nodes = NodeList::first(["http://a:1", "http://b:1"]).expect("a list");
    let addresses = vec![("a".to_owned(), 1), ("b".to_owned(), 1)];
    let membership = Membership { nodes, own: NodeId(0), addresses };
    Cluster::new(&membership, PeerLimits::default()).peers
}

fn keep(keeper: &HintKeeper, n: u64) {
    let mut record = Vec::new();
    let stamp = Stamp::new(Version { timestamp: n + 1, node: 0 });
    put_record(&mut record, &n.to_be_bytes(), stamp, CellContent::Value(b"value"));
    keeper.keep(PEER, n + 1, record);
}

/// All commands that wait, as the thread would take them; and what is on its way then.
fn work(worker: &mut Worker) {
    let mut kept = Vec::new();
    while let Ok(command) = worker.received.try_recv() {
        worker.obey(command, &mut kept);
    }
    worker.commit(kept);
    worker.look_at_settled();
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
    keeper.is_down(PEER);
    work(&mut worker);
    assert!(on_their_way(&mut deliveries).is_empty());
    keeper.try_peer(PEER);
    work(&mut worker);
    assert_eq!(on_their_way(&mut deliveries), second, "again, from the front");
}
