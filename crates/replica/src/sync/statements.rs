//! What nodes report to each other about themselves: at once if it has changed, and from time to time in any case.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ladoga_cluster::NodeId;

use crate::link::PeerLink;
use crate::own::{OwnReplica, hear};
use crate::stability::Stability;
use crate::wire::{Answer, Request};
use ladoga_local::store::{LocalStore, Store};

/// How often nodes tell each other how far they are.
const STATEMENT_EVERY_MS: u64 = 500;
/// The same, while this node has yet to hear whether it lost anything.
const IMPATIENT_EVERY_MS: u64 = 50;

/// From now on, reports to each peer how far this node is, and hears how far the peer is. On one event loop of a node.
pub(super) fn state<S: Store>(replica: &Rc<OwnReplica<S>>) {
    let OwnReplica { cluster, peers, .. } = &**replica;
    for peer in cluster.peers.iter().filter(|peer| peer.id != cluster.own) {
        let with = || (Rc::clone(replica), Rc::clone(peers.link(peer.id)), Arc::clone(cluster.stability()));
        let supervisor = &replica.core.supervisor;
        supervisor.spawn_local("statements", tell(with(), peer.id));
        supervisor.spawn_local("deletions", have_deletions_kept(with(), peer.id));
    }
}

/// What speaks with a peer.
type Speaks<S> = (Rc<OwnReplica<S>>, Rc<PeerLink>, Arc<Stability>);

/// One statement at a time: one that a frozen peer has not answered is not followed by others.
async fn tell<S: Store>((replica, link, stability): Speaks<S>, peer: NodeId) {
    loop {
        let told = stability.news().get();
        hear(&replica, &link, &stability, peer).await;
        let every_ms = if stability.has_all() { STATEMENT_EVERY_MS } else { IMPATIENT_EVERY_MS };
        // Whichever comes first: there is news, or it is time.
        let news = stability.news().until(|news| news != told);
        let _ = tokio::time::timeout(Duration::from_millis(every_ms), news).await;
    }
}

/// Has a peer keep deletions while changes are followed here: who follows may go on there. Apart from statements, because that waits for
/// the peer's disk, which may hang.
async fn have_deletions_kept<S: Store>((replica, link, stability): Speaks<S>, peer: NodeId) {
    let mut keeps = None;
    loop {
        let directory = stability.incarnations(&[peer]);
        if replica.store.is_followed() && keeps.as_ref() != Some(&directory) {
            let is_done = matches!(link.ask(&Request::KeepDeletions).await, Ok(Answer::Done));
            keeps = is_done.then_some(directory);
        }
        tokio::time::sleep(Duration::from_millis(STATEMENT_EVERY_MS)).await;
    }
}
