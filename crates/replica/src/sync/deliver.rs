use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ladoga_cluster::{Origin, Refusal};
use ladoga_model::{Cell, Value};

use super::fenced;
use crate::coordinate::{self, HandedOff};
use crate::hints::{Delivery, HintKeeper};
use crate::own::OwnReplica;
use crate::wire::{Answer, Record, Request};
use ladoga_local::store::Store;

/// How often a peer with hints is tried.
const TRY_EVERY_MS: u64 = 200;

/// Delivers hints, for as long as the event loop runs. On one loop of a node.
pub(crate) async fn deliver<S: Store>(replica: Rc<OwnReplica<S>>) {
    let cluster = &replica.cluster;
    let mut ticks = tokio::time::interval(Duration::from_millis(TRY_EVERY_MS));
    let Some(hints) = cluster.hints.get() else { return };
    let Some(mut deliveries) = hints.take_deliveries() else { return };
    let delivering = Rc::clone(&replica);
    replica.core.supervisor.spawn_local("deliveries", async move {
        while let Some(delivery) = deliveries.recv().await {
            // A large value is sent in pieces.
            delivering.cluster.pace.draw_cell(delivery.record.cell.inline_bytes()).await;
            let delivered = deliver_one(Rc::clone(&delivering), delivery);
            delivering.core.supervisor.spawn_local("delivery", delivered);
        }
    });
    loop {
        ticks.tick().await;
        for peer in cluster.peers.iter().filter(|peer| peer.hints_waiting.load(Ordering::Relaxed) > 0) {
            hints.try_peer(peer.id);
        }
    }
}

async fn deliver_one<S: Store>(replica: Rc<OwnReplica<S>>, delivery: Delivery) {
    let Delivery { peer, number, record, waits } = delivery;
    drop(waits);
    let Some(hints) = replica.cluster.hints.get() else { return };
    let Record { key, cell: Cell { stamp, value } } = record;
    let value = match value {
        Some(Value::Inline(value)) => Some(value),
        Some(Value::Large(_)) => {
            // The value is with the replicas that have it.
            let arrived = match coordinate::hand_off(&replica, key.clone(), stamp, peer).await {
                HandedOff::Done => true,
                HandedOff::PutOff => return hints.put_off(peer, number),
                HandedOff::Failed => false,
                HandedOff::Fenced(fence) => {
                    // As below.
                    fenced::take_over(&replica, &key, stamp.copies, fence).await;
                    false
                }
            };
            return note_outcome(hints, peer, number, arrived);
        }
        None => None,
    };
    let of_key = key.clone();
    let (origin, durability) = (Origin::Hint, None);
    let request = Request::Write { key, stamp, value, origin, is_again: false, durability };
    let arrived = match replica.peers.link(peer).ask(&request).await {
        Ok(Answer::Done | Answer::Superseded { .. } | Answer::Refused(Refusal::TooOld { .. })) => true,
        Ok(Answer::Fenced(fence)) => {
            // Delivered again: by then, something newer is there.
            fenced::take_over(&replica, &of_key, stamp.copies, fence).await;
            false
        }
        Ok(_) | Err(_) => false,
    };
    note_outcome(hints, peer, number, arrived);
}

fn note_outcome(hints: &HintKeeper, peer: ladoga_cluster::NodeId, number: u64, arrived: bool) {
    if arrived { hints.delivered(peer, number) } else { hints.mark_down(peer) }
}
