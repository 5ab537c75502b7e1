use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Cluster;
use crate::membership::PeerView;
use ladoga_local::store::{Metric, MetricKind};

impl Cluster {
    /// What this node counts about its cluster, for `/metrics`.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.peer_metrics();
        metrics.extend(self.clock_metrics());
        metrics.extend(self.inbound_metrics());
        metrics.extend(self.repair_metrics());
        metrics.extend(self.promise_metrics());
        metrics
    }

    fn peer_metrics(&self) -> Vec<Metric> {
        use MetricKind::{Counter, Gauge};
        type Figure = fn(&PeerView) -> &AtomicU64;
        let figures: [(&'static str, &'static str, MetricKind, Figure); 8] = [
            ("ladoga_peer_connections", "Open connections to a peer.", Gauge, |peer| &peer.connections),
            ("ladoga_peer_connections_opened_total", "Connections opened to a peer.", Counter, |peer| {
                &peer.connects
            }),
            (
                "ladoga_peer_connect_failures_total",
                "Attempts to connect to a peer that failed.",
                Counter,
                |peer| &peer.connect_failures,
            ),
            ("ladoga_peer_requests_total", "Requests sent to a peer.", Counter, |peer| &peer.requests),
            ("ladoga_peer_request_failures_total", "Requests that a peer did not answer.", Counter, |peer| {
                &peer.failures
            }),
            ("ladoga_hints_pending", "Hints that wait to be delivered to a peer.", Gauge, |peer| {
                &peer.hints_waiting
            }),
            (
                "ladoga_hints_pending_bytes",
                "Size of the hints that wait to be delivered to a peer.",
                Gauge,
                |peer| &peer.hints_bytes,
            ),
            (
                "ladoga_hints_dropped_total",
                "Hints for a peer that were not kept because of a limit or a disk error.",
                Counter,
                |peer| &peer.hints_dropped,
            ),
        ];
        let metric = |(name, help, kind, figure): (_, _, _, Figure)| {
            self.by_peer(kind, name, help, |peer| figure(peer).load(Ordering::Relaxed) as f64)
        };
        figures.map(metric).into_iter().chain([self.missed_writes()]).collect()
    }

    /// This node may itself miss what it coordinates.
    fn missed_writes(&self) -> Metric {
        let missed = |peer: &Arc<PeerView>| (peer.url.clone(), peer.missed.load(Ordering::Relaxed) as f64);
        Metric::by_label(
            MetricKind::Counter,
            "ladoga_peer_missed_writes_total",
            "Writes coordinated by this node that a node, a peer or itself, did not store in time.",
            "peer",
            self.peers.iter().map(missed),
        )
    }

    fn by_peer(
        &self,
        kind: MetricKind,
        name: &'static str,
        help: &'static str,
        number: impl Fn(&PeerView) -> f64,
    ) -> Metric {
        let others = self.peers.iter().filter(|peer| peer.id != self.own);
        Metric::by_label(kind, name, help, "peer", others.map(|peer| (peer.url.clone(), number(peer))))
    }

    fn clock_metrics(&self) -> [Metric; 2] {
        let seconds = |ms: Option<i64>| ms.unwrap_or_default() as f64 / 1e3;
        [
            self.by_peer(
                MetricKind::Gauge,
                "ladoga_peer_clock_offset_seconds",
                "Clock of a peer minus the clock of this node.",
                |peer| seconds(self.versions.offset_ms(peer.id)),
            ),
            Metric::number(
                MetricKind::Gauge,
                "ladoga_clock_ahead_of_majority_seconds",
                "How far this node's clock is ahead of the clocks of a majority (negative: behind); 0 up to one second.",
                seconds(self.versions.correction_ms()),
            ),
        ]
    }

    fn inbound_metrics(&self) -> [Metric; 2] {
        [
            Metric::gauge(
                "ladoga_peer_inbound_connections",
                "Open connections that peers have made to this node.",
                self.sessions.sessions() as u64,
            ),
            Metric::gauge(
                "ladoga_peer_inbound_buffer_bytes",
                "Memory that connections from peers have taken from their shared budget.",
                self.sessions.taken_bytes() as u64,
            ),
        ]
    }

    /// What conditional writes have been told by this node as a replica.
    fn promise_metrics(&self) -> Vec<Metric> {
        let Some(fences) = self.joined_fences() else { return Vec::new() };
        let figures = &fences.figures;
        let counter =
            |name, help, figure: &AtomicU64| Metric::counter(name, help, figure.load(Ordering::Relaxed));
        vec![
            Metric::gauge(
                "ladoga_promises_held",
                "Promises to conditional writes that this node keeps: it takes no older cell of the key.",
                fences.count() as u64,
            ),
            Metric::gauge(
                "ladoga_promises_failed",
                "1 if promises cannot be stored; then this node takes part in no conditional write.",
                u64::from(fences.has_failed()),
            ),
            counter("ladoga_promises_total", "Promises given to conditional writes.", &figures.promises),
            counter(
                "ladoga_conditional_cells_total",
                "Cells of conditional writes that this node has accepted.",
                &figures.accepts,
            ),
            counter(
                "ladoga_conditional_overtaken_total",
                "Accepted cells that were not stored because a newer write had already arrived.",
                &figures.overtaken,
            ),
            counter(
                "ladoga_conditional_outbid_total",
                "Conditional writes that this node refused because of a newer one or of a newer write.",
                &figures.outbid,
            ),
            counter(
                "ladoga_promises_waited_total",
                "Promises that were given later because one to another node was in force, at most 100 ms each.",
                &figures.waited,
            ),
            counter(
                "ladoga_promises_kept_out_total",
                "Cells that were not stored because they were older than a promise.",
                &figures.kept_out,
            ),
        ]
    }

    fn repair_metrics(&self) -> [Metric; 8] {
        let (p99_us, baseline_us) = self.pace.tails_us();
        let tree_bytes = self.stability.get().map_or(0, |stability| stability.tree.bytes());
        let [copies, copies_waiting, copies_skipped] = self.copy_turns.figures();
        let seconds = |name, help, us| Metric::number(MetricKind::Gauge, name, help, us as f64 / 1e6);
        [
            Metric::counter(
                "ladoga_repair_cells_total",
                "Cells that anti-entropy has copied from peers.",
                self.exchange.copied_cells_total.load(Ordering::Relaxed),
            ),
            Metric::gauge(
                "ladoga_repair_cells_per_second_limit",
                "Cells a second that anti-entropy may copy now; the limit falls when requests become slower.",
                self.pace.rate().cells_per_second,
            ),
            seconds(
                "ladoga_request_p99_seconds",
                "99th percentile of the duration of successful requests, lately.",
                p99_us,
            ),
            seconds(
                "ladoga_request_p99_baseline_seconds",
                "99th percentile of the duration of successful requests while there was hardly any repair.",
                baseline_us,
            ),
            Metric::gauge(
                "ladoga_merkle_tree_bytes",
                "Size of the Merkle trees in memory.",
                tree_bytes as u64,
            ),
            Metric::gauge(
                "ladoga_repair_large_values_copying",
                "Large values that this node is copying between replicas in the background.",
                copies as u64,
            ),
            Metric::gauge(
                "ladoga_repair_large_values_waiting",
                "Large values that wait to be copied between replicas in the background.",
                copies_waiting as u64,
            ),
            Metric::counter(
                "ladoga_repair_large_values_skipped_total",
                "Large values not copied because too many were waiting; a later read or anti-entropy copies them.",
                copies_skipped as u64,
            ),
        ]
    }
}
