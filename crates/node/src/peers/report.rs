use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::cluster::{Cluster, PeerView};

/// The cluster as this node sees it, as JSON.
pub(crate) fn report(cluster: &Cluster) -> String {
    let nodes: Vec<Value> = cluster.peers.iter().map(|peer| node(cluster, peer)).collect();
    let fingerprint = cluster.nodes.fingerprint();
    let report = json!({
        "node": cluster.nodes.name(cluster.own),
        "epoch": cluster.nodes.epoch(),
        "fingerprint": format!("{fingerprint:016x}"),
        "partitions": ladoga_cluster::PARTITIONS,
        "nodes": nodes,
    });
    format!("{report:#}\n")
}

fn node(cluster: &Cluster, peer: &PeerView) -> Value {
    if peer.id == cluster.own {
        return json!({ "url": peer.url, "state": "self" });
    }
    let figure = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    let connections = figure(&peer.connections);
    let trouble = peer.trouble();
    let state = match (&trouble, connections) {
        (Some(_), _) => "unreachable",
        (None, 0) => "unknown",
        (None, _) => "up",
    };
    json!({
        "url": peer.url,
        "state": state,
        "trouble": trouble,
        "connections": connections,
        "requests": figure(&peer.requests),
        "failures": figure(&peer.failures),
        "missed_writes": figure(&peer.missed),
        "hints_waiting": figure(&peer.hints_waiting),
        "hints_bytes": figure(&peer.hints_bytes),
        "hints_dropped": figure(&peer.hints_dropped),
        "clock_offset_ms": peer.clock_offset_ms(),
    })
}
