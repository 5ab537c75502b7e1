//! Anti-entropy: pulls what each peer has and this node lacks, driven by `ladoga_cluster`, on one event loop of a node.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ladoga_cluster::{NodeId, SyncRound};
use ladoga_model::HybridClock;

use super::missed::OwnMisses;
use super::pull::{NotPulled, Puller};
use super::rests::Rests;
use super::retries::Retries;
use crate::own::OwnReplica;
use crate::planted::{Bug, has};
use crate::stability::Stability;
use ladoga_local::store::{LocalStore, Store};
use tokio::time::MissedTickBehavior;

/// How often it checks what there is to pull.
const LOOK_EVERY_MS: u64 = 500;
/// How often the tree is filled anew at most, whatever peers ask to be compared: that reads the whole store.
const FILL_EVERY_MS: u64 = 5 * 60_000;

/// Pulls what this node lacks, as long as the event loop runs.
pub(super) async fn exchange<S: Store>(replica: Rc<OwnReplica<S>>) {
    let cluster = &replica.cluster;
    let stability = Arc::clone(cluster.stability());
    let mut ticks = tokio::time::interval(Duration::from_millis(LOOK_EVERY_MS));
    // A pull may take minutes, and what it left out is not there at once.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut filled_at_ms = None;
    let (mut misses, mut retries, mut rests) = (OwnMisses::default(), Retries::default(), Rests::default());
    // What the version clock showed at the last look.
    let mut looked_at = 0;
    loop {
        ticks.tick().await;
        let mut dropped_before = stability.drop_tombstones();
        if has(Bug::DropTombstonesByTime) {
            let since_ms = replica.cluster.versions.time_ms().saturating_sub(5_000);
            dropped_before = dropped_before.max(HybridClock::at_wall_ms(since_ms));
        }
        if dropped_before > 0 {
            replica.shared.drop_tombstones_before(dropped_before);
        }
        // What is older has arrived everywhere, and is not taken any more: there is nothing left to keep out.
        let mut void_before = stability.droppable_before();
        if has(Bug::FenceTimesOut) {
            void_before = void_before.max(std::mem::replace(&mut looked_at, cluster.versions.last()));
        }
        cluster.fences().void_before(void_before);
        if let Some(expired_before_ms) = cluster.versions.expired_before_ms() {
            replica.shared.drop_values_expired_before_ms(expired_before_ms);
        }
        let now_ms = replica.core.now_ms();
        let may_fill = filled_at_ms.is_none_or(|then_ms| now_ms >= then_ms + FILL_EVERY_MS);
        if may_fill && stability.tree.is_to_be_filled() {
            filled_at_ms = Some(now_ms);
            replica.shared.tell_again();
        }
        let requested = cluster.exchange.requested.load(Ordering::Acquire);
        if requested > cluster.exchange.completed.load(Ordering::Acquire) {
            repair(&replica, &stability).await;
            retries.clear();
            cluster.exchange.completed.store(requested, Ordering::Release);
        }
        copy_missed(&replica, &stability, &mut misses).await;
        let Some(pass) = stability.pass() else { continue };
        make(&replica, &stability, &pass, (&mut retries, &mut rests)).await;
    }
}

/// Pulls everything from every peer, on demand.
async fn repair<S: Store>(replica: &Rc<OwnReplica<S>>, stability: &Arc<Stability>) {
    let errors = pull_from_all(replica, stability).await;
    *replica.cluster.exchange.error.lock() = (!errors.is_empty()).then(|| errors.join("; "));
}

/// Pulls what this node took and could not store itself, if it is time for that.
async fn copy_missed<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    stability: &Arc<Stability>,
    misses: &mut OwnMisses,
) {
    let Some(missed) = misses.due(replica, stability) else { return };
    let errors = pull_from_all(replica, stability).await;
    if errors.is_empty() {
        misses.copied(missed);
    } else {
        replica.cluster.exchange.failures.fetch_add(1, Ordering::Relaxed);
        tracing::debug!("what this node could not store was not copied: {}", errors.join("; "));
    }
}

/// Pulls everything from every peer. Answers what went wrong.
async fn pull_from_all<S: Store>(replica: &Rc<OwnReplica<S>>, stability: &Arc<Stability>) -> Vec<String> {
    let cluster = &replica.cluster;
    let mut errors = Vec::new();
    for peer in cluster.peers.iter().filter(|peer| peer.id != cluster.own) {
        let puller = Puller { replica, stability, link: replica.peers.link(peer.id), leaves_promised: false };
        if let Err(why) = puller.pull(peer.id, u64::MAX, stability.lists_all()).await {
            errors.push(format!("from {}: {why}", peer.url));
        }
    }
    errors
}

async fn make<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    stability: &Arc<Stability>,
    pass: &SyncRound,
    (retries, rests): (&mut Retries, &mut Rests),
) {
    let view = &replica.cluster.exchange;
    view.peers_left.store(pass.peers.len() as u64, Ordering::Relaxed);
    let mut is_over = true;
    for &peer in &pass.peers {
        let began_ms = replica.core.now_ms();
        let is_asked = retries.may_ask(peer, began_ms);
        if is_asked {
            let Err(why) = pull_of_pass(replica, stability, (pass, peer), rests).await else {
                retries.was_whole(peer);
                stability.pulled(pass.number, peer);
                view.peers_left.fetch_sub(1, Ordering::Relaxed);
                continue;
            };
            tracing::debug!("anti-entropy with {} did not work out: {why}", replica.peers.link(peer).url());
            view.failures.fetch_add(1, Ordering::Relaxed);
            if why.is_incomplete {
                retries.was_incomplete(peer, began_ms, replica.core.now_ms());
            }
            // Another time, as of another moment.
            if !pass.is_of_everything() {
                stability.abandon(pass.number);
            }
        }
        is_over = false;
        // Whole peers, which come last, say what of its cells was deleted: not before it has told of them.
        if pass.prunes && !stability.has_all_of(peer, replica.cluster.own) {
            return;
        }
        // What it could not give, others may have: then it is not asked for that again.
    }
    if is_over {
        view.passes.fetch_add(1, Ordering::Relaxed);
        view.unreadable.lock().clear();
    }
}

/// Pulls what a pass is for from one of its peers.
async fn pull_of_pass<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    stability: &Arc<Stability>,
    (pass, peer): (&SyncRound, NodeId),
    rests: &mut Rests,
) -> Result<(), NotPulled> {
    // One whose answers count pulls everything only after a change of the list of nodes.
    let leaves_promised = pass.is_of_everything() && stability.has_all();
    let puller = Puller { replica, stability, link: replica.peers.link(peer), leaves_promised };
    let pulled = match rests.take(pass.number, peer) {
        Some(rest) => puller.resume(*rest).await,
        None => puller.pull(peer, pass.before, pass.lists_all).await,
    };
    pulled.map_err(|why| rests.keep(pass.number, peer, why))?;
    // What others are told of this pass is durable soon. All that it rests on has to be so before, also what came as a hint: a
    // node that lost a deletion, and says that it has it, brings back what was deleted.
    replica.store.sync().await.map_err(|error| NotPulled::from(error.to_string()))
}
