use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use ladoga_cluster::NodeId;
use ladoga_runtime::LoopContext;

use super::expiring::{Expires, Expiring, Place};
use super::peer_link::{PeerLink, TOLD_AT_ONCE_MAX};
use crate::cluster::Cluster;

/// How often requests are checked for time-outs, at least and at most.
const SWEEP_MS_MIN: u64 = 5;
const SWEEP_MS_MAX: u64 = 50;
/// How much of the shortest timeout passes between two looks.
const SWEEP_SHARE: u64 = 8;

/// All peers, as one event loop reaches them.
pub(crate) struct Peers {
    pub(crate) cluster: Arc<Cluster>,
    core: Rc<LoopContext>,
    links: Vec<Rc<PeerLink>>,
    expiring: Rc<Expiring>,
}

impl Peers {
    /// Begins to look after the time of requests; within the runtime of the event loop.
    pub(crate) fn start(cluster: &Arc<Cluster>, core: &Rc<LoopContext>) -> Rc<Peers> {
        let link =
            |view: &Arc<_>| Rc::new(PeerLink::new(Arc::clone(view), Arc::clone(cluster), Rc::clone(core)));
        let peers = Rc::new(Peers {
            cluster: Arc::clone(cluster),
            core: Rc::clone(core),
            links: cluster.peers.iter().map(link).collect(),
            expiring: Rc::default(),
        });
        core.supervisor.spawn_local("sweep of peers", Rc::clone(&peers).sweep());
        peers
    }

    /// The connection to a peer. A node asks itself without one.
    pub(crate) fn link(&self, node: NodeId) -> &Rc<PeerLink> {
        debug_assert_ne!(node, self.cluster.own, "a node has no connection to itself");
        &self.links[node.index()]
    }

    /// Lets go of all that wait for an answer, without telling them.
    #[cfg(feature = "simulation")]
    pub(crate) fn forget_requests(&self) {
        self.links.iter().for_each(|link| link.forget_requests());
    }

    /// Lets a request end at its time-out, unless it ends before.
    pub(crate) fn expire_later(&self, request: Weak<dyn Expires>) -> Place {
        self.expiring.enter(self.core.now_ms() + self.cluster.limits.quorum_timeout_ms, request)
    }

    async fn sweep(self: Rc<Self>) {
        let limits = &self.cluster.limits;
        let shortest_ms = limits.peer_timeout_ms.min(limits.quorum_timeout_ms);
        let every_ms = (shortest_ms / SWEEP_SHARE).clamp(SWEEP_MS_MIN, SWEEP_MS_MAX);
        let mut ticks = tokio::time::interval(Duration::from_millis(every_ms));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.core.look_at_the_clock();
            let now_ms = self.core.now_ms();
            self.links.iter().for_each(|link| link.sweep(now_ms));
            self.expire(now_ms).await;
        }
    }

    async fn expire(&self, now_ms: u64) {
        let mut told = 0;
        while let Some(request) = self.expiring.next(now_ms) {
            if let Some(request) = request.upgrade() {
                request.expire();
            }
            told += 1;
            if told % TOLD_AT_ONCE_MAX == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}
