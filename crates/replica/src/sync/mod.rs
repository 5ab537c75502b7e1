//! Repair of nodes that missed something, in the background. On one event loop of a node.
//!
//! - `exchange`: anti-entropy; `pull`: from one peer; `prune`: cells that were deleted while an older directory was not in use;
//!   `rests`: what pulls that broke off go on with; `retries`: when a peer that could not give everything is asked again
//! - `deliver`: hints, to their peers; `missed`: what this node took and could not store itself
//! - `fenced`: what promises of coordinators that are gone keep out
//! - `lifted`: has the store synced, so that promises that have ended can be forgotten
//! - `statements`: what nodes say to each other about themselves, and that they are to keep deletions
//! - `follow`: has repair go at a pace that clients do not notice

mod deliver;
mod exchange;
mod fenced;
mod follow;
mod lifted;
mod missed;
mod prune;
mod pull;
mod rests;
mod retries;
mod statements;

use std::rc::Rc;
use std::sync::Arc;

use ladoga_local::store::Store;
use ladoga_runtime::Metrics;

use crate::own::OwnReplica;

/// Begins what one event loop of a node does for all of them: to deliver hints, to tell peers how far this node is, to
/// take over what it lacks, and to set the pace of all that.
pub fn start<S: Store>(replica: &Rc<OwnReplica<S>>, metrics: Arc<Metrics>) {
    let supervisor = &replica.core.supervisor;
    supervisor.spawn_local("deliver", deliver::deliver(Rc::clone(replica)));
    statements::state(replica);
    supervisor.spawn_local("exchange", exchange::exchange(Rc::clone(replica)));
    supervisor.spawn_local("lifted", lifted::forget_lifted(Rc::clone(replica)));
    supervisor.spawn_local("follow", follow::follow(Arc::clone(&replica.cluster), metrics));
}
