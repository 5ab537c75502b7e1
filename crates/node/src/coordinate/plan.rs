use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_cluster::{Failure, NodeId, Origin, Replicas};
use ladoga_model::Stamp;
use ladoga_model::Version;

use crate::http::{EntityTarget, Refusal};
use crate::peers::{Admitted, Cluster, PeerLink, Peers, replica};
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

/// That this node may answer for the cluster: one with a new directory first has to hear whether it was here before.
pub(crate) fn check_may_coordinate(cluster: &Cluster) -> Result<(), Refusal> {
    match cluster.settled.get() {
        Some(settled) if !settled.may_coordinate() => Err(Refusal::unavailable(
            "the node has a new data directory, and has to hear of the other nodes whether it lost one",
        )),
        _ => Ok(()),
    }
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
        }
    }
}

impl<S: Store> Plan<S> {
    /// The plan for a request; `None` where this node alone has to answer.
    pub(crate) fn of(
        event_loop: &Rc<EventLoop<S>>,
        store: &Rc<S::Local>,
        target: &EntityTarget,
    ) -> Option<Plan<S>> {
        let peers = event_loop.peers()?;
        let cluster = &peers.cluster;
        let replicas = target.replicas();
        if replicas.from == 1 && cluster.placement.replicas(target.key(), 1)[0] == cluster.own {
            return None;
        }
        Some(Plan {
            event_loop: Rc::clone(event_loop),
            store: Rc::clone(store),
            cluster: Arc::clone(cluster),
            peers: Rc::clone(peers),
            key: target.key_bytes(),
            replicas,
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

    /// The version of a write that happens now.
    pub(super) async fn stamp(&self) -> Result<Stamp, Refusal> {
        let node = &self.event_loop.node;
        let timestamp = node.versions.next(self.event_loop.core.clock.wall_ms());
        let stamp = Stamp::new(Version { timestamp, node: self.cluster.own.0 });
        let is_everywhere = self.replicas.from as usize == self.cluster.nodes.len();
        may_be_given(&self.cluster, stamp).await?;
        Ok(Stamp { copies: if is_everywhere { 0 } else { self.replicas.from as u8 }, ..stamp })
    }
}
