use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_service::{Metric, MetricKind};

use crate::shared::Shared;

impl Shared {
    /// What the door counts.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        let state = self.session.get_cluster_state();
        let nodes = state
            .get_nodes_info()
            .iter()
            .map(|node| (node.address.to_string(), f64::from(node.is_connected())));
        vec![
            Metric::counter(
                "ladoga_cassandra_statements_total",
                "Statements that were sent to Cassandra.",
                of(&counts.statements),
            ),
            Metric::counter(
                "ladoga_cassandra_failures_total",
                "Statements that Cassandra or its driver answered with an error.",
                of(&counts.failures),
            ),
            Metric::counter(
                "ladoga_cassandra_contended_total",
                "Conditional writes that were decided again because the key had changed.",
                of(&counts.contended),
            ),
            Metric::counter(
                "ladoga_cassandra_pieces_swept_total",
                "Large values whose pieces were removed because no row named them any more.",
                of(&counts.swept),
            ),
            Metric::by_label(
                MetricKind::Gauge,
                "ladoga_cassandra_node_connected",
                "Whether the door has a connection to the node.",
                "node",
                nodes,
            ),
        ]
    }
}
