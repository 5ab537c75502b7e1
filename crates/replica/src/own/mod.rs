//! This node as one of the replicas, on one event loop.
//!
//! - `replica`: what it does for itself and for peers alike; `arrival`: what it says to a cell that it was to write
//! - `promises`: what it says to the ballots of conditional writes, and to their cells
//! - `take_overs`: how many coordinators that are gone it takes over for
//! - `refusal`: what an error of the store is to a peer
//! - `hear`: asks a peer how far it is

mod arrival;
mod hear;
pub(crate) mod promises;
mod refusal;
pub(crate) mod replica;
mod take_overs;

pub(crate) use arrival::Arrival;
pub(crate) use hear::hear;
pub(crate) use refusal::refusal;
use take_overs::TakeOvers;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use ladoga_cluster::NodeId;
use ladoga_local::store::{LocalStore, Store, Upload};
use ladoga_model::{Cell, Durability};
use ladoga_runtime::{Gate, LoopContext};

use crate::bounds::Copies;
use crate::cluster::Cluster;
use crate::link::Peers;
use crate::wire::put_record;

/// A large value that is whole, and has no key yet.
pub(crate) type FinishedUpload<S> = <<<S as Store>::Local as LocalStore>::Upload as Upload>::Finished;

/// This node as one of the replicas, on one event loop: what is asked of it, by its own clients and by peers, is done
/// with these.
pub struct OwnReplica<S: Store> {
    pub(crate) core: Rc<LoopContext>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) peers: Rc<Peers>,
    /// Copies of large values that reads have made.
    pub(crate) copies: Rc<Copies>,
    /// Coordinators that are gone, and whose places this node takes.
    pub(crate) take_overs: TakeOvers,
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

/// The places for uploads and streams, which peers share with clients; and how long slow peers are waited for.
pub struct Bounds {
    /// Answers that are too large for memory, by number.
    pub streams: Gate,
    /// Values that are, by number.
    pub uploads: Gate,
    /// How long a peer may take to greet.
    pub greeting_timeout_ms: u64,
}

impl<S: Store> OwnReplica<S> {
    /// A node of `cluster`, on the calling event loop, with the store as all event loops share it and as this one reaches it.
    pub fn new(
        core: &Rc<LoopContext>,
        cluster: &Arc<Cluster>,
        (shared, store): (Arc<S>, S::Local),
        bounds: Bounds,
    ) -> OwnReplica<S> {
        let Bounds { streams, uploads, greeting_timeout_ms } = bounds;
        OwnReplica {
            core: Rc::clone(core),
            cluster: Arc::clone(cluster),
            peers: Peers::start(cluster, core),
            copies: Rc::default(),
            take_overs: TakeOvers::default(),
            shared,
            store: Rc::new(store),
            streams,
            uploads,
            greeting_timeout_ms,
        }
    }

    /// The store, for what has to be as durable as this before it is answered; by itself it makes nothing less durable.
    pub(crate) fn store_for(&self, durability: Option<Durability>) -> Rc<S::Local> {
        let asked = durability.map(|durability| Rc::new(self.store.with_durability(durability)));
        asked.unwrap_or_else(|| Rc::clone(&self.store))
    }

    /// Keeps a write for a peer that has not got it. What this node itself has not got is copied from the others once its store
    /// takes writes: nothing delivers a hint to the node that keeps it, and as long as it waits the write floor does not rise.
    pub(crate) fn hint(&self, node: NodeId, key: &Bytes, cell: Cell<&[u8], u64>) {
        self.cluster.peers[node.index()].missed.fetch_add(1, Ordering::Relaxed);
        if node == self.cluster.own {
            return;
        }
        let Some(hints) = self.cluster.hints.get() else { return };
        if !self.cluster.stability().may_hint(cell.stamp.version) {
            // Too old by now: anti-entropy has it.
            return;
        }
        let mut record = Vec::with_capacity(key.len() + 64);
        put_record(&mut record, key, cell);
        hints.keep(node, cell.stamp.version.timestamp, record);
    }
}
