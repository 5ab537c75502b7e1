use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_service::{Metric, MetricKind};
use scylla::observability::metrics::Metrics;

use crate::shared::Shared;

/// Which parts of the statements were as fast as a latency says.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];
const US_PER_SECOND: f64 = 1e6;

impl Shared {
    /// What the door counts, and what the driver does.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.own_metrics();
        metrics.extend(self.driver_metrics());
        metrics
    }

    fn own_metrics(&self) -> Vec<Metric> {
        let counts = &self.counts;
        let mut metrics: Vec<Metric> = [
            (
                "ladoga_cassandra_statements_total",
                "Statements that were sent to Cassandra.",
                &counts.statements,
            ),
            (
                "ladoga_cassandra_failures_total",
                "Statements that Cassandra or its driver answered with an error.",
                &counts.failures,
            ),
            (
                "ladoga_cassandra_contended_total",
                "Conditional writes that were decided again because the key had changed.",
                &counts.contended,
            ),
            (
                "ladoga_cassandra_pieces_swept_total",
                "Large values whose pieces were removed because no row named them any more.",
                &counts.swept,
            ),
            (
                "ladoga_cassandra_rows_ahead_total",
                "Rows that were read with a version more than a minute ahead of the clock of this machine.",
                &counts.ahead,
            ),
        ]
        .map(counter)
        .into();
        metrics.push(Metric::gauge(
            "ladoga_cassandra_pieces_unnamed",
            "Large values that no row named when the door looked last, and whose pieces are removed later.",
            counts.unnamed.load(Ordering::Relaxed),
        ));
        metrics
    }

    fn driver_metrics(&self) -> Vec<Metric> {
        let attempts = &self.attempts;
        let sum = |of: fn(&Metrics) -> u64| {
            of(&self.session.get_metrics()) + self.sessions.sum(|session| of(&session.get_metrics()))
        };
        let state = self.session.get_cluster_state();
        let nodes = state
            .get_nodes_info()
            .iter()
            .map(|node| (node.address.to_string(), f64::from(node.is_connected())));
        // Nothing is known before the first statement has been answered.
        let latency = QUANTILES.into_iter().filter_map(|quantile| {
            let us = attempts.latency.quantile_us(quantile)?;
            Some((quantile.to_string(), us as f64 / US_PER_SECOND))
        });
        let counted = [
            (
                "ladoga_cassandra_attempts_total",
                "Requests of the driver to nodes; more than statements if some are made again.",
                &attempts.made,
            ),
            (
                "ladoga_cassandra_attempts_failed_total",
                "Requests of the driver that a node answered with an error, or that broke.",
                &attempts.failed,
            ),
            (
                "ladoga_cassandra_retries_total",
                "Requests of the driver that failed and were made again.",
                &attempts.retried,
            ),
            (
                "ladoga_cassandra_speculative_total",
                "Requests of the driver to a second node because the first one was slow.",
                &attempts.speculative,
            ),
        ];
        let mut metrics: Vec<Metric> = counted.map(counter).into();
        metrics.extend([
            Metric::counter(
                "ladoga_cassandra_request_timeouts_total",
                "Statements that the driver gave up because their time was over.",
                sum(Metrics::get_request_timeouts),
            ),
            Metric::counter(
                "ladoga_cassandra_connection_timeouts_total",
                "Connections to nodes that were not established in time.",
                sum(Metrics::get_connection_timeouts),
            ),
            Metric::gauge(
                "ladoga_cassandra_connections",
                "Connections to nodes, without the one by which the driver learns about the cluster.",
                sum(Metrics::get_total_connections),
            ),
            Metric::by_label(
                MetricKind::Gauge,
                "ladoga_cassandra_latency_seconds",
                "How long nodes took to answer since the door was started, to an eighth, by quantile.",
                "quantile",
                latency,
            ),
            Metric::by_label(
                MetricKind::Gauge,
                "ladoga_cassandra_node_connected",
                "Whether the door has a connection to the node.",
                "node",
                nodes,
            ),
        ]);
        metrics
    }
}

fn counter((name, help, counter): (&'static str, &'static str, &AtomicU64)) -> Metric {
    Metric::counter(name, help, counter.load(Ordering::Relaxed))
}
