use std::sync::atomic::Ordering;

use ladoga_model::Replicas;
use ladoga_service::Error;

use super::starting::not_heard;
use crate::cluster::Cluster;
use crate::membership::PeerView;

/// What would keep a request with default replicas from being served: a majority of all nodes have to answer it.
///
/// It goes by what this node knows of the others, which report several times a second. A node that falls silent counts until
/// the time-out of a peer has passed.
pub(super) fn obstacles_of(cluster: &Cluster) -> Vec<String> {
    if !cluster.stability().may_coordinate() {
        return vec![not_heard(cluster).to_string()];
    }
    let mut obstacles = Vec::new();
    // One is given out, as for a write: no other tells whether that can be done.
    if let Err(error) = cluster.versions.next_for_all() {
        obstacles.push(Error::ClockAhead(error).to_string());
    }
    let missing: Vec<String> = cluster.peers.iter().filter_map(|peer| missing(cluster, peer)).collect();
    let nodes = Replicas::majority_of(cluster.node_count());
    let (answering, required) = (nodes.from as usize - missing.len(), nodes.ack as usize);
    if answering < required {
        obstacles.push(format!("{answering} of {} nodes can answer, {required} are needed", nodes.from));
        obstacles.extend(missing);
    }
    obstacles
}

/// Why the answers of a node do not count, if they do not.
fn missing(cluster: &Cluster, peer: &PeerView) -> Option<String> {
    let stability = cluster.stability();
    let is_own = peer.id == cluster.own;
    let unreachable = if is_own { None } else { peer.unreachable_reason() };
    let why = match unreachable {
        Some(reason) => reason,
        None if !is_own && peer.connections.load(Ordering::Relaxed) == 0 => "is not connected".to_owned(),
        None if stability.has_all_of(peer.id, cluster.own) => return None,
        None => "has not yet copied what it may have lost".to_owned(),
    };
    Some(peer.sentence(&why))
}
