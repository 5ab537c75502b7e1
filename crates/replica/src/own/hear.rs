use std::rc::Rc;
use std::sync::Arc;

use ladoga_cluster::NodeId;
use ladoga_local::store::Store;

use super::{OwnReplica, replica};
use crate::link::PeerLink;
use crate::stability::Stability;
use crate::wire::{Answer, Request};

/// Asks a peer how far it is, and tells it how far this node is: at once. It is known when the answer is there.
pub(crate) fn hear<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    link: &Rc<PeerLink>,
    stability: &Arc<Stability>,
    peer: NodeId,
) -> impl Future<Output = ()> + use<S> {
    let versions = &replica.cluster.versions;
    let statement = stability.statement(versions.next(), versions.wall_ms());
    let asked_at_ms = versions.monotonic_ms();
    let asked = link.ask(&Request::Statement(statement));
    let (replica, stability, view) = (Rc::clone(replica), Arc::clone(stability), Arc::clone(&link.view));
    async move {
        if let Ok(Answer::Statement(statement)) = asked.await {
            view.mark_answering();
            replica::heard(&replica, &stability, (peer, *statement), Some(asked_at_ms));
        }
    }
}
