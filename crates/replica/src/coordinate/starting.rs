//! Requests that come while nodes are starting wait, within their time: for this node, until it has heard whether it lost
//! anything, and for replicas, until they have.
//!
//! A waiting request holds its connection, and no more of its body than was read before. No thread waits.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use ladoga_cluster::{Failure, NODES_MAX, NodeId, Refusal};
use ladoga_service::Error;
use tokio::time::MissedTickBehavior;

use crate::cluster::Cluster;
use crate::membership::PeerView;
use crate::own::OwnReplica;
use ladoga_local::store::Store;

/// How often a replica that is starting is asked again, unless it reports by itself that it has started.
const ASK_EVERY_MS: u64 = 20;
/// How often a waiting request checks whether there is still something to wait for, and time.
const LOOK_EVERY_MS: u64 = 100;

/// Waits until this node may coordinate requests, and answers how long that took, in milliseconds. Fails when the request times
/// out, or when the node is to stop.
pub(crate) async fn until_it_may_coordinate<S: Store>(replica: Rc<OwnReplica<S>>) -> Result<u64, Error> {
    let OwnReplica { core, cluster, .. } = &*replica;
    let began_ms = core.now_ms();
    let waited_ms = || core.now_ms() - began_ms;
    let mut ready = pin!(cluster.stability().outlook().until(|outlook| outlook.may_coordinate));
    let mut looks = tokio::time::interval(Duration::from_millis(LOOK_EVERY_MS));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    poll_fn(|context| {
        // Draining wakes all connections.
        if core.is_draining() {
            return Poll::Ready(Err(Error::Draining));
        }
        if ready.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(waited_ms()));
        }
        while looks.poll_tick(context).is_ready() {
            let is_in_vain = is_in_vain(cluster) || displaced(cluster).is_some();
            if waited_ms() >= cluster.limits.quorum_timeout_ms || is_in_vain {
                return Poll::Ready(Err(not_heard(cluster)));
            }
        }
        Poll::Pending
    })
    .await
}

/// Whether waiting is useless: this node lost its data, and needs a peer that cannot be reached.
fn is_in_vain(cluster: &Cluster) -> bool {
    let stability = cluster.stability();
    let is_missing = |peer: NodeId| stability.heard_whole(peer).is_none();
    let mut others = cluster.peers.iter().filter(|peer| peer.id != cluster.own);
    stability.has_lost_data() && others.any(|peer| is_missing(peer.id) && peer.unreachable_reason().is_some())
}

/// That the peers listen to another process as this node: it would wait for their answers for ever.
fn displaced(cluster: &Cluster) -> Option<Error> {
    let hears_another = |peer: &&Arc<PeerView>| peer.hears_another_process.load(Ordering::Relaxed);
    let peer = cluster.peers.iter().find(hears_another)?;
    let reason = format!(
        "another process runs, or ran, as this node: {} listens to that one and no longer to this one, whose answers do not count; \
         stop the other process, which has the same --advertise, and then restart this node",
        peer.url
    );
    Some(Error::NotVouched { reason })
}

/// Names the peers that have not confirmed whether this node lost anything; or says that they cannot.
pub(super) fn not_heard(cluster: &Cluster) -> Error {
    if let Some(displaced) = displaced(cluster) {
        return displaced;
    }
    let stability = cluster.stability();
    let others = cluster.peers.iter().filter(|peer| peer.id != cluster.own);
    let missing = others.filter(|peer| stability.heard_whole(peer.id).is_none()).map(|peer| {
        let why = peer.unreachable_reason().unwrap_or_else(|| "has not answered".to_owned());
        peer.sentence(&why)
    });
    Error::Starting { is_copy: stability.hides_cells(), missing: missing.collect() }
}

/// Waits until a replica that has just answered that it is starting should be asked again. Answers whether it should.
pub(super) async fn until_asked_again<S: Store>(replica: &OwnReplica<S>, node: NodeId) -> bool {
    // From now on: earlier reports are from an earlier process.
    let outlook = replica.cluster.stability().outlook();
    let started = outlook.until_changed(|outlook| outlook.is_whole_peer(node));
    let _ = tokio::time::timeout(Duration::from_millis(ASK_EVERY_MS), started).await;
    !replica.core.is_draining()
}

/// The failure of a replica that was starting for too long.
pub(super) const IS_STARTING: Failure = Failure::Refused(Refusal::Starting);

/// The replicas of a request that are starting and are to be asked again, by their places.
#[derive(Default)]
pub(super) struct Starting(Cell<u64>);

const _: () = assert!(NODES_MAX <= u64::BITS as usize);

impl Starting {
    pub(super) fn insert(&self, place: usize) {
        self.0.set(self.0.get() | 1 << place);
    }

    /// Whether it was there.
    pub(super) fn remove(&self, place: usize) -> bool {
        let before = self.0.get();
        self.0.set(before & !(1 << place));
        before & (1 << place) != 0
    }

    /// They are waited for no longer.
    pub(super) fn take_all(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.0.take();
        std::iter::from_fn(move || {
            let place = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(place)
        })
    }
}
