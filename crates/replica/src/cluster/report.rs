use std::sync::Arc;
use std::sync::atomic::Ordering;

use ladoga_model::HybridClock;
use serde_json::{Value, json};

use super::Cluster;
use crate::membership::PeerView;
use crate::stability::Stability;

impl Cluster {
    /// The cluster as this node sees it, as JSON.
    pub fn report(&self) -> String {
        report(self)
    }
}

fn report(cluster: &Cluster) -> String {
    let nodes: Vec<Value> = cluster.peers.iter().map(|peer| node(cluster, peer)).collect();
    let fingerprint = cluster.nodes.fingerprint();
    let report = json!({
        "node": cluster.peers[cluster.own.index()].url,
        "epoch": cluster.nodes.epoch(),
        "fingerprint": format!("{fingerprint:016x}"),
        "partitions": ladoga_cluster::PARTITIONS,
        "nodes": nodes,
        "clock": clock(cluster),
        "replica_state": stability(cluster),
        "repair": repair(cluster),
        "promises": promises(cluster),
    });
    format!("{report:#}\n")
}

fn clock(cluster: &Cluster) -> Value {
    let versions = &cluster.versions;
    let correction_ms = versions.correction_ms();
    json!({
        "wall_ms": versions.wall_ms(),
        "time_ms": versions.time_ms(),
        "agreed": correction_ms.is_some(),
        "ahead_of_majority_ms": correction_ms,
    })
}

fn stability(cluster: &Cluster) -> Value {
    let Some(stability) = cluster.stability.get() else { return Value::Null };
    let statement = stability.statement(0, 0);
    json!({
        "complete": statement.is_whole,
        "lost_data": stability.has_lost_data(),
        "session": session(statement.session),
        "unverified": stability.is_unverified(),
        "old_data_hidden": stability.hides_cells(),
        "outdated": stability.is_outdated(),
        "may_coordinate": stability.may_coordinate(),
        "write_floor_ms": HybridClock::wall_ms(statement.write_floor),
        "synced_before_ms": HybridClock::wall_ms(statement.synced_before),
        "waits_for": waits_for(cluster, stability),
        "displaced_at": stability.displaced_at().map(|peer| &cluster.peers[peer.index()].url),
        "merkle_tree_complete": stability.tree.is_whole(),
    })
}

fn session(session: u64) -> String {
    format!("{session:016x}")
}

/// The peers that this node needs to become whole, and cannot reach.
fn waits_for(cluster: &Cluster, stability: &Stability) -> Vec<String> {
    let others = cluster.peers.iter().filter(|peer| peer.id != cluster.own && !stability.has_all());
    let is_missing = |peer: &&Arc<PeerView>| {
        stability.heard_whole(peer.id).is_none() || peer.unreachable_reason().is_some()
    };
    others.filter(is_missing).map(|peer| peer.url.clone()).collect()
}

fn repair(cluster: &Cluster) -> Value {
    let view = &cluster.exchange;
    let figure = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    let rate = cluster.pace.rate();
    let (p99_us, baseline_us) = cluster.pace.tails_us();
    json!({
        "cells_per_second_max": rate.cells_per_second,
        "bytes_per_second_max": rate.bytes_per_second,
        "client_p99_us": p99_us,
        "client_p99_baseline_us": baseline_us,
        "requested": figure(&view.requested),
        "completed": figure(&view.completed),
        "error": *view.error.lock(),
        "passes": figure(&view.passes),
        "failures": figure(&view.failures),
        "peers_left": figure(&view.peers_left),
        "differing_partitions": figure(&view.differing_partitions),
        "compared_keys": figure(&view.compared_keys),
        "copied_cells": figure(&view.copied_cells),
        "copied_cells_total": figure(&view.copied_cells_total),
    })
}

/// What this node has promised to conditional writes.
fn promises(cluster: &Cluster) -> Value {
    let Some(fences) = cluster.joined_fences() else { return Value::Null };
    json!({ "kept": fences.count(), "failed": fences.has_failed() })
}

fn node(cluster: &Cluster, peer: &PeerView) -> Value {
    let figure = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    if peer.id == cluster.own {
        return json!({ "url": peer.url, "state": "self", "missed_writes": figure(&peer.missed) });
    }
    let connections = figure(&peer.connections);
    let error = peer.unreachable_reason();
    let state = match (&error, connections) {
        (Some(_), _) => "unreachable",
        (None, 0) => "unknown",
        (None, _) => "up",
    };
    json!({
        "url": peer.url,
        "state": state,
        "error": error,
        "complete": cluster.stability.get().and_then(|stability| stability.heard_whole(peer.id)),
        "session": cluster.stability.get().map(|stability| session(stability.remembered_session(peer.id))),
        "connections": connections,
        "requests": figure(&peer.requests),
        "failures": figure(&peer.failures),
        "missed_writes": figure(&peer.missed),
        "hints_waiting": figure(&peer.hints_waiting),
        "hints_bytes": figure(&peer.hints_bytes),
        "hints_dropped": figure(&peer.hints_dropped),
        "clock_offset_ms": cluster.versions.offset_ms(peer.id),
    })
}
