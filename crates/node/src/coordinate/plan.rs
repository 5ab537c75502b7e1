use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{Failure, NodeId, Origin, QuorumError, Replicas};
use ladoga_model::Stamp;
use ladoga_model::Version;
use tokio::task::JoinSet;

use crate::http::{EntityTarget, Refusal};
use crate::peers::{Admitted, Cluster, Expires, PeerLink, Peers, Place, hear, replica};
use crate::server::EventLoop;
use crate::store::Store;

/// Who has to answer a request: what its coordinator goes by.
pub(crate) struct Plan<S: Store> {
    pub(super) event_loop: Rc<EventLoop<S>>,
    pub(super) store: Rc<S::Local>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) peers: Rc<Peers>,
    pub(super) key: Bytes,
    pub(super) replicas: Replicas,
    /// How much of its time the request has spent in waiting for this node to be ready.
    waited_ms: u64,
}

/// Once a timestamp may be given out: no restart, on whichever clock, gives it out again.
async fn may_be_given(cluster: &Cluster, stamp: Stamp) -> Result<(), Refusal> {
    if cluster.settled().reserve(stamp.version.timestamp).await {
        return Ok(());
    }
    Err(Refusal::unavailable("what the node has to remember of its clock is not on its disk yet"))
}

/// Lets a write in that this node alone has to answer; nothing keeps a node on its own from it.
pub(crate) async fn admit_alone<S: Store>(
    event_loop: &EventLoop<S>,
    stamp: Stamp,
) -> Result<Option<Admitted>, Refusal> {
    let Some(cluster) = &event_loop.node.cluster else { return Ok(None) };
    may_be_given(cluster, stamp).await?;
    let admitted = cluster.settled().admit(stamp.version, Origin::Client);
    admitted.map(Some).map_err(Refusal::unavailable)
}

impl<S: Store> Clone for Plan<S> {
    fn clone(&self) -> Plan<S> {
        Plan {
            event_loop: Rc::clone(&self.event_loop),
            store: Rc::clone(&self.store),
            cluster: Arc::clone(&self.cluster),
            peers: Rc::clone(&self.peers),
            key: self.key.clone(),
            replicas: self.replicas,
            waited_ms: self.waited_ms,
        }
    }
}

impl<S: Store> Plan<S> {
    /// The plan for a request that waited for this node; `None` where this node alone has to answer.
    pub(crate) fn of(
        event_loop: &Rc<EventLoop<S>>,
        store: &Rc<S::Local>,
        target: &EntityTarget,
        waited_ms: u64,
    ) -> Option<Plan<S>> {
        let peers = event_loop.peers()?;
        let cluster = &peers.cluster;
        let replicas = target.replicas();
        let is_alone = replicas.from == 1 && cluster.placement.replicas(target.key(), 1)[0] == cluster.own;
        // What is here and may be older than what was acknowledged is no answer by itself.
        if is_alone && !cluster.settled().hides_cells() {
            return None;
        }
        Some(Plan {
            event_loop: Rc::clone(event_loop),
            store: Rc::clone(store),
            cluster: Arc::clone(cluster),
            peers: Rc::clone(peers),
            key: target.key_bytes(),
            replicas,
            waited_ms,
        })
    }

    /// The plan for a read of all nodes that may have a cell with this stamp.
    pub(super) fn of_all(event_loop: &Rc<EventLoop<S>>, key: Bytes, stamp: Stamp) -> Option<Plan<S>> {
        let peers = event_loop.peers()?;
        let nodes = peers.cluster.nodes.len() as u32;
        let from = if stamp.copies == 0 { nodes } else { u32::from(stamp.copies).min(nodes) };
        Some(Plan {
            event_loop: Rc::clone(event_loop),
            store: event_loop.store()?,
            cluster: Arc::clone(&peers.cluster),
            peers: Rc::clone(peers),
            key,
            replicas: Replicas { ack: from, from },
            waited_ms: 0,
        })
    }

    /// The time that the request has left.
    pub(super) fn left_ms(&self) -> u64 {
        self.cluster.limits.quorum_timeout_ms.saturating_sub(self.waited_ms)
    }

    /// Has a part of the request end in time, unless it is over before.
    pub(super) fn expire_later(&self, part: Weak<dyn Expires>) -> Place {
        if self.waited_ms > 0 {
            // Before those that began at the same time.
            let (part, left) = (part.clone(), Duration::from_millis(self.left_ms()));
            tokio::task::spawn_local(async move {
                tokio::time::sleep(left).await;
                if let Some(part) = part.upgrade() {
                    part.expire();
                }
            });
        }
        self.peers.expire_later(part)
    }

    /// Whether this node vouched for its part, and has learned meanwhile that it must not: its directory is older than what
    /// it acknowledged. That can be in the first moment of its life only, when it hears the first peer.
    pub(super) fn taken_back(&self, has_vouched: bool) -> Option<QuorumError> {
        if !has_vouched || self.cluster.settled().has_all() {
            return None;
        }
        let place = self.own_place()?;
        Some(QuorumError {
            acked: self.replicas.ack as usize - 1,
            required: self.replicas.ack as usize,
            asked: self.replicas.from as usize,
            failures: vec![(place, Failure::Refused(ladoga_cluster::Refusal::Rebuilding))],
        })
    }

    /// The node at a place of the key's preference list.
    pub(super) fn node(&self, replica: usize) -> NodeId {
        self.nodes()[replica]
    }

    /// The nodes that have to answer, in the order of the key's preference list.
    pub(super) fn nodes(&self) -> &[NodeId] {
        self.cluster.placement.replicas(&self.key, self.replicas.from as usize)
    }

    /// The place of this node among them.
    pub(super) fn own_place(&self) -> Option<usize> {
        self.nodes().iter().position(|&node| node == self.cluster.own)
    }

    pub(super) fn link(&self, replica: usize) -> &Rc<PeerLink> {
        self.peers.link(self.node(replica))
    }

    /// Writes a cell to this node, without a network. `then` hears what became of it, now or later.
    pub(super) fn apply(
        &self,
        (stamp, value): (Stamp, Option<&[u8]>),
        origin: Origin,
        then: impl FnOnce(Result<(), Failure>) + 'static,
    ) {
        match replica::apply(&self.event_loop, &*self.store, (&self.key, stamp, value), origin) {
            Ok(applied) => {
                tokio::task::spawn_local(async move { then(applied.await.map_err(Failure::Refused)) });
            }
            Err(refusal) => then(Err(Failure::Refused(refusal))),
        }
    }

    /// After a start: asks all peers what their clocks show, until a majority has said so. A version that is given out before
    /// may be as old as the newest one here, and a write of before, which too few had, could win over it. Where a majority
    /// has to take the write, one that cannot be heard is one that does not.
    async fn hear_clocks(&self) -> Result<(), Refusal> {
        let (cluster, settled) = (&self.cluster, self.cluster.settled());
        let peers = || cluster.peers.iter().filter(|peer| peer.id != cluster.own);
        let mut asked = JoinSet::new();
        for peer in peers() {
            asked.spawn_local(hear(&self.event_loop, self.peers.link(peer.id), settled, peer.id));
        }
        while cluster.versions.is_unverified() && asked.join_next().await.is_some() {}
        let Replicas { ack, from } = self.replicas;
        if !cluster.versions.is_unverified() || ack as usize <= cluster.nodes.len() / 2 {
            return Ok(());
        }
        let reasons: Vec<_> =
            peers().filter_map(|peer| Some(format!("{} {}", peer.url, peer.trouble()?))).collect();
        Err(Refusal::too_few_replicas(format!(
            "0 of {from} replicas were asked, expected {ack}: this node was started, and cannot hear what time it is by a \
             majority of the nodes; {}; nothing was written",
            reasons.join("; ")
        )))
    }

    /// The version of a write that happens now. None is given where a majority of the nodes would refuse it for its time:
    /// those that do not could keep it until its time comes, and it would win over what was acknowledged meanwhile.
    pub(super) async fn stamp(&self) -> Result<Stamp, Refusal> {
        if self.replicas.ack > 1 && self.cluster.versions.is_unverified() {
            self.hear_clocks().await?;
        }
        let timestamp = self.event_loop.node.versions.next_for_all().map_err(|error| {
            self.event_loop.core.metrics.clock_ahead();
            Refusal::unavailable(format_args!(
                "this node has given out or seen versions that are too far ahead for the other nodes, and takes no writes \
                 for them until that time: {error}; ask another node"
            ))
        })?;
        let stamp = Stamp::new(Version { timestamp, node: self.cluster.own.0 });
        let is_everywhere = self.replicas.from as usize == self.cluster.nodes.len();
        may_be_given(&self.cluster, stamp).await?;
        Ok(Stamp { copies: if is_everywhere { 0 } else { self.replicas.from as u8 }, ..stamp })
    }
}
