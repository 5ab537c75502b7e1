//! What nodes say to each other about themselves: at once where it is news, and from time to time in any case.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ladoga_cluster::NodeId;

use super::link::PeerLink;
use super::own::OwnReplica;
use super::replica;
use super::settled::Settled;
use super::wire::{Answer, Request};
use crate::store::Store;

/// How often nodes tell each other how far they are.
const STATEMENT_EVERY_MS: u64 = 500;
/// The same, while this node has to hear whether it lost anything.
const IMPATIENT_EVERY_MS: u64 = 50;

/// Tells each peer how far this node is, and hears how far the peer is, from now on. On one event loop of a node.
pub(super) fn state<S: Store>(replica: &Rc<OwnReplica<S>>) {
    let OwnReplica { cluster, peers, .. } = &**replica;
    for peer in cluster.peers.iter().filter(|peer| peer.id != cluster.own) {
        let (replica, link) = (Rc::clone(replica), Rc::clone(peers.link(peer.id)));
        let settled = Arc::clone(cluster.settled());
        replica.core.vital.clone().spawn_local("statements", tell(replica, link, settled, peer.id));
    }
}

/// One statement at a time: one that a frozen peer has not answered is not followed by others.
async fn tell<S: Store>(replica: Rc<OwnReplica<S>>, link: Rc<PeerLink>, settled: Arc<Settled>, peer: NodeId) {
    let mut news = settled.news();
    loop {
        news.mark_unchanged();
        hear(&replica, &link, &settled, peer).await;
        let every_ms = if settled.has_all() { STATEMENT_EVERY_MS } else { IMPATIENT_EVERY_MS };
        // Whichever comes first: there is news, or it is time. (Who has the news lives as long as this.)
        let _ = tokio::time::timeout(Duration::from_millis(every_ms), news.changed()).await;
    }
}

/// Asks a peer how far it is, and tells it how far this node is: at once. It is known when the answer is there.
pub(crate) fn hear<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    link: &Rc<PeerLink>,
    settled: &Arc<Settled>,
    peer: NodeId,
) -> impl Future<Output = ()> + use<S> {
    let versions = &replica.cluster.versions;
    let statement = settled.statement(versions.next(), versions.wall_ms());
    let asked_at_ms = versions.monotonic_ms();
    let asked = link.ask(&Request::Statement(statement));
    let (replica, settled) = (Rc::clone(replica), Arc::clone(settled));
    async move {
        if let Ok(Answer::Statement(statement)) = asked.await {
            replica::heard(&replica, &settled, (peer, *statement), Some(asked_at_ms));
        }
    }
}
