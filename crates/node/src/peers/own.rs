use std::rc::Rc;
use std::sync::Arc;

use ladoga_runtime::{Gate, LoopContext, Metrics};

use super::cluster::Cluster;
use super::exchange::exchange;
use super::hints::deliver;
use super::pace::follow;
use super::peers::Peers;
use super::statements::state;
use crate::store::Store;

/// This node as one of the replicas, on one event loop: what is asked of it, by its own clients and by peers, is done
/// with these.
pub(crate) struct OwnReplica<S: Store> {
    pub(crate) core: Rc<LoopContext>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) peers: Rc<Peers>,
    /// The store, as all event loops share it, and as this one reaches it.
    pub(crate) shared: Arc<S>,
    pub(crate) store: Rc<S::Local>,
    /// Answers that are too large for memory, by number.
    pub(crate) streams: Gate,
    /// Values that are, by number.
    pub(crate) uploads: Gate,
    /// How long a peer may take to greet.
    pub(crate) greeting_timeout_ms: u64,
}

impl<S: Store> OwnReplica<S> {
    /// Begins what one event loop of a node does for all of them: to deliver hints, to tell peers how far this node is, to
    /// take over what it lacks, and to set the pace of all that.
    pub(crate) fn start(self: &Rc<Self>, metrics: Arc<Metrics>) {
        let vital = &self.core.vital;
        vital.spawn_local("deliver", deliver(Rc::clone(self)));
        state(self);
        vital.spawn_local("exchange", exchange(Rc::clone(self)));
        vital.spawn_local("follow", follow(Arc::clone(&self.cluster), metrics));
    }
}
